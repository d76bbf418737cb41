//! The time limit of a turn, which the run keeps for its executions.

use std::sync::Arc;

use ensemble_core::executor::list_pending_executions;
use restate_sdk::context::DurableFuture;
use restate_sdk::prelude::*;

use super::{WorkflowRunDrive, WorkflowWakeReason};

/// A turn whose time is measured: anew each time that the run goes on in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MeasuredTurnKey {
    leg: u32,
    turn: u32,
}

impl WorkflowRunDrive<'_> {
    /// Measures the time of the open turn, from now on.
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

    fn open_turn_measure(&self) -> MeasuredTurnKey {
        MeasuredTurnKey {
            leg: self.segment,
            turn: self.log.run_state().turn_count(),
        }
    }

    /// The time of a turn is up. Executions that have not begun have failed; those that wait for runs of their inner ensemble are
    /// performed with what has ended. A worker that performs one measures the time, too.
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
