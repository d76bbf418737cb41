//! Between JSON and Rhai's values.

use rhai::{Array, Blob, Dynamic, FnPtr, Map};
use serde_json::{Number, Value};

use super::view::ContextView;

/// Deeper values are no result: what is written must be readable again.
const DEPTH: usize = 100;

/// A JSON value as Rhai's own.
pub(super) fn from_json(value: &Value) -> Dynamic {
    match value {
        Value::Null => Dynamic::UNIT,
        Value::Bool(flag) => Dynamic::from_bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(int) => Dynamic::from_int(int),
            None => Dynamic::from_float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => Dynamic::from_array(items.iter().map(from_json).collect()),
        Value::Object(entries) => from_entries(entries.iter().map(|(key, value)| (key.as_str(), value))),
    }
}

/// Named JSON values as a map.
pub(super) fn from_entries<'a>(entries: impl Iterator<Item = (&'a str, &'a Value)>) -> Dynamic {
    Dynamic::from_map(entries.map(|(key, value)| (key.into(), from_json(value))).collect())
}

/// Rhai's value as JSON; the error goes on after "the value".
pub(super) fn to_json(value: Dynamic) -> Result<Value, String> {
    convert(value, DEPTH)
}

fn convert(value: Dynamic, depth: usize) -> Result<Value, String> {
    let value = value.flatten();
    if value.is_unit() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = value.as_bool() {
        return Ok(Value::Bool(flag));
    }
    if let Ok(int) = value.as_int() {
        return Ok(Value::from(int));
    }
    if let Ok(float) = value.as_float() {
        let number = Number::from_f64(float).map(Value::Number);
        return number.ok_or_else(|| format!("holds {float}, which is no JSON number"));
    }
    if let Ok(c) = value.as_char() {
        return Ok(Value::String(c.into()));
    }
    if value.is_string() {
        return Ok(Value::String(value.into_string().unwrap_or_default()));
    }
    if depth == 0 {
        return Err(format!("nests deeper than {DEPTH} levels"));
    }
    if value.is_array() {
        let items = value.into_array().unwrap_or_default();
        return items.into_iter().map(|item| convert(item, depth - 1)).collect();
    }
    if value.is_map() {
        let entries = value.try_cast::<Map>().unwrap_or_default();
        return entries
            .into_iter()
            .map(|(key, value)| Ok((String::from(key), convert(value, depth - 1)?)))
            .collect();
    }
    custom(value)
}

fn custom(value: Dynamic) -> Result<Value, String> {
    if value.is::<FnPtr>() {
        return Err("holds a function, which is no JSON".into());
    }
    if value.is::<Blob>() {
        return Ok(Value::from(value.cast::<Blob>()));
    }
    if value.is::<ContextView>() {
        return Ok(value.cast::<ContextView>().into_json());
    }
    Err(format!("holds a value of type {}, which is no JSON", value.type_name()))
}

/// Texts as an array.
pub(super) fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Array {
    texts.map(Into::into).collect()
}
