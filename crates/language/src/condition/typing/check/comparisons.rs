//! Comparisons that have one result for all values, or none.

use crate::condition::expression::tree::{ComparisonOperator, ConditionExpr, ExprKind};
use crate::condition::typing::check::{
    ConditionTypeChecker, SuggestedReplacement, TypeProblemKind, can_have_shape, is_informative_type,
};
use crate::condition::typing::types::{PossibleTexts, ValueShape, ValueType};
use crate::source::Span;

impl ConditionTypeChecker<'_> {
    /// Returns whether the comparison is never true, and reports it if it has only one result.
    pub(crate) fn check_never_true(
        &mut self,
        pair: &ComparisonOperands<'_>,
        comparison: ComparisonOperator,
        wanted: bool,
    ) -> bool {
        // What two constants give is known without types, and something is compared with nothing to be safe.
        let is_constant = |expr: &ConditionExpr| is_literal_expr(expr);
        if is_constant(pair.left_expr) && is_constant(pair.right_expr)
            || !is_informative_type(pair.left)
            || !is_informative_type(pair.right)
        {
            return false;
        }
        match comparison {
            ComparisonOperator::Equal | ComparisonOperator::Different => {
                let differ = !pair.left.has_common_value(pair.right);
                let is_different = comparison == ComparisonOperator::Different;
                if differ && !is_precaution(pair, is_different) {
                    self.report_never_equal(pair, is_different);
                }
                differ && comparison == ComparisonOperator::Equal
            }
            ComparisonOperator::Less
            | ComparisonOperator::LessEqual
            | ComparisonOperator::Greater
            | ComparisonOperator::GreaterEqual => self.check_order(pair, comparison, wanted),
            ComparisonOperator::In | ComparisonOperator::NotIn => {
                self.check_membership(pair, comparison == ComparisonOperator::NotIn)
            }
        }
    }

    /// Reports that the two sides are never equal.
    fn report_never_equal(&mut self, pair: &ComparisonOperands<'_>, is_different: bool) {
        let (known, known_expr, other, other_expr) = pair.known_side_first();
        let words = self.part_text(known_expr.span);
        let theirs = match is_literal_expr(other_expr) {
            true => self.part_text(other_expr.span).to_owned(),
            false => format!("`{}`, which is {other}", self.part_text(other_expr.span)),
        };
        let message = format!("`{words}` is {known}, so it never equals {theirs}");
        let help = self.suggest_replacement(known, other_expr);
        let mistake = if is_different {
            TypeProblemKind::AlwaysTrue
        } else {
            TypeProblemKind::NeverTrue
        };
        self.report_problem(mistake, pair.span(), message, help);
    }

    /// Reports an order of types without an order, or with only one result. Returns whether the comparison is never true.
    fn check_order(&mut self, pair: &ComparisonOperands<'_>, comparison: ComparisonOperator, wanted: bool) -> bool {
        let (Some(left), Some(right)) = (pair.left.known_shape(), pair.right.known_shape()) else {
            return false;
        };
        let of_texts = left.text.is_some() && right.text.is_some();
        let numbers = left.number.zip(right.number);
        if !of_texts && numbers.is_none() {
            let message = format!(
                "`{}` is {}, which cannot be ordered with {}",
                self.part_text(pair.left_expr.span),
                pair.left,
                pair.right
            );
            let (known, _, _, other_expr) = pair.known_side_first();
            let help = self.suggest_replacement(known, other_expr);
            self.report_problem(TypeProblemKind::Fails, pair.span(), message, help);
            return false;
        }
        let Some((a, b)) = numbers.filter(|_| !of_texts) else {
            return false;
        };
        let can_be = match comparison {
            ComparisonOperator::Less => a.can_be_below(b, false),
            ComparisonOperator::LessEqual => a.can_be_below(b, true),
            ComparisonOperator::Greater => b.can_be_below(a, false),
            _ => b.can_be_below(a, true),
        };
        // `not (turn_count > 100)` is a precaution.
        if !can_be && wanted {
            let (known, known_expr, ..) = pair.known_side_first();
            let words = self.part_text(known_expr.span);
            let message = format!("`{words}` is {known}, so this is never true");
            self.report_problem(TypeProblemKind::NeverTrue, pair.span(), message, None);
        }
        !can_be
    }

    /// Reports `in` with a container that never contains the item. Returns whether it is never true. Keys of maps are checked elsewhere.
    fn check_membership(&mut self, pair: &ComparisonOperands<'_>, is_not: bool) -> bool {
        let Some(place) = pair.right.known_shape() else {
            return false;
        };
        if place.list.is_none() && place.map.is_none() && place.text.is_none() {
            let message = format!(
                "`{}` is {}, so it cannot contain items",
                self.part_text(pair.right_expr.span),
                pair.right
            );
            self.report_problem(TypeProblemKind::Fails, pair.right_expr.span, message, None);
            return false;
        }
        let only_list = ValueShape {
            can_be_nothing: place.can_be_nothing,
            list: place.list.clone(),
            ..ValueShape::default()
        };
        let Some(item) = place.list.as_ref().filter(|_| *place == only_list) else {
            return false;
        };
        let never = !pair.left.has_common_value(item);
        if never && !item.known_shape().is_some_and(|shape| *shape == ValueShape::default()) {
            let (words, list) = (
                self.part_text(pair.left_expr.span),
                self.part_text(pair.right_expr.span),
            );
            let message = match is_literal_expr(pair.left_expr) {
                true => format!("an item of `{list}` is {item}, so it is never {words}"),
                false => format!("`{words}` is {}, so it is never one of {list}", pair.left),
            };
            let help = match &pair.right_expr.kind {
                ExprKind::List(items) => items.iter().find_map(|item| self.suggest_replacement(pair.left, item)),
                _ => self.suggest_replacement(item, pair.left_expr),
            };
            let mistake = if is_not {
                TypeProblemKind::AlwaysTrue
            } else {
                TypeProblemKind::NeverTrue
            };
            self.report_problem(mistake, pair.span(), message, help);
        }
        never && !is_not
    }
}

