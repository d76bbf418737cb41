//! The values that agents exchange: JSON, shared where a copy would be expensive.
//!
//! Invariant: code that reads a context shares it and does not copy it.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON object; the keys keep their order.
pub type JsonMap = serde_json::Map<String, Value>;

/// The accumulated context of a run: the values that agents have stored, by key, in the order of their first appearance.
///
/// Values are shared with the history. So a snapshot costs one reference count, and the memory of a conversation grows
/// with the size of its outputs, not with the number of reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunContext(IndexMap<Arc<str>, Arc<Value>, foldhash::fast::RandomState>);

impl RunContext {
    /// Returns the value under `key`.
    pub fn get(&self, key: &str) -> Option<&Arc<Value>> {
        self.0.get(key)
    }

    /// Stores `value` under `key`. A replaced value keeps its position.
    pub fn insert(&mut self, key: Arc<str>, value: Arc<Value>) {
        self.0.insert(key, value);
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Value>)> {
        self.0.iter()
    }
}

impl FromIterator<(Arc<str>, Arc<Value>)> for RunContext {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<Value>)>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

/// The key of an output for a text, and for every other value that is no object.
pub const RESPONSE_KEY: &str = "response";

/// Returns the output for a value: the object itself, or the value under [`RESPONSE_KEY`].
pub fn value_to_output(value: Value) -> JsonMap {
    match value {
        Value::Object(output) => output,
        other => JsonMap::from_iter([(RESPONSE_KEY.to_owned(), other)]),
    }
}

/// Returns the output for a text: the JSON object that is the whole text, or the text without its last newline under
/// [`RESPONSE_KEY`].
pub fn text_to_output(text: &str) -> JsonMap {
    parse_whole_object(text).unwrap_or_else(|| value_to_output(strip_last_newline(text).into()))
}

/// The byte order mark at the beginning of a text.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns the text without the byte order mark at its beginning.
pub fn strip_byte_order_mark(text: &str) -> &str {
    split_byte_order_mark(text).1
}

/// Splits a text into the byte order mark at its beginning, which can be empty, and the rest.
pub fn split_byte_order_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => text.split_at(text.len() - rest.len()),
        None => ("", text),
    }
}

/// Returns the bytes of a text without the byte order mark at their beginning.
pub fn strip_byte_order_mark_bytes(bytes: &[u8]) -> &[u8] {
    let mark = BYTE_ORDER_MARK.encode_utf8(&mut [0; 4]).len();
    match bytes.get(..mark).and_then(|start| str::from_utf8(start).ok()) {
        Some(start) if start.starts_with(BYTE_ORDER_MARK) => &bytes[mark..],
        _ => bytes,
    }
}

/// Parses the JSON object that is the whole text.
pub fn parse_whole_object(text: &str) -> Option<JsonMap> {
    let text = strip_byte_order_mark(text).trim();
    (text.starts_with('{')).then(|| serde_json::from_str(text).ok())?
}

/// Returns the text without its last line break.
pub fn strip_last_newline(text: &str) -> &str {
    match text.strip_suffix('\n') {
        Some(text) => text.strip_suffix('\r').unwrap_or(text),
        None => text,
    }
}

/// Renders an output as text: the value of `response` if there is one, otherwise JSON.
pub fn render_output_text(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Object(map) => match map.get(RESPONSE_KEY) {
            Some(response) => render_output_text(response),
            None => output.to_string(),
        },
        other => other.to_string(),
    }
}

/// A request from another agent (`agent_requests`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRequest {
    /// The agent that sends the request.
    pub from: Arc<str>,
    /// The parameters of the request.
    pub parameters: Value,
    /// The priority: higher values run first; 0 by default.
    pub priority: i64,
}

/// A question to the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorQuestion {
    /// The text of the question.
    pub prompt: String,
    /// The answers that are allowed; empty: any.
    pub choices: Vec<String>,
    /// If the waiting agent is an ensemble: the agent of the inner conversation that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<Arc<str>>,
    /// If a person shall decide whether a tool may be called: the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Box<ToolPermissionRequest>>,
    /// The schema of the answer, as the output of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<Value>>,
}

impl OperatorQuestion {
    /// Creates a question with choices. Without choices, any answer is allowed.
    pub fn new(prompt: impl Into<String>, choices: Vec<String>) -> Self {
        Self {
            prompt: prompt.into(),
            choices,
            asked_by: None,
            permission: None,
            output_schema: None,
        }
    }
}

/// A tool call that the operator must permit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPermissionRequest {
    /// The tool: its name, or `SERVER.TOOL`.
    pub tool: Arc<str>,
    /// All arguments of the call.
    pub arguments: JsonMap,
}

