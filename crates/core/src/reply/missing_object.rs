//! Descriptions of replies and outputs that are not one JSON object.

use ensemble_language::data::strip_byte_order_mark;
use serde_json::Value;

use ensemble_language::data::JsonMap;

use super::{
    find_block_as_whole_text, find_fenced_object_line, find_json_object, find_unclosed_fence_line, list_json_blocks,
};

/// The maximum number of lines at which a JSON object is looked for in a text.
const MAX_CANDIDATES: usize = 20;

/// The number of characters that a description quotes before and after a position.
const QUOTED_CHARACTERS: usize = 20;

/// JSON object on separate lines of a text, with other text around the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectInText {
    /// The line in which the object begins, from 1.
    pub line: usize,
    /// The place of the text: `before`, `after` or `before and after` the object.
    pub place: &'static str,
}

/// Finds the first JSON object that starts and ends with a line and has text around it. Ignores an empty object, which is more likely code.
pub fn find_object_in_text(text: &str) -> Option<ObjectInText> {
    let mut start = 0;
    let mut candidates = Vec::new();
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_start().starts_with('{') && candidates.len() < MAX_CANDIDATES {
            candidates.push((number + 1, start));
        }
        start += line.len();
    }
    candidates.into_iter().find_map(|(line, start)| {
        let following_text = &text[start + measure_first_object(&text[start..])?..];
        let (ending, after) = following_text.split_once('\n').unwrap_or((following_text, ""));
        ending.trim().is_empty().then(|| ObjectInText {
            line,
            place: describe_surrounding_text(&text[..start], after),
        })
    })
}

/// Returns the warning about a fenced JSON object inside other text, whose keys are not a part of the output.
pub fn unread_keys_warning(text: &str) -> Option<String> {
    let line = find_fenced_object_line(text)?;
    Some(format!(
        "the keys of the JSON object in line {line} of the reply were not read, because there is other text around it; the \
         output has only `response`. Set `output_schema`, or ask for the JSON object and nothing else"
    ))
}

/// Describes why a reply is not one JSON object, with the position. Returns `None` if the reply contains an object.
pub fn describe_missing_object(text: &str) -> Option<String> {
    let text = strip_byte_order_mark(text);
    if find_json_object(text).is_some() {
        return None;
    }
    if text.trim().is_empty() {
        return Some("the reply is empty; expected a JSON object".to_owned());
    }
    if let Some(line) = find_unclosed_fence_line(text) {
        return Some(format!(
            "the reply is not JSON: the code fence that opens in line {line} is not closed"
        ));
    }
    let lone_block = find_block_as_whole_text(text.trim());
    let is_fenced = lone_block.is_some();
    let (json, first_line) = match lone_block {
        // The line of the fence, and blank lines before it.
        Some(block) => (block, 2 + count_leading_blank_lines(text)),
        None => (text.to_owned(), 1),
    };
    let error = match serde_json::from_str::<Value>(&json) {
        Ok(value) => {
            return Some(format!(
                "the reply is {}; expected a JSON object",
                describe_json_type(&value)
            ));
        }
        Err(error) => error,
    };
    let blocks = list_json_blocks(text);
    let objects = blocks
        .iter()
        .filter(|block| measure_first_object(block).is_some())
        .count();
    if objects > 1 {
        return Some(format!(
            "the reply has {objects} JSON objects in code fences; expected one"
        ));
    }
    // The fence is no text around the object.
    let surrounded = (!is_fenced).then(|| describe_object_in_text(text)).flatten();
    Some(surrounded.unwrap_or_else(|| describe_syntax_error(&json, &error, first_line)))
}

/// Describes a reply with text before or after a JSON object, which may be invalid.
fn describe_object_in_text(text: &str) -> Option<String> {
    let starts = text.match_indices('{').map(|(at, _)| at).take(MAX_CANDIDATES);
    let found = starts
        .clone()
        .find_map(|start| Some((start, measure_first_object(&text[start..])?)));
    if let Some((start, length)) = found {
        let place = describe_surrounding_text(&text[..start], &text[start + length..]);
        let (line, column) = find_position(text, start);
        let quoted = match text[..start].trim().is_empty() {
            true => quote_around(&text[start + length..], 0),
            false => quote_around(text, 0),
        };
        return Some(format!(
            "there is text {place} the JSON object in line {line}, column {column}: {quoted}"
        ));
    }
    let is_object = |start: &usize| text[start + 1..].trim_start().starts_with('"');
    let start = starts
        .into_iter()
        .find(is_object)
        .filter(|start| !text[..*start].trim().is_empty())?;
    let error = serde_json::from_str::<Value>(&text[start..]).err()?;
    let (line, column) = find_position(text, start);
    let at = start + find_error_offset(&text[start..], &error);
    let (error_line, error_column) = find_position(text, at);
    Some(format!(
        "there is text before the JSON object in line {line}, column {column}, and the object is not valid: {} in line \
         {error_line}, column {error_column}, at {}",
        error_without_position(&error),
        quote_around(text, at)
    ))
}

/// Describes a JSON syntax error with its position in the reply. `first_line` is the line at which the JSON starts.
fn describe_syntax_error(json: &str, error: &serde_json::Error, first_line: usize) -> String {
    let at = find_error_offset(json, error);
    let (line, column) = find_position(json, at);
    let line = line + first_line - 1;
    match json.trim_start().starts_with(['{', '[']) {
        true => format!(
            "the reply is not valid JSON: {} in line {line}, column {column}, at {}",
            error_without_position(error),
            quote_around(json, at)
        ),
        false => format!(
            "the reply is not JSON: line {line}, column {column} has {}",
            quote_around(json, at)
        ),
    }
}

