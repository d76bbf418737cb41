//! The executions so far: kept once, shown to conditions and in results without a copy.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde_json::{Value, json};

use ensemble_language::condition::History;
use ensemble_language::data::{Failure, Request, Usage};

/// One execution of the past, as results and conditions show it.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// The turn, from 1.
    pub turn_number: u32,
    /// The agent.
    pub agent_name: Arc<str>,
    /// Which execution of the agent, from 1.
    pub execution: u32,
    /// What it read: agents, and which of their executions.
    pub reads: IndexMap<Arc<str>, u32>,
    /// The request that started it.
    pub request: Option<Arc<Request>>,
    /// Digest of the run's input at the time.
    pub input_digest: Arc<str>,
    /// Its output; `{error, kind}` when it failed.
    pub output_data: Arc<Value>,
    /// Why it failed; `None` when it succeeded.
    pub failure: Option<Failure>,
    /// The attempt that ended it.
    pub attempt: u32,
    /// What all its attempts cost.
    pub usage: Option<Usage>,
    /// Wall clock of the last attempt, in seconds.
    pub execution_time: f64,
    /// When it ended.
    pub timestamp: DateTime<Utc>,
}

/// The executions so far, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct HistoryList(pub Vec<HistoryEntry>);

impl History for HistoryList {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn field(&self, at: usize, name: &str) -> Option<Arc<Value>> {
        self.0.get(at)?.field(name)
    }

    fn fields(&self) -> &'static [&'static str] {
        &[
            "turn_number",
            "agent_name",
            "input_data",
            "output_data",
            "execution_time",
            "timestamp",
            "success",
            "error",
            "attempt",
            "usage",
        ]
    }
}

impl HistoryEntry {
    /// Did it succeed?
    pub fn success(&self) -> bool {
        self.failure.is_none()
    }

    /// What the execution read, by name and number: no copy of it.
    pub fn input_data(&self) -> Value {
        let mut data = json!({"dependencies": self.reads, "input_digest": self.input_digest});
        if let (Some(request), Value::Object(data)) = (&self.request, &mut data) {
            data.insert("request".into(), json!(request));
        }
        data
    }

    fn error(&self) -> Option<&str> {
        self.failure.as_ref().map(|Failure { error, .. }| error.as_str())
    }

    fn field(&self, name: &str) -> Option<Arc<Value>> {
        let value = match name {
            "output_data" => return Some(self.output_data.clone()),
            "turn_number" => json!(self.turn_number),
            "agent_name" => json!(self.agent_name),
            "input_data" => self.input_data(),
            "execution_time" => json!(self.execution_time),
            "timestamp" => json!(self.timestamp),
            "success" => json!(self.success()),
            "error" => json!(self.error()),
            "attempt" => json!(self.attempt),
            "usage" => json!(self.usage),
            _ => return None,
        };
        Some(Arc::new(value))
    }
}

/// As results show it.
impl serde::Serialize for HistoryEntry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("turn_number", &self.turn_number)?;
        map.serialize_entry("agent_name", &self.agent_name)?;
        map.serialize_entry("input_data", &self.input_data())?;
        map.serialize_entry("output_data", &self.output_data)?;
        map.serialize_entry("execution_time", &self.execution_time)?;
        map.serialize_entry("timestamp", &self.timestamp)?;
        map.serialize_entry("success", &self.success())?;
        map.serialize_entry("error", &self.error())?;
        map.serialize_entry("attempt", &self.attempt)?;
        map.serialize_entry("usage", &self.usage)?;
        map.end()
    }
}
