//! Literals whose truth a condition asks for and that read false, such as `'no'`: an evaluation could only fail.

use crate::condition::CompileError;
use crate::condition::analysis::truths::as_any_all_comprehension;
use crate::condition::evaluation::operators::{COMPARE_HELP, is_false_word};
use crate::condition::expression::tree::{Comprehension, ConditionExpr, ExprKind};

/// Reports the first text literal that is a word for false and whose truth the condition asks for.
pub(crate) fn check_condition_literals(condition: &ConditionExpr) -> Result<(), CompileError> {
    check_literals(condition, true)
}

/// Reports such a literal in an expression whose own truth is not asked for.
pub(crate) fn check_expression_literals(expression: &ConditionExpr) -> Result<(), CompileError> {
    check_literals(expression, false)
}

/// Checks the literals of an expression. `asked`: the truth of this expression is asked for.
fn check_literals(expr: &ConditionExpr, asked: bool) -> Result<(), CompileError> {
    match &expr.kind {
        ExprKind::Text(text) if asked && is_false_word(text) => Err(CompileError {
            message: format!("the string '{}' would count as true", text.escape_debug()),
            span: expr.span,
            help: Some(format!("write `False`, or {COMPARE_HELP}")),
        }),
        ExprKind::Not(operand) => check_literals(operand, true),
        ExprKind::And(operands) | ExprKind::Or(operands) => {
            let last = operands.len().saturating_sub(1);
            let mut numbered = operands.iter().enumerate();
            numbered.try_for_each(|(at, operand)| check_literals(operand, asked || at < last))
        }
        ExprKind::Coalesce(operands) => operands.iter().try_for_each(|operand| check_literals(operand, asked)),
        ExprKind::IfElse(choice) => {
            check_literals(&choice.condition, true)?;
            check_literals(&choice.then, asked)?;
            check_literals(&choice.otherwise, asked)
        }
        ExprKind::Comprehension(comprehension) => check_comprehension_literals(comprehension, false),
        ExprKind::Call(function, arguments) if let Some(searched) = as_any_all_comprehension(function, arguments) => {
            check_comprehension_literals(searched, true)
        }
        _ => check_literals_in_parts(expr),
    }
}

/// Checks the literals of a comprehension. The truth of its filters is always asked for.
fn check_comprehension_literals(comprehension: &Comprehension, asked: bool) -> Result<(), CompileError> {
    check_literals(&comprehension.element, asked)?;
    comprehension.clauses.iter().try_for_each(|clause| {
        check_literals(&clause.source, false)?;
        let mut filters = clause.filters.iter();
        filters.try_for_each(|filter| check_literals(filter, true))
    })
}

/// Checks the parts of an expression that does not ask for their truth.
fn check_literals_in_parts(expr: &ConditionExpr) -> Result<(), CompileError> {
    let mut result = Ok(());
    expr.visit_parts(&mut |part| {
        if result.is_ok() {
            result = check_literals(part, false);
        }
    });
    result
}
