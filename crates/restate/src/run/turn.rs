//! Time limit of a turn, which the workflow measures for its executions.

use std::sync::Arc;

use ensemble_core::executor::queue_executions;
use restate_sdk::context::DurableFuture;
use restate_sdk::prelude::*;

use super::{RunDrive, WakeReason};

/// Turn whose time is measured. Each segment of the run measures the turn anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MeasuredTurn {
    leg: u32,
    turn: u32,
}

impl RunDrive<'_> {
    /// Starts the timer for the time limit of the open turn, unless the timer is running.
    pub(super) fn measure_turn(&mut self) {
        let Some(limit) = self.plan.ensemble().limits.turn_timeout else {
            return;
        };
        let now = self.open_turn_measure();
        if self.measured_turn != Some(now) {
            self.measured_turn = Some(now);
            self.turn_timed_out = false;
            let timer = self.ctx.sleep(limit).map(move |_| WakeReason::TurnTimedOut(now));
            self.wake_futures.push(Box::pin(timer));
        }
    }

    /// Returns the open turn in this segment.
    fn open_turn_measure(&self) -> MeasuredTurn {
        MeasuredTurn {
            leg: self.segment,
            turn: self.log.run_state().turn_count(),
        }
    }

    /// Applies the time limit of the turn, if the turn is still open. Fails executions that have not started, and calls executions again that
    /// wait for nested runs. A worker measures the time of its own execution.
    pub(super) fn handle_turn_timeout(&mut self, measured: MeasuredTurn) {
        if measured != self.open_turn_measure() {
            return;
        }
        self.turn_timed_out = true;
        let pending = queue_executions(self.log.run_state());
        let names: Vec<Arc<str>> = pending
            .iter()
            .map(|agent| self.plan.agent_name(*agent).clone())
            .collect();
        for agent in names {
            if !self.is_under_way(&agent) {
                self.commit_start_timeout(&agent);
            } else if !self.is_performed(&agent) {
                self.call_execution(agent);
            }
        }
    }
}
