//! Model profiles: a model and its settings.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::RetryPolicy;
use crate::data::{Cost, JsonMap, ModelUsage};

/// A model profile: a model of a provider, and its settings (`model_profiles.<name>`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelProfile {
    /// `simulated`, or one of [`PROVIDERS`](super::PROVIDERS).
    pub provider: Arc<str>,
    /// The provider's name of the model; empty if the provider needs none.
    pub model: Arc<str>,
    /// The address of another server for the provider. The provider's own key is not sent there.
    pub base_url: Option<String>,
    /// The environment variable that contains the key.
    pub api_key_env: Option<String>,
    /// HTTP headers for every request, in file order.
    pub headers: Vec<(String, ConfiguredHeader)>,
    /// A text before the agent's own system prompt.
    pub system_prompt: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// The highest number of tokens of a reply.
    pub max_tokens: Option<u64>,
    /// The number of tokens that the model can process at once: the request with the reply.
    pub context_window: Option<u64>,
    /// Sampling seed.
    pub seed: Option<i64>,
    /// Further parameters of the provider, which go into the body of every request.
    pub options: JsonMap,
    /// The time limit of one request.
    pub timeout: Option<Duration>,
    /// The retries of one request.
    pub retry: Option<RetryPolicy>,
    /// The profile that is used when this one fails.
    pub fallback: Option<Arc<str>>,
    /// The prices of tokens.
    pub cost: Option<TokenPrice>,
    /// How often the program asks the model.
    pub rate_limit: Option<RateLimit>,
    /// Whether requests are not marked for the provider's cache of prompts, where the provider wants them marked.
    pub without_prompt_cache: bool,
    /// The replies of the `simulated` provider.
    pub simulated: Option<SimulatedReplySource>,
}

/// The rate limits of all requests of the program with one profile. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateLimit {
    /// The highest number of requests in a minute.
    pub requests_per_minute: Option<u64>,
    /// The highest number of tokens, of requests and replies, in a minute.
    pub tokens_per_minute: Option<u64>,
    /// The highest number of requests at the same time.
    pub concurrent: Option<u64>,
}

/// The value of an HTTP header: a text, or an environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfiguredHeader {
    /// A fixed text.
    Text(String),
    /// The value of this environment variable.
    Env(String),
}

/// The prices of a model's tokens, in the user's currency for each million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenPrice {
    /// The price of a million input tokens.
    pub input_per_million: f64,
    /// The price of a million input tokens that the provider reads from its own cache; `None`: that of input tokens.
    pub cached_per_million: Option<f64>,
    /// The price of a million output tokens.
    pub output_per_million: f64,
}

impl TokenPrice {
    /// Calculates the cost of the tokens of this usage.
    pub fn cost_for_usage(self, used: &ModelUsage) -> Cost {
        let cached = used.cached_tokens.min(used.input_tokens);
        let costs = [
            (used.input_tokens - cached, self.input_per_million),
            (cached, self.cached_per_million.unwrap_or(self.input_per_million)),
            (used.output_tokens, self.output_per_million),
        ];
        let millions: f64 = costs.iter().map(|(tokens, price)| *tokens as f64 * price).sum();
        Cost::from_amount(millions / 1e6)
    }
}

/// The source of the replies of the built-in `simulated` provider.
#[derive(Debug, Clone, PartialEq)]
pub enum SimulatedReplySource {
    /// Request n of an agent gets reply n; further requests get the last reply. Never empty.
    Replies(Vec<SimulatedReply>),
    /// A Rhai script; its last value is the reply. Its variables are `messages`, `prompt` and `execution`. A map with
    /// `tool_calls` calls tools.
    Script(String),
}

/// A prepared reply.
#[derive(Debug, Clone, PartialEq)]
pub enum SimulatedReply {
    /// The text of the reply.
    Text(String),
    /// The request fails with this message.
    Error(String),
    /// The reply calls tools.
    Calls {
        /// The text of the reply.
        text: String,
        /// The calls, in order. Never empty.
        tool_calls: Vec<SimulatedToolCall>,
    },
}

/// A tool call of a prepared reply.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedToolCall {
    /// The tool, by the name that the model uses.
    pub name: String,
    /// The arguments.
    pub arguments: JsonMap,
}

impl SimulatedReply {
    /// Creates a reply that calls these tools, each with its arguments. Arguments that are no object become empty.
    pub fn with_tool_calls<N: Into<String>>(calls: impl IntoIterator<Item = (N, Value)>) -> Self {
        let call = |(name, arguments): (N, Value)| SimulatedToolCall {
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

    /// Creates a reply that fails the request with this message.
    pub fn with_error(message: impl Into<String>) -> Self {
        Self::Error(message.into())
    }
}

impl From<&str> for SimulatedReply {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for SimulatedReply {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
