//! The history as an execution reads it: in templates, in Rhai scripts and on the stdin of a child process.
//!
//! Invariant: its entries are shared with the state, never copied.

use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use crate::condition::History;
use crate::data::output_text;

/// Executions, the oldest first. They are shared with the state of the conversation.
#[derive(Clone, Default)]
pub struct Past {
    history: Option<Arc<dyn History>>,
    /// The number of executions that were left out.
    from: usize,
}

impl Past {
    /// The fields of an entry. None of them differs when the same conversation is held again.
    pub const FIELDS: [&str; 5] = ["agent_name", "turn_number", "execution", "output_data", "success"];

    /// The latest executions of the history, at most this many.
    pub fn latest(history: Arc<dyn History>, count: usize) -> Self {
        Self {
            from: history.len().saturating_sub(count),
            history: Some(history),
        }
    }

    /// The number of executions.
    pub fn len(&self) -> usize {
        self.history.as_ref().map_or(0, |history| history.len() - self.from)
    }

    /// Returns whether there are no executions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A field of entry `at`, from 0; `None`: there is no such entry or field.
    pub fn field(&self, at: usize, name: &str) -> Option<Arc<Value>> {
        if at >= self.len() || !Self::FIELDS.contains(&name) {
            return None;
        }
        self.history.as_ref()?.field(self.from + at, name)
    }

    /// The agent of entry `at`, and the number of its execution.
    pub fn executed(&self, at: usize) -> Option<(Arc<str>, u32)> {
        let agent = self.field(at, "agent_name")?;
        let execution = self.field(at, "execution")?.as_u64()?;
        Some((agent.as_str()?.into(), u32::try_from(execution).ok()?))
    }

    /// Renders the messages so far, as labelled blocks.
    pub fn transcript(&self) -> String {
        let blocks: Vec<String> = (0..self.len()).filter_map(|at| self.block(at)).collect();
        blocks.join("\n\n")
    }

    fn block(&self, at: usize) -> Option<String> {
        let agent = self.field(at, "agent_name")?;
        let (agent, turn) = (agent.as_str()?, self.field(at, "turn_number")?);
        let output = self.field(at, "output_data")?;
        let is_failure = *self.field(at, "success")? == Value::Bool(false);
        Some(
            match output.get("error").and_then(Value::as_str).filter(|_| is_failure) {
                Some(error) => format!("## {agent} failed in turn {turn}\n{error}"),
                None => format!("## {agent} in turn {turn}\n{}", output_text(&output)),
            },
        )
    }

    /// Entry `at` as a value that can be written.
    pub fn entry(&self, at: usize) -> impl Serialize + '_ {
        Entry(self, at)
    }
}

impl Serialize for Past {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entries = serializer.serialize_seq(Some(self.len()))?;
        for at in 0..self.len() {
            entries.serialize_element(&self.entry(at))?;
        }
        entries.end()
    }
}

impl fmt::Debug for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Past({} executions)", self.len())
    }
}

struct Entry<'a>(&'a Past, usize);

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Past::FIELDS.len()))?;
        for name in Past::FIELDS {
            map.serialize_entry(name, &self.0.field(self.1, name))?;
        }
        map.end()
    }
}
