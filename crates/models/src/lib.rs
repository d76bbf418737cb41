//! Language models: chains of profiles with retries and fallbacks, and providers.
//!
//! A provider answers one request. The outputs, schemas and memory of agents belong to the runner. **Invariant:** this
//! module keeps no request, except in the cache on disk if the user wants one. Each request has its number, so a
//! resumed run makes exactly the requests of an uninterrupted run.
//!

mod cache;
mod policy;
mod providers;
mod reply;
mod request;
mod transport;

pub use crate::policy::chain::Model;
pub use crate::policy::model_query::{ModelQuery, ModelQueryResult};
pub use crate::providers::remote::{RemoteProvider, api_key_variable};
pub use crate::providers::simulated::SimulatedProvider;
pub use crate::providers::simulated_script::describe_script_failure;
pub use crate::transport::http_client::{build_http_client, client_builder_with_environment_proxies};
pub use crate::transport::network::{EnvironmentLookup, ModelNetwork};
pub use cache::ReplyCache;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use ensemble_core::stopwatch::Stopwatch;
use ensemble_core::thread::{Attachment, Message, MessageRole, Reasoning, StopReason, ToolCall};
use ensemble_language::ensemble::ModelProfile;

/// A future that can be stored.
pub use ensemble_core::runner::BoxFuture;

/// Piece of a reply that is still arriving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyPiece<'a> {
    /// The next part of the text.
    Text(&'a str),
    /// The next part of what the model thinks before its reply.
    Reasoning(&'a str),
}

/// Callback for each piece of a reply when it arrives.
pub type ReplyPieceCallback<'a> = dyn Fn(ReplyPiece<'_>) + Send + Sync + 'a;

/// Provider of a model, which answers requests. Each profile has one.
pub trait ModelProvider: Send + Sync {
    /// Answers one request. A streaming provider passes each piece of text and reasoning to `on_piece`; the reply has the whole text.
    ///
    /// The caller enforces time limits by dropping the future.
    fn complete_request<'a>(
        &'a self,
        request: ModelRequest,
        on_piece: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>>;

    /// Returns whether the provider enforces the rate limit and the time limit of its profile.
    fn enforces_own_limits(&self) -> bool {
        false
    }
}

/// Function that loads the text of a script which a profile or an agent names.
///
/// The caller resolves the path like a script agent: in the folder of the ensemble, the project root, then `scripts/`.
pub type ScriptLoader = dyn Fn(&str) -> Result<String, String> + Send + Sync;

/// The purpose of a request. Requests with another purpose are counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestPurpose {
    /// The model answers as the agent.
    #[default]
    Reply,
    /// The model writes a summary for the agent: of a result of a tool, or of earlier messages.
    Summary,
}

/// A request of an agent to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// System message, earlier conversation and task, tool calls with their results beside the replies that made
    /// them. The last one is the user's, or a reply whose tools have ended.
    pub messages: Vec<Message>,
    /// The agent that makes the request.
    pub agent_name: Arc<str>,
    /// The purpose of the request.
    pub purpose: RequestPurpose,
    /// The number of the request of this agent with this purpose in the run, from 1; failed requests count too.
    pub request_number: u64,
    /// The number of the execution of this agent, from 1.
    pub execution: u32,
    /// The last user message.
    pub prompt: Arc<str>,
    /// The schema that the reply has to match, for providers that can enforce it.
    pub output_schema: Option<Arc<Value>>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// The profile.
    pub profile: Arc<ModelProfile>,
    /// The clock of the execution, which stands while the request waits for the pace of its profile.
    pub clock: Stopwatch,
}

/// The specification of a tool for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name of the tool: at most 64 letters, digits, `_` and `-`.
    pub name: String,
    /// The description of the tool.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub parameters: Value,
}

/// The reply of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    /// The text.
    pub text: String,
    /// The tool calls of the reply.
    pub tool_calls: Vec<ToolCall>,
    /// What the model thought before the reply, if the provider tells.
    pub reasoning: Option<Reasoning>,
    /// The tokens that the provider counted, if it counts them.
    pub tokens: Option<RequestTokens>,
    /// Why the model stopped there.
    pub stop_reason: StopReason,
    /// Why the model or a content filter refused, in the words of the provider.
    pub refusal: Option<String>,
    /// Does the reply come from a cache? Then it has no cost.
    pub cached: bool,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The limits that the provider states with the reply.
    pub limits: Vec<ReportedLimit>,
}

/// Limit of requests or tokens that a response of a provider reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedLimit {
    /// The name of the header that states what remains.
    pub name: &'static str,
    /// The unit that the provider counts.
    pub unit: ReportedLimitUnit,
    /// The number of units that the provider allows, if it states the number.
    pub limit: Option<u64>,
    /// The number of units that remain.
    pub remaining: u64,
    /// The time until the whole limit is available again.
    pub resets_in: Duration,
}

