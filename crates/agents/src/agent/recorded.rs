//! Answers executions from a record: by turn and agent, never by position.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{BoxFuture, Execution, Observation, Observed, Runner};
use ensemble_core::conversation::{Canceller, Interruption};
use ensemble_language::data::Question;

/// What a record says of one execution.
#[derive(Debug, Clone)]
pub enum Recorded {
    /// It ended so.
    Ended(Observation),
    /// Its question was never answered.
    Asked(Question),
}

/// What a record says of the executions of one turn.
#[derive(Debug, Clone, Default)]
pub struct RecordedTurn {
    /// What each came to.
    pub executions: HashMap<Arc<str>, Recorded>,
    /// What ended the recorded run while others were under way.
    pub cut_by: Option<Interruption>,
}

/// The turn of a record that is being decided again. Whoever reads the record sets it.
#[derive(Debug, Clone, Default)]
pub struct Recording(Arc<Mutex<RecordedTurn>>);

/// Answers for every agent from one recording.
pub struct RecordedRunner(pub Recording);

impl Recording {
    /// From now on this turn is told of.
    pub fn set(&self, turn: RecordedTurn) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = turn;
    }

    /// What the agent came to in this turn; a recording gives it once.
    fn take(&self, agent: &str) -> Observed {
        let mut turn = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match turn.executions.remove(agent) {
            Some(Recorded::Ended(observation)) => Observed::Recorded(observation),
            Some(Recorded::Asked(question)) => Observed::NeedsInput(question),
            // Executions that were under way when the record was cut have no end in it.
            None => Observed::Interrupted(
                turn.cut_by
                    .clone()
                    .unwrap_or(Interruption::Cancelled { by: Canceller::Signal }),
            ),
        }
    }
}

impl Runner for RecordedRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, Observed> {
        Box::pin(std::future::ready(self.0.take(&execution.agent_name)))
    }
}
