//! Tools: what models may call, and who performs it.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::source::Route;

/// `tools.<name>`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// What it is for, as the model reads it.
    pub description: Option<String>,
    /// Who performs it.
    pub kind: ToolKind,
    /// May a model call it?
    pub permission: Permission,
    /// Wall clock of one call; of an MCP server's start, too.
    pub timeout: Duration,
    /// Most bytes of a result that the model is shown.
    pub max_result_bytes: NonZeroUsize,
}

/// Who performs a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolKind {
    /// A script, as script agents run it; the arguments are its `parameters`.
    Script {
        /// A path or a command line.
        script: String,
        /// JSON Schema of the arguments, an object.
        parameters: Value,
    },
    /// Another agent of the ensemble.
    Agent {
        /// Its name.
        agent: Arc<str>,
        /// JSON Schema of the arguments; `None`: [`ToolKind::input_alone`].
        parameters: Option<Value>,
    },
    /// A whole conversation of another ensemble.
    Ensemble {
        /// A path or a name.
        ensemble: String,
        /// JSON Schema of the arguments; `None`: [`ToolKind::input_alone`].
        parameters: Option<Value>,
    },
    /// The tools of a server that speaks the Model Context Protocol.
    Mcp(McpServer),
}

/// Where an MCP server is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum McpServer {
    /// A child process that is spoken to over its standard streams.
    Command {
        /// The program and its arguments.
        command: CommandLine,
        /// Variables beside those that the program itself has.
        env: Vec<(String, Setting)>,
        /// The folder that it runs in, seen from the project root; `None`: the project root.
        cwd: Option<String>,
    },
    /// A server that is spoken to over HTTP.
    Url {
        /// Its address.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, Setting)>,
    },
}

/// A command in one text, or already taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CommandLine {
    /// Read as a `script:` is.
    Text(String),
    /// The program, then its arguments. Never empty.
    Words(Vec<String>),
}

/// The value of a variable or a header.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Setting {
    /// As written.
    Text(String),
    /// Taken from the environment, so that it need not stand in the file.
    FromEnvironment {
        /// The name of the variable.
        variable: String,
        /// What is put before its value.
        prefix: String,
    },
}

/// `permission`: may a model call the tool?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Always.
    Allow,
    /// The person at the terminal is asked each time.
    Ask,
    /// Never; the model is not told of it.
    Deny,
}

/// One item of an agent's `tools`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// The tool.
    pub tool: Arc<str>,
    /// One tool of an MCP server, by the server's name for it; `None`: all of them.
    pub member: Option<Arc<str>>,
}

impl Tool {
    /// Wall clock of one call where nothing else is said.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// Bytes of a result where nothing else is said: 64 KiB.
    pub const MAX_RESULT_BYTES: NonZeroUsize = NonZeroUsize::new(64 << 10).expect("is not 0");

    /// Route of the tool of that name.
    pub fn route(name: &str) -> Route {
        Route::root().key("tools").key(name)
    }
}

impl ToolKind {
    /// What is permitted where nothing else is said: what the author has written may be called. What an MCP server
    /// offers is the server's choice, which the author has not seen, so a person is asked.
    pub fn default_permission(&self) -> Permission {
        match self {
            Self::Script { .. } | Self::Agent { .. } | Self::Ensemble { .. } => Permission::Allow,
            Self::Mcp(_) => Permission::Ask,
        }
    }

    /// The schema of agents and ensembles as tools where none is given: a task in words.
    pub fn input_alone() -> Value {
        json!({
            "type": "object",
            "properties": {"input": {"type": "string", "description": "The task, in full: nothing else is known."}},
            "required": ["input"],
            "additionalProperties": false,
        })
    }
}
