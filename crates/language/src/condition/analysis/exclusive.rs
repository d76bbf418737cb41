//! Two conditions that can never be true together.

use super::super::expression::tree::{ConditionExpr, ConditionVariable, ExprKind};
use super::super::typing::verdict::StaticResult;
use super::super::{Condition, ParsedCondition};

impl ParsedCondition {
    /// Returns whether this condition and the other condition can never both be true for the same values. `agent` and
    /// `other_agent` are the indexes of the agents whose outputs are `output`.
    pub fn is_exclusive_with(&self, agent: usize, other: &Self, other_agent: usize) -> bool {
        let conjunction = format!(
            "({}\n) and ({}\n)",
            self.text_with_output_placeholder(agent),
            other.text_with_output_placeholder(other_agent)
        );
        Condition::parse(&conjunction).is_ok_and(|both| both.static_result() == StaticResult::AlwaysFalse)
    }

    /// Returns whether the condition reads nothing but `output`, `input` and `inputs`.
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

    /// Returns the text with a placeholder for `output`: equal placeholders for the same agent, and different from any user's text.
    fn text_with_output_placeholder(&self, agent: usize) -> String {
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

/// Calls `visit` with every variable in the expression, and with the expression that is the variable.
fn visit_variables(expr: &ConditionExpr, visit: &mut impl FnMut(&ConditionExpr, ConditionVariable)) {
    if let ExprKind::Variable(variable) = expr.kind {
        visit(expr, variable);
    }
    expr.visit_parts(&mut |part| visit_variables(part, visit));
}
