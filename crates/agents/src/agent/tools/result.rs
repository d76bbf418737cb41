//! The result of a tool call, as it goes to the model and into the record.

use std::time::Duration;

use serde_json::Value;

use crate::agent::output::schema::OutputSchema;
use crate::agent::{AttemptEnd, AttemptResult};
use ensemble_core::reply::output_for_schema;
use ensemble_core::request::AnswerRecord;
use ensemble_core::thread::{Attachment, ResultSummary, ToolCallEnd};
use ensemble_language::data::{JsonMap, RESPONSE_KEY};

/// End of a tool call with the files, answers and summary of its result.
#[derive(Debug)]
pub(crate) struct ToolCallResult {
    pub(crate) end: ToolCallEnd,
    pub(crate) attachments: Vec<Attachment>,
    /// The questions that the tool asked, with their answers.
    pub(crate) answers: Vec<AnswerRecord>,
    /// The text that the model receives instead of the result.
    pub(crate) summary: Option<ResultSummary>,
}

impl From<ToolCallEnd> for ToolCallResult {
    fn from(end: ToolCallEnd) -> Self {
        Self {
            end,
            attachments: Vec::new(),
            answers: Vec::new(),
            summary: None,
        }
    }
}

/// Converts the outcome of a runner to the end of a tool call.
pub(crate) fn tool_end_from_outcome(observed: AttemptEnd) -> ToolCallEnd {
    match observed {
        AttemptEnd::Finished(AttemptResult { result, .. })
        | AttemptEnd::Recorded(AttemptResult { result, .. })
        | AttemptEnd::Reused(AttemptResult { result, .. }) => match result {
            Ok(output) => ToolCallEnd::Result(unwrap_response_key(output)),
            Err(failure) => ToolCallEnd::Error(failure.error),
        },
        AttemptEnd::NeedsInput(requests) => {
            let question = requests.iter().find(|request| !request.is_permission());
            let prompt = question.map_or("", |request| request.question.prompt.trim());
            ToolCallEnd::Error(format!("no operator is available to answer the question: {prompt}"))
        }
        AttemptEnd::Interrupted(_) => ToolCallEnd::Error("the tool was interrupted".to_owned()),
    }
}

/// Returns the end if its result matches the schema, otherwise an error that describes the mismatch.
pub(crate) fn check_result_schema(end: ToolCallEnd, name: &str, schema: Option<&OutputSchema>) -> ToolCallEnd {
    let (ToolCallEnd::Result(value), Some(schema)) = (&end, schema) else {
        return end;
    };
    match schema.list_value_errors(value) {
        errors if errors.is_empty() => end,
        errors => ToolCallEnd::Error(format!(
            "the tool ran, but its result does not match its {name}: {}",
            errors.join("; ")
        )),
    }
}

/// Replaces an output with the single key `response` by the value of the key. Removes a `response` that repeats the other keys as text.
fn unwrap_response_key(output: JsonMap) -> Value {
    let mut output = output_for_schema(&output).into_owned();
    match output.remove(RESPONSE_KEY) {
        Some(response) if output.is_empty() => response,
        Some(response) => {
            output.insert(RESPONSE_KEY.to_owned(), response);
            Value::Object(output)
        }
        None => Value::Object(output),
    }
}

/// Removes the middle of a result that is longer than `most` bytes. Converts a value that is too long to JSON text.
pub(crate) fn shorten_large_result(end: ToolCallEnd, most: usize) -> ToolCallEnd {
    match end {
        ToolCallEnd::Error(error) => ToolCallEnd::Error(shorten_middle(&error, most).unwrap_or(error)),
        ToolCallEnd::Result(Value::String(text)) => {
            ToolCallEnd::Result(shorten_middle(&text, most).unwrap_or(text).into())
        }
        ToolCallEnd::Result(value) => match shorten_middle(&value.to_string(), most) {
            Some(text) => ToolCallEnd::Result(text.into()),
            None => ToolCallEnd::Result(value),
        },
    }
}

/// Returns the start and end of a text that is longer than `most` bytes, with a note between them. Returns `None` for shorter texts.
pub(super) fn shorten_middle(text: &str, most: usize) -> Option<String> {
    if text.len() <= most {
        return None;
    }
    let of_end = most / 2;
    let head = &text[..text.floor_char_boundary(most - of_end)];
    let tail = &text[text.ceil_char_boundary(text.len() - of_end)..];
    let missing = text.len() - head.len() - tail.len();
    Some(format!(
        "{head}\n[{missing} of {} bytes are left out here]\n{tail}",
        text.len()
    ))
}

