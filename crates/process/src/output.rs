//! The stdout of a script, converted to the output of its agent.
//!
//! An output is a JSON object. Other values and text are converted to an object, so that conditions, the context and
//! the journal have one form. A script can report its own failure in the object.

use serde_json::Value;

use ensemble_core::reply::{ObjectInText, find_object_in_text};
use ensemble_core::runner::AttemptLedger;
use ensemble_language::data::{
    ExecutionFailure, FailureKind, JsonMap, strip_byte_order_mark, strip_last_newline, value_to_output,
};

/// Converts the stdout bytes of a child process to an output. Replaces invalid UTF-8 and adds a warning.
pub fn output_from_bytes(bytes: &[u8], ledger: &AttemptLedger) -> Result<JsonMap, ExecutionFailure> {
    let text = String::from_utf8_lossy(bytes);
    if matches!(text, std::borrow::Cow::Owned(_)) {
        ledger.add_warning("the output is not valid UTF-8; the invalid bytes were replaced by U+FFFD");
    }
    output_from_text(&text, ledger)
}

/// Converts a text to an output: one JSON value, otherwise the text itself.
///
/// Text that contains a JSON object on lines of its own, or begins like one but is not valid, stays text. A warning says
/// why, because a condition on a key of the object would be false without an explanation.
pub fn output_from_text(text: &str, ledger: &AttemptLedger) -> Result<JsonMap, ExecutionFailure> {
    let text = strip_byte_order_mark(text);
    match serde_json::from_str(text) {
        Ok(value) => output_from_value(value),
        Err(error) => {
            if let Some(note) = surrounding_text_warning(text) {
                ledger.add_warning(note);
            } else if starts_with_object(text) {
                ledger.add_warning(format!(
                    "the output begins like a JSON object, but was used as text: {error}"
                ));
            }
            Ok(value_to_output(strip_last_newline(text).into()))
        }
    }
}

/// Converts a JSON value to an output: keeps an object, and stores any other value under `response`.
pub fn output_from_value(value: Value) -> Result<JsonMap, ExecutionFailure> {
    let output = value_to_output(value);
    match find_reported_error(&output) {
        None => Ok(output),
        Some(error) => Err(ExecutionFailure::new(FailureKind::Reported, error)),
    }
}

/// Returns the error text of an output with `"success": false`.
pub fn find_reported_error(output: &JsonMap) -> Option<String> {
    if output.get("success") != Some(&Value::Bool(false)) {
        return None;
    }
    Some(match output.get("error") {
        Some(Value::String(error)) if !error.trim().is_empty() => error.clone(),
        None | Some(Value::Null | Value::String(_)) => {
            "the output says `\"success\": false` without an `error` that says why".to_owned()
        }
        Some(other) => other.to_string(),
    })
}

/// Returns whether the text starts like a JSON object.
fn starts_with_object(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix('{').map(str::trim_start);
    inside.is_some_and(|rest| rest.starts_with('"'))
}

