//! Output of a running execution, which the call of the execution takes step by step.
//!
//! Invariant: an execution continues from a record only when the journal of its call has the record.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::Record;
use ensemble_core::runner::BoxFuture;
use ensemble_remote::protocol::{ExecutionCallResult, ExecutionRequest, encode_record_lines};
use ensemble_runs::steps::RecordSink;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::fault_injection;

/// Next step of an execution: one entry in the journal of its call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ExecutionStep {
    /// Records of the execution, which continues when the journal has the records.
    Records(String),
    /// End of the execution, with the records after those of earlier steps.
    Ended(Box<ExecutionCallResult>),
    /// The worker does not perform the execution any more, or never did.
    Lost {
        /// Set if the execution might have started.
        has_begun: bool,
    },
}

/// Execution to be performed, with its records in the journal of its call.
#[derive(Debug, Clone, PartialEq)]
pub struct JournaledExecution {
    /// Request for the execution.
    pub work: ExecutionRequest,
    /// Records that workers left, as lines of a journal.
    pub lines: String,
    /// Starts of attempts since the last record, whose workers were lost.
    pub lost_starts: Vec<DateTime<Utc>>,
}

impl JournaledExecution {
    /// Creates an execution without records in the journal of its call.
    pub fn new(work: ExecutionRequest) -> Self {
        Self {
            work,
            lines: String::new(),
            lost_starts: Vec::new(),
        }
    }

    /// Adds records that the journal has. They contain the starts of all earlier attempts, which are cleared.
    pub fn push_journaled_records(&mut self, lines: &str) {
        self.lines.push_str(lines);
        self.lost_starts.clear();
    }

    /// Returns the result of the call: all records, with those of the last step. If the engine cannot store them, the result is an
    /// error with the records of the earlier steps.
    pub fn into_complete_result(mut self, last: ExecutionCallResult) -> ExecutionCallResult {
        let journaled = self.lines.len();
        self.lines.push_str(&last.lines);
        let mut result = ExecutionCallResult {
            lines: self.lines,
            ..last
        };
        if let Some(error) = find_excess(&result) {
            result.lines.truncate(journaled);
            result = ExecutionCallResult {
                lines: result.lines,
                is_stopped: result.is_stopped,
                lost_starts: result.lost_starts,
                error: Some(error),
                ..ExecutionCallResult::default()
            };
        }
        keep_storable_records(result)
    }

    /// Returns the result of a call that was cancelled before the end of the execution.
    pub fn into_stopped_result(self) -> ExecutionCallResult {
        keep_storable_records(ExecutionCallResult {
            lines: self.lines,
            lost_starts: self.lost_starts,
            is_stopped: true,
            ..ExecutionCallResult::default()
        })
    }
}

/// Returns the result; without its records, and with an error, if the engine cannot store them.
fn keep_storable_records(result: ExecutionCallResult) -> ExecutionCallResult {
    match find_excess(&result) {
        Some(error) => ExecutionCallResult {
            lines: String::new(),
            error: Some(error),
            ..result
        },
        None => result,
    }
}

/// The largest result that is stored, in bytes of JSON. The engine's own limit for a message is 32 MiB.
const LARGEST_RESULT: usize = 28 << 20;

/// Returns the error for something that the engine cannot store.
fn find_excess(stored: &impl Serialize) -> Option<String> {
    let length = serde_json::to_vec(stored).map_or(0, |text| text.len());
    (length > LARGEST_RESULT).then(|| {
        format!(
            "the records of the execution have {} MiB, and the engine stores at most {} MiB; write large outputs to files",
            length >> 20,
            LARGEST_RESULT >> 20
        )
    })
}

impl ExecutionStep {
    /// Returns the step, or the end of the execution with an error if the engine cannot store the step.
    #[must_use]
    pub fn limit_size(self) -> Self {
        match find_excess(&self) {
            Some(error) => Self::Ended(Box::new(ExecutionCallResult {
                error: Some(error),
                ..ExecutionCallResult::default()
            })),
            None => self,
        }
    }
}

/// The output of an execution that goes on here.
#[derive(Debug)]
pub struct RunningExecutionOutput {
    state: watch::Sender<ExecutionOutputState>,
    /// Number of the first step.
    first: usize,
}

/// Records and result of a running execution.
#[derive(Debug, Default)]
struct ExecutionOutputState {
    /// Records of each step.
    batches: Vec<String>,
    /// Number of batches that the journal of the call has.
    journaled: usize,
    result: Option<ExecutionCallResult>,
}

impl RunningExecutionOutput {
    /// Creates the output of an execution whose next step has this number.
    pub fn new(first: usize) -> Self {
        Self {
            state: watch::Sender::new(ExecutionOutputState::default()),
            first,
        }
    }

    /// Adds records, and waits until the journal of the call has them.
    async fn push_and_wait_until_journaled(&self, lines: String) {
        let mut number = 0;
        self.state.send_modify(|state| {
            state.batches.push(lines);
            number = state.batches.len();
        });
        let _ = self.state.subscribe().wait_for(|state| state.journaled >= number).await;
    }

    /// Ends the output with the result. Later results have no effect.
    pub fn set_result_once(&self, result: ExecutionCallResult) {
        self.state.send_modify(|state| {
            state.result.get_or_insert(result);
        });
    }

    /// Returns whether the execution has ended.
    pub fn has_ended(&self) -> bool {
        self.state.borrow().result.is_some()
    }