/// Renders the error of a tool call that has reached its time limit.
pub(crate) fn timeout_message(limit: Duration) -> String {
    format!("the tool timed out after {} s", limit.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn output(value: Value) -> AttemptEnd {
        let Value::Object(map) = value else {
            panic!("an output is a map")
        };
        AttemptEnd::from_output(map)
    }

    #[test]
    fn outputs_become_results() {
        let table = [
            (json!({"response": "text"}), json!("text")),
            (json!({"response": [1]}), json!([1])),
            (json!({"response": "text", "n": 1}), json!({"n": 1, "response": "text"})),
            (json!({"n": 1}), json!({"n": 1})),
            (json!({"n": 1, "response": "{\"n\": 1}"}), json!({"n": 1})),
            (
                json!({"n": 1, "response": "{\"n\": 2}"}),
                json!({"n": 1, "response": "{\"n\": 2}"}),
            ),
            (json!({"response": "{\"n\": 1"}), json!("{\"n\": 1")),
            (json!({}), json!({})),
        ];
        for (given, expected) in table {
            assert_eq!(
                tool_end_from_outcome(output(given.clone())),
                ToolCallEnd::Result(expected),
                "{given}"
            );
        }
    }

    #[test]
    fn only_a_result_that_matches_its_schema_is_one() {
        let schema = OutputSchema::compile(&json!({"type": "string", "minLength": 2})).expect("a schema");
        let matched = |end: ToolCallEnd| check_result_schema(end, "`output_schema`", Some(&schema));
        let fine = ToolCallEnd::Result(json!("ab"));
        assert_eq!(matched(fine.clone()), fine);
        let error = ToolCallEnd::Error("x".into());
        assert_eq!(matched(error.clone()), error);
        let ToolCallEnd::Error(error) = matched(ToolCallEnd::Result(json!({"n": 1}))) else {
            panic!("an error")
        };
        assert_eq!(
            error,
            "the tool ran, but its result does not match its `output_schema`: {\"n\":1} is not of type \"string\""
        );
    }

    #[test]
    fn the_middle_of_what_is_too_long_is_left_out() {
        let left_out = |missing: usize, all: usize| format!("\n[{missing} of {all} bytes are left out here]\n");
        let table = [
            (json!("éé"), 4, json!("éé")),
            (json!("abcdef"), 4, json!(format!("ab{}ef", left_out(2, 6)))),
            (json!("abcdef"), 3, json!(format!("ab{}f", left_out(3, 6)))),
            (json!("abcdef"), 1, json!(format!("a{}", left_out(5, 6)))),
            // A character is shown whole or not at all.
            (json!("ééé"), 4, json!(format!("é{}é", left_out(2, 6)))),
            (json!("ééé"), 3, json!(format!("é{}", left_out(4, 6)))),
            (json!("aéé"), 3, json!(format!("a{}", left_out(4, 5)))),
            (json!({"a": 1}), 7, json!({"a": 1})),
            (json!({"a": 1}), 6, json!(format!("{{\"a{}:1}}", left_out(1, 7)))),
        ];
        for (given, most, expected) in table {
            let expected = ToolCallEnd::Result(expected);
            assert_eq!(
                shorten_large_result(ToolCallEnd::Result(given.clone()), most),
                expected,
                "{given} {most}"
            );
        }
        let error = shorten_large_result(ToolCallEnd::Error("xyz".into()), 2);
        assert_eq!(error, ToolCallEnd::Error(format!("x{}z", left_out(1, 3))));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_the_beginning_and_the_end(text in ".{0,40}", most in 1_usize..50) {
            let ToolCallEnd::Result(Value::String(shown)) = shorten_large_result(ToolCallEnd::Result(json!(text)), most) else {
                panic!("a text stays a text");
            };
            if text.len() <= most {
                prop_assert_eq!(shown, text);
            } else {
                let (head, rest) = shown.split_once("\n[").expect("a sentence");
                let (number, tail) = rest.split_once(" bytes are left out here]\n").expect("its end");
                let missing: usize = number.split(' ').next().expect("a number").parse().expect("a number");
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert!(head.len() + tail.len() <= most);
                prop_assert_eq!(head.len() + missing + tail.len(), text.len());
            }
        }
    }
}
