//! Language models: which one answers (profiles), who is asked when it cannot (the chain), and providers.
//!
//! A provider answers one request and knows nothing of agents' outputs, schemas or memory; those belong to the
//! agent that asks. **Invariant:** nothing here remembers a request, save the cache on disk that a user asks for. The
//! number of a request comes with it, so a run that was interrupted and resumed asks exactly what an uninterrupted one
//! would have asked.

mod cache;
mod chain;
mod network;
mod profiles;
mod remote;
mod script;
mod simulated;

pub use cache::Cache;
pub use chain::{Model, ModelAnswer, ModelQuery};
pub use network::{Environment, Network};
pub use profiles::{Link, Override, ProfileError, Profiles, Resolved};
pub use remote::{Remote, key_variable};
pub use script::describe;
pub use simulated::Simulator;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use ensemble_core::thread::{Message, StopReason, ToolCall};
use ensemble_language::ensemble::Profile;

/// A future that can be stored.
pub use ensemble_core::runner::BoxFuture;

/// Is told every piece of a reply's text as it comes.
pub type OnText<'a> = dyn Fn(&str) + Send + Sync + 'a;

/// Answers requests. One per profile.
pub trait Provider: Send + Sync {
    /// Answers one request, and tells `heard` every piece of the text as it comes, where the provider streams; the
    /// reply has the whole text all the same. The caller enforces time limits by dropping the future.
    fn complete<'a>(
        &'a self,
        request: ModelRequest,
        on_text: &'a OnText<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>>;
}

/// Reads the text of a script that a profile or an agent names. The caller resolves the path as it does those of
/// script agents: against the ensemble file's folder, then the project root, then its `scripts/`.
pub type LoadScript = dyn Fn(&str) -> Result<String, String> + Send + Sync;

/// One request of an agent to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// System message, earlier conversation and task, tool calls with their results beside the replies that made
    /// them. The last one is the user's, or a reply whose tools have ended.
    pub messages: Vec<Message>,
    /// Who asks.
    pub agent_name: Arc<str>,
    /// Which request of that agent in the run, from 1; every request counts, those that failed too.
    pub request_number: u64,
    /// Which execution of that agent, from 1.
    pub execution: u32,
    /// The last user message.
    pub prompt: Arc<str>,
    /// The schema that the reply has to match, for providers that can enforce it.
    pub output_schema: Option<Arc<Value>>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// How to ask.
    pub profile: Arc<Profile>,
}

/// What a model is told of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// By which it is called: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub parameters: Value,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    /// The text.
    pub text: String,
    /// The tools that it wants called before it goes on.
    pub tool_calls: Vec<ToolCall>,
    /// What the provider counted, if it counts.
    pub tokens: Option<Tokens>,
    /// Why the model stopped there.
    pub stop_reason: StopReason,
    /// Does it come from a cache? Then nothing was paid for it.
    pub cached: bool,
    /// What the person who runs the ensemble should know.
    pub warnings: Vec<String>,
}

/// Tokens of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// Read.
    pub input: u64,
    /// Written.
    pub output: u64,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// In words.
    pub message: String,
    /// May the same request succeed when it is made again?
    pub retryable: bool,
    /// How long the provider asks to be left alone, if it does.
    pub retry_after: Option<Duration>,
    /// Is it the schema that the provider does not take? Without it the request may succeed.
    pub refused_schema: bool,
}

impl ModelError {
    /// An error that another try cannot mend.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retryable: false,
            retry_after: None,
            refused_schema: false,
        }
    }

    /// An error that another try may mend.
    pub fn passing(message: impl Into<String>) -> Self {
        Self {
            retryable: true,
            ..Self::fatal(message)
        }
    }
}

impl ModelReply {
    /// A reply of text alone, that nobody counted.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tool_calls: Vec::new(),
            tokens: None,
            stop_reason: StopReason::EndTurn,
            cached: false,
            warnings: Vec::new(),
        }
    }
}

/// An estimate of a text's tokens: a quarter of its characters, rounded up.
pub fn estimate_tokens(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(4)
}
