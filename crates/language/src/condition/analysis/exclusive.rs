//! Two conditions that can never be true together.

use super::super::expression::tree::{ConditionExpr, ConditionVariable, ExprKind};
use super::super::typing::verdict::StaticResult;
use super::super::{Condition, ParsedCondition};

impl ParsedCondition {
    /// Returns whether this condition and the other one can never both be true for the same values. What they read as
    /// `output` is the output of the agents with these numbers.
    pub fn is_exclusive_with(&self, agent: usize, other: &Self, other_agent: usize) -> bool {
        let conjunction = format!(
            "({}\n) and ({}\n)",
            self.replace_output_variable(agent),
            other.replace_output_variable(other_agent)
        );
        Condition::parse(&conjunction).is_ok_and(|both| both.static_result() == StaticResult::AlwaysFalse)
    }

    /// Returns whether it reads nothing but `output` and what the run was given: values that change only with a new
    /// output.
    pub fn reads_only_output_and_inputs(&self) -> bool {
        let mut is_only = true;
        visit_variables(&self.expr, &mut |_, variable| {
            is_only &= matches!(
                variable,
                ConditionVariable::Output | ConditionVariable::Input | ConditionVariable::Inputs
            );
        });
        is_only
    }

    /// Returns the text, with another expression for `output`: equal for the same agent, and different from what users
    /// write.
    fn replace_output_variable(&self, agent: usize) -> String {
        let mut spans = Vec::new();
        visit_variables(&self.expr, &mut |expr, variable| {
            if variable == ConditionVariable::Output {
                spans.push(expr.span);
            }
        });
        let mut text = self.text.to_string();
        spans.sort_unstable();
        for span in spans.into_iter().rev() {
            text.replace_range(
                span.start..span.end,
                &format!("outputs[\"the output of agent {agent}\"]"),
            );
        }
        text
    }
}

fn visit_variables(expr: &ConditionExpr, visit: &mut impl FnMut(&ConditionExpr, ConditionVariable)) {
    if let ExprKind::Variable(variable) = expr.kind {
        visit(expr, variable);
    }
    expr.visit_parts(&mut |part| visit_variables(part, visit));
}
