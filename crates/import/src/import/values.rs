//! Free-form values, as llm-orc reads them.
//!
//! llm-orc reads YAML 1.1, in which a plain `yes` is a boolean. YAML 1.2 reads it as a string, so it is written as a
//! boolean.

use serde_json::{Number, Value};

use super::draft::{DraftMap, DraftMapLine, DraftValue};
use ensemble_language::loader::document::{ScalarValue, YamlContent, YamlNode, YamlScalar};

/// Converts the value as YAML 1.1: a plain `yes` is a boolean.
pub(super) fn to_json(node: &YamlNode) -> Value {
    match &node.content {
        YamlContent::Scalar(scalar) => scalar_to_json(node, scalar),
        YamlContent::Sequence(items) => items.iter().map(|item| to_json(item)).collect(),
        YamlContent::Mapping(entries) => entries
            .iter()
            .map(|entry| (entry.key.to_string(), to_json(&entry.value)))
            .collect(),
    }
}

/// Converts the value to a draft, with positions of keys and items, so that comments keep their places.
pub(super) fn yaml_node_to_draft(node: &YamlNode) -> DraftValue {
    match &node.content {
        YamlContent::Mapping(entries) if !entries.is_empty() => DraftValue::Map(DraftMap {
            lines: entries
                .iter()
                .map(|entry| {
                    DraftMapLine::new_entry(&entry.key, yaml_node_to_draft(&entry.value), Some(entry.key_span))
                })
                .collect(),
        }),
        YamlContent::Sequence(items) if items.iter().any(|item| !matches!(item.content, YamlContent::Scalar(_))) => {
            DraftValue::List(
                items
                    .iter()
                    .map(|item| (yaml_node_to_draft(item), Some(item.span)))
                    .collect(),
            )
        }
        _ => DraftValue::Plain(to_json(node)),
    }
}

/// Returns the text of a scalar. Returns an empty text for null, lists and maps.
pub(super) fn scalar_or_empty_text(node: &YamlNode) -> String {
    match &node.content {
        YamlContent::Scalar(scalar) if scalar.value != ScalarValue::Null => scalar.text.to_string(),
        _ => String::new(),
    }
}

/// Returns whether the value is true.
pub(super) fn is_true_value(node: &YamlNode) -> bool {
    to_json(node) == Value::Bool(true)
}

/// Converts a scalar as YAML 1.1.
fn scalar_to_json(node: &YamlNode, scalar: &YamlScalar) -> Value {
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
