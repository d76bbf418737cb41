//! Answers executions from a record: by turn and agent, never by position.

use std::collections::HashMap;
use std::sync::Arc;

use super::{BoxFuture, Execution, Observation, Observed, Runner};
use crate::conversation::Interruption;
use crate::data::Question;

/// What a record says of one execution.
#[derive(Debug, Clone)]
pub enum Recorded {
    /// It ended so.
    Ended(Observation),
    /// Its question was never answered.
    Asked(Question),
}

/// What a record says of every execution.
#[derive(Debug, Default)]
pub struct Recording {
    executions: HashMap<(u32, Arc<str>), Recorded>,
    /// What ended the recorded run while executions were under way.
    pub cut_by: Option<Interruption>,
}

/// Answers for every agent from one recording.
pub struct RecordedRunner(pub Arc<Recording>);

impl Recording {
    /// Keeps what the execution of `agent` in `turn` came to; a later entry replaces an earlier one.
    pub fn insert(&mut self, turn: u32, agent: Arc<str>, recorded: Recorded) {
        self.executions.insert((turn, agent), recorded);
    }
}

impl Runner for RecordedRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, Observed> {
        let turn = execution.turn_count + 1;
        let observed = match self.0.executions.get(&(turn, execution.agent_name)) {
            Some(Recorded::Ended(observation)) => Observed::Recorded(observation.clone()),
            Some(Recorded::Asked(question)) => Observed::NeedsInput(question.clone()),
            // Executions that were under way when the record was cut have no end in it.
            None => Observed::Interrupted(self.0.cut_by.unwrap_or(Interruption::Terminated)),
        };
        Box::pin(std::future::ready(observed))
    }
}
