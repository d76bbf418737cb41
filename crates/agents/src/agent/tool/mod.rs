//! What an LLM agent's model may call: scripts, other agents, ensembles, and the tools of MCP servers.
//!
//! Whatever a tool says is data: it is bounded, and goes to the model and into the record. Whether a tool may be
//! called at all is asked of [`Permits`], before it is.

mod agent;
mod ensemble;
mod hand;
pub mod mcp;
mod names;
mod permission;
mod result;
mod script;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::hand::Hand;
use self::mcp::Server;
pub use self::permission::Permits;
use super::dialogue::Tools;
use super::llm::Toolbox;
use super::{Execution, Runner};
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::{Permission, Tool, ToolUse};

/// The tools of one agent.
pub struct Kit {
    tools: Vec<Item>,
    permits: Arc<Permits>,
}

/// What holds for every call of a tool.
#[derive(Debug, Clone)]
struct Terms {
    /// As the ensemble calls the tool.
    name: Arc<str>,
    permission: Permission,
    timeout: Duration,
    max_result_bytes: NonZeroUsize,
}

/// An item of an agent's `tools`.
enum Item {
    Own {
        terms: Terms,
        description: String,
        parameters: Value,
        performer: Performer,
    },
    Server {
        terms: Terms,
        /// One of its tools, or all.
        member: Option<Arc<str>>,
        server: Arc<Server>,
    },
}

/// Who performs a tool that the ensemble itself describes.
pub enum Performer {
    /// A script; the arguments are its parameters.
    Script(Arc<dyn Runner>),
    /// An agent of the ensemble.
    Agent {
        /// Its name.
        name: Arc<str>,
        /// Its `config`.
        config: Arc<JsonMap>,
        /// Its own `timeout_seconds`.
        timeout: Option<Duration>,
        /// It.
        runner: Arc<dyn Runner>,
    },
    /// A whole conversation.
    Ensemble(Arc<dyn Runner>),
}

impl Kit {
    /// No tools yet.
    pub fn new(permits: Arc<Permits>) -> Self {
        Self {
            tools: Vec::new(),
            permits,
        }
    }

    /// Is there nothing that a model could be told of?
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Adds a tool that the ensemble describes; one that is denied is left out.
    pub fn add(&mut self, name: &Arc<str>, tool: &Tool, parameters: Value, performer: Performer) {
        if tool.permission != Permission::Deny {
            self.tools.push(Item::Own {
                terms: Terms::of(name, tool),
                description: tool.description.clone().unwrap_or_default(),
                parameters,
                performer,
            });
        }
    }

    /// Adds tools of a server, which says itself what they are; those that are denied are left out.
    pub fn add_server(&mut self, used: &ToolUse, tool: &Tool, server: Arc<Server>) {
        if tool.permission != Permission::Deny {
            self.tools.push(Item::Server {
                terms: Terms::of(&used.tool, tool),
                member: used.member.clone(),
                server,
            });
        }
    }
}

impl Terms {
    fn of(name: &Arc<str>, tool: &Tool) -> Self {
        Self {
            name: Arc::clone(name),
            permission: tool.permission,
            timeout: tool.timeout,
            max_result_bytes: tool.max_result_bytes,
        }
    }
}

impl Toolbox for Kit {
    fn within<'a>(&'a self, execution: &'a Execution) -> Box<dyn Tools + 'a> {
        Box::new(Hand::new(self, execution))
    }
}
