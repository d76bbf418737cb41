//! Answers executions from a record: by turn and agent, never by position.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ensemble_core::conversation::{Canceller, Interruption};
use ensemble_core::request::PendingRequest;
use ensemble_core::runner::{AttemptOutcome, AttemptResult, BoxFuture, Execution, Runner};

/// The recorded result of one execution.
#[derive(Debug, Clone)]
pub(crate) enum Recorded {
    /// It ended so.
    Ended(AttemptResult),
    /// Its requests were never answered.
    Asked(Vec<PendingRequest>),
}

/// The recorded executions of one turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedTurn {
    /// What each came to.
    pub(crate) executions: HashMap<Arc<str>, Recorded>,
    /// What ended the recorded run while others were under way.
    pub(crate) cut_by: Option<Interruption>,
}

/// The turn of a record that is being decided again. Whoever reads the record sets it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recording(Arc<Mutex<RecordedTurn>>);

/// Answers for every agent from one recording.
pub(crate) struct RecordedRunner(pub(crate) Recording);

impl Recording {
    /// From now on this turn is told of.
    pub(crate) fn set(&self, turn: RecordedTurn) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = turn;
    }

    /// Takes the result of the agent in this turn; a recording returns it once.
    fn take(&self, agent: &str) -> AttemptOutcome {
        let mut turn = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match turn.executions.remove(agent) {
            Some(Recorded::Ended(observation)) => AttemptOutcome::Recorded(observation),
            Some(Recorded::Asked(requests)) => AttemptOutcome::NeedsInput(requests),
            // Executions that were under way when the record was cut have no end in it.
            None => AttemptOutcome::Interrupted(
                turn.cut_by
                    .clone()
                    .unwrap_or(Interruption::Cancelled { by: Canceller::Signal }),
            ),
        }
    }
}

impl Runner for RecordedRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(std::future::ready(self.0.take(&execution.agent_name)))
    }
}