/// Returns the error without its position.
fn error_without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// Describes the type of a JSON value for a message.
fn describe_json_type(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a JSON list with {} items", items.len()),
        Value::Object(_) => "a JSON object".to_owned(),
        Value::String(_) => "a JSON string".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        other => format!("`{other}`"),
    }
}

/// Returns where other text is: `before`, `after` or `before and after` the object.
fn describe_surrounding_text(before: &str, after: &str) -> &'static str {
    match (before.trim().is_empty(), after.trim().is_empty()) {
        (false, true) => "before",
        (true, false) => "after",
        _ => "before and after",
    }
}

/// Returns the length in bytes of the JSON object at the start of the text. Returns `None` without an object or for an empty object.
fn measure_first_object(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<JsonMap>();
    values.next()?.ok().filter(|object| !object.is_empty())?;
    Some(values.byte_offset())
}

/// Returns the number of blank lines at the start of the text.
fn count_leading_blank_lines(text: &str) -> usize {
    text.lines().take_while(|line| line.trim().is_empty()).count()
}

/// Returns the byte offset of the character at which the parser stopped.
fn find_error_offset(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let start: usize = lines.map(str::len).sum();
    let at = (start + error.column().saturating_sub(1)).min(text.len());
    text.floor_char_boundary(at)
}

/// Returns the line and the column of a byte offset, both from 1.
fn find_position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

/// Returns the text around an offset, on one line and in backticks.
fn quote_around(text: &str, at: usize) -> String {
    let before: Vec<char> = text[..at].chars().rev().take(QUOTED_CHARACTERS).collect();
    let is_cut = text[..at].chars().count() > QUOTED_CHARACTERS;
    let after: String = text[at..].chars().take(QUOTED_CHARACTERS).collect();
    let is_longer = text[at..].chars().count() > QUOTED_CHARACTERS;
    let quoted: String = before.into_iter().rev().chain(after.chars()).collect();
    let words: Vec<&str> = quoted.split_whitespace().collect();
    let (start, end) = (if is_cut { "…" } else { "" }, if is_longer { "…" } else { "" });
    format!("`{start}{}{end}`", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_without_an_object_is_described() {
        let table = [
            ("{\"a\": 1}", None),
            ("So:\n```\n{\"a\": 1}\n```", None),
            (" \n", Some("the reply is empty; expected a JSON object")),
            (
                "[1, 2]",
                Some("the reply is a JSON list with 2 items; expected a JSON object"),
            ),
            (
                "```json\n[1]\n```",
                Some("the reply is a JSON list with 1 items; expected a JSON object"),
            ),
            ("null", Some("the reply is `null`; expected a JSON object")),
            ("\"x\"", Some("the reply is a JSON string; expected a JSON object")),
            (
                "Four stars!",
                Some("the reply is not JSON: line 1, column 1 has `Four stars!`"),
            ),
            (
                "Sure:\n```json\n{\"a\": 1}\n",
                Some("the reply is not JSON: the code fence that opens in line 2 is not closed"),
            ),
            (
                "{\"a\": 1,\n \"b\" 2}",
                Some("the reply is not valid JSON: expected `:` in line 2, column 6, at `{\"a\": 1, \"b\" 2}`"),
            ),
            (
                "\n```json\n{\"ü\": 1,}\n```",
                Some("the reply is not valid JSON: trailing comma in line 3, column 9, at `{\"ü\": 1,}`"),
            ),
            (
                "Here you are: {\"a\": 1}",
                Some("there is text before the JSON object in line 1, column 15: `Here you are: {\"a\":…`"),
            ),
            (
                "{\"a\": 1}\nIs that good?",
                Some("there is text after the JSON object in line 1, column 1: `Is that good?`"),
            ),
            (
                "Yes.\n{\"a\": 1}\nNo?",
                Some("there is text before and after the JSON object in line 2, column 1: `Yes. {\"a\": 1} No?`"),
            ),
            (
                "Yes: {\"a\": 1,}",
                Some(
                    "there is text before the JSON object in line 1, column 6, and the object is not valid: trailing comma in line 1, column 14, at `Yes: {\"a\": 1,}`",
                ),
            ),
            (
                "```json\n{\"a\": 1}\n```\n```json\n{\"b\": 1}\n```",
                Some("the reply has 2 JSON objects in code fences; expected one"),
            ),
        ];
        for (text, expected) in table {
            assert_eq!(describe_missing_object(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn no_text_breaks_a_description() {
        let parts = ["{", "\"ü\"", ":", "1", ",", "\n", "```", "json", "[", "}", " "];
        for seed in 0..4000_usize {
            let text: String = (0..8)
                .map(|nth| parts[(seed * 7919 + nth * nth * 31 + seed / 11) % parts.len()])
                .collect();
            assert_eq!(
                describe_missing_object(&text).is_none(),
                find_json_object(&text).is_some(),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_fenced_object_inside_text_is_a_warning() {
        let fenced = "So:\n\n```json\n{\"a\": 1}\n```";
        assert!(unread_keys_warning(fenced).is_some_and(|text| text.contains("in line 4 of the reply")));
        for quiet in [
            "{\"a\": 1}",
            "```json\n{\"a\": 1}\n```\n",
            "So:\n```python\n{\"a\": 1}\n```",
            "So: {\"a\": 1}",
        ] {
            assert_eq!(unread_keys_warning(quiet), None, "{quiet:?}");
        }
    }
}