/// The unit of a [`ReportedLimit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedLimitUnit {
    /// Requests.
    Requests,
    /// Tokens of requests and replies.
    Tokens,
    /// Tokens of replies.
    OutputTokens,
}

/// Token counts of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTokens {
    /// The tokens of the request.
    pub input: u64,
    /// The tokens of the request that the provider read from its own cache.
    pub cached: u64,
    /// The tokens of the reply.
    pub output: u64,
}

/// Error of a request to a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The error message.
    pub message: String,
    /// May the same request succeed when it is made again?
    pub retryable: bool,
    /// The pause that the provider asks for, if it asks for one.
    pub retry_after: Option<Duration>,
    /// What is known of the cause.
    pub kind: ModelErrorKind,
    /// The limits that the provider states with the error.
    pub limits: Vec<ReportedLimit>,
}

/// Kind of a model error that needs separate handling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModelErrorKind {
    /// Any other cause.
    #[default]
    OtherFailure,
    /// The provider does not accept the output schema. Without it the request may succeed.
    RefusedSchema,
    /// The model refused to answer, or a content filter stopped it.
    ModelRefused,
    /// The model takes no images or documents. Without those of tool results the request may succeed.
    RefusedFiles,
    /// The request has more tokens than the context window of the model.
    ContextTooLong,
    /// The provider answers only so many requests, or so many tokens.
    RateLimited,
}

impl ModelError {
    /// Creates an error that no retry can fix.
    pub fn new_fatal(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retryable: false,
            retry_after: None,
            kind: ModelErrorKind::OtherFailure,
            limits: Vec::new(),
        }
    }

    /// Creates an error that a retry can fix.
    pub fn new_retryable(message: impl Into<String>) -> Self {
        Self {
            retryable: true,
            ..Self::new_fatal(message)
        }
    }
}

impl ModelReply {
    /// Returns the reason of a refusal from the provider, with the text of the model.
    pub fn refusal_reason_and_text(&self) -> String {
        match (&self.refusal, self.text.trim()) {
            (Some(reason), "") => reason.clone(),
            (Some(reason), text) => format!("{reason}; its reply was: {text}"),
            (None, "") => "it gave no reason".to_owned(),
            (None, text) => text.to_owned(),
        }
    }

    /// Creates a reply with only a text, without token counts.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tool_calls: Vec::new(),
            reasoning: None,
            tokens: None,
            stop_reason: StopReason::EndTurn,
            refusal: None,
            cached: false,
            warnings: Vec::new(),
            limits: Vec::new(),
        }
    }
}

/// Returns the model of a profile, as [`Reasoning::from`] names it: `PROVIDER/MODEL`, or the provider if it needs no model.
fn reasoning_source(profile: &ModelProfile) -> String {
    match profile.model.is_empty() {
        true => profile.provider.to_string(),
        false => format!("{}/{}", profile.provider, profile.model),
    }
}

/// Moves the output schema into the system message or the last user message, for a provider that cannot enforce it.
fn move_schema_to_messages(mut request: ModelRequest) -> ModelRequest {
    let Some(schema) = request.output_schema.take() else {
        return request;
    };
    let when = match request.tools.is_empty() {
        true => "Answer",
        false => "When you call no more tools, answer",
    };
    let words = format!("{when} with one JSON object that matches this JSON Schema, and nothing else:\n{schema}");
    let of = |role: MessageRole| move |message: &&mut Message| message.role == role;
    let messages = &mut request.messages;
    let place = match messages.iter().any(|message| message.role == MessageRole::System) {
        true => messages.iter_mut().find(of(MessageRole::System)),
        false => messages.iter_mut().rev().find(of(MessageRole::User)),
    };
    match place {
        Some(message) => message.content = format!("{}\n\n{words}", message.content),
        None => request.messages.push(Message::new(MessageRole::User, words)),
    }
    request
}

/// Estimates the tokens of a text: a quarter of its bytes in UTF-8, rounded up.
///
/// A token is four characters of English, two of Russian, and one and a third of Chinese.
///
/// So a token has four characters of English, two of Russian, and one and a third of Chinese.
pub fn estimate_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

/// Estimates the tokens of an attachment: a text by its size, and a thousand for an image or a PDF.
pub fn estimate_attachment_tokens(attachment: &Attachment) -> u64 {
    match attachment.is_text() {
        true => attachment.size.div_ceil(4),
        false => 1000,
    }
}

/// Estimates the tokens of the files in the result of a call.
pub fn estimate_result_file_tokens(call: &ToolCall) -> u64 {
    call.attachments.iter().map(estimate_attachment_tokens).sum()
}

#[cfg(test)]
#[test]
fn tokens_are_estimated_from_bytes() {
    let table = [
        ("", 0),
        ("one", 1),
        ("one two three four five", 6),
        ("два слова", 5),
        ("沒有空格", 3),
        (&*"x".repeat(600), 150),
    ];
    for (text, tokens) in table {
        assert_eq!(estimate_tokens(text), tokens, "{text}");
    }
}
