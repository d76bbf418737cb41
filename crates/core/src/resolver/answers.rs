//! The source of the results of conditions: the evaluation itself, or assumed results.

use crate::conversation::{ConversationState, RunValue};
use ensemble_language::condition::{Condition, EvaluateError, Read};
use ensemble_language::plan::Edge;

/// Gives the results of conditions. Within one decision, the same condition must always have the same result.
pub trait Answers {
    /// Returns whether the condition on the edge is true in this state.
    ///
    /// # Errors
    /// The condition cannot be evaluated.
    fn answer(&self, state: &ConversationState, edge: &Edge, condition: &Condition) -> Result<bool, EvaluateError>;

    /// The values that the condition read, for reports.
    fn reads(&self, state: &ConversationState, edge: &Edge, condition: &Condition) -> Vec<Read>;

    /// The result of the run; `None` if there is none, or if outputs are not known, so that it cannot be evaluated.
    fn run_value(&self, state: &ConversationState) -> Option<RunValue>;

    /// Every ready agent would wait for another one, so that agents run although they would wait.
    fn everyone_waits(&self) {}
}

/// Evaluates the conditions.
#[derive(Debug, Clone, Copy)]
pub struct Evaluated;

impl Answers for Evaluated {
    fn answer(&self, state: &ConversationState, edge: &Edge, condition: &Condition) -> Result<bool, EvaluateError> {
        condition.evaluate(&state.facts(edge))
    }

    fn reads(&self, state: &ConversationState, edge: &Edge, condition: &Condition) -> Vec<Read> {
        condition.reads(&state.facts(edge))
    }

    fn run_value(&self, state: &ConversationState) -> Option<RunValue> {
        state.run_value()
    }
}