    /// Confirms that the journal has the earlier steps, and waits for the step with this number.
    pub async fn confirm_and_wait_for_step(&self, number: usize) -> ExecutionStep {
        let number = number.saturating_sub(self.first);
        self.state
            .send_modify(|state| state.journaled = state.journaled.max(number));
        let mut receiver = self.state.subscribe();
        let state = receiver.wait_for(|state| state.batches.len() > number || state.result.is_some());
        let Ok(state) = state.await else {
            return ExecutionStep::Lost { has_begun: true };
        };
        match (state.batches.get(number), &state.result) {
            (Some(lines), _) => ExecutionStep::Records(lines.clone()),
            (None, Some(result)) => ExecutionStep::Ended(Box::new(result.clone())),
            (None, None) => ExecutionStep::Lost { has_begun: true },
        }
    }

    /// Waits for the end of an execution that must stop. Returns all records from the step with this number on.
    pub async fn wait_for_all_remaining(&self, number: usize) -> ExecutionStep {
        let number = number.saturating_sub(self.first);
        self.state.send_modify(|state| state.journaled = usize::MAX);
        let mut receiver = self.state.subscribe();
        let Ok(state) = receiver.wait_for(|state| state.result.is_some()).await else {
            return ExecutionStep::Lost { has_begun: true };
        };
        let mut result = state.result.clone().unwrap_or_default();
        let before: String = state.batches.iter().skip(number).map(String::as_str).collect();
        result.lines.insert_str(0, &before);
        ExecutionStep::Ended(Box::new(result))
    }
}

/// Drop guard that ends the output with an error, if the execution is stopped by force.
pub struct OutputEndGuard(pub Arc<RunningExecutionOutput>);

impl Drop for OutputEndGuard {
    fn drop(&mut self) {
        self.0.set_result_once(ExecutionCallResult {
            error: Some("the execution was stopped".to_owned()),
            ..ExecutionCallResult::default()
        });
    }
}

/// Sink of the records of an execution, which waits until the journal of the call has the records.
pub struct JournaledRecordSink(pub Arc<RunningExecutionOutput>);

impl RecordSink for JournaledRecordSink {
    fn store_records(&mut self, records: Vec<Record>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            fault_injection::die_if_due();
            self.0
                .push_and_wait_until_journaled(encode_record_lines(&records))
                .await;
            fault_injection::die_if_due();
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(lines: &str) -> ExecutionCallResult {
        ExecutionCallResult {
            lines: lines.to_owned(),
            ..ExecutionCallResult::default()
        }
    }

    #[test]
    fn a_result_that_the_engine_cannot_store_is_an_error() {
        let large = "x".repeat(LARGEST_RESULT / 2 + 1);
        let step = ExecutionStep::Records(large.clone()).limit_size();
        assert_eq!(step, ExecutionStep::Records(large.clone()));
        let step = ExecutionStep::Records(large.repeat(2)).limit_size();
        assert!(matches!(&step, ExecutionStep::Ended(result) if result.error.is_some()));
        let work = ExecutionCallResult::default();
        let called = JournaledExecution {
            work: serde_json::from_str(r#"{"run": "r", "agent": "a", "records": 1}"#).expect("a work"),
            lines: large.clone(),
            lost_starts: Vec::new(),
        };
        assert_eq!(called.clone().into_complete_result(work).lines, large);
        let result = called.clone().into_complete_result(ended(&large));
        let error = result.error.expect("it is too large");
        assert!(error.starts_with("the records of the execution have 28 MiB"), "{error}");
        assert_eq!(result.lines, large, "what was paid before stays");
        let called = JournaledExecution {
            lines: large.repeat(2),
            ..called
        };
        let result = called.clone().into_complete_result(ended("x"));
        assert!(result.error.is_some() && result.lines.is_empty());
        let stopped = called.into_stopped_result();
        assert!(stopped.is_stopped && stopped.error.is_some() && stopped.lines.is_empty());
    }

    #[tokio::test]
    async fn an_execution_continues_when_its_records_are_in_the_journal() {
        let output = Arc::new(RunningExecutionOutput::new(0));
        let pushed = output.clone();
        let mut pushing = tokio::spawn(async move { pushed.push_and_wait_until_journaled("one".to_owned()).await });
        let records = |lines: &str| ExecutionStep::Records(lines.to_owned());
        assert_eq!(output.confirm_and_wait_for_step(0).await, records("one"));
        // A repeated call takes the same step.
        assert_eq!(output.confirm_and_wait_for_step(0).await, records("one"));
        tokio::task::yield_now().await;
        assert!(!pushing.is_finished());
        let next = tokio::spawn({
            let output = output.clone();
            async move { output.confirm_and_wait_for_step(1).await }
        });
        (&mut pushing).await.expect("it continues");
        output.set_result_once(ended("two"));
        drop(OutputEndGuard(output.clone()));
        let step = next.await.expect("it ends");
        assert_eq!(step, ExecutionStep::Ended(Box::new(ended("two"))));
    }

    #[tokio::test]
    async fn what_a_stopped_execution_left_is_whole() {
        let output = Arc::new(RunningExecutionOutput::new(3));
        let pushed = output.clone();
        let pushing = tokio::spawn(async move {
            for lines in ["a", "b", "c"] {
                pushed.push_and_wait_until_journaled(lines.to_owned()).await;
            }
            pushed.set_result_once(ended("d"));
        });
        assert_eq!(
            output.confirm_and_wait_for_step(3).await,
            ExecutionStep::Records("a".to_owned())
        );
        assert_eq!(
            output.wait_for_all_remaining(4).await,
            ExecutionStep::Ended(Box::new(ended("bcd")))
        );
        pushing.await.expect("it ends");
    }
}
