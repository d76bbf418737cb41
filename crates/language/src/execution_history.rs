//! The history as an execution reads it: in templates, in Rhai scripts and on the stdin of a child process.
//!
//! Invariant: its entries are shared with the state, never copied.

use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use crate::condition::ConditionHistory;
use crate::data::render_output_text;

/// The executions that an agent can read, the oldest first. Entries are shared with the state of the conversation.
#[derive(Clone, Default)]
pub struct ExecutionHistory {
    history: Option<Arc<dyn ConditionHistory>>,
    /// The number of executions that were left out.
    from: usize,
}

impl ExecutionHistory {
    /// The fields of an entry. None of them differs when the same conversation is held again.
    pub const REPRODUCIBLE_FIELDS: [&str; 5] = ["agent_name", "turn_number", "execution", "output_data", "success"];

    /// Returns the latest executions of the history, at most `count`.
    pub fn from_latest(history: Arc<dyn ConditionHistory>, count: usize) -> Self {
        Self {
            from: history.len().saturating_sub(count),
            history: Some(history),
        }
    }

    /// Returns the number of executions.
    pub fn len(&self) -> usize {
        self.history.as_ref().map_or(0, |history| history.len() - self.from)
    }

    /// Returns whether there are no executions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a reproducible field of the entry with index `at`. Returns `None` if there is no such entry or field.
    pub fn reproducible_field_value(&self, at: usize, name: &str) -> Option<Arc<Value>> {
        if at >= self.len() || !Self::REPRODUCIBLE_FIELDS.contains(&name) {
            return None;
        }
        self.history.as_ref()?.field_value(self.from + at, name)
    }

    /// Returns any field of the entry with index `at`, including fields that differ when the conversation is repeated.
    pub fn find_any_field(&self, at: usize, name: &str) -> Option<Arc<Value>> {
        if at >= self.len() {
            return None;
        }
        self.history.as_ref()?.field_value(self.from + at, name)
    }

    /// Returns the agent of the entry with index `at`, and the number of its execution.
    pub fn find_execution(&self, at: usize) -> Option<(Arc<str>, u32)> {
        let agent = self.reproducible_field_value(at, "agent_name")?;
        let execution = self.reproducible_field_value(at, "execution")?.as_u64()?;
        Some((agent.as_str()?.into(), u32::try_from(execution).ok()?))
    }

    /// Renders the executions so far as Markdown blocks with headings.
    pub fn render_transcript(&self) -> String {
        let blocks: Vec<String> = (0..self.len()).filter_map(|at| self.render_block(at)).collect();
        blocks.join("\n\n")
    }

    /// Renders one entry as a heading and its output or error. Returns `None` if there is no such entry.
    fn render_block(&self, at: usize) -> Option<String> {
        let agent = self.reproducible_field_value(at, "agent_name")?;
        let (agent, turn) = (agent.as_str()?, self.reproducible_field_value(at, "turn_number")?);
        let output = self.reproducible_field_value(at, "output_data")?;
        let is_failure = *self.reproducible_field_value(at, "success")? == Value::Bool(false);
        Some(
            match output.get("error").and_then(Value::as_str).filter(|_| is_failure) {
                Some(error) => format!("## {agent} failed in turn {turn}\n{error}"),
                None => format!("## {agent} in turn {turn}\n{}", render_output_text(&output)),
            },
        )
    }

    /// Returns a serializable view of the entry with index `at`.
    pub fn serializable_entry(&self, at: usize) -> impl Serialize + '_ {
        SerializableEntry(self, at)
    }
}

impl Serialize for ExecutionHistory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entries = serializer.serialize_seq(Some(self.len()))?;
        for at in 0..self.len() {
            entries.serialize_element(&self.serializable_entry(at))?;
        }
        entries.end()
    }
}

impl fmt::Debug for ExecutionHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Past({} executions)", self.len())
    }
}

struct SerializableEntry<'a>(&'a ExecutionHistory, usize);

impl Serialize for SerializableEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(ExecutionHistory::REPRODUCIBLE_FIELDS.len()))?;
        for name in ExecutionHistory::REPRODUCIBLE_FIELDS {
            map.serialize_entry(name, &self.0.reproducible_field_value(self.1, name))?;
        }
        map.end()
    }
}
