//! What functions give, and what they take.

use crate::condition::expression::tree::ConditionExpr;
use crate::condition::functions::ConditionFunction;
use crate::condition::typing::check::{ConditionTypeChecker, MissingKeyMeaning, can_have_shape};
use crate::condition::typing::types::{PossibleTexts, ValueType};
use crate::source::Span;

impl ConditionTypeChecker<'_> {
    /// Infers the type of a call, and reports arguments that never fit. `key`: the argument that names a key, if a missing key is reported.
    pub(super) fn infer_call(
        &mut self,
        function: &ConditionFunction,
        types: &[ValueType],
        spans: &[Span],
        key: Option<&ConditionExpr>,
        whole: Span,
    ) -> ValueType {
        let (Some(first), Some(at)) = (types.first(), spans.first().copied()) else {
            return ValueType::any_value();
        };
        if let Some((needed, fits)) = function.needs
            && !can_have_shape(first, fits)
        {
            self.report_wrong_type(first, needed, at);
            return ValueType::any_value();
        }
        match function.has_own_name("get") {
            true => self.infer_get_call(types, at, key, whole),
            false => (function.result)(first),
        }
    }

    /// Infers the type of `get(base, key, default)`, and reports a key that never exists.
    fn infer_get_call(
        &mut self,
        types: &[ValueType],
        base: Span,
        key: Option<&ConditionExpr>,
        whole: Span,
    ) -> ValueType {
        let (of, default) = (&types[0], types.get(2));
        let Some(texts) = types
            .get(1)
            .and_then(ValueType::known_shape)
            .and_then(|shape| shape.text.as_ref())
        else {
            return ValueType::any_value();
        };
        let (PossibleTexts::OneOf(names), Some(_)) = (texts, of.map_fields()) else {
            return ValueType::any_value();
        };
        let Some(name) = names.first().filter(|_| names.len() == 1) else {
            return ValueType::any_value();
        };
        // A default says that the key may be missing.
        let is_checked = key.is_none() || default.is_some();
        let span = key.map_or(whole, |key| key.span);
        let member_type = self.infer_member(of, name, (base, span), MissingKeyMeaning::new(is_checked, true));
        match default {
            Some(default) => member_type.union_with(default.clone()),
            None => member_type,
        }
    }
}
