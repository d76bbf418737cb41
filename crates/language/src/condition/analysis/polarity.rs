//! The parts of an expression that decide whether it has a wanted answer.

use super::super::expression::tree::{ComparisonOperator, ConditionExpr, ExprKind};

/// The parts that give an expression a wanted answer.
pub(super) enum AnswerParts<'e> {
    /// Each of them must have the answer.
    All(&'e [ConditionExpr]),
    /// One of them must have the answer.
    Any(&'e [ConditionExpr]),
    /// It must have the opposite answer.
    Opposite(&'e ConditionExpr),
    /// The expression is not combined of others.
    Whole,
}

/// Splits an expression into the parts that decide whether it has the wanted answer.
pub(super) fn split_by_answer(expr: &ConditionExpr, answer: bool) -> AnswerParts<'_> {
    match (&expr.kind, answer) {
        (ExprKind::Not(operand), _) => AnswerParts::Opposite(operand),
        (ExprKind::And(operands), true) | (ExprKind::Or(operands), false) => AnswerParts::All(operands),
        (ExprKind::Or(operands), true) | (ExprKind::And(operands), false) => AnswerParts::Any(operands),
        _ => AnswerParts::Whole,
    }
}

/// Visits the parts each of which alone gives the expression the wanted answer. `visit` gets the part and its answer.
pub(super) fn visit_sufficient_parts<'e>(
    expr: &'e ConditionExpr,
    answer: bool,
    visit: &mut impl FnMut(&'e ConditionExpr, bool),
) {
    match split_by_answer(expr, answer) {
        AnswerParts::Opposite(operand) => visit_sufficient_parts(operand, !answer, visit),
        AnswerParts::Any(operands) => operands
            .iter()
            .for_each(|one| visit_sufficient_parts(one, answer, visit)),
        AnswerParts::All(_) => {}
        AnswerParts::Whole => visit(expr, answer),
    }
}

/// Visits the parts that help to give the expression the wanted answer. `visit` gets the part, its answer, and whether
/// the part alone is sufficient.
pub(super) fn visit_helpful_parts<'e>(
    expr: &'e ConditionExpr,
    answer: bool,
    is_sufficient: bool,
    visit: &mut impl FnMut(&'e ConditionExpr, bool, bool),
) {
    match split_by_answer(expr, answer) {
        AnswerParts::Opposite(operand) => visit_helpful_parts(operand, !answer, is_sufficient, visit),
        AnswerParts::Any(operands) => operands
            .iter()
            .for_each(|one| visit_helpful_parts(one, answer, is_sufficient, visit)),
        AnswerParts::All(operands) => operands
            .iter()
            .for_each(|one| visit_helpful_parts(one, answer, false, visit)),
        AnswerParts::Whole => visit(expr, answer, is_sufficient),
    }
}

/// Visits parts that together give the expression the wanted answer. Takes only the first of several alternatives.
pub(super) fn visit_one_solution<'e>(
    expr: &'e ConditionExpr,
    answer: bool,
    visit: &mut impl FnMut(&'e ConditionExpr, bool),
) {
    match split_by_answer(expr, answer) {
        AnswerParts::Opposite(operand) => visit_one_solution(operand, !answer, visit),
        AnswerParts::Any(operands) => operands
            .iter()
            .take(1)
            .for_each(|one| visit_one_solution(one, answer, visit)),
        AnswerParts::All(operands) => operands.iter().for_each(|one| visit_one_solution(one, answer, visit)),
        AnswerParts::Whole => visit(expr, answer),
    }
}

/// Returns the comparison with its sides swapped: `a < b` means `b > a`.
pub(super) fn swap_comparison_sides(comparison: ComparisonOperator) -> ComparisonOperator {
    match comparison {
        ComparisonOperator::Less => ComparisonOperator::Greater,
        ComparisonOperator::LessEqual => ComparisonOperator::GreaterEqual,
        ComparisonOperator::Greater => ComparisonOperator::Less,
        ComparisonOperator::GreaterEqual => ComparisonOperator::LessEqual,
        other => other,
    }
}

/// Returns the step (-1, 0 or 1) from a number to the nearest number for which the comparison has the wanted answer.
pub(super) fn boundary_step(comparison: ComparisonOperator, answer: bool) -> i64 {
    match (comparison, answer) {
        (ComparisonOperator::Less, true) | (ComparisonOperator::GreaterEqual, false) => -1,
        (ComparisonOperator::Greater | ComparisonOperator::Different, true)
        | (ComparisonOperator::LessEqual | ComparisonOperator::Equal, false) => 1,
        _ => 0,
    }
}
