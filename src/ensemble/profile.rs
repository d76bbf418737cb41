//! Model profiles: which model answers, and how it is asked.

use std::sync::Arc;
use std::time::Duration;

use super::Retry;
use crate::data::JsonMap;

/// `model_profiles.<name>`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// `simulated`, `openai`, `anthropic`, `ollama`, `gemini`, …
    pub provider: Arc<str>,
    /// The provider's name of the model; empty where the provider needs none.
    pub model: Arc<str>,
    /// Another address of the provider.
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// Comes before the agent's own system prompt.
    pub system_prompt: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Most tokens of a reply.
    pub max_tokens: Option<u64>,
    /// Sampling seed.
    pub seed: Option<i64>,
    /// Time limit of one request.
    pub timeout: Option<Duration>,
    /// Retries of one request.
    pub retry: Option<Retry>,
    /// The profile that answers when this one cannot.
    pub fallback: Option<Arc<str>>,
    /// What the `simulated` provider answers.
    pub simulated: Option<Simulated>,
}

/// How the embedded `simulated` provider answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Simulated {
    /// The n-th request of an agent gets the n-th reply; the last repeats. Never empty.
    Replies(Vec<Reply>),
    /// A Rhai script whose last value is the reply; in scope `messages`, `prompt`, `execution`. A map with
    /// `tool_calls` calls tools.
    Script(String),
}

/// One prepared reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The reply's text.
    Text(String),
    /// The request fails with this message.
    Error(String),
    /// The reply calls tools.
    Calls {
        /// What it says beside that.
        text: String,
        /// The calls, in order. Never empty.
        tool_calls: Vec<CalledTool>,
    },
}

/// A tool call of a prepared reply.
#[derive(Debug, Clone, PartialEq)]
pub struct CalledTool {
    /// The tool, as the model knows it.
    pub name: String,
    /// What it is called with.
    pub arguments: JsonMap,
}
