//! The filters and tests of MiniJinja: their names, what they take, and what they give.

use crate::condition::{Range, Shape, Type};

/// The names of all filters.
pub(super) const FILTERS: [&str; 48] = [
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];

/// The names of all filters.
pub fn filter_names() -> impl Iterator<Item = &'static str> {
    FILTERS.into_iter()
}

/// The names of all tests.
pub(super) const TESTS: [&str; 41] = [
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "safe",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
];

/// Whether a value of this shape is taken.
type Fits = fn(&Shape) -> bool;

/// What the filter must be given, in words and as a test; `None`: anything.
pub(super) fn needs(filter: &str) -> Option<(&'static str, Fits)> {
    match filter {
        "length" | "count" | "first" | "last" | "join" => Some(("a list, a map or a string", is_iterable)),
        "sum" | "min" | "max" | "sort" | "unique" | "map" | "select" | "reject" | "selectattr" | "rejectattr"
        | "batch" | "slice" | "list" | "reverse" => Some(("a list", is_iterable)),
        "items" | "dictsort" => Some(("a map", |shape| shape.map.is_some())),
        "abs" | "round" => Some(("a number", |shape| shape.number.is_some() || shape.yes || shape.no)),
        "int" | "float" => Some(("a number or a string", |shape| {
            shape.number.is_some() || shape.yes || shape.no || shape.text.is_some()
        })),
        "lines" | "split" | "format" => Some(("a string", |shape| shape.text.is_some())),
        _ => None,
    }
}

fn is_iterable(shape: &Shape) -> bool {
    shape.list.is_some() || shape.map.is_some() || shape.text.is_some()
}

/// What the filter makes of such a value.
pub(super) fn result(filter: &str, of: &Type) -> Type {
    let changed = |change: fn(&str) -> String| match of.only_texts() {
        // Nothing is an empty text, or `none`.
        Some(texts) => {
            let nothing = ["", "none", "None"].map(change);
            Type::one_of(texts.iter().map(|text| change(text)).chain(nothing))
        }
        None => Type::text(),
    };
    match filter {
        "length" | "count" => Type::count(u64::MAX),
        "upper" => changed(str::to_uppercase),
        "lower" => changed(str::to_lowercase),
        "trim" | "title" | "capitalize" | "replace" | "join" | "tojson" | "string" | "indent" | "pprint" | "format" => {
            Type::text()
        }
        "int" | "float" | "abs" | "round" => Type::number(Range::ALL),
        "bool" => Type::boolean(),
        "sort" | "unique" | "list" | "reverse" if of.item().is_some() => {
            Type::list(of.item().cloned().unwrap_or_default())
        }
        "select" | "reject" | "selectattr" | "rejectattr" if of.item().is_some() => {
            Type::list(of.item().cloned().unwrap_or_default())
        }
        "first" | "last" | "min" | "max" if of.item().is_some() => {
            of.item().cloned().unwrap_or_default().or(Type::nothing())
        }
        _ => Type::any(),
    }
}
