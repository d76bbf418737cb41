//! A model's text as an output.
//!
//! A text that is a JSON object, or holds exactly one fenced JSON object, gives its keys; the full text stays under
//! `response`, unless the object has a `response` of its own, which then wins: the model named the key, and the
//! full text is in the thread anyway. Every other text, a bare number or list included, is the `response`.

use std::borrow::Cow;

use serde_json::Value;

use ensemble_language::data::JsonMap;

/// The key for the full text.
const RESPONSE: &str = "response";

/// The output for a reply.
pub fn output_of(text: &str) -> JsonMap {
    let text = without_last_newline(text);
    let mut output = object_in(text).unwrap_or_default();
    output.entry(RESPONSE).or_insert_with(|| text.into());
    output
}

/// The part of the output that `output_schema` applies to: the output without the full text that [`output_of`] adds.
///
/// It depends on the output alone, so a later validation of the output gives the same result.
pub fn checked(output: &JsonMap) -> Cow<'_, JsonMap> {
    let text = output.get(RESPONSE).and_then(Value::as_str);
    match text.and_then(object_in) {
        Some(object) if !object.contains_key(RESPONSE) && is_output_of(&object, output) => Cow::Owned(object),
        _ => Cow::Borrowed(output),
    }
}

fn is_output_of(object: &JsonMap, output: &JsonMap) -> bool {
    output.len() == object.len() + 1 && object.iter().all(|(key, value)| output.get(key) == Some(value))
}

/// `text` without its last newline.
pub(super) fn without_last_newline(text: &str) -> &str {
    match text.strip_suffix('\n') {
        Some(text) => text.strip_suffix('\r').unwrap_or(text),
        None => text,
    }
}

/// The JSON object that is the whole text or its only fenced block.
fn object_in(text: &str) -> Option<JsonMap> {
    if let Some(object) = object(text) {
        return Some(object);
    }
    let mut objects = fenced(text).into_iter().filter_map(|block| object(&block));
    objects.next().filter(|_| objects.next().is_none())
}

/// The JSON object that the whole text is.
pub(super) fn object(text: &str) -> Option<JsonMap> {
    let text = text.trim();
    (text.starts_with('{')).then(|| serde_json::from_str(text).ok())?
}

/// The contents of the fenced blocks marked as JSON or not marked at all, as Markdown fences them.
fn fenced(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((fence, language)) = opening(line) else {
            continue;
        };
        let mut block = Vec::new();
        let closed = lines.by_ref().any(|line| {
            let closes = line.trim().len() >= fence.len() && line.trim().chars().all(|c| fence.starts_with(c));
            block.push(line);
            closes
        });
        if closed && (language.is_empty() || language.eq_ignore_ascii_case("json")) {
            block.pop();
            blocks.push(block.join("\n"));
        }
    }
    blocks
}

/// The fence that a line opens, and the language it names.
fn opening(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let mark = line.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let rest = line.trim_start_matches(mark);
    let fence = &line[..line.len() - rest.len()];
    (fence.len() >= 3 && !rest.contains('`')).then(|| (fence, rest.trim()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replies_become_outputs() {
        let text_only = |text: &str| json!({"response": text});
        let with = |text: &str| json!({"a": 1, "response": text});
        let fenced_object = "Here:\n```json\n{\"a\": 1}\n```\nDone.";
        let bare_fence = "~~~~\n{\"a\": 1}\n~~~~";
        let indented = "- so\n  ```JSON\n  {\n   \"a\": 1}\n  ```";
        let with_code = "```python\nx = {}\n```\n```json\n{\"a\": 1}\n```";
        let two = "```json\n{\"a\": 1}\n```\n```json\n{\"b\": 1}\n```";
        let unclosed = "```json\n{\"a\": 1}\n";
        let list = "```json\n[1]\n```";
        let python = "```python\n{\"a\": 1}\n```";
        let nested = "````\n```json\n{\"a\": 1}\n```\n````";
        let cases = [
            ("Hello.\n", text_only("Hello.")),
            ("Hello.\r\n", text_only("Hello.")),
            ("Hello.\n\n", text_only("Hello.\n")),
            ("", text_only("")),
            ("42", text_only("42")),
            ("[1, 2]", text_only("[1, 2]")),
            ("\"quoted\"", text_only("\"quoted\"")),
            ("{\"a\": 1}", with("{\"a\": 1}")),
            (" {\"a\": 1}\n", with(" {\"a\": 1}")),
            ("{\"a\": 1} and more", text_only("{\"a\": 1} and more")),
            ("{\"response\": \"own\", \"b\": 2}", json!({"response": "own", "b": 2})),
            ("{}", json!({"response": "{}"})),
            (fenced_object, with(fenced_object)),
            (bare_fence, with(bare_fence)),
            (indented, with(indented)),
            (with_code, with(with_code)),
            (two, text_only(two)),
            (unclosed, text_only(unclosed.trim_end())),
            (list, text_only(list)),
            (python, text_only(python)),
            (nested, text_only(nested)),
        ];
        for (text, expected) in cases {
            assert_eq!(Value::Object(output_of(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn a_schema_is_about_what_the_model_wrote() {
        let cases = [
            ("{\"a\": 1}", json!({"a": 1})),
            ("So:\n```\n{\"a\": 1}\n```", json!({"a": 1})),
            ("{\"response\": \"own\"}", json!({"response": "own"})),
            ("plain", json!({"response": "plain"})),
            ("{\"response\": \"{\\\"x\\\": 1}\"}", json!({"response": "{\"x\": 1}"})),
        ];
        for (text, expected) in cases {
            let output = output_of(text);
            assert_eq!(Value::Object(checked(&output).into_owned()), expected, "{text:?}");
        }
    }
}
