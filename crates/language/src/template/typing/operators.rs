//! Operators of templates: what they give, what they refuse, and comparisons that have one result.
//!
//! Templates order and compare values of all types; `true` equals 1 there.

use minijinja::machinery::ast::{BinOpKind, CompareOpKind, Expr};

use super::{Typing, Want, can, number, whole};
use crate::condition::{Advice, Mistake, Range, Shape, Type, says, truth};
use crate::source::Span;

impl<'t> Typing<'t, '_> {
    pub(super) fn binary(&mut self, op: BinOpKind, left: &Expr<'t>, right: &Expr<'t>, want: Want) -> Type {
        if matches!(op, BinOpKind::ScAnd | BinOpKind::ScOr) {
            let first = self.infer(left, Want { is_asked: true, ..want });
            let decided = truth(&first) == Some(matches!(op, BinOpKind::ScOr));
            let is_guard = super::names::asks_for_type(left);
            let mut second = Type::never();
            self.guarded(is_guard || decided, |it| second = it.infer(right, want));
            return first.or(second);
        }
        let (a, b) = (self.infer(left, Want::VALUE), self.infer(right, Want::VALUE));
        let both = |fits: fn(&Shape) -> bool| can(&a, fits) && can(&b, fits);
        let one_repeats = can(&a, is_repeated) && can(&b, is_number) || can(&a, is_number) && can(&b, is_repeated);
        let fits = match op {
            BinOpKind::Concat => return Type::text(),
            BinOpKind::Add => both(is_number) || both(|it| it.text.is_some()) || both(|it| it.list.is_some()),
            BinOpKind::Mul => both(is_number) || one_repeats,
            _ => both(is_number),
        };
        if !fits && says(&a) && says(&b) {
            let place = Span::new(whole(left).start, whole(right).end);
            let message = format!("{a} and {b} cannot be calculated with each other");
            let help = (matches!(op, BinOpKind::Add)).then(|| "`~` joins values of all types as text".to_owned());
            self.report(Mistake::Fails, place, message, help.map(Advice::from));
            return Type::any();
        }
        match op {
            BinOpKind::Add | BinOpKind::Mul => {
                match both(is_number) && !can(&a, is_repeated) && !can(&b, is_repeated) {
                    true => number(),
                    false => Type::any(),
                }
            }
            _ => number(),
        }
    }

    pub(super) fn compare(
        &mut self,
        (left_expr, left): (&Expr<'t>, &Type),
        (right_expr, right): (&Expr<'t>, &Type),
        op: CompareOpKind,
        want: Want,
    ) -> Type {
        let is_constant = |expr: &Expr<'_>| matches!(expr, Expr::Const(_));
        if is_constant(left_expr) && is_constant(right_expr) || !says(left) || !says(right) {
            return Type::boolean();
        }
        let place = Span::new(whole(left_expr).start, whole(right_expr).end);
        let (known, known_expr, other) = match is_constant(left_expr) {
            true => (right, right_expr, left),
            false => (left, left_expr, right),
        };
        let known_words = self.words(whole(known_expr));
        let sides = Sides {
            known,
            known_words,
            other,
        };
        match op {
            CompareOpKind::Eq | CompareOpKind::Ne => self.equality(&sides, matches!(op, CompareOpKind::Ne), place),
            CompareOpKind::In | CompareOpKind::NotIn => self.inside(right, whole(right_expr)),
            _ => {
                // Nothing is below every number.
                let is_above = matches!(op, CompareOpKind::Gt | CompareOpKind::Gte);
                let numbers = Option::zip(only_number(left, is_above), only_number(right, !is_above));
                let Some((a, b)) = numbers else {
                    return Type::boolean();
                };
                let can_be = match op {
                    CompareOpKind::Lt => a.can_be_below(b, false),
                    CompareOpKind::Lte => a.can_be_below(b, true),
                    CompareOpKind::Gt => b.can_be_below(a, false),
                    _ => b.can_be_below(a, true),
                };
                if !can_be && want.is_wanted {
                    let message = format!("`{}` is {}, so this is never true", sides.known_words, sides.known);
                    self.report(Mistake::Never, place, message, None);
                }
                verdict(can_be, false)
            }
        }
    }

    fn equality(&mut self, sides: &Sides<'_>, is_different: bool, place: Span) -> Type {
        let can_meet = as_numbers(sides.known).meets(&as_numbers(sides.other));
        let other = sides.other.texts();
        let is_precaution = other.is_some_and(|texts| texts.contains(""))
            || is_different && can(sides.known, is_number) && can(sides.other, is_number);
        if !can_meet && !is_precaution {
            let mistake = if is_different { Mistake::Always } else { Mistake::Never };
            let message = format!(
                "`{}` is {}, so it never equals {}",
                sides.known_words, sides.known, sides.other
            );
            let help = self.instead(sides, place);
            self.report(mistake, place, message, help);
        }
        verdict(can_meet, is_different)
    }

    /// Returns the replacement of the other side of a comparison.
    fn instead(&self, sides: &Sides<'_>, place: Span) -> Option<Advice> {
        let text = sides.other.texts()?.iter().next()?;
        let find = |quote: char| {
            let written = format!("{quote}{text}{quote}");
            let mut found = self
                .words(place)
                .match_indices(&written)
                .map(|(at, _)| place.start + at);
            let start = found.next().filter(|_| found.next().is_none())?;
            Some((Span::new(start, start + written.len()), written))
        };
        let literal = find('\'').or_else(|| find('"'));
        let literal = literal.as_ref().map(|(span, written)| (*span, written.as_str()));
        Advice::instead_of(text, literal, sides.known.shape()?)
    }

    fn inside(&mut self, container: &Type, place: Span) -> Type {
        if !can(container, |it| {
            it.list.is_some() || it.map.is_some() || it.text.is_some()
        }) {
            let message = format!("`{}` is {container}, so nothing can be in it", self.words(place));
            self.report(Mistake::Fails, place, message, None);
        }
        Type::boolean()
    }
}

/// Two sides of a comparison, first the one that is no literal.
struct Sides<'s> {
    known: &'s Type,
    known_words: &'s str,
    other: &'s Type,
}

fn verdict(can_be: bool, is_different: bool) -> Type {
    match can_be {
        true => Type::boolean(),
        false => Type::of_value(&is_different.into()),
    }
}

/// `true` and `false` are calculated with as 1 and 0.
fn is_number(shape: &Shape) -> bool {
    shape.number.is_some() || shape.yes || shape.no
}

/// Texts and lists can be repeated.
fn is_repeated(shape: &Shape) -> bool {
    shape.text.is_some() || shape.list.is_some()
}

/// The numbers of a value that can be nothing else; `or_nothing`: or only nothing.
fn only_number(of: &Type, or_nothing: bool) -> Option<Range> {
    let range = of.shape()?.number?;
    let is_only = *of == Type::number(range) || or_nothing && *of == Type::number(range).or(Type::nothing());
    is_only.then_some(range)
}

/// The type with the numbers that its truth values equal.
fn as_numbers(of: &Type) -> Type {
    match of.shape() {
        Some(shape) if shape.yes || shape.no => of.clone().or(Type::count(1)),
        _ => of.clone(),
    }
}