/// The failure of an execution: its kind, message, exit code and streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The error message.
    pub error: String,
    /// The exit code of the process; `None` if no process exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The last [`KEPT_STREAM_BYTES`] bytes of the standard output of the process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    /// The last [`KEPT_STREAM_BYTES`] bytes of the standard error of the process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

/// The number of bytes that a failure keeps of each stream of a process, from its end.
pub const KEPT_STREAM_BYTES: usize = 4 * 1024;

/// The kinds of failures; a closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A script ended with an exit status other than 0, or exceeded a limit of its sandbox.
    Exit,
    /// A script was ended by a signal.
    Signal,
    /// The time limit was reached.
    Timeout,
    /// The output is larger than the limit.
    OutputTooLarge,
    /// The script itself reported a failure, or threw an exception.
    Reported,
    /// The model or its provider failed.
    Model,
    /// The model refused to answer, or a content filter stopped it. Also: the call of an agent with `tool` was not permitted,
    /// has wrong arguments, or must not be made again.
    Refusal,
    /// The reply of the model was cut off at its token limit, or the token budget of the run is used up.
    MaxTokens,
    /// The model still called tools in its last allowed request.
    MaxIterations,
    /// The execution was stopped from outside.
    Cancelled,
    /// The output does not match the agent's schema.
    Schema,
    /// The program could not be started.
    Unavailable,
    /// The sandbox of the process refused something, ended it at a limit, or could not be set up.
    Sandbox,
}

impl FailureKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Exit,
        Self::Signal,
        Self::Timeout,
        Self::OutputTooLarge,
        Self::Reported,
        Self::Model,
        Self::Refusal,
        Self::MaxTokens,
        Self::MaxIterations,
        Self::Cancelled,
        Self::Schema,
        Self::Unavailable,
        Self::Sandbox,
    ];

    /// Returns whether another attempt at the same task may succeed. `corrected`: the model has already had all permitted
    /// chances to correct its output.
    pub fn is_retryable(self, corrected: bool) -> bool {
        match self {
            Self::Refusal | Self::MaxIterations => false,
            Self::Schema | Self::MaxTokens => !corrected,
            _ => true,
        }
    }
}

/// The usage of LLM executions: tokens, requests and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelUsage {
    /// The number of requests to models.
    pub requests: u64,
    /// The number of these requests that were answered from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached: u64,
    /// The number of these requests that tools made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub by_tools: u64,
    /// The number of these requests that wrote summaries for the agent: of results of tools, or of earlier messages.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub summaries: u64,
    /// Input tokens.
    pub input_tokens: u64,
    /// The number of these tokens that the provider read from its own cache of prompts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Whether the numbers are estimates, because the provider does not count tokens.
    pub estimated: bool,
    /// The cost, if a profile contains the prices of its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// The budget that the limits of a run leave. `None` means that there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemainingBudget {
    /// The remaining part of `max_total_tokens`.
    pub tokens: Option<u64>,
    /// The remaining part of `max_cost`.
    pub cost: Option<Cost>,
}

impl RemainingBudget {
    /// Returns the remaining budget after this usage; never below 0.
    #[must_use]
    pub fn subtract_usage(self, used: ModelUsage) -> Self {
        Self {
            tokens: self
                .tokens
                .map(|tokens| tokens.saturating_sub(used.input_tokens + used.output_tokens)),
            cost: self
                .cost
                .map(|cost| Cost(cost.0.saturating_sub(used.cost.unwrap_or_default().0))),
        }
    }

    /// Returns the name of the limit that is used up: `max_total_tokens` or `max_cost`.
    pub fn find_exhausted_limit(self) -> Option<&'static str> {
        if self.tokens == Some(0) {
            Some("max_total_tokens")
        } else if self.cost == Some(Cost(0)) {
            Some("max_cost")
        } else {
            None
        }
    }
}

/// An amount of money in the user's currency, exact to a billionth. Sums do not depend on the order of their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cost(u64);

impl Cost {
    const BILLIONTHS: f64 = 1e9;

    /// Converts a number to an amount. Negative numbers and NaN become 0.
    pub fn from_amount(amount: f64) -> Self {
        Self((amount * Self::BILLIONTHS).round() as u64)
    }

    /// Returns the amount in billionths.
    pub fn billionths(self) -> u64 {
        self.0
    }

    /// Returns the amount as a float.
    pub fn amount(self) -> f64 {
        self.0 as f64 / Self::BILLIONTHS
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Writes no unnecessary digits: `0.0042`.
impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.amount())
    }
}

/// Reads a number.
impl Serialize for Cost {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.amount())
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_amount)
    }
}

