//! The keys of outputs of which a condition asks whether they are true, without a comparison.

use super::super::expression::tree::{Expr, Kind, Variable};
use super::paths::find_path;
use crate::source::Span;

/// `output.done`, `context.writer.done` or `outputs.writer.done`, where a condition asks for its truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruthRead {
    /// The output that is read.
    pub of: OutputOf,
    /// The key of the output.
    pub key: String,
    /// The bytes of the whole read.
    pub span: Span,
}

/// The output that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputOf {
    /// The agent that is depended on.
    Dependency,
    /// The agent that stores its output in the context under this key.
    Stored(String),
    /// The agent with this name.
    Agent(String),
}

/// All such reads, from left to right. `is_asked`: the truth of the whole expression is asked for.
pub(in super::super) fn truths_read(expr: &Expr, is_asked: bool, reads: &mut Vec<TruthRead>) {
    match &expr.kind {
        Kind::Not(operand) => truths_read(operand, true, reads),
        Kind::And(operands) | Kind::Or(operands) => {
            // The value of the last operand can be the value of the whole.
            let last = operands.len().saturating_sub(1);
            for (at, operand) in operands.iter().enumerate() {
                truths_read(operand, is_asked || at < last, reads);
            }
        }
        Kind::Coalesce(operands) => operands.iter().for_each(|one| truths_read(one, is_asked, reads)),
        Kind::Choice(choice) => {
            truths_read(&choice.condition, true, reads);
            truths_read(&choice.then, is_asked, reads);
            truths_read(&choice.otherwise, is_asked, reads);
        }
        Kind::Call(function, arguments) if function.is("bool") => {
            arguments.iter().for_each(|argument| truths_read(argument, true, reads));
        }
        _ => {
            if is_asked {
                reads.extend(read(expr));
            }
            expr.parts(&mut |part| truths_read(part, false, reads));
        }
    }
}

fn read(expr: &Expr) -> Option<TruthRead> {
    let (variable, mut steps) = find_path(expr)?;
    let key = steps.pop()?;
    let of = match (variable, steps.pop()) {
        (Variable::Output, None) => OutputOf::Dependency,
        (Variable::Context, Some(stored)) => OutputOf::Stored(stored),
        (Variable::Outputs, Some(agent)) => OutputOf::Agent(agent),
        _ => return None,
    };
    steps.is_empty().then_some(TruthRead {
        of,
        key,
        span: expr.span,
    })
}
