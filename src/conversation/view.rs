//! How conditions see history and counts: through the state's own lists, nothing copied.

use std::sync::Arc;

use serde_json::{Value, json};

use super::state::HistoryEntry;
use crate::condition::{Counts, History};
use crate::data::Failure;
use crate::plan::{AgentId, Plan};

/// The executions so far, oldest first.
#[derive(Debug, Clone, Default)]
pub struct HistoryList(pub Vec<HistoryEntry>);

/// Executions so far of every agent.
#[derive(Debug, Clone)]
pub struct CountList {
    plan: Arc<Plan>,
    counts: Vec<u32>,
}

impl CountList {
    /// All at 0.
    pub fn new(plan: Arc<Plan>) -> Self {
        let counts = vec![0; plan.len()];
        Self { plan, counts }
    }

    /// One more.
    pub fn add(&mut self, id: AgentId) {
        self.counts[id.index()] += 1;
    }

    /// How often the agent has executed.
    pub fn of(&self, id: AgentId) -> u32 {
        self.counts[id.index()]
    }
}

impl Counts for CountList {
    fn count(&self, agent: &str) -> Option<u64> {
        self.plan.id(agent).map(|id| u64::from(self.of(id)))
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.plan.ids().map(|id| self.plan.name(id).clone()).collect()
    }
}

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
