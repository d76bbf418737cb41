//! Language models: which one answers (profiles), who is asked when it cannot (the chain), and providers.
//!
//! A provider answers one request and knows nothing of agents' outputs, schemas or memory; those belong to the
//! agent that asks. **Invariant:** nothing here remembers a request. The number of a request comes with it, so a
//! run that was interrupted and resumed asks exactly what an uninterrupted one would have asked.

mod chain;
mod profiles;
mod script;
mod simulated;

pub use chain::{Ask, Asked, Model};
pub use profiles::{Link, Override, ProfileError, Profiles, Resolved};
pub use script::{describe, run};
pub use simulated::Simulator;

use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::ensemble::Profile;
use crate::thread::Message;

/// A future that can be stored.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Answers requests. One per profile; the only one of this build is [`Simulator`].
pub trait Provider: Send + Sync {
    /// Answers one request. The caller enforces time limits by dropping the future.
    fn complete(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>>;
}

/// Reads the text of a script that a profile or an agent names. The caller resolves the path as it does those of
/// script agents: against the ensemble file's folder, then the project root, then its `scripts/`.
pub type LoadScript = dyn Fn(&str) -> Result<String, String> + Send + Sync;

/// One request of an agent to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// System message, earlier conversation and task; the last one is the user's.
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
    /// How to ask.
    pub profile: Arc<Profile>,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReply {
    /// The text.
    pub text: String,
    /// What the provider counted, if it counts.
    pub tokens: Option<Tokens>,
    /// Why the model stopped there.
    pub stop_reason: StopReason,
}

/// Tokens of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// Read.
    pub input: u64,
    /// Written.
    pub output: u64,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It had said all.
    EndTurn,
    /// The limit of a reply was reached; the text is cut off.
    MaxTokens,
    /// It will not answer this.
    Refusal,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// In words.
    pub message: String,
    /// May the same request succeed when it is made again?
    pub retryable: bool,
}

/// An estimate of a text's tokens: a quarter of its characters, rounded up.
pub fn estimate_tokens(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(4)
}
