//! The event of a part: one item of an agent with `for_each`.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::end::ExecutionEnd;
use crate::thread::{Thread, ThreadIteration};
use ensemble_language::data::{ExecutionFailure, ModelUsage};

/// The event of an ended attempt of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "PartEndedFields")]
pub struct PartAttemptEnded {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent.
    pub execution: u32,
    /// The number of the attempt of the part, from 1.
    pub attempt: u32,
    /// The position of the item in the list, from 0.
    pub part: u32,
    /// The name of the part, unique in the execution.
    pub key: Arc<str>,
    /// The number of items.
    pub count: u32,
    /// SHA-256 of the item, in hex.
    pub item_digest: Arc<str>,
    /// The result; in the journal the key is `output` or `failure`.
    #[serde(flatten)]
    pub end: ExecutionEnd,
    /// The duration of the attempt, in seconds.
    pub execution_time: f64,
    /// The usage of the attempt: tokens and cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ModelUsage>,
    /// The end of the text that the attempt wrote to stderr.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// Warnings for the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// LLM: the iterations of the attempt that no earlier record contains. What is remembered of all iterations of a
    /// successful part is added to the thread of its key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exchange: Vec<ThreadIteration>,
    /// The pause before the next attempt of the part, in seconds; `None`: there is no further attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<f64>,
    /// The result was copied from the run of which this run is a fork, and nothing was executed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
}

/// Deserialized form of a [`PartAttemptEnded`], with a default for every key that can be absent.
#[derive(Deserialize)]
struct PartEndedFields {
    turn: u32,
    agent: Arc<str>,
    execution: u32,
    attempt: u32,
    part: u32,
    key: Arc<str>,
    count: u32,
    item_digest: Arc<str>,
    output: Option<Arc<Value>>,
    failure: Option<ExecutionFailure>,
    execution_time: f64,
    usage: Option<ModelUsage>,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    exchange: Vec<ThreadIteration>,
    pause: Option<f64>,
    #[serde(default)]
    reused: bool,
}

impl From<PartEndedFields> for PartAttemptEnded {
    fn from(read: PartEndedFields) -> Self {
        Self {
            turn: read.turn,
            agent: read.agent,
            execution: read.execution,
            attempt: read.attempt,
            part: read.part,
            key: read.key,
            count: read.count,
            item_digest: read.item_digest,
            end: ExecutionEnd::from_fields(read.failure, read.output),
            execution_time: read.execution_time,
            usage: read.usage,
            stderr: read.stderr,
            warnings: read.warnings,
            exchange: read.exchange,
            pause: read.pause,
            reused: read.reused,
        }
    }
}

impl PartAttemptEnded {
    /// Returns whether the attempt is the last one of the part.
    pub fn is_final(&self) -> bool {
        self.pause.is_none()
    }

    /// Returns the failure of a failed attempt.
    pub fn failure(&self) -> Option<&ExecutionFailure> {
        match &self.end {
            ExecutionEnd::Succeeded(_) => None,
            ExecutionEnd::Failed(failure) => Some(failure),
        }
    }

    /// Returns the output of a successful attempt.
    pub fn output(&self) -> Option<&Arc<Value>> {
        match &self.end {
            ExecutionEnd::Succeeded(output) => Some(output),
            ExecutionEnd::Failed(_) => None,
        }
    }
}

/// Threads of the parts of an agent, by the key of the part.
pub type ThreadsByPartKey = HashMap<Arc<str>, Arc<Thread>>;

/// The ended parts and the failed attempts of an open execution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartsProgress {
    /// The parts that have ended, in the order of their ends.
    pub ended_parts: Vec<Arc<PartAttemptEnded>>,
    /// The parts of which only attempts have failed, by key.
    pub failed_attempts: HashMap<Arc<str>, FailedPartAttempts>,
}

/// The failed attempts of a part that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedPartAttempts {
    /// Their number.
    pub count: u32,
    /// The failure of the last one.
    pub last: ExecutionFailure,
    /// What they used.
    pub usage: Option<ModelUsage>,
}

impl PartsProgress {
    /// Adds the end of an attempt of a part. `recorded` are the iterations that were recorded during the attempt.
    pub fn add_attempt_end(&mut self, event: &PartAttemptEnded, recorded: Vec<ThreadIteration>) {
        match event.failure() {
            Some(failure) if !event.is_final() => {
                let before = self.failed_attempts.remove(&event.key);
                let failed = FailedPartAttempts {
                    count: before.as_ref().map_or(0, |before| before.count) + 1,
                    last: failure.clone(),
                    usage: ModelUsage::sum_optional(before.and_then(|before| before.usage), event.usage),
                };
                self.failed_attempts.insert(event.key.clone(), failed);
            }
            _ => {
                let mut event = event.clone();
                event.exchange.splice(..0, recorded);
                self.ended_parts.push(Arc::new(event));
            }
        }
    }
}
