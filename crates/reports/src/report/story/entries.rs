//! The entries of an exchange with a model, for every format. Texts from outside are complete, and their control characters are escaped.

use crate::report::context_window;
use crate::report::format::{failure_kind_word, format_count, render_token_counts};
use crate::report::sanitized_writer::escape_text;
use ensemble_core::thread::window::render_summary_message;
use ensemble_core::thread::{Attachment, Message, MessageRole, ResultSummary, ThreadIteration, ToolCall, ToolCallEnd};
use ensemble_history::describe_answer;
use ensemble_history::story::{ExchangeEnd, ModelExchange};
use ensemble_language::data::ModelUsage;

/// An entry of a rendered exchange: the start of a request, a message, a note, a tool call, its result, or the end of the attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExchangeEntry {
    /// The beginning of a request: its number, the model, the stop reason and the tokens.
    Request(String),
    /// A message, or what the model thought.
    Message {
        /// `system`, `user`, `assistant` or `reasoning`.
        who: String,
        /// The text.
        text: String,
    },
    /// A remark of the program.
    Note(String),
    /// A tool call.
    ToolCall {
        /// The tool.
        name: String,
        /// The arguments as JSON.
        arguments: String,
    },
    /// The result of a tool call.
    ToolResult {
        /// The tool.
        name: String,
        /// The text that the model received.
        result: String,
    },
    /// The error of a tool call.
    ToolError {
        /// The tool.
        name: String,
        /// The error.
        error: String,
    },
    /// A tool call that has not ended.
    UnfinishedCall(String),
    /// The errors with which the reply was sent back.
    ReplyRejected(String),
    /// The request was stopped.
    RequestStopped,
    /// The end of an attempt that failed.
    AttemptFailed {
        /// The kind of the failure.
        kind: String,
        /// The error.
        error: String,
    },
}

/// Formats the number of requests and tool calls.
pub(super) fn format_exchange_counts(exchanges: &[&ModelExchange]) -> String {
    let iterations = || exchanges.iter().flat_map(|exchange| &exchange.iterations);
    let calls: usize = iterations().map(|iteration| iteration.tool_calls.len()).sum();
    format!(
        "{}, {}",
        format_count(iterations().count() as u64, "request"),
        format_count(calls as u64, "tool call")
    )
}

/// Returns a title that distinguishes the exchange from others of its execution. Returns `None` if `count` is 1.
pub(super) fn exchange_title(exchange: &ModelExchange, count: usize, all: &[ModelExchange]) -> Option<String> {
    let mut about: Vec<String> = visible_part_key(exchange)
        .map(|key| format!("part {key}"))
        .into_iter()
        .collect();
    about.extend(list_exchange_circumstances(exchange, all));
    if count > 1 && about.is_empty() {
        about.push("attempt 1".to_owned());
    }
    (!about.is_empty()).then(|| about.join(" · "))
}

/// Lists the facts that distinguish the exchange from others of the execution and part: `attempt 2`, `inside the call of X`.
pub(super) fn list_exchange_circumstances(exchange: &ModelExchange, all: &[ModelExchange]) -> Vec<String> {
    let mut about = Vec::new();
    if exchange.scope.attempt != 1 {
        about.push(format!("attempt {}", exchange.scope.attempt));
    }
    about.extend(
        exchange
            .scope
            .outer_calls
            .last()
            .map(|call| describe_containing_call(exchange, call, all)),
    );
    about
}

/// Describes the tool call that contains the exchange.
fn describe_containing_call(exchange: &ModelExchange, call: &str, all: &[ModelExchange]) -> String {
    let around = &exchange.scope.outer_calls[..exchange.scope.outer_calls.len() - 1];
    let is_around = |other: &&ModelExchange| {
        other.scope.outer_calls == around
            && (other.scope.turn, &other.scope.agent, &other.scope.part)
                == (exchange.scope.turn, &exchange.scope.agent, &exchange.scope.part)
    };
    let calls = all.iter().filter(is_around);
    let mut calls = calls
        .flat_map(|other| &other.iterations)
        .flat_map(|one| &one.tool_calls);
    match calls.find(|known| known.id == call) {
        Some(outer_call) => format!("inside the call of {}", escape_control_characters(&outer_call.name)),
        None => format!("inside call {}", escape_control_characters(call)),
    }
}

/// Returns the key of the part on one line, with visible control characters.
pub(super) fn visible_part_key(exchange: &ModelExchange) -> Option<String> {
    let key = exchange.scope.part.as_ref()?;
    Some(escape_control_characters(
        &key.split_whitespace().collect::<Vec<_>>().join(" "),
    ))
}

