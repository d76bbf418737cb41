//! The options of a run, as plain data.
//!
//! Invariant: the options do not depend on a command line.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use ensemble_agents::agent::kinds::generator::ResponseGenerator;
use ensemble_agents::agent::kinds::input::PreparedAnswers;
use ensemble_core::reporter::Reporter;
use ensemble_core::request::RequestDigest;
use ensemble_core::store::{Durability, RunId};
use ensemble_core::thread::LiveOutputReceiver;
use ensemble_language::data::RunContext;
use serde_json::Value;

use crate::drive::client_servers::ClientServers;
use crate::drive::events::RunTracer;
use crate::options::replacements::AgentReplacements;

/// The options of a run. The default input is the ensemble's `default_task`.
#[derive(Default)]
pub struct RunOptions {
    /// The id of a new run. `None` means an id from the current time.
    pub id: Option<RunId>,
    /// The input. `None` means the ensemble's `default_task`.
    pub input: Option<Arc<str>>,
    /// The inputs by name if the ensemble declares `inputs`, otherwise the context before the first turn. Only a new run uses the values.
    pub context: RunContext,
    /// The texts from which values of `context` were parsed. If a value does not match the schema of its input, but its text does, the text
    /// is used.
    pub texts: HashMap<Arc<str>, Arc<str>>,
    /// Answers of input agents.
    pub answers: PreparedAnswers,
    /// Overrides of models: `PROFILE=PROVIDER/MODEL`. If the list is empty, a continued run keeps its recorded overrides.
    pub models: Vec<String>,
    /// Tools that may be called without asking: `NAME`, `SERVER.TOOL`, or `*`.
    pub allowed_tools: Vec<String>,
    /// Tools whose calls are denied without asking if they need permission, by their names.
    pub denied_tools: Vec<String>,
    /// The digests of the requests that were shown, by the addresses in `allowed_tools` and `denied_tools`, so that a decision applies to
    /// no other call. The check of answers before a run continues sets the digests.
    pub shown_requests: HashMap<String, RequestDigest>,
    /// The MCP servers of tools with `mcp: client`. Without any, those of the [host](crate::RunHost::with_default_client_servers) are used.
    /// Records do not contain the servers, so a resumed run needs them again.
    pub servers: Arc<ClientServers>,
    /// The folder in which replies of models are stored and found.
    pub cache: Option<ReplyCacheFolder>,
    /// The amount of data that a power failure can lose.
    pub durability: Durability,
    /// True if the run records a success with exhausted agents as a failure: `--fail-on-limit`.
    pub refuses_exhausted: bool,
    /// The reporters, which receive each event immediately in the task that drives the run.
    pub reporters: Vec<Box<dyn Reporter + Send>>,
    /// The receiver of live output of the run's own agents.
    pub live_output: Option<Arc<dyn LiveOutputReceiver>>,
    /// The stubs by agent name. An agent with a stub does not run. A continued run keeps its recorded stubs.
    pub stubs: BTreeMap<Arc<str>, Arc<str>>,
    /// The model profiles that answer for input agents and script agents, by agent name. A continued run keeps its recorded profiles.
    pub responders: BTreeMap<Arc<str>, Arc<str>>,
    /// Generators that answer for input agents and script agents, by agent name. The run records the names only, so a continued run needs
    /// the generators again.
    pub generators: BTreeMap<Arc<str>, Arc<dyn ResponseGenerator>>,
    /// The tracer of the run. `None` means no telemetry.
    pub tracer: Option<Arc<dyn RunTracer>>,
    /// The runners that replace agents, for tests.
    pub replacements: Option<Arc<dyn AgentReplacements>>,
}

/// A folder of cached replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyCacheFolder {
    /// The folder.
    pub folder: PathBuf,
    /// True if a request without a cached reply fails.
    pub is_read_only: bool,
}

impl RunOptions {
    /// Sets the input of the run.
    #[must_use]
    pub fn with_input(self, input: impl Into<Arc<str>>) -> Self {
        Self {
            input: Some(input.into()),
            ..self
        }
    }

    /// Sets the value of a declared input, or a value of the context if the ensemble declares no inputs.
    #[must_use]
    pub fn with_input_value(mut self, key: impl Into<Arc<str>>, value: impl Into<Value>) -> Self {
        self.context.insert(key.into(), Arc::new(value.into()));
        self
    }

    /// Sets a value from a text, as on a command line: the parsed JSON value if the text is valid JSON, otherwise the text.
    #[must_use]
    pub fn with_text_value(mut self, key: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        let (key, text) = (key.into(), text.into());
        let value = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(&*text));
        self.context.insert(key.clone(), Arc::new(value));
        self.texts.insert(key, text);
        self
    }

    /// Sets the answer of an input agent to all its questions. A list answers the executions in order.
    #[must_use]
    pub fn with_answer(mut self, agent: impl Into<String>, answer: impl Into<Value>) -> Self {
        self.answers.insert_file_entry(agent, answer.into());
        self
    }

    /// Lets the model of a profile answer for an input agent or a script agent.
    #[must_use]
    pub fn with_responder(mut self, agent: impl Into<Arc<str>>, profile: impl Into<Arc<str>>) -> Self {
        self.responders.insert(agent.into(), profile.into());
        self
    }

    /// Lets a generator answer for an input agent or a script agent.
    #[must_use]
    pub fn with_generator(mut self, agent: impl Into<Arc<str>>, generator: impl ResponseGenerator + 'static) -> Self {
        self.generators.insert(agent.into(), Arc::new(generator));
        self
    }

    /// Replaces the model of a profile (`*`: of all profiles) with `PROVIDER/MODEL` or `simulated`.
    #[must_use]
    pub fn with_model_override(mut self, profile: &str, model: &str) -> Self {
        self.models.push(format!("{profile}={model}"));
        self
    }

    /// Allows calls of this tool without asking.
    #[must_use]
    pub fn with_allowed_tool(mut self, tool: impl Into<String>) -> Self {
        self.allowed_tools.push(tool.into());
        self
    }

    /// Denies calls of this tool that need permission, without asking.
    #[must_use]
    pub fn with_denied_tool(mut self, tool: impl Into<String>) -> Self {
        self.denied_tools.push(tool.into());
        self
    }

    /// Sets the durability of the journal.
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Adds a reporter, which receives each event.
    #[must_use]
    pub fn with_reporter(mut self, reporter: impl Reporter + Send + 'static) -> Self {
        self.reporters.push(Box::new(reporter));
        self
    }
}
