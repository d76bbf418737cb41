//! Counts of executions that make a condition true, whatever else it reads.

use super::super::expression::tree::{Comparison, Expr, Kind, Variable};
use super::paths::find_path;
use super::polarity::{step_for, swap_sides, visit_sufficient};
use crate::source::Span;

/// `executions.writer >= 3`, where it is enough to make the condition true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountRead {
    /// The agent whose executions are counted.
    pub agent: String,
    /// The number of executions with which it becomes true.
    pub from: u64,
    /// The bytes of the comparison.
    pub span: Span,
}

/// Adds all such comparisons, from left to right.
pub(in super::super) fn counts_read(expr: &Expr, counts: &mut Vec<CountRead>) {
    visit_sufficient(expr, true, &mut |part, answer| {
        if let Kind::Compare(left, rest) = &part.kind
            && let [(comparison, right)] = rest.as_slice()
        {
            counts.extend(count(left, *comparison, right, answer, part.span));
        }
    });
}

fn count(left: &Expr, comparison: Comparison, right: &Expr, answer: bool, span: Span) -> Option<CountRead> {
    use Comparison::{Different, Equal, Greater, GreaterEqual, Less, LessEqual};
    let (agent, number, comparison) = match (counted(left), counted(right)) {
        (Some(agent), None) => (agent, number(right)?, comparison),
        (None, Some(agent)) => (agent, number(left)?, swap_sides(comparison)),
        _ => return None,
    };
    // Only a count that grows makes the comparison true.
    let grows = matches!(
        (comparison, answer),
        (GreaterEqual | Greater | Equal, true) | (Less | LessEqual | Different, false)
    );
    let from = number.checked_add_signed(step_for(comparison, answer))?;
    grows.then_some(CountRead { agent, from, span })
}

/// The agent, if the expression is the number of its executions.
fn counted(expr: &Expr) -> Option<String> {
    let (Variable::Executions | Variable::AgentExecutionCount, mut keys) = find_path(expr)? else {
        return None;
    };
    let agent = keys.pop()?;
    keys.is_empty().then_some(agent)
}

fn number(expr: &Expr) -> Option<u64> {
    match expr.kind {
        Kind::Int(value) => value.try_into().ok(),
        _ => None,
    }
}
