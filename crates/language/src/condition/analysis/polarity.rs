//! The parts of an expression that decide whether it has a wanted answer.

use super::super::expression::tree::{Comparison, Expr, Kind};

/// The parts that give an expression a wanted answer.
pub(super) enum Split<'e> {
    /// Each of them must have the answer.
    All(&'e [Expr]),
    /// One of them must have the answer.
    Any(&'e [Expr]),
    /// It must have the opposite answer.
    Opposite(&'e Expr),
    /// The expression is not combined of others.
    Whole,
}

/// Splits an expression by the answer that is wanted.
pub(super) fn split(expr: &Expr, answer: bool) -> Split<'_> {
    match (&expr.kind, answer) {
        (Kind::Not(operand), _) => Split::Opposite(operand),
        (Kind::And(operands), true) | (Kind::Or(operands), false) => Split::All(operands),
        (Kind::Or(operands), true) | (Kind::And(operands), false) => Split::Any(operands),
        _ => Split::Whole,
    }
}

/// Visits the parts of which each alone gives the expression the wanted answer, with the answer that the part must have.
pub(super) fn visit_sufficient<'e>(expr: &'e Expr, answer: bool, visit: &mut impl FnMut(&'e Expr, bool)) {
    match split(expr, answer) {
        Split::Opposite(operand) => visit_sufficient(operand, !answer, visit),
        Split::Any(operands) => operands.iter().for_each(|one| visit_sufficient(one, answer, visit)),
        Split::All(_) => {}
        Split::Whole => visit(expr, answer),
    }
}

/// Visits parts that together give the expression the wanted answer: of alternatives, the first one.
pub(super) fn visit_enough<'e>(expr: &'e Expr, answer: bool, visit: &mut impl FnMut(&'e Expr, bool)) {
    match split(expr, answer) {
        Split::Opposite(operand) => visit_enough(operand, !answer, visit),
        Split::Any(operands) => operands.iter().take(1).for_each(|one| visit_enough(one, answer, visit)),
        Split::All(operands) => operands.iter().for_each(|one| visit_enough(one, answer, visit)),
        Split::Whole => visit(expr, answer),
    }
}

/// Returns the comparison with its sides swapped: `a < b` means `b > a`.
pub(super) fn swap_sides(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessEqual => Comparison::GreaterEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterEqual => Comparison::LessEqual,
        other => other,
    }
}

/// Returns the step from a number to the nearest number that gives the comparison with it the wanted answer.
pub(super) fn step_for(comparison: Comparison, answer: bool) -> i64 {
    match (comparison, answer) {
        (Comparison::Less, true) | (Comparison::GreaterEqual, false) => -1,
        (Comparison::Greater | Comparison::Different, true) | (Comparison::LessEqual | Comparison::Equal, false) => 1,
        _ => 0,
    }
}
