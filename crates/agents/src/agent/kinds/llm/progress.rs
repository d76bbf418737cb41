//! What was said between an agent and its model in one execution: how it goes on, and what is not recorded yet.

use ensemble_core::request::PendingRequest;
use ensemble_core::runner::{Execution, ExecutionRecords};
use ensemble_core::thread::{Iteration, REJECTED, Role, StopReason};

/// The iterations of one execution, whether they happened in this attempt or before it was cut short.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) iterations: Vec<Iteration>,
    /// The number of iterations that the records contain.
    recorded: usize,
    /// The question for which a tool call waits.
    pub(crate) waits_for: Vec<PendingRequest>,
}

/// The next step of the execution.
#[derive(Debug, PartialEq)]
pub(crate) enum Due {
    /// The task is sent.
    Task,
    /// The last reply is sent back with its errors.
    Correction(String),
    /// The calls of the last reply are made, or their results are sent.
    Calls,
    /// The last reply is final, and becomes the output if it can.
    Judgement(String, StopReason),
}

/// Returns why the model stopped, as the metadata of the iteration states.
fn stop_reason(iteration: &Iteration) -> StopReason {
    iteration.stop_reason().unwrap_or(StopReason::EndTurn)
}

impl Said {
    /// Returns the recorded messages of the execution.
    pub(crate) fn before(records: &ExecutionRecords) -> Self {
        let iterations = records
            .before()
            .map_or_else(Vec::new, |before| before.iterations.clone());
        Self {
            recorded: iterations.len(),
            iterations,
            waits_for: Vec::new(),
        }
    }

    /// The session of an external program that was noted last.
    pub(crate) fn session(&self) -> Option<&str> {
        let mut noted = self.iterations.iter().rev();
        noted.find_map(|iteration| iteration.metadata.get("session")?.as_str())
    }

    pub(crate) fn due(&self) -> Due {
        let Some(last) = self.iterations.last() else {
            return Due::Task;
        };
        if let Some(errors) = last.metadata.get(REJECTED).and_then(serde_json::Value::as_str) {
            return Due::Correction(errors.to_owned());
        }
        let reply = last.messages.iter().rfind(|message| message.role == Role::Assistant);
        match reply {
            Some(reply) if last.tool_calls.is_empty() => Due::Judgement(reply.content.clone(), stop_reason(last)),
            _ => Due::Calls,
        }
    }

    /// Adds the iterations of a round, of which the records contain this many.
    pub(crate) fn add(&mut self, exchange: Vec<Iteration>, recorded: usize) {
        if recorded > 0 {
            self.recorded = self.iterations.len() + recorded;
        }
        self.iterations.extend(exchange);
    }

    /// The last reply does not match the schema.
    pub(crate) fn reject(&mut self, errors: &str) {
        if let Some(last) = self.iterations.last_mut() {
            last.metadata.insert(REJECTED.to_owned(), errors.into());
        }
    }

    /// Returns how many replies did not match the schema.
    pub(crate) fn rejected(&self) -> u32 {
        let rejected = self.iterations.iter().filter(|one| one.metadata.contains_key(REJECTED));
        u32::try_from(rejected.count()).unwrap_or(u32::MAX)
    }

    /// Records the iterations that are not recorded, with what was used in them.
    pub(crate) async fn record(&mut self, execution: &Execution) {
        let Execution { ledger, records, .. } = execution;
        ledger.close_round();
        if !records.is_recording() {
            return;
        }
        for iteration in self.iterations.iter().skip(self.recorded) {
            records.replied(iteration.clone(), ledger.record_usage()).await;
        }
        self.recorded = self.iterations.len();
    }

    /// The iterations that are in no record.
    pub(crate) fn unrecorded(mut self) -> Vec<Iteration> {
        self.iterations.split_off(self.recorded.min(self.iterations.len()))
    }
}
