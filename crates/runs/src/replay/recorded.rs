//! The recorded results of executions, by turn and agent, never by position.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ensemble_core::conversation::{RunCanceller, RunInterruption};
use ensemble_core::request::PendingRequest;
use ensemble_core::runner::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};

/// The recorded result of one execution.
#[derive(Debug, Clone)]
pub(crate) enum RecordedExecutionResult {
    /// The execution ended with this result.
    AttemptEnded(Box<AttemptResult>),
    /// The execution asked these requests, which were never answered.
    QuestionsAsked(Vec<PendingRequest>),
}

/// The recorded executions of one turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedTurn {
    /// The results by agent.
    pub(crate) executions: HashMap<Arc<str>, RecordedExecutionResult>,
    /// The interruption that ended the recorded run during the turn.
    pub(crate) cut_by: Option<RunInterruption>,
}

/// The recorded turn that is being replayed. The reader of the record sets the turn, and runners take its results.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedTurnRecording(Arc<Mutex<RecordedTurn>>);

/// A runner for all agents that returns the results of one recording.
pub(crate) struct ReplayRunner(pub(crate) SharedTurnRecording);

impl SharedTurnRecording {
    /// Sets the turn whose results are returned next.
    pub(crate) fn set_current_turn(&self, turn: RecordedTurn) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = turn;
    }

    /// Takes the recorded outcome of the agent in this turn. Returns an interruption if the record has no result, or if the result was
    /// taken before.
    fn take_attempt_outcome(&self, agent: &str) -> AttemptEnd {
        let mut turn = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match turn.executions.remove(agent) {
            Some(RecordedExecutionResult::AttemptEnded(observation)) => AttemptEnd::Recorded(*observation),
            Some(RecordedExecutionResult::QuestionsAsked(requests)) => AttemptEnd::NeedsInput(requests),
            // Executions that were under way when the record was cut have no end in it.
            None => AttemptEnd::Interrupted(turn.cut_by.clone().unwrap_or(RunInterruption::Cancelled {
                by: RunCanceller::Signal,
            })),
        }
    }
}

impl Runner for ReplayRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(std::future::ready(self.0.take_attempt_outcome(&execution.agent_name)))
    }
}
