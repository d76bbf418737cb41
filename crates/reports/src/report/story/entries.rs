//! An exchange with a model as a list of entries, for every format that shows it. All texts from outside are complete, and
//! their control characters are visible.

use crate::report::context_window;
use crate::report::door::spelt;
use crate::report::format::{count, kind_of};
use ensemble_core::thread::{Attachment, Iteration, Message, Role, ToolCall, ToolEnd};
use ensemble_history::story::{ExchangeEnd, ModelExchange};

/// An entry of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// The beginning of a request: its number, the model, the stop reason and the tokens.
    Request(String),
    /// A message, or what the model thought.
    Said {
        /// `system`, `user`, `assistant` or `reasoning`.
        who: String,
        /// The text.
        text: String,
    },
    /// A remark of the program.
    Note(String),
    /// A tool call.
    Called {
        /// The tool.
        name: String,
        /// The arguments as JSON.
        arguments: String,
    },
    /// The result of a tool call.
    Returned {
        /// The tool.
        name: String,
        /// The text that the model received.
        result: String,
    },
    /// The error of a tool call.
    Erred {
        /// The tool.
        name: String,
        /// The error.
        error: String,
    },
    /// A tool call that has not ended.
    NotEnded(String),
    /// The errors with which the reply was sent back.
    SentBack(String),
    /// The request was stopped.
    Stopped,
    /// The end of an attempt that failed.
    Failed {
        /// The kind of the failure.
        kind: String,
        /// The error.
        error: String,
    },
}

/// The number of requests and tool calls, as text.
pub(super) fn counts(exchanges: &[&ModelExchange]) -> String {
    let iterations = || exchanges.iter().flat_map(|exchange| &exchange.iterations);
    let calls: usize = iterations().map(|iteration| iteration.tool_calls.len()).sum();
    format!(
        "{}, {}",
        count(iterations().count() as u64, "request"),
        count(calls as u64, "tool call")
    )
}

/// Returns the title that distinguishes the exchange from the others of its execution, of which there are `count`, in a
/// document.
pub(super) fn title(exchange: &ModelExchange, count: usize, all: &[ModelExchange]) -> Option<String> {
    let mut about: Vec<String> = part(exchange).map(|key| format!("part {key}")).into_iter().collect();
    about.extend(circumstances(exchange, all));
    if count > 1 && about.is_empty() {
        about.push("attempt 1".to_owned());
    }
    (!about.is_empty()).then(|| about.join(" · "))
}

/// `attempt 2`, `inside the call of X`: what distinguishes the exchange from others of the same execution and part.
pub(super) fn circumstances(exchange: &ModelExchange, all: &[ModelExchange]) -> Vec<String> {
    let mut about = Vec::new();
    if exchange.within.attempt != 1 {
        about.push(format!("attempt {}", exchange.within.attempt));
    }
    about.extend(exchange.within.inside.last().map(|call| inside(exchange, call, all)));
    about
}

/// The call that contains the agent, with the name of its tool.
fn inside(exchange: &ModelExchange, call: &str, all: &[ModelExchange]) -> String {
    let around = &exchange.within.inside[..exchange.within.inside.len() - 1];
    let is_around = |other: &&ModelExchange| {
        other.within.inside == around
            && (other.within.turn, &other.within.agent, &other.within.part)
                == (exchange.within.turn, &exchange.within.agent, &exchange.within.part)
    };
    let calls = all.iter().filter(is_around);
    let mut calls = calls
        .flat_map(|other| &other.iterations)
        .flat_map(|one| &one.tool_calls);
    match calls.find(|known| known.id == call) {
        Some(known) => format!("inside the call of {}", visible(&known.name)),
        None => format!("inside call {}", visible(call)),
    }
}

