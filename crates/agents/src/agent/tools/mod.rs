//! The tools that the model of an LLM agent may call: scripts, other agents, ensembles, and the tools of MCP servers.
//!
//! The result of a tool is data: its size is limited, and it goes to the model and into the record. Before a call,
//! [`ToolPermissions`] decides whether the call is permitted.

mod agent;
mod ensemble;
pub(super) mod gate;
mod names;
pub(super) mod permission;
pub(super) mod result;
mod script;
mod session;
mod summarizer;
#[cfg(test)]
mod tests;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::gate::CallGates;
#[cfg(feature = "acp")]
pub(in crate::agent) use self::permission::PermissionResult;
pub use self::permission::{ToolPermissions, matches_tool};
use self::session::ExecutionTools;
pub use self::summarizer::ResultSummarizer;
use super::chat::ModelTools;
use super::kinds::llm::ExecutionToolSource;
use super::{ExecutionInput, Runner};
use crate::agent::mcp::McpServerHandle;
pub(in crate::agent) use agent::TASK_ARGUMENTS;
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::{LlmSpec, PermissionMode, ToolDefinition, ToolReference};

/// Tools of one agent, with the permissions for their calls.
pub struct AgentToolset {
    tools: Vec<ToolEntry>,
    permissions: Arc<ToolPermissions>,
    max_parallel: NonZeroU32,
    gates: CallGates,
}

/// Settings that apply to every call of a tool.
#[derive(Debug, Clone)]
pub(super) struct ToolCallSettings {
    /// The name of the tool in the ensemble.
    pub(super) name: Arc<str>,
    pub(super) permission: PermissionMode,
    pub(super) timeout: Duration,
    pub(super) max_result_bytes: NonZeroUsize,
    /// Summarizes large results; `None`: the results are sent as they are.
    pub(super) summarizer: Option<Arc<ResultSummarizer>>,
    pub(super) exclusive: bool,
    /// Whether a call that was cut short may be made again; `None`: a tool of an MCP server says so itself.
    pub(super) repeatable: Option<bool>,
}

/// Entry in the `tools` of an agent: a declared tool, or tools of an MCP server.
enum ToolEntry {
    Declared {
        settings: ToolCallSettings,
        description: String,
        parameters: Value,
        output_schema: Option<Box<Value>>,
        tool_runner: DeclaredToolRunner,
    },
    Server {
        settings: ToolCallSettings,
        /// The one tool of the server that the agent may call; `None`: all tools of the server.
        member: Option<Arc<str>>,
        server: Arc<McpServerHandle>,
    },
}

/// Runner of a tool that the ensemble declares: a script, an agent or an ensemble.
pub enum DeclaredToolRunner {
    /// A script; the arguments are its parameters.
    Script(Arc<dyn Runner>),
    /// An agent of the ensemble.
    Agent {
        /// The name of the agent.
        name: Arc<str>,
        /// The `config` of the agent.
        config: Arc<JsonMap>,
        /// The `timeout_seconds` of the agent.
        timeout: Option<Duration>,
        /// Whether an execution that was cut short goes on where its records end, or can start again without an effect.
        goes_on: bool,
        /// The runner of the agent.
        runner: Arc<dyn Runner>,
    },
    /// An ensemble; each call runs one conversation.
    Ensemble(Arc<dyn Runner>),
}

impl AgentToolset {
    /// Creates an empty toolset.
    pub fn new(permissions: Arc<ToolPermissions>) -> Self {
        Self {
            tools: Vec::new(),
            permissions,
            max_parallel: LlmSpec::MAX_PARALLEL_TOOLS,
            gates: CallGates::default(),
        }
    }

    /// Sets the maximum number of calls of one reply that run in parallel.
    #[must_use]
    pub fn with_max_parallel(self, max_parallel: NonZeroU32) -> Self {
        Self { max_parallel, ..self }
    }

    /// Sets the summarizer for large results of the tool with this name.
    pub fn set_summarizer(&mut self, tool: &str, summarizer: ResultSummarizer) {
        let summarizer = Arc::new(summarizer);
        for entry in &mut self.tools {
            let (ToolEntry::Declared { settings, .. } | ToolEntry::Server { settings, .. }) = entry;
            if *settings.name == *tool {
                settings.summarizer = Some(Arc::clone(&summarizer));
            }
        }
    }

    /// Returns whether the toolset contains no tools.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns whether calls of a tool run alone.
    pub(super) fn has_exclusive_tools(&self) -> bool {
        self.tools.iter().any(|entry| match entry {
            ToolEntry::Declared { settings, .. } | ToolEntry::Server { settings, .. } => settings.exclusive,
        })
    }

    /// Adds a tool that the ensemble declares, unless its permission is `deny`.
    pub fn add_declared_tool(
        &mut self,
        name: &Arc<str>,
        tool: &ToolDefinition,
        parameters: Value,
        tool_runner: DeclaredToolRunner,
    ) {
        if tool.permission != PermissionMode::Deny {
            self.tools.push(ToolEntry::Declared {
                settings: ToolCallSettings::from_tool(name, tool),
                description: tool.description.clone().unwrap_or_default(),
                parameters,
                output_schema: tool.output_schema.clone().map(Box::new),
                tool_runner,
            });
        }
    }

    /// Adds the tools of an MCP server, unless the permission is `deny`.
    pub fn add_server_tools(&mut self, used: &ToolReference, tool: &ToolDefinition, server: Arc<McpServerHandle>) {
        if tool.permission != PermissionMode::Deny {
            self.tools.push(ToolEntry::Server {
                settings: ToolCallSettings::from_tool(&used.tool, tool),
                member: used.member.clone(),
                server,
            });
        }
    }
}

impl DeclaredToolRunner {
    /// Returns whether an interrupted call resumes at the same point if the call is made again.
    fn can_resume(&self) -> bool {
        match self {
            Self::Script(_) => false,
            Self::Agent { goes_on, .. } => *goes_on,
            Self::Ensemble(_) => true,
        }
    }
}

impl ToolCallSettings {
    /// Copies the settings of a tool definition.
    pub(super) fn from_tool(name: &Arc<str>, tool: &ToolDefinition) -> Self {
        Self {
            name: Arc::clone(name),
            permission: tool.permission,
            timeout: tool.timeout,
            max_result_bytes: tool.max_result_bytes,
            summarizer: None,
            exclusive: tool.exclusive,
            repeatable: tool.repeatable,
        }
    }
}

impl ExecutionToolSource for AgentToolset {
    fn tools_for_execution<'a>(&'a self, execution: &'a ExecutionInput) -> Box<dyn ModelTools + 'a> {
        Box::new(ExecutionTools::new(self, execution))
    }
}
