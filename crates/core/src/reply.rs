//! A model's text as an output.
//!
//! A text that is a JSON object, or one fenced JSON object and nothing else, gives its keys; the full text stays under
//! `response`, unless the object has a `response` of its own, which then wins: the model named the key, and the
//! full text is in the thread anyway. Every other text, a bare number or list included, is the `response`.
//!
//! An object inside other text is quoted, not said: a model that explains what a reply looks like has not given that reply.
//! Only a model that was asked for JSON by a schema may put text around its only object; requests for other agents
//! are not taken from there.

mod missing_object;

use std::borrow::Cow;

use serde_json::Value;

use ensemble_language::data::{JsonMap, RESPONSE_KEY, parse_whole_object, strip_byte_order_mark, strip_last_newline};

pub use missing_object::{ObjectInText, describe_missing_object, find_object_in_text, unread_keys_warning};

/// Key of an output that requests executions of other agents.
const AGENT_REQUESTS: &str = "agent_requests";

/// Parses a reply of a model that was not asked for JSON. The text is added as `response`.
pub fn parse_reply_without_schema(text: &str) -> JsonMap {
    add_response_key(parse_whole_object_or_block(strip_last_newline(text)), text)
}

/// Parses a reply of a model that was asked for JSON by a schema. Accepts one fenced object inside other text.
pub fn parse_reply_with_schema(text: &str) -> JsonMap {
    add_response_key(find_json_object(strip_last_newline(text)), text)
}

/// Returns the keys of the object and the text under `response`, unless the object has this key.
fn add_response_key(object: Option<JsonMap>, text: &str) -> JsonMap {
    let mut output = object.unwrap_or_default();
    let text = strip_last_newline(strip_byte_order_mark(text));
    output.entry(RESPONSE_KEY).or_insert_with(|| text.into());
    output
}

/// Returns whether the reply contains agent requests in an object inside other text. Such requests are ignored.
pub fn has_ignored_agent_requests(text: &str) -> bool {
    parse_whole_object_or_block(text).is_none()
        && find_only_json_block(text).is_some_and(|object| object.contains_key(AGENT_REQUESTS))
}

/// Returns the part of the output that `output_schema` applies to: without the full text that the parser of replies added.
///
/// The result depends on the output alone, so a later validation of the output has the same result.
pub fn output_for_schema(output: &JsonMap) -> Cow<'_, JsonMap> {
    let text = output.get(RESPONSE_KEY).and_then(Value::as_str);
    match text.and_then(find_json_object) {
        Some(object) if !object.contains_key(RESPONSE_KEY) && is_output_from_object(&object, output) => {
            Cow::Owned(object)
        }
        _ => Cow::Borrowed(output),
    }
}

/// Returns whether the output has exactly the keys of the object and one more key.
fn is_output_from_object(object: &JsonMap, output: &JsonMap) -> bool {
    output.len() == object.len() + 1 && object.iter().all(|(key, value)| output.get(key) == Some(value))
}

/// Returns the JSON object that is the whole text or its only fenced block. Removes agent requests from a block inside other text.
fn find_json_object(text: &str) -> Option<JsonMap> {
    parse_whole_object_or_block(text).or_else(|| {
        let mut object = find_only_json_block(text)?;
        object.shift_remove(AGENT_REQUESTS);
        Some(object)
    })
}

/// Returns the JSON object that is the whole text, plain or as one fenced block.
fn parse_whole_object_or_block(text: &str) -> Option<JsonMap> {
    parse_whole_object(text)
        .or_else(|| parse_whole_object(&find_block_as_whole_text(strip_byte_order_mark(text).trim())?))
}

/// Returns the JSON object of the only fenced block that contains an object. Returns `None` if several blocks contain one.
fn find_only_json_block(text: &str) -> Option<JsonMap> {
    let mut objects = list_json_blocks(text)
        .into_iter()
        .filter_map(|block| parse_whole_object(&block));
    objects.next().filter(|_| objects.next().is_none())
}

/// Returns the line, from 1, of the first fenced JSON object that is not the whole text.
fn find_fenced_object_line(text: &str) -> Option<usize> {
    if parse_whole_object_or_block(text).is_some() {
        return None;
    }
    let is_object = |block: &FencedBlock| parse_whole_object(&block.text).is_some();
    let block = scan_fences(text).blocks.into_iter().find(is_object)?;
    Some(block.line)
}

/// Returns the line, from 1, of the fence that is not closed.
fn find_unclosed_fence_line(text: &str) -> Option<usize> {
    scan_fences(text).open_fence_line
}

/// Returns the content of the fenced block that is the whole text.
fn find_block_as_whole_text(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let (fence, language) = parse_opening_fence(lines.next()?)?;
    let mut block = Vec::new();
    for line in lines.by_ref() {
        if closes_fence(line, fence) {
            let is_whole = lines.next().is_none();
            return (is_whole && is_json_language(language)).then(|| block.join("\n"));
        }
        block.push(line);
    }
    None
}

