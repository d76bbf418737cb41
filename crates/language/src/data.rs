//! The values that agents exchange: JSON, shared where it would be dear to copy.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON object, in the order in which it was written.
pub type JsonMap = serde_json::Map<String, Value>;

/// The accumulated context: what agents have put there, by key, in the order of first appearance.
///
/// Values are shared with the history, so a snapshot costs one reference count and a conversation's
/// memory grows with what was said, not with how often it was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Context(IndexMap<Arc<str>, Arc<Value>>);

impl Context {
    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<&Arc<Value>> {
        self.0.get(key)
    }

    /// Stores `value` under `key`; an earlier value gives way and keeps its position.
    pub fn insert(&mut self, key: Arc<str>, value: Arc<Value>) {
        self.0.insert(key, value);
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is there no key at all?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Value>)> {
        self.0.iter()
    }
}

impl FromIterator<(Arc<str>, Arc<Value>)> for Context {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<Value>)>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

/// A request by another agent (`agent_requests`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Who asks.
    pub from: Arc<str>,
    /// What for.
    pub parameters: Value,
    /// The more, the sooner; 0 unless given.
    pub priority: i64,
}

/// A question for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What is asked.
    pub prompt: String,
    /// The answers that are allowed; empty: any.
    pub choices: Vec<String>,
    /// The agent of an inner conversation that asks, where the agent that waits is an ensemble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<Arc<str>>,
}

/// Why an execution failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Of which sort.
    pub kind: FailureKind,
    /// In words.
    pub error: String,
}

/// The sorts of failure; a closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A script ended with a status other than 0, or ran past a limit of its sandbox.
    Exit,
    /// A script was ended by a signal.
    Signal,
    /// Time was up.
    Timeout,
    /// More output than the cap allows.
    OutputTooLarge,
    /// The script said itself that it failed, or threw.
    Reported,
    /// The model or its provider failed.
    Model,
    /// The output does not match the agent's schema.
    Schema,
    /// It could not be started at all.
    Unavailable,
}

/// Tokens and requests of LLM executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Requests made of models.
    pub requests: u64,
    /// Of those, answered from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached: u64,
    /// Those of them that tools made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub by_tools: u64,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Not counted by the provider but estimated.
    pub estimated: bool,
    /// What they cost, where a profile says what its tokens cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// What is left of what a run's limits allow; `None` where there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Remaining {
    /// Of `max_total_tokens`.
    pub tokens: Option<u64>,
    /// Of `max_cost`.
    pub cost: Option<Cost>,
}

impl Remaining {
    /// What is left when that has been used.
    #[must_use]
    pub fn without(self, used: Usage) -> Self {
        Self {
            tokens: self
                .tokens
                .map(|tokens| tokens.saturating_sub(used.input_tokens + used.output_tokens)),
            cost: self
                .cost
                .map(|cost| Cost(cost.0.saturating_sub(used.cost.unwrap_or_default().0))),
        }
    }

    /// The limit of which nothing is left, by its name.
    pub fn used_up(self) -> Option<&'static str> {
        if self.tokens == Some(0) {
            Some("max_total_tokens")
        } else if self.cost == Some(Cost(0)) {
            Some("max_cost")
        } else {
            None
        }
    }
}

/// An amount of money, in the user's currency, exact to a billionth: sums do not depend on their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cost(u64);

impl Cost {
    const BILLIONTHS: f64 = 1e9;

    /// So much; nothing if it is no number or less than nothing.
    pub fn of(amount: f64) -> Self {
        Self((amount * Self::BILLIONTHS).round() as u64)
    }

    /// As a number.
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

/// Without more digits than it needs: `0.0042`.
impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.amount())
    }
}

/// A number.
impl Serialize for Cost {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.amount())
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::of)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Requests that the agent itself made of its model.
    pub fn own_requests(&self) -> u64 {
        self.requests.saturating_sub(self.by_tools)
    }

    /// The same, made by a tool.
    #[must_use]
    pub fn by_a_tool(self) -> Self {
        Self {
            by_tools: self.requests,
            ..self
        }
    }
}

impl Failure {
    /// A failure of that kind.
    pub fn new(kind: FailureKind, error: impl Into<String>) -> Self {
        Self {
            kind,
            error: error.into(),
        }
    }
}

impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            cached: self.cached + other.cached,
            by_tools: self.by_tools + other.by_tools,
            input_tokens: self.input_tokens + other.input_tokens,
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
pub fn digest(text: &str) -> String {
    use sha2::Digest;
    use std::fmt::Write;
    let mut hex = String::with_capacity(64);
    for byte in sha2::Sha256::digest(text.as_bytes()) {
        write!(hex, "{byte:02x}").expect("memory can be written");
    }
    hex
}
