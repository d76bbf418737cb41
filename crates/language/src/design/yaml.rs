//! Values as YAML that a person would write.

use serde_json::Value;

use crate::loader::{is_text_without_quotes, json_spelt};

/// A text on one line, without quotes where it means itself. Inside of brackets fewer characters do.
pub(super) fn spelt(text: &str, is_in_brackets: bool) -> String {
    if is_plain(text, is_in_brackets) {
        return text.to_owned();
    }
    let is_simple = !text.chars().any(char::is_control);
    match (text.contains(['"', '\\']), text.contains('\'')) {
        (false, _) if is_simple => format!("\"{text}\""),
        (true, false) if is_simple => format!("'{text}'"),
        _ => json_spelt(text),
    }
}

fn is_plain(text: &str, is_in_brackets: bool) -> bool {
    let starts = text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '(' | '_' | '.' | '/'));
    let is_cut = [": ", " #"].iter().any(|end| text.contains(end)) || text.ends_with([':', ' ']);
    let is_bracketed = is_in_brackets && text.contains([',', '[', ']', '{', '}', ':']);
    starts && !is_cut && !is_bracketed && !text.chars().any(char::is_control) && is_text_without_quotes(text)
}

/// The value on one line, with brackets.
pub(super) fn flow(value: &Value, is_in_brackets: bool) -> String {
    match value {
        Value::String(text) => spelt(text, is_in_brackets),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| flow(item, true)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", spelt(key, true), flow(value, true)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The value as an item of a list, in lines without the indentation of the dash.
pub(super) fn item(value: &Value) -> Vec<String> {
    let lines = match value {
        Value::Object(entries) => entries.iter().flat_map(|(key, value)| entry(key, value)).collect(),
        other => vec![flow(other, false)],
    };
    let prefixes = std::iter::once("- ").chain(std::iter::repeat("  "));
    prefixes
        .zip(lines)
        .map(|(prefix, line)| format!("{prefix}{line}"))
        .collect()
}

/// A key and its value, in lines without indentation.
pub(super) fn entry(key: &str, value: &Value) -> Vec<String> {
    let key = spelt(key, false);
    let inner: Vec<String> = match value {
        Value::Array(items) if items.iter().any(Value::is_object) => items.iter().flat_map(item).collect(),
        Value::Object(entries) => entries.iter().flat_map(|(key, value)| entry(key, value)).collect(),
        other => return vec![format!("{key}: {}", flow(other, false))],
    };
    let inner = inner.into_iter().map(|line| format!("  {line}"));
    std::iter::once(format!("{key}:")).chain(inner).collect()
}