/// Returns a warning if there is text before or after a JSON object on separate lines.
fn surrounding_text_warning(text: &str) -> Option<String> {
    let ObjectInText { line, place } = find_object_in_text(text)?;
    Some(format!(
        "printed no JSON; its output has only `response`: there is text {place} the JSON object that begins in line {line}; write such text to standard error"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(bytes: &[u8]) -> (Result<JsonMap, ExecutionFailure>, Vec<String>) {
        let ledger = AttemptLedger::default();
        let output = output_from_bytes(bytes, &ledger);
        (output, ledger.take_entries().warnings)
    }

    fn quiet(text: &str) -> Value {
        let (output, warnings) = read(text.as_bytes());
        assert_eq!(warnings, Vec::<String>::new(), "{text:?}");
        Value::Object(output.expect("an output"))
    }

    #[test]
    fn an_object_is_the_output_as_it_is() {
        assert_eq!(
            quiet(r#"{"b": 1, "a": {"c": null}}"#),
            json!({"b": 1, "a": {"c": null}})
        );
        assert_eq!(quiet(" \r\n\t{\"a\": 1}\n \n"), json!({"a": 1}));
        assert_eq!(quiet("{}"), json!({}));
        assert_eq!(
            quiet(r#"{"success": true, "error": "x"}"#),
            json!({"success": true, "error": "x"})
        );
    }

    #[test]
    fn keys_keep_their_order() {
        let output = read(br#"{"z": 1, "a": 2, "m": 3}"#).0.expect("an output");
        assert_eq!(output.keys().collect::<Vec<_>>(), ["z", "a", "m"]);
    }

    #[test]
    fn another_json_value_is_the_response() {
        for value in [
            json!([1, {"success": false}]),
            json!("text\n"),
            json!(42),
            json!(1.5),
            json!(false),
            json!(null),
        ] {
            assert_eq!(quiet(&format!("{value}\n")), json!({"response": value}));
        }
    }

    #[test]
    fn text_loses_one_newline_and_nothing_else() {
        for (text, response) in [
            ("hello\n", "hello"),
            ("hello\r\n", "hello"),
            ("hello\n\n", "hello\n"),
            ("hello\r", "hello\r"),
            ("  hello ", "  hello "),
            ("", ""),
            ("\n", ""),
            ("[INFO] {x}\n", "[INFO] {x}"),
            ("{name} says", "{name} says"),
            ("1 2", "1 2"),
            ("true false", "true false"),
        ] {
            assert_eq!(quiet(text), json!({"response": response}), "{text:?}");
        }
    }

    #[test]
    fn half_a_json_is_text_and_warned_of() {
        for text in [
            r#"{"a": 1"#,
            r#"{"a": 1} {"b": 2}"#,
            r#"{ "a": NaN}"#,
            r#"{"a": 1e999}"#,
        ] {
            let (output, warnings) = read(text.as_bytes());
            assert_eq!(Value::Object(output.expect("an output")), json!({"response": text}));
            assert_eq!(warnings.len(), 1, "{text}: {warnings:?}");
            assert!(warnings[0].contains("column"), "{warnings:?}");
        }
    }

    #[test]
    fn text_beside_an_object_is_warned_of() {
        for (text, place) in [
            (
                "loading …\n{\"a\": 1}\n",
                "before the JSON object that begins in line 2;",
            ),
            ("{\"a\": 1}\ndone\n", "after the JSON object that begins in line 1;"),
            (
                "one\n\n {\"a\":\n  1}\r\ntwo",
                "before and after the JSON object that begins in line 3;",
            ),
            (
                "{\"a\": 1}\n{\"b\": 2}\n",
                "after the JSON object that begins in line 1;",
            ),
            ("{oops\n{\"a\": 1}", "before the JSON object that begins in line 2;"),
        ] {
            let (output, warnings) = read(text.as_bytes());
            assert_eq!(output.expect("an output").keys().collect::<Vec<_>>(), ["response"]);
            assert_eq!(warnings.len(), 1, "{text}: {warnings:?}");
            assert!(
                warnings[0].contains(place) && warnings[0].contains("standard error"),
                "{warnings:?}"
            );
        }
        for text in [
            "see {\"a\": 1}\n",
            "x\n{\"a\": 1} y\n",
            "fn main()\n{}\n",
            "x\n[1, 2]\n",
            "x\n{a}\n",
        ] {
            assert_eq!(quiet(text)["response"], strip_last_newline(text));
        }
    }

    #[test]
    fn big_numbers_are_kept_as_well_as_json_numbers_can() {
        assert_eq!(quiet("18446744073709551615"), json!({"response": u64::MAX}));
        assert_eq!(quiet("[-9223372036854775808]"), json!({"response": [i64::MIN]}));
        assert_eq!(quiet("100000000000000000000"), json!({"response": 1e20}));
        assert_eq!(quiet("1e999"), json!({"response": "1e999"}));
    }

    #[test]
    fn json_deeper_than_any_reader_takes_is_text() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(quiet(&deep), json!({"response": deep}));
        let fair = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(quiet(&fair)["response"].is_array());
    }

    #[test]
    fn invalid_utf8_is_replaced_and_warned_of() {
        let (output, warnings) = read(b"a\xffb\n");
        assert_eq!(
            Value::Object(output.expect("an output")),
            json!({"response": "a\u{fffd}b"})
        );
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("UTF-8"), "{warnings:?}");

        let (output, warnings) = read(b"{\"a\": \"\xc3\"}");
        assert_eq!(Value::Object(output.expect("an output")), json!({"a": "\u{fffd}"}));
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn a_script_that_says_it_failed_has_failed() {
        let says = |text: &str| read(text.as_bytes()).0.expect_err("a failure");
        assert_eq!(
            says(r#"{"success": false, "error": "no such city"}"#),
            ExecutionFailure::new(FailureKind::Reported, "no such city")
        );
        for text in [
            r#"{"success": false}"#,
            r#"{"success": false, "error": null}"#,
            r#"{"success": false, "error": " "}"#,
        ] {
            assert!(says(text).error.contains("without an `error`"), "{text}");
        }
        assert_eq!(
            says(r#"{"success": false, "error": {"code": 7}}"#).error,
            r#"{"code":7}"#
        );
    }

    #[test]
    fn only_a_plain_false_is_a_report_of_failure() {
        for value in [
            json!({"success": 0}),
            json!({"success": "false"}),
            json!({"success": null}),
        ] {
            assert_eq!(quiet(&value.to_string()), value);
        }
    }
}
