//! The report of messages that a model did not receive because of its context window.

use serde_json::Value;

use super::format::format_count;
use ensemble_core::conversation::ExecutionFinished;

/// Renders one line about the messages that the execution dropped, if there are any.
pub(super) fn dropped_messages_line(finished: &ExecutionFinished) -> Option<String> {
    let mut iterations = finished.exchange.iter().rev();
    iterations
        .find_map(|iteration| iteration.metadata.get("dropped"))
        .map(render_dropped_note)
}

/// Renders the note of an iteration about dropped messages.
pub(super) fn render_dropped_note(note: &Value) -> String {
    let number = |key: &str| note[key].as_u64().unwrap_or_default();
    let is_estimate = note["estimated"] == true;
    let tokens = |tokens: u64| match is_estimate {
        true => format!("about {tokens} tokens (estimated at 4 bytes a token)"),
        false => format!("{tokens} tokens"),
    };
    let shortened = match number("shortened") {
        0 => String::new(),
        results => format!(
            "{} shortened by {}",
            format_count(results, "tool result"),
            tokens(number("shortened_tokens"))
        ),
    };
    if number("messages") == 0 && note["system"] != true {
        return format!("context window: {shortened}");
    }
    let messages = format!(
        "{} of {}",
        format_count(number("messages"), "message"),
        tokens(number("tokens"))
    );
    let subject = match (number("messages") > 0, note["system"] == true) {
        (true, true) => format!("the instructions and {messages} were"),
        (true, false) if number("messages") == 1 => format!("{messages} was"),
        (true, false) => format!("{messages} were"),
        (false, _) => "the instructions were".to_owned(),
    };
    let summary = match &note["summary"] {
        Value::String(summary) => {
            let words: Vec<&str> = summary.split_whitespace().collect();
            format!("; a summary was sent instead: {}", words.join(" "))
        }
        _ => String::new(),
    };
    let shortened = match shortened.is_empty() {
        true => shortened,
        false => format!("; {shortened}"),
    };
    format!("context window: {subject} not sent{shortened}{summary}")
}
