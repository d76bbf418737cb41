//! Operators of templates: what they give, what they refuse, and comparisons that have one result.
//!
//! Templates order and compare values of all types; `true` equals 1 there.

use minijinja::machinery::ast::{BinOpKind, CompareOpKind, Expr};

use super::{ExpressionUse, TemplateTypeChecker, any_number_type, can_have_shape, whole_span};
use crate::condition::{
    NumberRange, SuggestedReplacement, TypeProblemKind, ValueShape, ValueType, find_known_truth, is_informative_type,
};
use crate::source::Span;

impl<'t> TemplateTypeChecker<'t, '_> {
    /// Infers the type of a binary operator. Ignores problems behind a type test, and in operands that are never evaluated.
    pub(super) fn infer_binary(
        &mut self,
        op: BinOpKind,
        left: &Expr<'t>,
        right: &Expr<'t>,
        want: ExpressionUse,
    ) -> ValueType {
        if matches!(op, BinOpKind::ScAnd | BinOpKind::ScOr) {
            let first = self.infer_type(left, ExpressionUse { is_asked: true, ..want });
            let decided = find_known_truth(&first) == Some(matches!(op, BinOpKind::ScOr));
            let is_guard = super::names::contains_type_test(left);
            let mut second = ValueType::impossible_value();
            self.visit_without_reports(is_guard || decided, |it| second = it.infer_type(right, want));
            return first.union_with(second);
        }
        let (a, b) = (
            self.infer_type(left, ExpressionUse::VALUE),
            self.infer_type(right, ExpressionUse::VALUE),
        );
        let both_fit = |fits: fn(&ValueShape) -> bool| can_have_shape(&a, fits) && can_have_shape(&b, fits);
        let one_repeats = can_have_shape(&a, is_repeatable) && can_have_shape(&b, is_numeric)
            || can_have_shape(&a, is_numeric) && can_have_shape(&b, is_repeatable);
        let fits = match op {
            BinOpKind::Concat => return ValueType::any_text(),
            BinOpKind::Add => {
                both_fit(is_numeric) || both_fit(|it| it.text.is_some()) || both_fit(|it| it.list.is_some())
            }
            BinOpKind::Mul => both_fit(is_numeric) || one_repeats,
            _ => both_fit(is_numeric),
        };
        if !fits && is_informative_type(&a) && is_informative_type(&b) {
            let place = Span::new(whole_span(left).start, whole_span(right).end);
            let message = format!("cannot calculate with {a} and {b}");
            let help = (matches!(op, BinOpKind::Add)).then(|| "`~` joins values of all types as text".to_owned());
            self.report_problem(
                TypeProblemKind::Fails,
                place,
                message,
                help.map(SuggestedReplacement::from),
            );
            return ValueType::any_value();
        }
        match op {
            BinOpKind::Add | BinOpKind::Mul => {
                match both_fit(is_numeric) && !can_have_shape(&a, is_repeatable) && !can_have_shape(&b, is_repeatable) {
                    true => any_number_type(),
                    false => ValueType::any_value(),
                }
            }
            _ => any_number_type(),
        }
    }

    /// Infers the type of a comparison, and reports a comparison with only one possible result.
    pub(super) fn infer_comparison(
        &mut self,
        (left_expr, left): (&Expr<'t>, &ValueType),
        (right_expr, right): (&Expr<'t>, &ValueType),
        op: CompareOpKind,
        want: ExpressionUse,
    ) -> ValueType {
        let is_constant = |expr: &Expr<'_>| matches!(expr, Expr::Const(_));
        if is_constant(left_expr) && is_constant(right_expr)
            || !is_informative_type(left)
            || !is_informative_type(right)
        {
            return ValueType::any_boolean();
        }
        let place = Span::new(whole_span(left_expr).start, whole_span(right_expr).end);
        let (known, known_expr, other) = match is_constant(left_expr) {
            true => (right, right_expr, left),
            false => (left, left_expr, right),
        };
        let known_words = self.part_text(whole_span(known_expr));
        let sides = EqualitySides {
            known,
            known_words,
            other,
        };
        match op {
            CompareOpKind::Eq | CompareOpKind::Ne => {
                self.infer_equality(&sides, matches!(op, CompareOpKind::Ne), place)
            }
            CompareOpKind::In | CompareOpKind::NotIn => self.infer_membership(right, whole_span(right_expr)),
            _ => {
                // Nothing is below every number.
                let is_above = matches!(op, CompareOpKind::Gt | CompareOpKind::Gte);
                let numbers = Option::zip(as_only_number(left, is_above), as_only_number(right, !is_above));
                let Some((a, b)) = numbers else {
                    return ValueType::any_boolean();
                };
                let can_be = match op {
                    CompareOpKind::Lt => a.can_be_below(b, false),
                    CompareOpKind::Lte => a.can_be_below(b, true),
                    CompareOpKind::Gt => b.can_be_below(a, false),
                    _ => b.can_be_below(a, true),
                };
                if !can_be && want.is_wanted {
                    let message = format!("`{}` is {}, so this is never true", sides.known_words, sides.known);
                    self.report_problem(TypeProblemKind::NeverTrue, place, message, None);
                }
                comparison_result_type(can_be, false)
            }
        }
    }

    /// Infers the type of `==` or `!=`, and reports sides that are never equal.
    fn infer_equality(&mut self, sides: &EqualitySides<'_>, is_different: bool, place: Span) -> ValueType {
        let can_meet = with_truth_numbers(sides.known).has_common_value(&with_truth_numbers(sides.other));
        let known_texts = sides.other.known_texts();
        let is_precaution = known_texts.is_some_and(|texts| texts.contains(""))
            || is_different && can_have_shape(sides.known, is_numeric) && can_have_shape(sides.other, is_numeric);
        if !can_meet && !is_precaution {
            let mistake = if is_different {
                TypeProblemKind::AlwaysTrue
            } else {
                TypeProblemKind::NeverTrue
            };
            let message = format!(
                "`{}` is {}, so it never equals {}",
                sides.known_words, sides.known, sides.other
            );
            let help = self.suggest_replacement(sides, place);
            self.report_problem(mistake, place, message, help);
        }
        comparison_result_type(can_meet, is_different)
    }

    /// Suggests a replacement for the literal that never equals the other side.
    fn suggest_replacement(&self, sides: &EqualitySides<'_>, place: Span) -> Option<SuggestedReplacement> {
        let text = sides.other.known_texts()?.iter().next()?;
        let find = |quote: char| {
            let quoted_text = format!("{quote}{text}{quote}");
            let mut occurrences = self
                .part_text(place)
                .match_indices(&quoted_text)
                .map(|(at, _)| place.start + at);
            let start = occurrences.next().filter(|_| occurrences.next().is_none())?;
            Some((Span::new(start, start + quoted_text.len()), quoted_text))
        };
        let literal = find('\'').or_else(|| find('"'));
        let literal = literal.as_ref().map(|(span, written)| (*span, written.as_str()));
        SuggestedReplacement::suggest_for_text(text, literal, sides.known.known_shape()?)
    }

    /// Infers the type of `in`, and reports a container that cannot contain items.
    fn infer_membership(&mut self, container: &ValueType, place: Span) -> ValueType {
        if !can_have_shape(container, |it| {
            it.list.is_some() || it.map.is_some() || it.text.is_some()
        }) {
            let message = format!("`{}` is {container}, so it cannot contain items", self.part_text(place));
            self.report_problem(TypeProblemKind::Fails, place, message, None);
        }
        ValueType::any_boolean()
    }
}

/// The two sides of an equality; the side that is no literal is first.
struct EqualitySides<'s> {
    known: &'s ValueType,
    known_words: &'s str,
    other: &'s ValueType,
}