/// The key of the part, on one line.
pub(super) fn part(exchange: &ModelExchange) -> Option<String> {
    let key = exchange.within.part.as_ref()?;
    Some(visible(&key.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// The entries of the exchange. `with_earlier`: also the messages of earlier executions; otherwise only their number.
pub(super) fn entries(exchange: &ModelExchange, with_earlier: bool) -> Vec<Entry> {
    let mut entries = Vec::new();
    if !exchange.remembered.is_empty() {
        let messages = count(exchange.remembered.len() as u64, "message");
        let colon = if with_earlier { ":" } else { "" };
        let were = if exchange.remembered.len() == 1 { "was" } else { "were" };
        entries.push(Entry::Note(format!(
            "{messages} of earlier executions {were} sent before these{colon}"
        )));
    }
    for message in exchange.remembered.iter().filter(|_| with_earlier) {
        add_message(&mut entries, message, "earlier ");
    }
    for (number, iteration) in (1_u32..).zip(&exchange.iterations) {
        add_iteration(&mut entries, number, iteration);
    }
    match &exchange.end {
        ExchangeEnd::Succeeded => {}
        ExchangeEnd::Open => entries.push(Entry::Note("the execution goes on, or was cut short here".to_owned())),
        ExchangeEnd::Failed { failure } => entries.push(Entry::Failed {
            kind: kind_of(failure.kind).to_string(),
            error: visible(&failure.error),
        }),
        ExchangeEnd::CallFailed { error } => entries.push(Entry::Failed {
            kind: "as a tool".to_owned(),
            error: visible(error),
        }),
    }
    entries
}

fn add_iteration(entries: &mut Vec<Entry>, number: u32, iteration: &Iteration) {
    let noted = |key: &str| iteration.metadata.get(key);
    let word = |key: &str| noted(key).and_then(serde_json::Value::as_str).map(visible);
    let mut about = vec![format!("request {number}")];
    about.extend(word("model").map(|model| model.trim_end_matches('/').to_owned()));
    about.extend(word("stop_reason").map(|reason| reason.replace('_', " ")));
    if let Some(usage) = noted("usage") {
        let tokens = |key: &str| usage[key].as_u64().unwrap_or_default();
        about.push(format!(
            "{} tokens in, {} out",
            tokens("input_tokens"),
            tokens("output_tokens")
        ));
    }
    entries.push(Entry::Request(about.join(" · ")));
    entries.extend(word("system_prompt").map(|text| said("system", text)));
    entries.extend(noted("dropped").map(|note| Entry::Note(visible(&context_window::told(note)))));
    for message in &iteration.messages {
        add_message(entries, message, "");
    }
    for call in &iteration.tool_calls {
        add_call(entries, call);
    }
    entries.extend(word("rejected").map(Entry::SentBack));
    entries.extend(noted("stopped").map(|_| Entry::Stopped));
}

fn add_message(entries: &mut Vec<Entry>, message: &Message, which: &str) {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    entries.extend(
        message
            .reasoning
            .as_ref()
            .map(|reasoning| said("reasoning", visible(&reasoning.to_text()))),
    );
    let has_only_calls = message.role == Role::Assistant && message.content.is_empty();
    if !has_only_calls {
        entries.push(said(&format!("{which}{role}"), visible(&message.content)));
    }
    add_files(entries, &message.attachments);
    for call in &message.tool_calls {
        add_call(entries, call);
    }
}

fn add_files(entries: &mut Vec<Entry>, files: &[Attachment]) {
    for file in files {
        entries.push(Entry::Note(visible(&format!(
            "file {} ({}, {} bytes)",
            file.name, file.mime_type, file.size
        ))));
    }
}

fn said(who: &str, text: String) -> Entry {
    Entry::Said {
        who: who.to_owned(),
        text,
    }
}

fn add_call(entries: &mut Vec<Entry>, call: &ToolCall) {
    let name = visible(&call.name);
    entries.push(Entry::Called {
        name: name.clone(),
        arguments: visible(&call.arguments.to_string()),
    });
    entries.push(match &call.end {
        Some(ToolEnd::Error(error)) => Entry::Erred {
            name,
            error: visible(error),
        },
        Some(ToolEnd::Result(_)) => Entry::Returned {
            name,
            result: visible(&call.told()),
        },
        None => Entry::NotEnded(name),
    });
    add_files(entries, &call.attachments);
}

/// The text with visible control characters; a line break of two characters is one.
fn visible(text: &str) -> String {
    spelt(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_core::conversation::Within;
    use serde_json::{Value, json};

    fn noted(notes: &Value) -> Vec<Entry> {
        let iteration = Iteration {
            metadata: notes.as_object().cloned().unwrap_or_default(),
            ..Iteration::default()
        };
        let mut entries = Vec::new();
        add_iteration(&mut entries, 1, &iteration);
        entries.split_off(1)
    }

    #[test]
    fn what_an_iteration_notes_is_told() {
        assert_eq!(noted(&json!({"stopped": true})), [Entry::Stopped]);
        assert_eq!(
            noted(&json!({"rejected": "no\u{1b} n"})),
            [Entry::SentBack("no\\u{1b} n".into())]
        );
        assert_eq!(noted(&json!({"system_prompt": "Be."})), [said("system", "Be.".into())]);
        assert_eq!(noted(&json!({})), []);
    }

    #[test]
    fn a_file_is_named_without_its_bytes() {
        let mut message = Message::new(Role::User, "Look.\r\nHere.");
        message.attachments.push(Attachment {
            name: "a\u{202e}b".into(),
            mime_type: "text/plain".into(),
            size: 3,
            sha256: "00".into(),
            data: "QUJD".into(),
        });
        let mut entries = Vec::new();
        add_message(&mut entries, &message, "earlier ");
        let file = Entry::Note("file a\\u{202e}b (text/plain, 3 bytes)".into());
        assert_eq!(entries, [said("earlier user", "Look.\nHere.".into()), file]);
    }

    #[test]
    fn a_call_that_has_not_ended_is_told() {
        let exchange = ModelExchange {
            within: Within {
                attempt: 2,
                inside: vec!["x".into()],
                ..Within::default()
            },
            remembered: vec![Message::new(Role::User, "before")],
            iterations: vec![Iteration {
                tool_calls: vec![ToolCall::new("c", "look", json!({}))],
                ..Iteration::default()
            }],
            end: ExchangeEnd::CallFailed { error: "oh".into() },
        };
        let entries = entries(&exchange, false);
        assert_eq!(
            entries[0],
            Entry::Note("1 message of earlier executions was sent before these".into())
        );
        assert_eq!(entries[3], Entry::NotEnded("look".into()));
        let failed = Entry::Failed {
            kind: "as a tool".into(),
            error: "oh".into(),
        };
        assert_eq!(entries[4..], [failed]);
        assert_eq!(circumstances(&exchange, &[]), ["attempt 2", "inside call x"]);
        assert_eq!(counts(&[&exchange, &exchange]), "2 requests, 2 tool calls");
    }
}
