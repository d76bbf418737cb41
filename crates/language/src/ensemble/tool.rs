//! Tools that models may call.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::SandboxSpec;
use crate::source::Route;

/// A tool that models can call (`tools.<name>`).
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// The description for the model.
    pub description: Option<String>,
    /// How the tool is performed.
    pub kind: ToolKind,
    /// Whether a model may call it.
    pub permission: PermissionMode,
    /// The time limit of one call, and of the start of an MCP server.
    pub timeout: Duration,
    /// The highest number of bytes of a result that are sent to the model.
    pub max_result_bytes: NonZeroUsize,
    /// The number of bytes above which a model summarizes a result before the asking model receives it; `None`: no
    /// result is summarized.
    pub summarize_above: Option<NonZeroUsize>,
    /// The profile of the model that writes the summaries; `None`: the model of the agent that makes the call.
    pub summarize_with: Option<Arc<str>>,
    /// JSON Schema of the result; `None`: every result is right. MCP servers describe their results themselves.
    pub output_schema: Option<Value>,
    /// Whether no other tool call of the same execution runs in parallel with a call of this tool.
    pub exclusive: bool,
    /// Whether a call that was cut short may be made again. `None`: not stated; then only a tool of an MCP server that
    /// says that it changes nothing is called again.
    pub repeatable: Option<bool>,
}

/// The implementation of a tool: a script, an agent, an ensemble or an MCP server.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolKind {
    /// A script, executed like that of a script agent; the arguments are its `parameters`.
    Script {
        /// A path or a command line.
        script: String,
        /// JSON Schema of the arguments, an object.
        parameters: Value,
        /// Environment variables in addition to those of the user.
        env: Vec<(String, EnvOrHeaderValue)>,
        /// What its process may reach; `None`: all that the user may.
        sandbox: Option<Arc<SandboxSpec>>,
    },
    /// Another agent of the ensemble.
    Agent {
        /// Its name.
        agent: Arc<str>,
        /// JSON Schema of the arguments; `None`: [`ToolKind::default_task_schema`].
        parameters: Option<Value>,
    },
    /// A conversation of another ensemble.
    Ensemble {
        /// A path or a name.
        ensemble: String,
        /// JSON Schema of the arguments; `None`: [`ToolKind::default_task_schema`].
        parameters: Option<Value>,
    },
    /// The tools of a server for the Model Context Protocol.
    Mcp(McpServer),
}

/// The word of `mcp: client`: the client of the run provides the server.
pub const CLIENT_SERVER_WORD: &str = "client";

/// The transport of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum McpServer {
    /// A child process, over its standard streams.
    Command {
        /// The program and its arguments.
        command: CommandLine,
        /// Environment variables in addition to those that every program needs.
        env: Vec<(String, EnvOrHeaderValue)>,
        /// The working folder, relative to the project root; `None`: the project root.
        cwd: Option<String>,
        /// What its process may reach; `None`: all that the user may.
        sandbox: Option<Arc<SandboxSpec>>,
    },
    /// A server, over HTTP.
    Url {
        /// Its address.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, EnvOrHeaderValue)>,
    },
    /// The server of the tool's name that is given with the run, as a client of the Agent Client Protocol does.
    Client,
}

/// A command as one text for a shell, or as separate arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CommandLine {
    /// A text that is split like a `script:`.
    Text(String),
    /// The program, then its arguments. Never empty.
    Words(Vec<String>),
}

/// The value of an environment variable or of a header: a text, or its source in the environment of the program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EnvOrHeaderValue {
    /// As written.
    Text(String),
    /// The value of the user's variable of the same name, if it is set.
    Inherited,
    /// A value from the environment, so that the file does not contain it.
    FromEnvironment {
        /// The name of the variable.
        variable: String,
        /// The text before the value.
        prefix: String,
    },
}

/// The permission of a model to call a tool (`permission`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionMode {
    /// Always.
    Allow,
    /// The operator is asked each time.
    Ask,
    /// Never; the tool is not offered to the model.
    Deny,
}

/// An item of an agent's `tools`: a tool, or one tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReference {
    /// The tool.
    pub tool: Arc<str>,
    /// One tool of an MCP server, by the name that the server uses; `None`: all of its tools.
    pub member: Option<Arc<str>>,
}

impl ToolDefinition {
    /// The default time limit of one call.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// The default size limit of a result: 64 KiB.
    pub const MAX_RESULT_BYTES: NonZeroUsize = NonZeroUsize::new(64 << 10).expect("is not 0");

    /// Returns the model profile that writes summaries. Returns `None` if the tool has no summaries or names no profile.
    pub fn summary_profile(&self) -> Option<&Arc<str>> {
        self.summarize_with.as_ref().filter(|_| self.summarize_above.is_some())
    }

    /// Returns the route of the tool with this name.
    pub fn route_for(name: &str) -> Route {
        Route::root().with_key("tools").with_key(name)
    }
}

impl ToolKind {
    /// Returns the default permission: allow for tools that the author wrote, ask for tools of MCP servers, which the author has not seen.
    pub fn default_permission(&self) -> PermissionMode {
        match self {
            Self::Script { .. } | Self::Agent { .. } | Self::Ensemble { .. } => PermissionMode::Allow,
            Self::Mcp(_) => PermissionMode::Ask,
        }
    }

    /// Returns the default schema of the arguments of agents and ensembles as tools: the task as a text.
    pub fn default_task_schema() -> Value {
        json!({
            "type": "object",
            "properties": {"input": {"type": "string", "description": "The task, in full: nothing else is known."}},
            "required": ["input"],
            "additionalProperties": false,
        })
    }
}
