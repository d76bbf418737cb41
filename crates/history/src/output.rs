//! The output of an agent as text for reports.

use serde_json::{Map, Value};

/// An output as reports show the output: its response, and its other keys.
#[derive(Debug, Clone, Copy)]
pub struct OutputView<'a> {
    /// The response. A response that is the object whose keys follow is left out.
    pub response: Option<&'a Value>,
    object: Option<&'a Map<String, Value>>,
}

impl<'a> OutputView<'a> {
    /// Separates the response of an output from its other keys. Omits a response that repeats the other keys.
    pub fn new(output: &'a Value) -> Self {
        let object = output.as_object();
        let response = response(output);
        let has_more = object.is_some_and(|object| object.len() > 1);
        let repeats_keys = has_more && response.and_then(Value::as_str).is_some_and(is_json_object_text);
        Self {
            response: response.filter(|_| !repeats_keys),
            object,
        }
    }

    /// Iterates over the other keys with their values.
    pub fn other_entries(&self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        let all = self.object.into_iter().flatten();
        all.filter(|(key, _)| *key != "response")
    }
}

/// Returns the output as one text: the response, else the only text, else indented JSON. Prompts use another rule:
/// [`ensemble_language::data::render_output_text`].
pub fn output_text(output: &Value) -> String {
    let only = output.as_object().filter(|object| object.len() == 1);
    let only = only
        .and_then(|object| object.values().next())
        .filter(|value| value.is_string());
    text_or_json(response(output).or(only).unwrap_or(output))
}

/// Returns the output as one text that contains all keys: the response if there is no other key, else indented JSON.
pub fn output_text_with_all_keys(output: &Value) -> String {
    let has_others = OutputView::new(output).other_entries().next().is_some();
    text_or_json(response(output).filter(|_| !has_others).unwrap_or(output))
}

/// Returns the response of the output, with which tests compare texts. Returns the whole output if there is no response.
pub fn response_or_output(output: &Value) -> &Value {
    response(output).unwrap_or(output)
}

/// Returns the value under the key `response`.
fn response(output: &Value) -> Option<&Value> {
    output.get("response")
}

/// Returns a text unchanged, and every other value as indented JSON.
fn text_or_json(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => format!("{other:#}"),
    }
}

/// Returns whether the text is a JSON object.
fn is_json_object_text(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('{') && serde_json::from_str::<Map<String, Value>>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_output_is_its_response_its_only_text_or_json() {
        let table = [
            (json!({"response": "hello", "a": 1}), "hello"),
            (json!({"response": 3}), "3"),
            (json!({"answer": "yes"}), "yes"),
            (json!({"answer": 1}), "{\n  \"answer\": 1\n}"),
            (json!("text"), "text"),
        ];
        for (output, text) in table {
            assert_eq!(output_text(&output), text, "{output}");
        }
    }

    #[test]
    fn a_complete_text_leaves_no_key_out() {
        let table = [
            (
                json!({"response": "hello", "a": 1}),
                "{\n  \"response\": \"hello\",\n  \"a\": 1\n}",
            ),
            (json!({"response": "hello"}), "hello"),
            (json!({"response": 3}), "3"),
            (json!({"answer": "yes"}), "{\n  \"answer\": \"yes\"\n}"),
            (json!("text"), "text"),
        ];
        for (output, text) in table {
            assert_eq!(output_text_with_all_keys(&output), text, "{output}");
        }
    }

    #[test]
    fn a_response_that_repeats_the_other_keys_is_left_out() {
        let table = [
            (json!({"response": "hello"}), Some("hello"), 0),
            (json!({"response": "{\"a\": 1}"}), Some("{\"a\": 1}"), 0),
            (json!({"response": "{\"a\": 1}", "a": 1}), None, 1),
            (json!({"response": "hello", "a": 1}), Some("hello"), 1),
            (json!({"a": 1, "b": 2}), None, 2),
            (json!("text"), None, 0),
        ];
        for (output, response, others) in table {
            let view = OutputView::new(&output);
            assert_eq!(view.response.and_then(Value::as_str), response, "{output}");
            assert_eq!(view.other_entries().count(), others, "{output}");
        }
    }
}
