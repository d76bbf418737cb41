//! Outputs and their values as text for users.

use ensemble_history::OutputView;
use serde_json::Value;

use super::format::DIM;

/// The number of characters of a value that are shown by default.
const MAX_VALUE_CHARS: usize = 160;

/// Renders an output: the response as text, other keys as `key: value`.
pub(super) fn render_output(output: &Value, whole: bool) -> String {
    if !output.is_object() {
        return output.to_string();
    }
    let view = OutputView::new(output);
    let mut text = String::new();
    if let Some(response) = view.response {
        text.push_str(&match response {
            Value::String(text) => text.trim_end().to_owned(),
            other => other.to_string(),
        });
        text.push('\n');
    }
    for (key, value) in view.other_entries() {
        text.push_str(&format!("{DIM}{key}:{DIM:#} {}\n", render_value(value, whole)));
    }
    text
}

/// Returns whether a key other than the response is shortened by default.
pub(super) fn has_shortened_keys(output: &Value) -> bool {
    let mut other_entries = OutputView::new(output).other_entries();
    other_entries.any(|(_, value)| render_full_value(value).chars().nth(MAX_VALUE_CHARS).is_some())
}

/// Renders one value, shortened unless `whole` is set. Quotes a string that could be read as another value.
pub(super) fn render_value(value: &Value, whole: bool) -> String {
    match whole {
        true => render_full_value(value),
        false => shorten_text(&render_full_value(value)),
    }
}

/// Returns the start of a text, with an ellipsis if it was shortened.
pub(super) fn shorten_text(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        None => text.to_owned(),
        Some(_) => text.chars().take(MAX_VALUE_CHARS - 1).chain(['…']).collect(),
    }
}

/// Renders the whole value.
fn render_full_value(value: &Value) -> String {
    match value {
        Value::String(text) if needs_quotes(text) => value.to_string(),
        Value::String(text) => text.trim_end().to_owned(),
        other => other.to_string(),
    }
}

/// Returns whether the string without quotes could be read as another value, as nothing, or without its blanks.
fn needs_quotes(text: &str) -> bool {
    let line = text.trim_end_matches(['\n', '\r']);
    if line.contains('\n') {
        return false;
    }
    let looks_like_a_number = || line.starts_with(|c: char| "+-.0123456789".contains(c)) && line.parse::<f64>().is_ok();
    line.trim().len() != line.len()
        || line.is_empty()
        || looks_like_a_number()
        || serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_in_quotes_where_it_could_be_taken_for_something_else() {
        let table = [
            (json!("false"), "\"false\""),
            (json!(false), "false"),
            (json!("null"), "\"null\""),
            (json!(null), "null"),
            (json!("3"), "\"3\""),
            (json!(3), "3"),
            (json!("-1.5e3"), "\"-1.5e3\""),
            (json!("007"), "\"007\""),
            (json!(".5"), "\".5\""),
            (json!(""), "\"\""),
            (json!("  "), "\"  \""),
            (json!("\n"), "\"\\n\""),
            (json!(" a"), "\" a\""),
            (json!("a\t"), "\"a\\t\""),
            (json!("[1, 2]"), "\"[1, 2]\""),
            (json!([1, 2]), "[1,2]"),
            (json!("{\"a\": 1}"), "\"{\\\"a\\\": 1}\""),
            (json!("\"quoted\""), "\"\\\"quoted\\\"\""),
            // Unchanged.
            (json!("good"), "good"),
            (json!("ends with a line feed\n"), "ends with a line feed"),
            (json!("two words"), "two words"),
            (json!("infinity"), "infinity"),
            (json!("3 apples"), "3 apples"),
            (json!("- one\n- two"), "- one\n- two"),
            (json!("1\n2\n"), "1\n2"),
            (json!("{\n  \"a\": 1\n}"), "{\n  \"a\": 1\n}"),
        ];
        for (value, shown) in table {
            assert_eq!(render_value(&value, true), shown, "{value}");
        }
    }

    #[test]
    fn an_output_shows_its_response_as_text_and_other_keys_beside_it() {
        let shown = |value: Value| anstream::adapter::strip_str(&render_output(&value, false)).to_string();
        assert_eq!(shown(json!({"response": "hello"})), "hello\n");
        assert_eq!(shown(json!({"response": "3"})), "3\n", "a response is always text");
        assert_eq!(shown(json!({"a": 1, "b": [true]})), "a: 1\nb: [true]\n");
        assert_eq!(
            shown(json!({"approved": "false", "note": ""})),
            "approved: \"false\"\nnote: \"\"\n"
        );
        assert_eq!(shown(json!({"a": 1, "response": "{\"a\": 1}"})), "a: 1\n");
        let long = json!({"a": "x".repeat(200)});
        assert_eq!(shown(long.clone()).chars().count(), "a: ".len() + 160 + 1);
        assert!(has_shortened_keys(&long) && !has_shortened_keys(&json!({"a": 1, "response": "x".repeat(200)})));
    }
}
