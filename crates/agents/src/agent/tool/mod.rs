//! What an LLM agent's model may call: scripts, other agents, ensembles, and the tools of MCP servers.
//!
//! Whatever a tool says is data: it is bounded, and goes to the model and into the record. Whether a tool may be
//! called at all is asked of [`ToolPermissions`], before it is.

mod agent;
mod ensemble;
pub mod mcp;
mod names;
mod permission;
mod result;
mod script;
mod session;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::mcp::Server;
pub use self::permission::ToolPermissions;
use self::session::ToolSession;
use super::dialogue::Tools;
use super::llm::ToolSource;
use super::{Execution, Runner};
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::{Permission, Tool, ToolUse};

/// The tools of one agent.
pub struct Toolset {
    tools: Vec<ToolEntry>,
    permissions: Arc<ToolPermissions>,
}

/// What holds for every call of a tool.
#[derive(Debug, Clone)]
struct ToolSettings {
    /// As the ensemble calls the tool.
    name: Arc<str>,
    permission: Permission,
    timeout: Duration,
    max_result_bytes: NonZeroUsize,
}

/// An entry of an agent's `tools`.
enum ToolEntry {
    Declared {
        settings: ToolSettings,
        description: String,
        parameters: Value,
        tool_runner: ToolRunner,
    },
    Server {
        settings: ToolSettings,
        /// One of its tools, or all.
        member: Option<Arc<str>>,
        server: Arc<Server>,
    },
}

/// Who performs a tool that the ensemble itself describes.
pub enum ToolRunner {
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

impl Toolset {
    /// No tools yet.
    pub fn new(permissions: Arc<ToolPermissions>) -> Self {
        Self {
            tools: Vec::new(),
            permissions,
        }
    }

    /// Is there nothing that a model could be told of?
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Adds a tool that the ensemble describes; one that is denied is left out.
    pub fn add(&mut self, name: &Arc<str>, tool: &Tool, parameters: Value, tool_runner: ToolRunner) {
        if tool.permission != Permission::Deny {
            self.tools.push(ToolEntry::Declared {
                settings: ToolSettings::of(name, tool),
                description: tool.description.clone().unwrap_or_default(),
                parameters,
                tool_runner,
            });
        }
    }

    /// Adds tools of a server, which says itself what they are; those that are denied are left out.
    pub fn add_server(&mut self, used: &ToolUse, tool: &Tool, server: Arc<Server>) {
        if tool.permission != Permission::Deny {
            self.tools.push(ToolEntry::Server {
                settings: ToolSettings::of(&used.tool, tool),
                member: used.member.clone(),
                server,
            });
        }
    }
}

impl ToolSettings {
    fn of(name: &Arc<str>, tool: &Tool) -> Self {
        Self {
            name: Arc::clone(name),
            permission: tool.permission,
            timeout: tool.timeout,
            max_result_bytes: tool.max_result_bytes,
        }
    }
}

impl ToolSource for Toolset {
    fn for_execution<'a>(&'a self, execution: &'a Execution) -> Box<dyn Tools + 'a> {
        Box::new(ToolSession::new(self, execution))
    }
}
