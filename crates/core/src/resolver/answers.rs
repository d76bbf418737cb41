//! Who says whether a condition is true: the condition itself, or somebody who asks what if.

use crate::conversation::ConversationState;
use ensemble_language::condition::{Condition, EvaluateError, Read};
use ensemble_language::plan::Edge;

/// Says whether conditions are true. Within one decision the same question must get the same answer.
pub trait Answers {
    /// Is the condition on the edge true in this state?
    ///
    /// # Errors
    /// There is no answer.
    fn answer(&self, state: &ConversationState, edge: &Edge, condition: &Condition) -> Result<bool, EvaluateError>;

    /// What the answer was read off, for reports.
    fn reads(&self, state: &ConversationState, edge: &Edge, condition: &Condition) -> Vec<Read>;
}

/// Asks the conditions themselves.
#[derive(Debug, Clone, Copy)]
pub struct Evaluated;

impl Answers for Evaluated {
    fn answer(&self, state: &ConversationState, edge: &Edge, condition: &Condition) -> Result<bool, EvaluateError> {
        condition.evaluate(&state.facts(edge))
    }

    fn reads(&self, state: &ConversationState, edge: &Edge, condition: &Condition) -> Vec<Read> {
        condition.reads(&state.facts(edge))
    }
}
