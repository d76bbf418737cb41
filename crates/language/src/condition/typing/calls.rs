//! What functions give, and what they take.

use super::{Typing, can_be, item};
use crate::condition::ast::Expr;
use crate::condition::functions::Function;
use crate::condition::types::{Range, Shape, Texts, Type};
use crate::source::Span;

/// Whether a value of this shape is taken.
type Fits = fn(&Shape) -> bool;

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
        let name = function.names[0];
        let (Some(first), Some(at)) = (types.first(), spans.first().copied()) else {
            return Type::any();
        };
        if let Some((needed, fits)) = needs(name)
            && !can_be(first, fits)
        {
            self.not_a(first, needed, at);
            return Type::any();
        }
        match name {
            "get" => self.get(types, at, key, whole),
            "len" | "count" => Type::count(u64::MAX),
            "index_of" => Type::number(Range::between(-1.0, f64::INFINITY)),
            "is_empty" | "contains" | "any" | "all" | "starts_with" | "ends_with" | "bool" => Type::boolean(),
            "first" | "last" => item(first).or(Type::nothing()),
            "keys" | "split" => Type::list(Type::text()),
            "values" => Type::list(Type::any()),
            "lower" => mapped(first, |text| text.to_lowercase()),
            "upper" => mapped(first, |text| text.to_uppercase()),
            "strip" => mapped(first, |text| text.trim().to_owned()),
            "replace" | "str" => Type::text(),
            "abs" | "round" | "floor" | "ceil" | "sum" | "int" | "float" => Type::number(Range::ALL),
            "type_of" => Type::one_of(["nothing", "boolean", "number", "text", "list", "map"]),
            _ => Type::any(),
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

/// What the first argument must be, in words and as a test; `None`: anything, or several sorts.
fn needs(function: &str) -> Option<(&'static str, Fits)> {
    match function {
        "len" | "is_empty" => Some(("a string, a list or a map", |it| {
            it.text.is_some() || it.list.is_some() || it.map.is_some()
        })),
        "get" => Some(("a map or a list", |it| it.list.is_some() || it.map.is_some())),
        "count" | "index_of" => Some(("a string or a list", |it| it.text.is_some() || it.list.is_some())),
        "any" | "all" => Some(("a list", |it| it.list.is_some())),
        "keys" | "values" => Some(("a map", |it| it.map.is_some())),
        "starts_with" | "ends_with" | "lower" | "upper" | "strip" | "split" | "replace" => {
            Some(("a string", |it| it.text.is_some()))
        }
        "abs" | "round" | "floor" | "ceil" => Some(("a number", |it| it.number.is_some())),
        _ => None,
    }
}

fn mapped(of: &Type, change: impl Fn(&str) -> String) -> Type {
    match of.shape().and_then(|shape| shape.text.as_ref()) {
        Some(Texts::OneOf(texts)) => Type::one_of(texts.iter().map(|text| change(text))),
        _ => Type::text(),
    }
}
