//! The history: all executions so far. They are stored once; conditions and results refer to them without a copy.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::compact_output::CompactOutput;
use super::failed_work::FailureCounts;
use super::given_answer::GivenAnswer;
use crate::request::AnswerRecord;
use crate::thread::StopReason;
use ensemble_language::condition::ConditionHistory;
use ensemble_language::data::{AgentRequest, ExecutionFailure, ModelUsage};

/// A finished execution, in the form for results and conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// The number of the turn, from 1.
    pub turn_number: u32,
    /// The agent.
    pub agent_name: Arc<str>,
    /// The number of the execution of the agent, from 1.
    pub execution: u32,
    /// The outputs that the execution read: the agent, and the number of its execution.
    pub reads: IndexMap<Arc<str>, u32>,
    /// The request that started the execution.
    pub request: Option<Arc<AgentRequest>>,
    /// The digest of the run's input at that time.
    pub input_digest: Arc<str>,
    /// The output; the failure in the form that dependent agents read, if the execution failed.
    pub(super) output: CompactOutput,
    /// The failure; `None` after a success.
    pub failure: Option<ExecutionFailure>,
    /// The parts of the execution.
    pub parts: FailureCounts,
    /// The tool calls of the model of the agent.
    pub tool_calls: FailureCounts,
    /// The number of the last attempt.
    pub attempt: u32,
    /// The usage of all attempts: tokens and cost.
    pub usage: Option<ModelUsage>,
    /// LLM: why the model stopped its last reply. Conditions do not read it.
    pub stop_reason: Option<StopReason>,
    /// The duration of the last attempt, in seconds.
    pub execution_time: f64,
    /// When the execution ended.
    pub timestamp: DateTime<Utc>,
    /// Input agents: the question, the answer, and who answered. Conditions do not read it.
    pub answer: Option<Box<AnswerRecord>>,
    /// The answers inside the execution: of people whom tools ask, and of nested runs. Conditions do not read them.
    pub answers: Box<[GivenAnswer]>,
}

/// All executions so far, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct HistoryEntries(pub Vec<HistoryEntry>);

impl ConditionHistory for HistoryEntries {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn field_value(&self, at: usize, name: &str) -> Option<Arc<Value>> {
        self.0.get(at)?.find_field_value(name)
    }
}

impl HistoryEntry {
    /// Returns the output, or the failure in the form that dependent agents read. Parses outputs that are stored as text.
    pub fn output_data(&self) -> Arc<Value> {
        self.output.to_value()
    }

    /// Returns whether the execution succeeded.
    pub fn is_success(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns the read outputs as JSON: agent names and execution numbers, the digest of the input, and the request.
    pub fn input_data(&self) -> Value {
        let mut data = json!({"dependencies": self.reads, "input_digest": self.input_digest});
        if let (Some(request), Value::Object(data)) = (&self.request, &mut data) {
            data.insert("request".into(), json!(request));
        }
        data
    }

    /// Returns the error message if the execution failed.
    fn error_message(&self) -> Option<&str> {
        self.failure
            .as_ref()
            .map(|ExecutionFailure { error, .. }| error.as_str())
    }

    /// Returns the value of the field with this name, for conditions. Returns `None` for an unknown field.
    fn find_field_value(&self, name: &str) -> Option<Arc<Value>> {
        let value = match name {
            "output_data" => return Some(self.output_data()),
            "turn_number" => json!(self.turn_number),
            "agent_name" => json!(self.agent_name),
            "execution" => json!(self.execution),
            "input_data" => self.input_data(),
            "execution_time" => json!(self.execution_time),
            "timestamp" => json!(self.timestamp),
            "success" => json!(self.is_success()),
            "error" => json!(self.error_message()),
            "attempt" => json!(self.attempt),
            "usage" => json!(self.usage),
            _ => return None,
        };
        Some(Arc::new(value))
    }
}

/// The form for results.
impl serde::Serialize for HistoryEntry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("turn_number", &self.turn_number)?;
        map.serialize_entry("agent_name", &self.agent_name)?;
        map.serialize_entry("input_data", &self.input_data())?;
        map.serialize_entry("output_data", &self.output)?;
        map.serialize_entry("execution_time", &self.execution_time)?;
        map.serialize_entry("timestamp", &self.timestamp)?;
        map.serialize_entry("success", &self.is_success())?;
        map.serialize_entry("error", &self.error_message())?;
        map.serialize_entry("attempt", &self.attempt)?;
        map.serialize_entry("usage", &self.usage)?;
        if let Some(reason) = self.stop_reason {
            map.serialize_entry("stop_reason", &reason)?;
        }
        if let Some(answer) = &self.answer {
            map.serialize_entry("answer", answer)?;
        }
        if !self.answers.is_empty() {
            map.serialize_entry("answers", &self.answers)?;
        }
        map.end()
    }
}
