//! The result of a tool call, as it goes to the model and into the record.

use std::time::Duration;

use serde_json::Value;

use crate::agent::{Observation, Observed};
use ensemble_core::thread::ToolEnd;
use ensemble_language::data::JsonMap;

/// The key of an output that holds a plain text.
const RESPONSE: &str = "response";

/// Converts the observation of a runner to the end of a tool call.
pub(super) fn end_of(observed: Observed) -> ToolEnd {
    match observed {
        Observed::Finished(Observation { result, .. })
        | Observed::Recorded(Observation { result, .. })
        | Observed::Reused(Observation { result, .. }) => match result {
            Ok(output) => ToolEnd::Result(plain(output)),
            Err(failure) => ToolEnd::Error(failure.error),
        },
        Observed::NeedsInput(question) => ToolEnd::Error(format!(
            "no operator is available to answer the question: {}",
            question.prompt.trim()
        )),
        Observed::Interrupted(_) => ToolEnd::Error("the tool was interrupted".to_owned()),
    }
}

/// An output with the single key `response` becomes the value of that key.
fn plain(mut output: JsonMap) -> Value {
    match output.remove(RESPONSE) {
        Some(response) if output.is_empty() => response,
        Some(response) => {
            output.insert(RESPONSE.to_owned(), response);
            Value::Object(output)
        }
        None => Value::Object(output),
    }
}

/// Truncates the text of the end to `most` bytes and adds a note if it was longer.
pub(super) fn capped(end: ToolEnd, most: usize) -> ToolEnd {
    match end {
        ToolEnd::Error(error) => ToolEnd::Error(cut(&error, most).unwrap_or(error)),
        ToolEnd::Result(Value::String(text)) => ToolEnd::Result(cut(&text, most).unwrap_or(text).into()),
        ToolEnd::Result(value) => match cut(&value.to_string(), most) {
            Some(text) => ToolEnd::Result(text.into()),
            None => ToolEnd::Result(value),
        },
    }
}

/// The beginning of the text, if the text is longer than the limit.
fn cut(text: &str, most: usize) -> Option<String> {
    let kept = &text[..text.floor_char_boundary(most)];
    (kept.len() < text.len()).then(|| {
        format!(
            "{kept}\n[cut off: the result has {} bytes, and the first {} are shown]",
            text.len(),
            kept.len()
        )
    })
}

/// The error of a tool call that has reached its time limit.
pub(super) fn timeout_message(limit: Duration) -> String {
    format!("the tool had not ended after {} s and was stopped", limit.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn output(value: Value) -> Observed {
        let Value::Object(map) = value else {
            panic!("an output is a map")
        };
        Observed::success(map)
    }

    #[test]
    fn outputs_become_results() {
        let table = [
            (json!({"response": "text"}), json!("text")),
            (json!({"response": [1]}), json!([1])),
            (json!({"response": "text", "n": 1}), json!({"n": 1, "response": "text"})),
            (json!({"n": 1}), json!({"n": 1})),
            (json!({}), json!({})),
        ];
        for (given, expected) in table {
            assert_eq!(end_of(output(given.clone())), ToolEnd::Result(expected), "{given}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_character_and_says_so() {
        let result = |value: Value| ToolEnd::Result(value);
        assert_eq!(capped(result(json!("éé")), 4), result(json!("éé")));
        let note = |all: usize, kept: usize| {
            format!("\n[cut off: the result has {all} bytes, and the first {kept} are shown]")
        };
        assert_eq!(
            capped(result(json!("éé")), 3),
            result(json!(format!("é{}", note(4, 2))))
        );
        assert_eq!(capped(result(json!({"a": 1})), 7), result(json!({"a": 1})));
        let cut = capped(result(json!({"a": 1})), 6);
        assert_eq!(cut, result(json!(format!("{{\"a\":1{}", note(7, 6)))));
        let error = capped(ToolEnd::Error("xyz".into()), 1);
        assert_eq!(error, ToolEnd::Error(format!("x{}", note(3, 1))));
    }

    proptest! {
        #[test]
        fn what_is_shown_begins_the_result(text in ".{0,40}", most in 1_usize..50) {
            let ToolEnd::Result(Value::String(shown)) = capped(ToolEnd::Result(json!(text)), most) else {
                panic!("a text stays a text");
            };
            if text.len() <= most {
                prop_assert_eq!(shown, text);
            } else {
                let kept = shown.split("\n[cut off").next().unwrap_or_default();
                prop_assert!(text.starts_with(kept) && kept.len() <= most);
            }
        }
    }
}
