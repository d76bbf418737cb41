//! Turns of scripts that run inside the worker: the worker of the workflow performs several turns, and the engine stores them together.
//!
//! Invariant: such turns have no effects and cost nothing, so they are repeated if the worker is lost before the engine has stored them.

use std::time::Duration;

use ensemble_core::conversation::TurnStarted;
use ensemble_remote::protocol::decode_record_lines;
use ensemble_runs::local_turns::{LocalTurnsEnd, list_local_agents};
use restate_sdk::context::DurableFuture;
use restate_sdk::prelude::*;

use super::{WorkflowRunDrive, WorkflowWakeReason};

impl WorkflowRunDrive<'_> {
    /// Returns whether all executions of a turn can be performed by the worker of the workflow.
    pub(super) fn is_local_turn(&mut self, turn: &TurnStarted) -> bool {
        if self.are_turns_large {
            return false;
        }
        let agents = self.local_agents.get_or_insert_with(|| list_local_agents(&self.plan));
        turn.starts.iter().all(|start| agents.contains(&start.agent))
    }

    /// Performs the next turns, until another agent is next, and commits them.
    pub(super) async fn perform_local_turns(&mut self) -> HandlerResult<()> {
        self.log.store_records();
        let (worker, start, prepared) = (self.worker.clone(), self.start.clone(), self.prepared.clone());
        let state = self.log.run_state().clone();
        let perform = || async move { Ok(Json(worker.perform_local_turns(&start, prepared, state).await)) };
        let performed = match self.ctx.run(perform).name("turns").await {
            Ok(performed) => performed.into_inner(),
            Err(_cancelled) => return Ok(self.handle_cancellation().await?),
        };
        let records = decode_record_lines(&performed.lines).map_err(|error| TerminalError::new(error.to_string()))?;
        self.log.renumber_and_commit_records(records);
        match performed.end {
            LocalTurnsEnd::OtherAgents => {}
            LocalTurnsEnd::TooLarge => self.are_turns_large = true,
            LocalTurnsEnd::Pause => self.observe_limits().await?,
        }
        Ok(())
    }

    /// Observes the time limit of the run and its cancellation, which nothing else does while only local turns are performed.
    async fn observe_limits(&mut self) -> HandlerResult<()> {
        let timer = self.ctx.sleep(Duration::ZERO);
        self.wake_futures
            .push(Box::pin(timer.map(|_| WorkflowWakeReason::PauseEnded)));
        self.wait_for_wake().await
    }
}