/// The two sides of a comparison, with their types and expressions.
pub(crate) struct ComparisonOperands<'e> {
    pub(crate) left: &'e ValueType,
    pub(crate) left_expr: &'e ConditionExpr,
    pub(crate) right: &'e ValueType,
    pub(crate) right_expr: &'e ConditionExpr,
}

impl<'e> ComparisonOperands<'e> {
    /// Returns the span of both sides.
    fn span(&self) -> Span {
        Span::new(self.left_expr.span.start, self.right_expr.span.end)
    }

    /// Returns both sides, with the side that is no literal first: its type, its expression, the other type and expression.
    fn known_side_first(&self) -> (&'e ValueType, &'e ConditionExpr, &'e ValueType, &'e ConditionExpr) {
        match is_literal_expr(self.left_expr) {
            true => (self.right, self.right_expr, self.left, self.left_expr),
            false => (self.left, self.left_expr, self.right, self.right_expr),
        }
    }
}

/// Returns whether the comparison can be a precaution: with an empty string, or that a number is different from another number.
fn is_precaution(pair: &ComparisonOperands<'_>, is_different: bool) -> bool {
    let (known, _, other, other_expr) = pair.known_side_first();
    let is_empty = matches!(&other_expr.kind, ExprKind::Text(text) if text.is_empty());
    let is_text = |shape: &ValueShape| shape.text.is_some();
    let is_number = |shape: &ValueShape| shape.number.is_some();
    is_empty && can_have_shape(known, is_text)
        || is_different && can_have_shape(known, is_number) && can_have_shape(other, is_number)
}

/// Returns whether the expression consists only of literals.
fn is_literal_expr(expr: &ConditionExpr) -> bool {
    match &expr.kind {
        ExprKind::Nothing | ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Text(_) => true,
        ExprKind::Sign(_, operand) => is_literal_expr(operand),
        ExprKind::List(items) => items.iter().all(is_literal_expr),
        _ => false,
    }
}

impl ConditionTypeChecker<'_> {
    /// Suggests a replacement for a literal that never equals a value of the type `known`.
    fn suggest_replacement(&self, known: &ValueType, literal: &ConditionExpr) -> Option<SuggestedReplacement> {
        let shape = known.known_shape()?;
        match &literal.kind {
            ExprKind::Text(text) => {
                SuggestedReplacement::suggest_for_text(text, Some((literal.span, self.part_text(literal.span))), shape)
            }
            ExprKind::Int(_) | ExprKind::Float(_)
                if shape.number.is_none() && matches!(shape.text, Some(PossibleTexts::Any)) =>
            {
                let words = "convert the string with `float(…)`, or ask the agent for a number with `output_schema`";
                Some(words.to_owned().into())
            }
            _ => None,
        }
    }
}
