//! JSON values as values of Rhai.

use rhai::{Array, Dynamic};
use serde_json::Value;

/// Converts a JSON value to a value of Rhai.
pub(super) fn dynamic_from_json(value: &Value) -> Dynamic {
    match value {
        Value::Null => Dynamic::UNIT,
        Value::Bool(flag) => Dynamic::from_bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(int) => Dynamic::from_int(int),
            None => Dynamic::from_float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => Dynamic::from_array(items.iter().map(dynamic_from_json).collect()),
        Value::Object(entries) => map_from_entries(entries.iter().map(|(key, value)| (key.as_str(), value))),
    }
}

/// Converts named JSON values to a map of Rhai.
pub(super) fn map_from_entries<'a>(entries: impl Iterator<Item = (&'a str, &'a Value)>) -> Dynamic {
    Dynamic::from_map(
        entries
            .map(|(key, value)| (key.into(), dynamic_from_json(value)))
            .collect(),
    )
}

/// Converts texts to an array of Rhai.
pub(super) fn array_from_texts<'a>(texts: impl Iterator<Item = &'a str>) -> Array {
    texts.map(Into::into).collect()
}