/// Lists the entries of the exchange. Without `with_earlier`, earlier messages are only counted.
pub(super) fn list_exchange_entries(exchange: &ModelExchange, with_earlier: bool) -> Vec<ExchangeEntry> {
    let mut entries = Vec::new();
    if !exchange.remembered_messages.is_empty() {
        let messages = format_count(exchange.remembered_messages.len() as u64, "message");
        let colon = if with_earlier { ":" } else { "" };
        let were = if exchange.remembered_messages.len() == 1 {
            "was"
        } else {
            "were"
        };
        entries.push(ExchangeEntry::Note(format!(
            "{messages} of earlier executions {were} sent before these{colon}"
        )));
    }
    for message in exchange.remembered_messages.iter().filter(|_| with_earlier) {
        push_message_entries(&mut entries, message, "earlier ");
    }
    for iteration in &exchange.iterations {
        push_iteration_entries(&mut entries, iteration);
    }
    match &exchange.end {
        ExchangeEnd::Succeeded => {}
        ExchangeEnd::Open => entries.push(ExchangeEntry::Note(
            "the execution continues, or was interrupted here".to_owned(),
        )),
        ExchangeEnd::Failed { failure } => entries.push(ExchangeEntry::AttemptFailed {
            kind: failure_kind_word(failure.kind).to_string(),
            error: escape_control_characters(&failure.error),
        }),
        ExchangeEnd::CallFailed { error } => entries.push(ExchangeEntry::AttemptFailed {
            kind: "as a tool".to_owned(),
            error: escape_control_characters(error),
        }),
    }
    entries
}

/// Adds the entries of an iteration: its request, messages, calls and corrections.
fn push_iteration_entries(entries: &mut Vec<ExchangeEntry>, iteration: &ThreadIteration) {
    let metadata_value = |key: &str| iteration.metadata.get(key);
    let word = |key: &str| {
        metadata_value(key)
            .and_then(serde_json::Value::as_str)
            .map(escape_control_characters)
    };
    let summary_requests = metadata_value("dropped").and_then(|note| note["summary_requests"].as_array());
    for request in summary_requests.into_iter().flatten() {
        entries.push(ExchangeEntry::Request(
            "request for a summary of earlier messages".to_owned(),
        ));
        for (key, who) in [("system", "system"), ("prompt", "user"), ("reply", "assistant")] {
            let text = request[key].as_str().unwrap_or_default();
            entries.push(message_entry(who, escape_control_characters(text)));
        }
    }
    let mut about = vec![format!("request {}", iteration.number)];
    about.extend(word("model").map(|model| model.trim_end_matches('/').to_owned()));
    about.extend(word("stop_reason").map(|reason| reason.replace('_', " ")));
    if let Some(usage) = metadata_value("usage") {
        let tokens = |key: &str| usage[key].as_u64().unwrap_or_default();
        let usage = ModelUsage {
            input_tokens: tokens("input_tokens"),
            output_tokens: tokens("output_tokens"),
            ..ModelUsage::default()
        };
        about.extend(render_token_counts(&usage));
    }
    entries.push(ExchangeEntry::Request(about.join(" · ")));
    entries.extend(word("system_prompt").map(|text| message_entry("system", text)));
    entries.extend(
        metadata_value("dropped")
            .map(|note| ExchangeEntry::Note(escape_control_characters(&context_window::render_dropped_note(note)))),
    );
    let summary = metadata_value("dropped").and_then(|note| note["summary"].as_str());
    entries.extend(
        summary.map(|summary| message_entry("user", escape_control_characters(&render_summary_message(summary)))),
    );
    for message in &iteration.messages {
        push_message_entries(entries, message, "");
    }
    for call in &iteration.tool_calls {
        push_call_entries(entries, call);
    }
    entries.extend(word("rejected").map(ExchangeEntry::ReplyRejected));
    entries.extend(metadata_value("stopped").map(|_| ExchangeEntry::RequestStopped));
}

/// Adds the entries of a message, with its reasoning, files and calls. `which` is a prefix for the role.
fn push_message_entries(entries: &mut Vec<ExchangeEntry>, message: &Message, which: &str) {
    let role = match message.role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    };
    entries.extend(
        message
            .reasoning
            .as_ref()
            .map(|reasoning| message_entry("reasoning", escape_control_characters(&reasoning.to_text()))),
    );
    let has_only_calls = message.role == MessageRole::Assistant && message.content.is_empty();
    if !has_only_calls {
        entries.push(message_entry(
            &format!("{which}{role}"),
            escape_control_characters(&message.content),
        ));
    }
    push_file_notes(entries, &message.attachments);
    for call in &message.tool_calls {
        push_call_entries(entries, call);
    }
}

/// Adds a note for each file.
fn push_file_notes(entries: &mut Vec<ExchangeEntry>, files: &[Attachment]) {
    for file in files {
        entries.push(ExchangeEntry::Note(escape_control_characters(&format!(
            "file {} ({}, {} bytes)",
            file.name, file.mime_type, file.size
        ))));
    }
}

/// Creates an entry for a message of this sender.
fn message_entry(who: &str, text: String) -> ExchangeEntry {
    ExchangeEntry::Message {
        who: who.to_owned(),
        text,
    }
}

