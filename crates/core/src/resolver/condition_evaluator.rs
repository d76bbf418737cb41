//! The source of the results of conditions: the evaluation itself, or assumed results.

use std::cell::RefCell;
use std::sync::Arc;

use crate::conversation::{
    ConditionFailure, ConversationState, DeclaredRunResult, ExpressionReadWarning, SuccessCheck,
};
use ensemble_language::condition::{Condition, ConditionRead, EvaluateError};
use ensemble_language::plan::PlanEdge;

/// Source of the results of conditions. Within one decision, a condition must always have the same result.
pub trait ConditionEvaluator {
    /// Returns whether the condition of the edge is true in this state.
    ///
    /// # Errors
    /// The condition cannot be evaluated.
    fn evaluate_condition(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError>;

    /// Returns whether the condition would be true after the end of the run, without limits. The result starts no agent.
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

    /// Returns the result of a condition on which no decision depends. Returns `None` if the result is unknown.
    fn find_irrelevant_result(
        &self,
        _state: &ConversationState,
        _edge: &PlanEdge,
        _condition: &Condition,
    ) -> Option<bool> {
        None
    }

    /// Returns the values that the condition read, for reports.
    fn list_condition_reads(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Vec<ConditionRead> {
        condition.list_reads(&state.edge_condition_values(edge))
    }

    /// Returns the values that the condition read before its evaluation failed.
    fn list_reads_before_failure(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Vec<ConditionRead> {
        self.list_condition_reads(state, edge, condition)
    }

    /// Evaluates the declared result of the run. Returns `None` without a declared result, or if outputs are unknown.
    fn evaluate_declared_result(&self, state: &ConversationState) -> Option<DeclaredRunResult>;

    /// Evaluates `success`. Returns `None` if the ensemble declares no `success`.
    ///
    /// # Errors
    /// The expression cannot be evaluated.
    fn evaluate_success(&self, state: &ConversationState) -> Option<Result<SuccessCheck, ConditionFailure>>;

    /// Notifies the evaluator that every ready agent waits for another one, so that agents run although they would wait.
    fn on_all_agents_waiting(&self) {}
}

/// Evaluator that evaluates conditions and does nothing else.
#[derive(Debug, Clone, Copy)]
pub struct DirectEvaluator;

impl ConditionEvaluator for DirectEvaluator {
    fn evaluate_condition(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        condition.evaluate(&state.edge_condition_values(edge))
    }

    fn find_irrelevant_result(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Option<bool> {
        condition.evaluate(&state.edge_condition_values(edge)).ok()
    }

    fn list_reads_before_failure(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Vec<ConditionRead> {
        condition.list_reads_before_failure(&state.edge_condition_values(edge))
    }

    fn evaluate_declared_result(&self, state: &ConversationState) -> Option<DeclaredRunResult> {
        state.evaluate_declared_result()
    }

    fn evaluate_success(&self, state: &ConversationState) -> Option<Result<SuccessCheck, ConditionFailure>> {
        state.evaluate_success()
    }
}

/// Evaluator that also collects the first warning about each missing key in the run.
#[derive(Debug, Default)]
pub(super) struct WarningEvaluator {
    warnings: RefCell<Vec<ExpressionReadWarning>>,
}

impl WarningEvaluator {
    /// Returns the warnings about all conditions that were evaluated, in order.
    pub(super) fn into_warnings(self) -> Vec<ExpressionReadWarning> {
        self.warnings.into_inner()
    }

    /// Adds a warning, unless this evaluator or the run has a warning about the same read.
    fn add_warning_once(&self, state: &ConversationState, warning: ExpressionReadWarning) {
        let mut warnings = self.warnings.borrow_mut();
        let is_known =
            warnings.iter().any(|known| known.is_same_read(&warning)) || state.has_same_read_warning(&warning);
        if !is_known {
            warnings.push(warning);
        }
    }
}

impl ConditionEvaluator for WarningEvaluator {
    fn evaluate_condition(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        let (answer, notes) = condition.evaluate_with_notes(&state.edge_condition_values(edge));
        if !notes.is_empty() {
            let plan = state.plan();
            let at: Arc<str> = format!("{}.dependencies[{}]", plan.agent_name(edge.to), edge.position).into();
            let source = plan.agent_name(edge.from);
            for note in notes {
                self.add_warning_once(state, ExpressionReadWarning::from_note(&at, note, Some(source)));
            }
        }
        answer
    }

    fn evaluate_at_end(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        DirectEvaluator.evaluate_at_end(state, edge, condition)
    }

    fn find_irrelevant_result(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Option<bool> {
        DirectEvaluator.find_irrelevant_result(state, edge, condition)
    }

    fn list_reads_before_failure(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Vec<ConditionRead> {
        condition.list_reads_before_failure(&state.edge_condition_values(edge))
    }

    fn evaluate_declared_result(&self, state: &ConversationState) -> Option<DeclaredRunResult> {
        let value = state.evaluate_declared_result()?;
        for warning in &value.warnings {
            self.add_warning_once(state, warning.clone());
        }
        Some(value)
    }

    fn evaluate_success(&self, state: &ConversationState) -> Option<Result<SuccessCheck, ConditionFailure>> {
        let (check, warnings) = state.evaluate_success_with_warnings()?;
        for warning in warnings {
            self.add_warning_once(state, warning);
        }
        Some(check)
    }
}
