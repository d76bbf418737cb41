//! Values of Rhai as JSON values.

use rhai::{Blob, Dynamic, FnPtr, Map};
use serde_json::{Number, Value};

use super::context_view::ScriptContextView;

/// Largest nesting depth of a result. Deeper values could be written, but not read again.
const DEPTH: usize = 100;

/// Converts a value of Rhai to JSON.
///
/// # Errors
/// The end of a sentence that begins with "the value".
pub(super) fn to_json(value: Dynamic) -> Result<Value, String> {
    convert_with_depth_limit(value, DEPTH)
}

/// Converts a value with at most `depth` nested levels.
fn convert_with_depth_limit(value: Dynamic, depth: usize) -> Result<Value, String> {
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
        return number.ok_or_else(|| format!("contains {float}, which is not a JSON number"));
    }
    if let Ok(c) = value.as_char() {
        return Ok(Value::String(c.into()));
    }
    if value.is_string() {
        return Ok(Value::String(value.into_string().unwrap_or_default()));
    }
    if depth == 0 {
        return Err(format!("is nested deeper than {DEPTH} levels"));
    }
    if value.is_array() {
        let items = value.into_array().unwrap_or_default();
        return items
            .into_iter()
            .map(|item| convert_with_depth_limit(item, depth - 1))
            .collect();
    }
    if value.is_map() {
        let entries = value.try_cast::<Map>().unwrap_or_default();
        return entries
            .into_iter()
            .map(|(key, value)| Ok((String::from(key), convert_with_depth_limit(value, depth - 1)?)))
            .collect();
    }
    convert_special_value(value)
}

/// Converts a byte array or the context. Refuses functions and other types.
fn convert_special_value(value: Dynamic) -> Result<Value, String> {
    if value.is::<FnPtr>() {
        return Err("contains a function, which JSON cannot represent".into());
    }
    if value.is::<Blob>() {
        return Ok(Value::from(value.cast::<Blob>()));
    }
    if value.is::<ScriptContextView>() {
        return Ok(value.cast::<ScriptContextView>().into_json());
    }
    Err(format!(
        "contains a value of type {}, which JSON cannot represent",
        value.type_name()
    ))
}