/// Returns whether the count is 0, so that JSON omits it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ModelUsage {
    /// Returns the number of requests that the agent made without its tools and without summaries.
    pub fn own_requests(&self) -> u64 {
        self.requests.saturating_sub(self.by_tools + self.summaries)
    }

    /// Returns the usage since an earlier reading of the same counters.
    #[must_use]
    pub fn subtract_earlier(self, earlier: Self) -> Self {
        let cost = self
            .cost
            .map(|cost| Cost(cost.0.saturating_sub(earlier.cost.unwrap_or_default().0)));
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            cached: self.cached.saturating_sub(earlier.cached),
            by_tools: self.by_tools.saturating_sub(earlier.by_tools),
            summaries: self.summaries.saturating_sub(earlier.summaries),
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(earlier.cached_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            estimated: self.estimated,
            cost,
        }
    }

    /// Returns whether nothing was used: no requests, no tokens and no cost.
    pub fn is_empty(&self) -> bool {
        let counts = [self.requests, self.input_tokens, self.output_tokens];
        counts.iter().all(|count| *count == 0) && self.cost.unwrap_or_default() == Cost(0)
    }

    /// Returns this usage with all requests counted as requests of a tool.
    #[must_use]
    pub fn as_tool_usage(self) -> Self {
        Self {
            by_tools: self.requests,
            summaries: 0,
            ..self
        }
    }
}

impl ExecutionFailure {
    /// Returns a failure of this kind.
    pub fn new(kind: FailureKind, error: impl Into<String>) -> Self {
        Self {
            kind,
            error: error.into(),
            exit_code: None,
            stdout: String::new(),
            stderr: String::new(),
        }
    }

    /// Returns the failure with the exit code and the ends of the streams of its process. The message quotes both streams if
    /// the process failed.
    #[must_use]
    pub fn with_process_output(self, exit_code: Option<i32>, stdout: &str, stderr: &str) -> Self {
        let (stdout, stderr) = (kept_stream_end(stdout), kept_stream_end(stderr));
        let mut error = self.error;
        if matches!(
            self.kind,
            FailureKind::Exit | FailureKind::Signal | FailureKind::Timeout | FailureKind::OutputTooLarge
        ) {
            let mut separator = "; ";
            for (name, text) in [("stdout", stdout), ("stderr", stderr)] {
                let text = text.trim_end();
                if !text.is_empty() {
                    error = format!("{error}{separator}{name} ends with:\n{text}");
                    separator = "\n";
                }
            }
        }
        Self {
            kind: self.kind,
            error,
            exit_code,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        }
    }

    /// Returns whether anything is known of the process that failed.
    pub fn has_process_output(&self) -> bool {
        self.exit_code.is_some() || !self.stdout.is_empty() || !self.stderr.is_empty()
    }

    /// Converts the failure to the value that dependent agents, conditions and the history read.
    pub fn to_output(&self) -> Value {
        serde_json::json!({
            "error": self.error,
            "kind": self.kind,
            "exit_code": self.exit_code,
            "stdout": self.stdout,
            "stderr": self.stderr,
        })
    }

    /// The keys of [`ExecutionFailure::to_output`].
    pub const KEYS: [&str; 5] = ["error", "kind", "exit_code", "stdout", "stderr"];
}

/// Returns the last [`KEPT_STREAM_BYTES`] bytes of a text, or fewer, so that no character is cut.
pub fn kept_stream_end(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(KEPT_STREAM_BYTES))..]
}

impl ModelUsage {
    /// Adds two usages, each of which may be absent.
    pub fn sum_optional(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        }
    }
}

impl std::ops::Add for ModelUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            cached: self.cached + other.cached,
            by_tools: self.by_tools + other.by_tools,
            summaries: self.summaries + other.summaries,
            input_tokens: self.input_tokens + other.input_tokens,
            cached_tokens: self.cached_tokens + other.cached_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
            estimated: self.estimated || other.estimated,
            cost: match (self.cost, other.cost) {
                (Some(one), Some(other)) => Some(one + other),
                (one, other) => one.or(other),
            },
        }
    }
}

/// SHA-256 of a text, in hex.
pub fn sha256_of_text(text: &str) -> String {
    sha256_of_bytes(text.as_bytes())
}

/// Returns the SHA-256 of bytes, in hex.
pub fn sha256_of_bytes(bytes: &[u8]) -> String {
    use sha2::Digest;
    use std::fmt::Write;
    let mut hex = String::with_capacity(64);
    for byte in sha2::Sha256::digest(bytes) {
        write!(hex, "{byte:02x}").expect("memory can be written");
    }
    hex
}
