//! Free-form values, as llm-orc reads them.
//!
//! llm-orc reads YAML 1.1, in which a plain `yes` is a boolean. YAML 1.2 reads it as a string, so it is written as a
//! boolean.

use serde_json::{Number, Value};

use super::draft::{Line, Map, Shape};
use ensemble_language::loader::document::{Content, Node, Scalar, ScalarValue};

/// Converts any value.
pub(super) fn json(node: &Node) -> Value {
    match &node.content {
        Content::Scalar(scalar) => plain(node, scalar),
        Content::Sequence(items) => items.iter().map(|item| json(item)).collect(),
        Content::Mapping(entries) => entries
            .iter()
            .map(|entry| (entry.key.to_string(), json(&entry.value)))
            .collect(),
    }
}

/// The same, with the places of keys and items, so that comments stay at their places.
pub(super) fn draft(node: &Node) -> Shape {
    match &node.content {
        Content::Mapping(entries) if !entries.is_empty() => Shape::Map(Map {
            lines: entries
                .iter()
                .map(|entry| Line::entry(&entry.key, draft(&entry.value), Some(entry.key_span)))
                .collect(),
        }),
        Content::Sequence(items) if items.iter().any(|item| !matches!(item.content, Content::Scalar(_))) => {
            Shape::List(items.iter().map(|item| (draft(item), Some(item.span))).collect())
        }
        _ => Shape::Plain(json(node)),
    }
}

/// A scalar as text; `None` for other values.
pub(super) fn text_of(node: &Node) -> String {
    match &node.content {
        Content::Scalar(scalar) if scalar.value != ScalarValue::Null => scalar.text.to_string(),
        _ => String::new(),
    }
}

/// Returns whether the value means true.
pub(super) fn is_true(node: &Node) -> bool {
    json(node) == Value::Bool(true)
}

fn plain(node: &Node, scalar: &Scalar) -> Value {
    match scalar.value {
        ScalarValue::Null => Value::Null,
        ScalarValue::Bool(value) => Value::Bool(value),
        ScalarValue::Int(value) => Value::from(value),
        ScalarValue::Unsigned(value) => Value::from(value),
        ScalarValue::Float(value) => match Number::from_f64(value) {
            Some(number) => Value::Number(number),
            None => Value::from(&*scalar.text),
        },
        ScalarValue::Text => {
            // Quotes are part of the span, so a scalar whose span has the length of its value is plain.
            let bare = node.span.end - node.span.start == scalar.text.len();
            match &*scalar.text {
                "yes" | "Yes" | "YES" | "on" | "On" | "ON" if bare => Value::Bool(true),
                "no" | "No" | "NO" | "off" | "Off" | "OFF" if bare => Value::Bool(false),
                text => Value::from(text),
            }
        }
    }
}
