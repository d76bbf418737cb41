//! Progress of the exchange between an agent and its model in one execution: the next step, and the unrecorded iterations.

use crate::agent::chat::SESSION_KEY;
use ensemble_core::request::PendingRequest;
use ensemble_core::runner::{ExecutionInput, ExecutionRecorder};
use ensemble_core::thread::{MessageRole, REJECTED_KEY, StopReason, ThreadIteration};

/// Iterations of one execution, including those that an interrupted attempt recorded.
#[derive(Debug, Default)]
pub(crate) struct LlmExecutionProgress {
    pub(crate) iterations: Vec<ThreadIteration>,
    /// Number of iterations that the records contain.
    recorded: usize,
    /// Requests that a tool call waits for.
    pub(crate) waits_for: Vec<PendingRequest>,
}

/// Next step of an LLM execution: send the task, send a correction, run tool calls, or judge the reply.
#[derive(Debug, PartialEq)]
pub(crate) enum NextLlmStep {
    /// Send the task.
    Task,
    /// Send the last reply back with its errors.
    Correction(String),
    /// Make the calls of the last reply, or send their results.
    Calls,
    /// Judge the last reply, which is final and becomes the output if the reply is valid.
    Judgement(String, StopReason),
}

/// Returns the stop reason in the metadata of the iteration. Returns `EndTurn` if there is none.
fn stop_reason_or_end_turn(iteration: &ThreadIteration) -> StopReason {
    iteration.stop_reason().unwrap_or(StopReason::EndTurn)
}

impl LlmExecutionProgress {
    /// Restores the recorded iterations of the execution.
    pub(crate) fn from_records(records: &ExecutionRecorder) -> Self {
        let iterations = records
            .earlier_exchange()
            .map_or_else(Vec::new, |before| before.iterations.clone());
        Self {
            recorded: iterations.len(),
            iterations,
            waits_for: Vec::new(),
        }
    }

    /// Returns the id of the latest session of an external program in the iterations.
    pub(crate) fn latest_session_id(&self) -> Option<&str> {
        let mut iterations = self.iterations.iter().rev();
        iterations.find_map(|iteration| iteration.metadata.get(SESSION_KEY)?.as_str())
    }

    /// Decides the next step from the last iteration.
    pub(crate) fn next_step(&self) -> NextLlmStep {
        let Some(last) = self.iterations.last() else {
            return NextLlmStep::Task;
        };
        if let Some(errors) = last.metadata.get(REJECTED_KEY).and_then(serde_json::Value::as_str) {
            return NextLlmStep::Correction(errors.to_owned());
        }
        let reply = last
            .messages
            .iter()
            .rfind(|message| message.role == MessageRole::Assistant);
        match reply {
            Some(reply) if last.tool_calls.is_empty() => {
                NextLlmStep::Judgement(reply.content.clone(), stop_reason_or_end_turn(last))
            }
            _ => NextLlmStep::Calls,
        }
    }

    /// Appends the iterations of a round. `recorded` is the number of them that the records contain.
    pub(crate) fn append_iterations(&mut self, exchange: Vec<ThreadIteration>, recorded: usize) {
        if recorded > 0 {
            self.recorded = self.iterations.len() + recorded;
        }
        self.iterations.extend(exchange);
    }

    /// Marks the last reply as rejected, with the schema errors.
    pub(crate) fn mark_reply_rejected(&mut self, errors: &str) {
        if let Some(last) = self.iterations.last_mut() {
            last.metadata.insert(REJECTED_KEY.to_owned(), errors.into());
        }
    }

    /// Counts the replies that did not match the schema.
    pub(crate) fn count_rejected_replies(&self) -> u32 {
        let rejected = self
            .iterations
            .iter()
            .filter(|one| one.metadata.contains_key(REJECTED_KEY));
        u32::try_from(rejected.count()).unwrap_or(u32::MAX)
    }

    /// Records the iterations that have not been recorded, with their token usage.
    pub(crate) async fn record_new_iterations(&mut self, execution: &ExecutionInput) {
        let ExecutionInput { ledger, records, .. } = execution;
        ledger.end_round();
        if !records.is_recording() {
            return;
        }
        for iteration in self.iterations.iter().skip(self.recorded) {
            records
                .record_reply_and_wait(iteration.clone(), ledger.mark_usage_recorded())
                .await;
        }
        self.recorded = self.iterations.len();
    }

    /// Returns the iterations that have not been recorded.
    pub(crate) fn into_unrecorded_iterations(mut self) -> Vec<ThreadIteration> {
        self.iterations.split_off(self.recorded.min(self.iterations.len()))
    }
}
