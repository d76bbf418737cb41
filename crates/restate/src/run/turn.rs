//! The time limit of a turn, which the run keeps for its executions.

use std::sync::Arc;

use ensemble_core::executor::queue;
use restate_sdk::context::DurableFuture;
use restate_sdk::prelude::*;

use super::{Drive, Woken};

/// A turn whose time is measured: anew each time that the run goes on in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measured {
    leg: u32,
    turn: u32,
}

impl Drive<'_> {
    /// Measures the time of the open turn, from now on.
    pub(super) fn measure_turn(&mut self) {
        let Some(limit) = self.plan.ensemble().limits.turn_timeout else {
            return;
        };
        let now = self.open_turn();
        if self.measured != Some(now) {
            self.measured = Some(now);
            self.turn_is_up = false;
            let timer = self.ctx.sleep(limit).map(move |_| Woken::TurnIsUp(now));
            self.awaited.push(Box::pin(timer));
        }
    }

    fn open_turn(&self) -> Measured {
        Measured {
            leg: self.leg,
            turn: self.log.state().turn_count(),
        }
    }

    /// The time of a turn is up. Executions that have not begun have failed; those that wait for runs of their inner ensemble are
    /// performed with what has ended. A worker that performs one measures the time, too.
    pub(super) fn time_of_turn_is_up(&mut self, measured: Measured) {
        if measured != self.open_turn() {
            return;
        }
        self.turn_is_up = true;
        let pending = queue(self.log.state());
        let names: Vec<Arc<str>> = pending.iter().map(|agent| self.plan.name(*agent).clone()).collect();
        for agent in names {
            if !self.is_under_way(&agent) {
                self.not_begun_in_time(&agent);
            } else if !self.is_performed(&agent) {
                self.call(agent);
            }
        }
    }
}
