//! The texts of a request as the page shows them.
//!
//! Invariant: a shown text has no hidden characters except line breaks.

use ensemble_core::operator::{escape_hidden, escape_hidden_lines};
use ensemble_core::request::PendingRequest;
use ensemble_language::hidden_characters::escape_hidden_in_json;
use serde_json::{Value, json};

/// Adds the texts that the page shows to the JSON of a pending request.
pub(crate) fn with_request_texts(mut document: Value, request: &PendingRequest) -> Value {
    let question = &request.question;
    let permission = question.permission.as_ref();
    let arguments = permission.map(|wanted| format!("{:#}", Value::Object(wanted.arguments.clone())));
    document["shown"] = json!({
        "address": escape_hidden(&request.address.to_string()),
        "prompt": escape_hidden_lines(&question.prompt),
        "choices": request.escaped_choices(),
        "tool": permission.map(|wanted| escape_hidden(&wanted.tool)),
        "arguments": arguments.map(|text| escape_hidden_in_json(&text).into_owned()),
    });
    document
}

#[cfg(test)]
mod tests {
    use ensemble_core::runner::ExecutionInput;
    use ensemble_language::data::{JsonMap, OperatorQuestion};

    use super::*;

    #[test]
    fn nothing_hidden_is_shown_and_the_choices_stay_as_they_are() {
        let execution = ExecutionInput::first_attempt_without_outputs("gate", 1);
        let choices = vec!["keep".to_owned(), "del\u{202e}ete\u{1b}[8m".to_owned()];
        let question = OperatorQuestion::new("Delete\u{202e}\nit?", choices.clone());
        let request = PendingRequest::for_question(&execution, question);
        let document = with_request_texts(json!(request), &request);
        assert_eq!(document["choices"], json!(choices));
        assert_eq!(
            document["shown"]["choices"],
            json!(["keep", "del\\u{202e}ete\\u{1b}[8m"])
        );
        assert_eq!(document["shown"]["prompt"], "Delete\\u{202e}\nit?");
        let arguments: JsonMap = [("to".to_owned(), json!("a\u{202e}b"))].into_iter().collect();
        let origin = execution.origin.append_tool_call("pay".into(), 1, 0);
        let request = PendingRequest::for_permission(&execution, origin, "c", "pay", &arguments);
        let document = with_request_texts(json!(request), &request);
        assert_eq!(document["shown"]["arguments"], "{\n  \"to\": \"a\\u202eb\"\n}");
    }
}
