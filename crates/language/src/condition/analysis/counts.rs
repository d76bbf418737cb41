//! Counts of executions that make a condition true, whatever else it reads.

use super::super::expression::tree::{ComparisonOperator, ConditionExpr, ConditionVariable, ExprKind};
use super::paths::find_literal_path;
use super::polarity::{boundary_step, swap_comparison_sides, visit_helpful_parts};
use crate::source::Span;

/// A comparison of an execution count with a literal that helps to make a condition true, such as `executions.writer >= 3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountThreshold {
    /// The agent whose executions are counted.
    pub agent: String,
    /// The number of executions with which it becomes true.
    pub threshold: u64,
    /// The bytes of the comparison.
    pub span: Span,
    /// Whether the comparison alone makes the condition true; otherwise other parts of an `and` must be true, too.
    pub is_sufficient: bool,
}

/// Adds all comparisons of execution counts that help to make the expression true, from left to right.
pub(in super::super) fn collect_count_thresholds(expr: &ConditionExpr, counts: &mut Vec<CountThreshold>) {
    visit_helpful_parts(expr, true, true, &mut |part, answer, is_sufficient| {
        let ExprKind::Compare(first, rest) = &part.kind else {
            return;
        };
        // All comparisons of a chain must be true; which one is false is not known.
        let is_chain = rest.len() > 1;
        if is_chain && !answer {
            return;
        }
        let mut left = &**first;
        for (comparison, right) in rest {
            if let Some((agent, threshold)) = find_count_threshold(left, *comparison, right, answer) {
                counts.push(CountThreshold {
                    agent,
                    threshold,
                    span: part.span,
                    is_sufficient: is_sufficient && !is_chain,
                });
            }
            left = right;
        }
    });
}

/// Returns the agent and the lowest count for which the comparison has this answer. Returns `None` unless a growing count gives the answer.
fn find_count_threshold(
    left: &ConditionExpr,
    comparison: ComparisonOperator,
    right: &ConditionExpr,
    answer: bool,
) -> Option<(String, u64)> {
    use ComparisonOperator::{Different, Equal, Greater, GreaterEqual, Less, LessEqual};
    let (agent, number, comparison) = match (execution_count_agent(left), execution_count_agent(right)) {
        (Some(agent), None) => (agent, as_literal_count(right)?, comparison),
        (None, Some(agent)) => (agent, as_literal_count(left)?, swap_comparison_sides(comparison)),
        _ => return None,
    };
    // Only a count that grows makes the comparison true.
    let grows = matches!(
        (comparison, answer),
        (GreaterEqual | Greater | Equal, true) | (Less | LessEqual | Different, false)
    );
    let from = number.checked_add_signed(boundary_step(comparison, answer))?;
    grows.then_some((agent, from))
}

/// Returns the agent, if the expression is the number of executions of one agent.
fn execution_count_agent(expr: &ConditionExpr) -> Option<String> {
    let (ConditionVariable::Executions | ConditionVariable::AgentExecutionCount, mut keys) = find_literal_path(expr)?
    else {
        return None;
    };
    let agent = keys.pop()?;
    keys.is_empty().then_some(agent)
}

/// Returns the number of an integer literal that is not negative.
fn as_literal_count(expr: &ConditionExpr) -> Option<u64> {
    match expr.kind {
        ExprKind::Int(value) => value.try_into().ok(),
        _ => None,
    }
}
