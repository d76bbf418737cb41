//! End of a run before its executions: the executions stop, and leave their records.
//!
//! Invariant: the records of a stopped execution are committed before the interruption of the run, unless its worker does not stop the execution
//! in time.

use std::sync::Arc;

use ensemble_core::conversation::{Event, RunInterruption};
use ensemble_remote::protocol::{ExecutionCallResult, decode_record_lines};
use ensemble_runs::steps::rebuild_unrecorded_starts;
use restate_sdk::context::DurableFuture;
use restate_sdk::prelude::*;

use super::waits::STOP_TIME;
use super::{WorkflowRunDrive, WorkflowWakeReason};

impl WorkflowRunDrive<'_> {
    /// Stops the executions, commits their records, and commits the interruption. At a timeout, cancels the workflow's own calls.
    pub(super) async fn stop_and_commit_interruption(&mut self, cause: RunInterruption) {
        if matches!(cause, RunInterruption::Timeout) {
            // The calls under way end with the run: the engine cancels what a cancelled workflow called.
            self.ctx.invocation_handle(self.ctx.invocation_id().to_owned()).cancel();
            self.own_cancels += 1;
            // This run ends before it hears of that, so it tells the runs inside itself.
            self.cancel_nested_runs(|_| true);
        }
        if self.under_way.iter().any(|called| called.is_performed) {
            self.log.publish_stopping(true);
            let timer = self.ctx.sleep(STOP_TIME).map(|_| WorkflowWakeReason::StopTimedOut);
            self.wake_futures.push(Box::pin(timer));
            self.wait_until_calls_stopped().await;
            self.log.publish_stopping(false);
        }
        self.log.commit_events([Event::Interrupted(cause)]);
        self.log.store_records();
    }

    /// Waits until all calls of executions have returned, at most until the timer. Commits their records.
    async fn wait_until_calls_stopped(&mut self) {
        while self.under_way.iter().any(|called| called.is_performed) {
            self.log.store_records();
            match self.wake_futures.next().await {
                Ok(Some((_, WorkflowWakeReason::ExecutionDone(agent, Ok(done))))) => {
                    self.commit_stopped_execution(&agent, done)
                }
                Ok(Some((_, WorkflowWakeReason::ExecutionDone(agent, Err(_cancelled))))) => {
                    self.set_running_call(&agent, false)
                }
                Ok(Some((_, WorkflowWakeReason::StopTimedOut)) | None) => return,
                // What else happens now has no effect.
                Ok(Some(_)) => {}
                Err(_cancelled) => self.own_cancels = self.own_cancels.saturating_sub(1),
            }
        }
    }

    /// Commits the records of an execution that was stopped, or its end.
    fn commit_stopped_execution(&mut self, agent: &Arc<str>, done: ExecutionCallResult) {
        self.set_running_call(agent, false);
        if done.is_stopped {
            self.commit_unended_records(agent, done);
        } else if done.error.is_none() && done.wants.is_empty() {
            self.commit_execution_result(agent, Ok(done));
        }
    }

    /// Commits the records of an execution that has not ended, and the starts of lost attempts.
    pub(super) fn commit_unended_records(&mut self, agent: &Arc<str>, done: ExecutionCallResult) {
        self.log
            .renumber_and_commit_records(decode_record_lines(&done.lines).unwrap_or_default());
        let starts = rebuild_unrecorded_starts(self.log.run_state(), agent, &done.lost_starts);
        self.log.renumber_and_commit_records(starts);
    }
}
