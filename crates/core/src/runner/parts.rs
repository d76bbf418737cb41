//! The parts of an execution: what an agent with `for_each` has from the run, and what each of its parts is.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::conversation::{PartAttemptEnded, PartsProgress, ThreadsByPartKey};
use ensemble_language::condition::ConditionSnapshot;

/// A part of an execution, as its runner receives it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionPart {
    /// The name of the item in templates and scripts.
    pub item_name: Arc<str>,
    /// The item.
    pub item: Arc<Value>,
    /// The position of the item in the list, from 0.
    pub index: u32,
    /// The name of the part.
    pub key: Arc<str>,
    /// The variable `part`: a map with `index`, `key` and `count`.
    pub variable: Arc<Value>,
}

/// Input of an execution with parts, in addition to the input of every execution.
#[derive(Clone)]
pub struct PartedExecutionInput {
    /// The values that the expressions of `for_each` read: the state at the start of the turn.
    pub facts: ConditionSnapshot,
    /// The parts that ended before this attempt.
    pub earlier_parts: PartsProgress,
    /// The warnings of the agent before this attempt.
    pub earlier_warnings: Vec<String>,
    /// Results that may be taken over from another run where the item of the key is the same.
    pub reusable_parts: Arc<HashMap<Arc<str>, Arc<PartAttemptEnded>>>,
    /// The threads by key.
    pub threads: Arc<ThreadsByPartKey>,
    /// Becomes true when the time of the turn is up: parts that have not ended have failed.
    pub time_is_up: watch::Receiver<bool>,
}

impl fmt::Debug for PartedExecutionInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("before", &self.earlier_parts)
            .finish_non_exhaustive()
    }
}
