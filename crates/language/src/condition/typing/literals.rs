//! Literals whose truth a condition asks for and that read false, such as `'no'`: an evaluation could only fail.

use crate::condition::CompileError;
use crate::condition::evaluation::operators::{COMPARE_IT, reads_false};
use crate::condition::expression::tree::{Expr, Kind};

/// Reports the first such literal of a condition.
pub(crate) fn check(condition: &Expr) -> Result<(), CompileError> {
    look(condition, true)
}

/// Likewise for an expression whose own truth nobody asks for.
pub(crate) fn check_value(expression: &Expr) -> Result<(), CompileError> {
    look(expression, false)
}

/// `asked`: whether the truth of this expression is asked for.
fn look(expr: &Expr, asked: bool) -> Result<(), CompileError> {
    match &expr.kind {
        Kind::Text(text) if asked && reads_false(text) => Err(CompileError {
            message: format!("the string '{}' would count as true", text.escape_debug()),
            span: expr.span,
            help: Some(format!("write `False`, or {COMPARE_IT}")),
        }),
        Kind::Not(operand) => look(operand, true),
        Kind::And(operands) | Kind::Or(operands) => {
            let last = operands.len().saturating_sub(1);
            let mut numbered = operands.iter().enumerate();
            numbered.try_for_each(|(at, operand)| look(operand, asked || at < last))
        }
        Kind::Coalesce(operands) => operands.iter().try_for_each(|operand| look(operand, asked)),
        Kind::Choice(choice) => {
            look(&choice.condition, true)?;
            look(&choice.then, asked)?;
            look(&choice.otherwise, asked)
        }
        _ => parts(expr),
    }
}

/// The parts of an expression that does not ask for their truth.
fn parts(expr: &Expr) -> Result<(), CompileError> {
    let mut found = Ok(());
    expr.parts(&mut |part| {
        if found.is_ok() {
            found = look(part, false);
        }
    });
    found
}
