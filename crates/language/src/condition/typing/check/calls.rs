//! What functions give, and what they take.

use crate::condition::expression::tree::Expr;
use crate::condition::functions::Function;
use crate::condition::typing::check::{Typing, can_be};
use crate::condition::typing::types::{Texts, Type};
use crate::source::Span;

impl Typing<'_> {
    /// A call of a function. `key`: the argument that names a key, if its absence is reported here.
    pub(super) fn call(
        &mut self,
        function: &Function,
        types: &[Type],
        spans: &[Span],
        key: Option<&Expr>,
        whole: Span,
    ) -> Type {
        let (Some(first), Some(at)) = (types.first(), spans.first().copied()) else {
            return Type::any();
        };
        if let Some((needed, fits)) = function.needs
            && !can_be(first, fits)
        {
            self.not_a(first, needed, at);
            return Type::any();
        }
        match function.is("get") {
            true => self.get(types, at, key, whole),
            false => (function.result)(first),
        }
    }

    fn get(&mut self, types: &[Type], base: Span, key: Option<&Expr>, whole: Span) -> Type {
        let (of, default) = (&types[0], types.get(2));
        let Some(texts) = types.get(1).and_then(Type::shape).and_then(|shape| shape.text.as_ref()) else {
            return Type::any();
        };
        let (Texts::OneOf(names), Some(_)) = (texts, of.fields()) else {
            return Type::any();
        };
        let Some(name) = names.first().filter(|_| names.len() == 1) else {
            return Type::any();
        };
        // A default says that the key may be missing.
        let is_checked = key.is_none() || default.is_some();
        let span = key.map_or(whole, |key| key.span);
        let found = self.member(of, name, base, span, is_checked);
        match default {
            Some(default) => found.or(default.clone()),
            None => found,
        }
    }
}
