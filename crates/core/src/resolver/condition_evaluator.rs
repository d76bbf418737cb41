//! The source of the results of conditions: the evaluation itself, or assumed results.

use crate::conversation::{ConditionFailure, ConversationState, RunValue, SuccessCheck};
use ensemble_language::condition::{Condition, ConditionRead, EvaluateError};
use ensemble_language::plan::PlanEdge;

/// Gives the results of conditions. Within one decision, the same condition must always have the same result.
pub trait ConditionEvaluator {
    /// Returns whether the condition on the edge is true in this state.
    ///
    /// # Errors
    /// The condition cannot be evaluated.
    fn evaluate_condition(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError>;

    /// Returns whether the condition would hold after the end of the run, without limits: no agent starts or waits
    /// because of the result.
    ///
    /// # Errors
    /// The condition cannot be evaluated.
    fn evaluate_at_end(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        self.evaluate_condition(state, edge, condition)
    }

    /// The values that the condition read, for reports.
    fn list_reads(&self, state: &ConversationState, edge: &PlanEdge, condition: &Condition) -> Vec<ConditionRead>;

    /// The result of the run; `None` if there is none, or if outputs are not known, so that it cannot be evaluated.
    fn run_value(&self, state: &ConversationState) -> Option<RunValue>;

    /// The result of `success`; `None` if the ensemble declares none.
    ///
    /// # Errors
    /// The expression cannot be evaluated.
    fn evaluate_success(&self, state: &ConversationState) -> Option<Result<SuccessCheck, ConditionFailure>>;

    /// Every ready agent would wait for another one, so that agents run although they would wait.
    fn note_that_everyone_waits(&self) {}
}

/// Evaluates the conditions.
#[derive(Debug, Clone, Copy)]
pub struct DirectEvaluator;

impl ConditionEvaluator for DirectEvaluator {
    fn evaluate_condition(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        condition.evaluate(&state.edge_facts(edge))
    }

    fn list_reads(&self, state: &ConversationState, edge: &PlanEdge, condition: &Condition) -> Vec<ConditionRead> {
        condition.list_reads(&state.edge_facts(edge))
    }

    fn run_value(&self, state: &ConversationState) -> Option<RunValue> {
        state.run_value()
    }

    fn evaluate_success(&self, state: &ConversationState) -> Option<Result<SuccessCheck, ConditionFailure>> {
        state.check_success()
    }
}