/// Creates a note that the text above was sent instead of the result.
fn result_summary_note(summary: &ResultSummary) -> ExchangeEntry {
    let bytes = summary.result_bytes;
    ExchangeEntry::Note(match (&summary.error, &summary.model) {
        (Some(_), _) => format!("sent instead of the result of {bytes} bytes"),
        (None, model) => {
            let model = model
                .as_deref()
                .map_or_else(String::new, |model| format!(" by {}", model.trim_end_matches('/')));
            let tokens = summary.usage.as_ref().and_then(render_token_counts);
            let tokens = tokens.map_or_else(String::new, |tokens| format!(" · {tokens}"));
            escape_control_characters(&format!(
                "a summary{model}, sent instead of the result of {bytes} bytes{tokens}"
            ))
        }
    })
}

/// Adds the entries of a tool call and its end.
fn push_call_entries(entries: &mut Vec<ExchangeEntry>, call: &ToolCall) {
    let name = escape_control_characters(&call.name);
    entries.push(ExchangeEntry::ToolCall {
        name: name.clone(),
        arguments: escape_control_characters(&call.arguments.to_string()),
    });
    let answers = call.answers.iter().map(describe_answer);
    entries.extend(answers.map(|line| ExchangeEntry::Note(escape_control_characters(&line))));
    entries.push(match &call.end {
        Some(ToolCallEnd::Error(error)) => ExchangeEntry::ToolError {
            name,
            error: escape_control_characters(error),
        },
        Some(ToolCallEnd::Result(_)) => ExchangeEntry::ToolResult {
            name,
            result: escape_control_characters(&call.text_for_model()),
        },
        None => ExchangeEntry::UnfinishedCall(name),
    });
    entries.extend(call.summary.as_deref().map(result_summary_note));
    push_file_notes(entries, &call.attachments);
}

/// Escapes hidden characters of the text.
fn escape_control_characters(text: &str) -> String {
    escape_text(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_core::conversation::AttemptScope;
    use serde_json::{Value, json};

    fn noted(notes: &Value) -> Vec<ExchangeEntry> {
        let iteration = ThreadIteration {
            metadata: notes.as_object().cloned().unwrap_or_default(),
            ..ThreadIteration::default()
        };
        let mut entries = Vec::new();
        push_iteration_entries(&mut entries, &iteration);
        entries.split_off(1)
    }

    #[test]
    fn what_an_iteration_notes_is_told() {
        assert_eq!(noted(&json!({"stopped": true})), [ExchangeEntry::RequestStopped]);
        assert_eq!(
            noted(&json!({"rejected": "no\u{1b} n"})),
            [ExchangeEntry::ReplyRejected("no\\u{1b} n".into())]
        );
        assert_eq!(
            noted(&json!({"system_prompt": "Be."})),
            [message_entry("system", "Be.".into())]
        );
        assert_eq!(noted(&json!({})), []);
    }

    #[test]
    fn a_file_is_named_without_its_bytes() {
        let mut message = Message::new(MessageRole::User, "Look.\r\nHere.");
        message.attachments.push(Attachment {
            name: "a\u{202e}b".into(),
            mime_type: "text/plain".into(),
            size: 3,
            sha256: "00".into(),
            data: "QUJD".into(),
        });
        let mut entries = Vec::new();
        push_message_entries(&mut entries, &message, "earlier ");
        let file = ExchangeEntry::Note("file a\\u{202e}b (text/plain, 3 bytes)".into());
        assert_eq!(entries, [message_entry("earlier user", "Look.\nHere.".into()), file]);
    }

    #[test]
    fn a_call_that_has_not_ended_is_told() {
        let exchange = ModelExchange {
            scope: AttemptScope {
                attempt: 2,
                outer_calls: vec!["x".into()],
                ..AttemptScope::default()
            },
            remembered_messages: vec![Message::new(MessageRole::User, "before")],
            iterations: vec![ThreadIteration {
                tool_calls: vec![ToolCall::new("c", "look", json!({}))],
                ..ThreadIteration::default()
            }],
            end: ExchangeEnd::CallFailed { error: "oh".into() },
        };
        let entries = list_exchange_entries(&exchange, false);
        assert_eq!(
            entries[0],
            ExchangeEntry::Note("1 message of earlier executions was sent before these".into())
        );
        assert_eq!(entries[3], ExchangeEntry::UnfinishedCall("look".into()));
        let failed = ExchangeEntry::AttemptFailed {
            kind: "as a tool".into(),
            error: "oh".into(),
        };
        assert_eq!(entries[4..], [failed]);
        assert_eq!(
            list_exchange_circumstances(&exchange, &[]),
            ["attempt 2", "inside call x"]
        );
        assert_eq!(
            format_exchange_counts(&[&exchange, &exchange]),
            "2 requests, 2 tool calls"
        );
    }
}