/// Returns the contents of the fenced blocks that are marked as JSON or not marked.
fn list_json_blocks(text: &str) -> Vec<String> {
    scan_fences(text).blocks.into_iter().map(|block| block.text).collect()
}

/// Fenced blocks of a text, and the line of an unclosed fence.
#[derive(Debug, Default)]
struct ScannedFences {
    /// The blocks marked as JSON or not marked at all.
    blocks: Vec<FencedBlock>,
    /// The line of a fence that is not closed, from 1.
    open_fence_line: Option<usize>,
}

/// The content of a fenced block.
#[derive(Debug)]
struct FencedBlock {
    text: String,
    /// Its first line, from 1.
    line: usize,
}

/// Scans the text for fences. Collects the blocks for JSON and the line of an unclosed fence.
fn scan_fences(text: &str) -> ScannedFences {
    let mut fences = ScannedFences::default();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some((fence, language)) = parse_opening_fence(line) else {
            continue;
        };
        let mut block = Vec::new();
        let closed = lines.by_ref().any(|(line, _)| {
            block.push(line);
            closes_fence(line, fence)
        });
        if !closed {
            fences.open_fence_line = Some(number);
        } else if is_json_language(language) {
            block.pop();
            fences.blocks.push(FencedBlock {
                text: block.join("\n"),
                line: number + 1,
            });
        }
    }
    fences
}

/// Returns whether the line closes a block that this fence opened.
fn closes_fence(line: &str, fence: &str) -> bool {
    line.trim().len() >= fence.len() && line.trim().chars().all(|c| fence.starts_with(c))
}

/// Returns whether the language of a fence is JSON or missing.
fn is_json_language(language: &str) -> bool {
    language.is_empty() || language.eq_ignore_ascii_case("json")
}

/// Parses a line that opens a fence. Returns the fence characters and the language. Returns `None` for other lines.
fn parse_opening_fence(line: &str) -> Option<(&str, &str)> {
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
        let surrounded = "\n \n```json\n{\"a\": 1}\n```\n\n ";
        let indented_alone = "  ```JSON\n  {\n   \"a\": 1}\n  ```";
        let after_text = "So:\n```\n{\"a\": 1}\n```";
        let before_text = "```\n{\"a\": 1}\n```\nDone.";
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
            (bare_fence, with(bare_fence)),
            (surrounded, with(surrounded)),
            (indented_alone, with(indented_alone)),
            (fenced_object, text_only(fenced_object)),
            (after_text, text_only(after_text)),
            (before_text, text_only(before_text)),
            (indented, text_only(indented)),
            (with_code, text_only(with_code)),
            (two, text_only(two)),
            (unclosed, text_only(unclosed.trim_end())),
            (list, text_only(list)),
            (python, text_only(python)),
            (nested, text_only(nested)),
        ];
        for (text, expected) in cases {
            assert_eq!(Value::Object(parse_reply_without_schema(text)), expected, "{text:?}");
        }
        // With a schema the model was asked for an object, so text around its only block does not matter.
        for text in [fenced_object, after_text, before_text, indented, with_code, bare_fence] {
            assert_eq!(Value::Object(parse_reply_with_schema(text)), with(text), "{text:?}");
        }
        for text in [two, unclosed.trim_end(), list, python, nested, "{\"a\": 1} and more"] {
            assert_eq!(
                Value::Object(parse_reply_with_schema(text)),
                text_only(text),
                "{text:?}"
            );
        }
    }

    #[test]
    fn requests_are_taken_only_from_a_reply_that_is_json_as_a_whole() {
        let asks = "{\"agent_requests\": [], \"a\": 1}";
        let alone = format!("```json\n{asks}\n```\n");
        for text in [asks, &*alone] {
            assert!(
                parse_reply_without_schema(text).contains_key(AGENT_REQUESTS),
                "{text:?}"
            );
            assert!(parse_reply_with_schema(text).contains_key(AGENT_REQUESTS), "{text:?}");
            assert!(!has_ignored_agent_requests(text), "{text:?}");
        }
        let quoted = format!("You could say:\n{alone}");
        assert_eq!(
            Value::Object(parse_reply_without_schema(&quoted)),
            json!({"response": quoted.trim_end()})
        );
        let asked = parse_reply_with_schema(&quoted);
        assert_eq!(
            Value::Object(asked.clone()),
            json!({"a": 1, "response": quoted.trim_end()})
        );
        assert_eq!(Value::Object(output_for_schema(&asked).into_owned()), json!({"a": 1}));
        assert!(has_ignored_agent_requests(&quoted));
        assert!(!has_ignored_agent_requests("You could say:\n```\n{\"a\": 1}\n```"));
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
            let output = parse_reply_with_schema(text);
            assert_eq!(
                Value::Object(output_for_schema(&output).into_owned()),
                expected,
                "{text:?}"
            );
        }
    }
}
