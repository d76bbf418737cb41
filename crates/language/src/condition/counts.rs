//! Counts of executions that make a condition true, whatever else it reads.

use super::ast::{Comparison, Expr, Kind, Variable};
use super::truths::path;
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

/// All such comparisons, from left to right. `wanted`: the result of the expression that makes the condition true.
pub(super) fn counts_read(expr: &Expr, wanted: bool, counts: &mut Vec<CountRead>) {
    match &expr.kind {
        Kind::Not(operand) => counts_read(operand, !wanted, counts),
        Kind::Or(operands) if wanted => operands.iter().for_each(|one| counts_read(one, true, counts)),
        Kind::And(operands) if !wanted => operands.iter().for_each(|one| counts_read(one, false, counts)),
        Kind::Compare(left, rest) => {
            if let [(comparison, right)] = rest.as_slice() {
                counts.extend(count(left, *comparison, right, wanted, expr.span));
            }
        }
        _ => {}
    }
}

fn count(left: &Expr, comparison: Comparison, right: &Expr, wanted: bool, span: Span) -> Option<CountRead> {
    use Comparison::{Different, Equal, Greater, GreaterEqual, Less, LessEqual};
    let (agent, number, is_turned) = match (counted(left), counted(right)) {
        (Some(agent), None) => (agent, number(right)?, false),
        (None, Some(agent)) => (agent, number(left)?, true),
        _ => return None,
    };
    let from = match (comparison, is_turned, wanted) {
        (GreaterEqual, false, true) | (LessEqual, true, true) | (Less, false, false) | (Greater, true, false) => number,
        (Greater, false, true) | (Less, true, true) | (LessEqual, false, false) | (GreaterEqual, true, false) => {
            number + 1
        }
        (Equal, _, true) | (Different, _, false) => number,
        _ => return None,
    };
    Some(CountRead { agent, from, span })
}

/// The agent, if the expression is the number of its executions.
fn counted(expr: &Expr) -> Option<String> {
    let (Variable::Executions | Variable::AgentExecutionCount, mut keys) = path(expr)? else {
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
