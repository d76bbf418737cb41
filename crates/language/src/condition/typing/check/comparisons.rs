//! Comparisons that have one result for all values, or none.

use crate::condition::expression::tree::{Comparison, Expr, Kind};
use crate::condition::typing::check::{Advice, Mistake, Typing, can_be, says};
use crate::condition::typing::types::{Shape, Texts, Type};
use crate::source::Span;

impl Typing<'_> {
    /// Returns whether the comparison is never true.
    pub(crate) fn compare(&mut self, pair: &Pair<'_>, comparison: Comparison, wanted: bool) -> bool {
        // What two constants give is known without types, and something is compared with nothing to be safe.
        let is_constant = |expr: &Expr| is_literal(expr);
        if is_constant(pair.left_expr) && is_constant(pair.right_expr) || !says(pair.left) || !says(pair.right) {
            return false;
        }
        match comparison {
            Comparison::Equal | Comparison::Different => {
                let differ = !pair.left.meets(pair.right);
                let is_different = comparison == Comparison::Different;
                if differ && !is_precaution(pair, is_different) {
                    self.never_equal(pair, is_different);
                }
                differ && comparison == Comparison::Equal
            }
            Comparison::Less | Comparison::LessEqual | Comparison::Greater | Comparison::GreaterEqual => {
                self.order(pair, comparison, wanted)
            }
            Comparison::In | Comparison::NotIn => self.member_of(pair, comparison == Comparison::NotIn),
        }
    }

    fn never_equal(&mut self, pair: &Pair<'_>, is_different: bool) {
        let (known, known_expr, other, other_expr) = pair.told();
        let words = self.words(known_expr.span);
        let theirs = match is_literal(other_expr) {
            true => self.words(other_expr.span).to_owned(),
            false => format!("`{}`, which is {other}", self.words(other_expr.span)),
        };
        let message = format!("`{words}` is {known}, so it never equals {theirs}");
        let help = self.instead(known, other_expr);
        let mistake = if is_different { Mistake::Always } else { Mistake::Never };
        self.report(mistake, pair.span(), message, help);
    }

    fn order(&mut self, pair: &Pair<'_>, comparison: Comparison, wanted: bool) -> bool {
        let (Some(left), Some(right)) = (pair.left.shape(), pair.right.shape()) else {
            return false;
        };
        let of_texts = left.text.is_some() && right.text.is_some();
        let numbers = left.number.zip(right.number);
        if !of_texts && numbers.is_none() {
            let message = format!(
                "`{}` is {}, which cannot be ordered with {}",
                self.words(pair.left_expr.span),
                pair.left,
                pair.right
            );
            let (known, _, _, other_expr) = pair.told();
            let help = self.instead(known, other_expr);
            self.report(Mistake::Fails, pair.span(), message, help);
            return false;
        }
        let Some((a, b)) = numbers.filter(|_| !of_texts) else {
            return false;
        };
        let can_be = match comparison {
            Comparison::Less => a.can_be_below(b, false),
            Comparison::LessEqual => a.can_be_below(b, true),
            Comparison::Greater => b.can_be_below(a, false),
            _ => b.can_be_below(a, true),
        };
        // `not (turn_count > 100)` is a precaution.
        if !can_be && wanted {
            let (known, known_expr, ..) = pair.told();
            let words = self.words(known_expr.span);
            let message = format!("`{words}` is {known}, so this is never true");
            self.report(Mistake::Never, pair.span(), message, None);
        }
        !can_be
    }

    /// `key in map` is checked elsewhere.
    fn member_of(&mut self, pair: &Pair<'_>, is_not: bool) -> bool {
        let Some(place) = pair.right.shape() else {
            return false;
        };
        if place.list.is_none() && place.map.is_none() && place.text.is_none() {
            let message = format!(
                "`{}` is {}, so nothing can be in it",
                self.words(pair.right_expr.span),
                pair.right
            );
            self.report(Mistake::Fails, pair.right_expr.span, message, None);
            return false;
        }
        let only_list = Shape {
            nothing: place.nothing,
            list: place.list.clone(),
            ..Shape::default()
        };
        let Some(item) = place.list.as_ref().filter(|_| *place == only_list) else {
            return false;
        };
        let never = !pair.left.meets(item);
        if never && !item.shape().is_some_and(|shape| *shape == Shape::default()) {
            let (words, list) = (self.words(pair.left_expr.span), self.words(pair.right_expr.span));
            let message = match is_literal(pair.left_expr) {
                true => format!("an item of `{list}` is {item}, so it is never {words}"),
                false => format!("`{words}` is {}, so it is never one of {list}", pair.left),
            };
            let help = match &pair.right_expr.kind {
                Kind::List(items) => items.iter().find_map(|item| self.instead(pair.left, item)),
                _ => self.instead(item, pair.left_expr),
            };
            let mistake = if is_not { Mistake::Always } else { Mistake::Never };
            self.report(mistake, pair.span(), message, help);
        }
        never && !is_not
    }
}

/// Two sides of a comparison.
pub(crate) struct Pair<'e> {
    pub(crate) left: &'e Type,
    pub(crate) left_expr: &'e Expr,
    pub(crate) right: &'e Type,
    pub(crate) right_expr: &'e Expr,
}

impl<'e> Pair<'e> {
    fn span(&self) -> Span {
        Span::new(self.left_expr.span.start, self.right_expr.span.end)
    }

    /// The side that is no literal first.
    fn told(&self) -> (&'e Type, &'e Expr, &'e Type, &'e Expr) {
        match is_literal(self.left_expr) {
            true => (self.right, self.right_expr, self.left, self.left_expr),
            false => (self.left, self.left_expr, self.right, self.right_expr),
        }
    }
}

/// Returns whether the comparison may be there only to be safe: with an empty string, or that a number is not another.
fn is_precaution(pair: &Pair<'_>, is_different: bool) -> bool {
    let (known, _, other, other_expr) = pair.told();
    let is_empty = matches!(&other_expr.kind, Kind::Text(text) if text.is_empty());
    let is_text = |shape: &Shape| shape.text.is_some();
    let is_number = |shape: &Shape| shape.number.is_some();
    is_empty && can_be(known, is_text) || is_different && can_be(known, is_number) && can_be(other, is_number)
}

fn is_literal(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Nothing | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Text(_) => true,
        Kind::Sign(_, operand) => is_literal(operand),
        Kind::List(items) => items.iter().all(is_literal),
        _ => false,
    }
}

impl Typing<'_> {
    /// Returns the replacement of this literal.
    fn instead(&self, known: &Type, literal: &Expr) -> Option<Advice> {
        let shape = known.shape()?;
        match &literal.kind {
            Kind::Text(text) => Advice::instead_of(text, Some((literal.span, self.words(literal.span))), shape),
            Kind::Int(_) | Kind::Float(_) if shape.number.is_none() && matches!(shape.text, Some(Texts::Any)) => {
                let words = "convert the string with `float(…)`, or ask the agent for a number with `output_schema`";
                Some(words.to_owned().into())
            }
            _ => None,
        }
    }
}
