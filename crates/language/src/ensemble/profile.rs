//! Model profiles: which model answers, and how it is asked.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Retry;
use crate::data::{Cost, JsonMap};

/// `model_profiles.<name>`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// `simulated`, or one of [`PROVIDERS`](super::PROVIDERS).
    pub provider: Arc<str>,
    /// The provider's name of the model; empty where the provider needs none.
    pub model: Arc<str>,
    /// Another address of the provider. The provider's own key is not sent there.
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// Sent with every request, in file order.
    pub headers: Vec<(String, HeaderText)>,
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
    /// What tokens cost.
    pub cost: Option<Price>,
    /// What the `simulated` provider answers.
    pub simulated: Option<Simulated>,
}

/// What stands in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderText {
    /// This text.
    Text(String),
    /// The value of this environment variable.
    Env(String),
}

/// What a model's tokens cost, in the user's currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// A million tokens read.
    pub input_per_million: f64,
    /// A million tokens written.
    pub output_per_million: f64,
}

impl Price {
    /// What that many tokens cost.
    pub fn of(self, input_tokens: u64, output_tokens: u64) -> Cost {
        let millions = input_tokens as f64 * self.input_per_million + output_tokens as f64 * self.output_per_million;
        Cost::of(millions / 1e6)
    }
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

impl Reply {
    /// A reply that calls these tools, each with its arguments; a value that is no object stands for no arguments.
    pub fn calls<N: Into<String>>(calls: impl IntoIterator<Item = (N, Value)>) -> Self {
        let call = |(name, arguments): (N, Value)| CalledTool {
            name: name.into(),
            arguments: match arguments {
                Value::Object(arguments) => arguments,
                _ => JsonMap::new(),
            },
        };
        Self::Calls {
            text: String::new(),
            tool_calls: calls.into_iter().map(call).collect(),
        }
    }

    /// A request that fails with this message.
    pub fn error(message: impl Into<String>) -> Self {
        Self::Error(message.into())
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
