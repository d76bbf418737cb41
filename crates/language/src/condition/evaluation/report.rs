//! Values in the form for reports: short, whatever their size.

use serde_json::{Map as JsonMap, Value};

use crate::condition::evaluation::value::{ConditionValue, MapValue};

/// Longer strings are shortened in reports.
const MAX_REPORT_TEXT_BYTES: usize = 200;
/// Of longer collections only the first items are shown.
const MAX_REPORT_ITEMS: usize = 8;
/// The depth to which nested collections are shown.
const MAX_REPORT_DEPTH: usize = 3;
/// The maximum length of a value in a message, in characters.
const MAX_MESSAGE_CHARS: usize = 60;

/// Returns a value as JSON; long strings and collections are shortened.
pub(crate) fn shorten_to_json(datum: &ConditionValue) -> Value {
    shorten_to_depth(datum, MAX_REPORT_DEPTH)
}

/// Converts a value to JSON. Replaces collections below the depth by their number of items.
fn shorten_to_depth(datum: &ConditionValue, depth: usize) -> Value {
    match datum {
        ConditionValue::Nothing => Value::Null,
        ConditionValue::Bool(value) => Value::Bool(*value),
        ConditionValue::Int(value) => Value::from(*value),
        ConditionValue::Float(value) => Value::from(*value),
        ConditionValue::Text(text) => Value::String(shorten_text(text.as_str())),
        ConditionValue::List(list) if depth == 0 && list.len() > 0 => Value::String(format!("… {} items", list.len())),
        ConditionValue::List(list) => {
            let mut items: Vec<Value> = list
                .iter()
                .take(MAX_REPORT_ITEMS)
                .map(|item| shorten_to_depth(&item, depth - 1))
                .collect();
            if list.len() > MAX_REPORT_ITEMS {
                items.push(Value::String(format!("… {} more", list.len() - MAX_REPORT_ITEMS)));
            }
            Value::Array(items)
        }
        ConditionValue::Map(map) if depth == 0 && map.len() > 0 => Value::String(format!("… {} keys", map.len())),
        ConditionValue::Map(map) => Value::Object(shorten_map(map, depth)),
    }
}

/// Converts the first entries of a map to JSON, and adds the number of the others.
fn shorten_map(map: &MapValue, depth: usize) -> JsonMap<String, Value> {
    let mut entries: JsonMap<String, Value> = map
        .list_first_keys(MAX_REPORT_ITEMS)
        .into_iter()
        .map(|key| {
            let value = map
                .get(&key)
                .map_or(Value::Null, |value| shorten_to_depth(&value, depth.saturating_sub(1)));
            (shorten_text(&key), value)
        })
        .collect();
    if map.len() > MAX_REPORT_ITEMS {
        entries.insert(
            "…".into(),
            Value::String(format!("{} more", map.len() - MAX_REPORT_ITEMS)),
        );
    }
    entries
}

/// Cuts a text after 200 bytes, and adds `…`.
fn shorten_text(text: &str) -> String {
    if text.len() <= MAX_REPORT_TEXT_BYTES {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_REPORT_TEXT_BYTES)])
}

/// Renders a value for a message: `'abc'`, `3`, `[1, 2]`. Long values are clipped.
pub(crate) fn render_value(datum: &ConditionValue) -> String {
    let text = match datum {
        ConditionValue::Nothing => return "None".into(),
        ConditionValue::Text(text) => {
            let prefix: String = text.as_str().chars().take(MAX_MESSAGE_CHARS + 1).collect();
            return format!(
                "'{}'",
                clip_for_message(&prefix)
                    .escape_debug()
                    .to_string()
                    .replace("\\\"", "\"")
            );
        }
        _ => shorten_to_json(datum).to_string(),
    };
    clip_for_message(&text)
}

/// At most [`MAX_MESSAGE_CHARS`] characters of the text, on one line.
pub(crate) fn clip_for_message(text: &str) -> String {
    let mut line = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == MAX_MESSAGE_CHARS {
            line.push('…');
            break;
        }
        line.push(c);
    }
    line
}
