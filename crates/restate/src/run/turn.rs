//! Time limit of a turn, which the workflow measures for its executions.

use std::sync::Arc;

use ensemble_core::executor::list_pending_executions;
use restate_sdk::context::DurableFuture;
use restate_sdk::prelude::*;

use super::{WorkflowRunDrive, WorkflowWakeReason};

/// Turn whose time is measured. Each segment of the run measures the turn anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MeasuredTurnKey {
    leg: u32,
    turn: u32,
}

impl WorkflowRunDrive<'_> {
    /// Starts the timer for the time limit of the open turn, unless the timer is running.
    pub(super) fn start_turn_timer(&mut self) {
        let Some(limit) = self.plan.ensemble().limits.turn_timeout else {
            return;
        };
        let now = self.open_turn_measure();
        if self.measured_turn != Some(now) {
            self.measured_turn = Some(now);
            self.turn_timed_out = false;
            let timer = self
                .ctx
                .sleep(limit)
                .map(move |_| WorkflowWakeReason::TurnTimedOut(now));
            self.wake_futures.push(Box::pin(timer));
        }
    }

    /// Returns the open turn in this segment.
    fn open_turn_measure(&self) -> MeasuredTurnKey {
        MeasuredTurnKey {
            leg: self.segment,
            turn: self.log.run_state().turn_count(),
        }
    }

    /// Applies the time limit of the turn, if the turn is still open. Fails executions that have not started, and calls executions again that
    /// wait for nested runs. A worker measures the time of its own execution.
    pub(super) fn apply_turn_timeout(&mut self, measured: MeasuredTurnKey) {
        if measured != self.open_turn_measure() {
            return;
        }
        self.turn_timed_out = true;
        let pending = list_pending_executions(self.log.run_state());
        let names: Vec<Arc<str>> = pending
            .iter()
            .map(|agent| self.plan.agent_name(*agent).clone())
            .collect();
        for agent in names {
            if !self.is_execution_unfinished(&agent) {
                self.commit_turn_timeout_failure(&agent);
            } else if !self.has_running_call(&agent) {
                self.call_execution(agent);
            }
        }
    }
}