/// Returns the type of an equality: `true` and `false`, or its only possible result.
fn comparison_result_type(can_be: bool, is_different: bool) -> ValueType {
    match can_be {
        true => ValueType::any_boolean(),
        false => ValueType::exact_value_type(&is_different.into()),
    }
}

/// Returns whether the value can be a number, or a boolean, which counts as 0 or 1.
fn is_numeric(shape: &ValueShape) -> bool {
    shape.number.is_some() || shape.can_be_true || shape.can_be_false
}

/// Returns whether the value can be a text or a list, which `*` repeats.
fn is_repeatable(shape: &ValueShape) -> bool {
    shape.text.is_some() || shape.list.is_some()
}

/// Returns the range of a value that is certainly a number. `or_nothing`: or only nothing.
fn as_only_number(of: &ValueType, or_nothing: bool) -> Option<NumberRange> {
    let range = of.known_shape()?.number?;
    let is_only = *of == ValueType::number_in_range(range)
        || or_nothing && *of == ValueType::number_in_range(range).union_with(ValueType::nothing_value());
    is_only.then_some(range)
}

/// Returns the type with 0 and 1 added if it contains booleans, which equal these numbers.
fn with_truth_numbers(of: &ValueType) -> ValueType {
    match of.known_shape() {
        Some(shape) if shape.can_be_true || shape.can_be_false => of.clone().union_with(ValueType::number_up_to(1)),
        _ => of.clone(),
    }
}
