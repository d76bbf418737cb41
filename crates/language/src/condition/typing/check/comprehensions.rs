//! The types of slices and comprehensions.

use crate::condition::expression::tree::{Comprehension, ConditionExpr};
use crate::condition::typing::check::{ConditionTypeChecker, TypeProblemKind, can_have_shape, is_informative_type};
use crate::condition::typing::types::ValueType;
use crate::source::Span;

impl ConditionTypeChecker<'_> {
    /// Infers the type of a comprehension: a list of the type of its element.
    pub(super) fn infer_comprehension(&mut self, comprehension: &Comprehension, wanted: bool) -> ValueType {
        let outer_locals = self.locals.len();
        for clause in &comprehension.clauses {
            let source = self.infer_type(&clause.source, false);
            let item = self.infer_iterated_item(&source, clause.source.span);
            self.locals.push(item);
            for filter in &clause.filters {
                self.infer_type(filter, wanted);
            }
        }
        let element = self.infer_type(&comprehension.element, wanted);
        self.locals.truncate(outer_locals);
        ValueType::list_with_items(element)
    }

    /// Infers the type of the loop variable: an item of a list, or a key of a map.
    fn infer_iterated_item(&mut self, source: &ValueType, span: Span) -> ValueType {
        let Some(shape) = source.known_shape() else {
            return ValueType::any_value();
        };
        match (shape.list.is_some(), shape.map.is_some()) {
            (true, false) => source.iterated_item_type(),
            (true, true) => source.iterated_item_type().union_with(ValueType::any_text()),
            (false, true) => ValueType::any_text(),
            (false, false) => {
                self.report_wrong_type(source, "a list or a map", span);
                ValueType::any_value()
            }
        }
    }

    /// Infers the type of a slice: a list of the same items, or a string.
    pub(super) fn infer_slice(
        &mut self,
        of: &ValueType,
        base: Span,
        from: Option<&ConditionExpr>,
        to: Option<&ConditionExpr>,
    ) -> ValueType {
        for bound in from.into_iter().chain(to) {
            let bound_type = self.infer_type(bound, false);
            let fits = can_have_shape(&bound_type, |shape| shape.number.is_some() || shape.can_be_nothing);
            if !fits && is_informative_type(&bound_type) {
                self.report_wrong_type(&bound_type, "an integer", bound.span);
            }
        }
        let Some(shape) = of.known_shape() else {
            return ValueType::any_value();
        };
        let list = shape
            .list
            .is_some()
            .then(|| ValueType::list_with_items(of.iterated_item_type()));
        let text = shape.text.is_some().then(ValueType::any_text);
        match (list, text) {
            (Some(list), Some(text)) => list.union_with(text),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) if is_informative_type(of) => {
                let message = format!("`{}` is {of}, so it has no slices", self.part_text(base));
                self.report_problem(TypeProblemKind::Fails, base, message, None);
                ValueType::any_value()
            }
            (None, None) => ValueType::any_value(),
        }
    }
}
