//! What a program is told: the task alone, or with what it does not remember by itself.

use serde_json::Value;

use ensemble_core::thread::{MessageRole, Thread};

/// Message to a program that continues interrupted work.
pub(crate) const INTERRUPTED_WORK_PROMPT: &str = "Your work on this task was interrupted before its end. Look at what is done already, and go on \
     from there. It is not known whether the last step has taken effect.";

/// Renders the prompt of a new session: the instructions, the earlier conversation and the text.
pub(crate) fn first_prompt_text(system: Option<&str>, before: &Thread, text: &str) -> String {
    let mut parts = Vec::new();
    parts.extend(system.map(str::to_owned));
    let transcript = render_earlier_conversation(before);
    if !transcript.is_empty() {
        parts.push(format!(
            "What was said and done before:\n\n{transcript}\n\nWhat is to be done now:"
        ));
    }
    parts.push(text.to_owned());
    parts.join("\n\n")
}

/// Appends a request for JSON that matches the schema, because the protocol has no field for a schema.
pub(crate) fn append_schema_request(text: String, schema: Option<&Value>) -> String {
    match schema {
        Some(schema) => {
            format!(
                "{text}\n\nEnd with one JSON object that matches this schema, and say nothing else in your last message:\n{schema}"
            )
        }
        None => text,
    }
}

/// Renders the messages of the thread and the titles of its tool calls.
fn render_earlier_conversation(thread: &Thread) -> String {
    let mut parts = Vec::new();
    for message in thread.to_messages() {
        let speaker = match message.role {
            MessageRole::User => "User",
            MessageRole::Assistant => "You",
            MessageRole::System => continue,
        };
        if !message.content.trim().is_empty() {
            parts.push(format!("{speaker}: {}", message.content.trim_end()));
        }
        for call in message.tool_calls {
            let title = call.arguments.get("title").and_then(Value::as_str);
            parts.push(format!("You used a tool: {}", title.unwrap_or(&call.name)));
        }
    }
    parts.join("\n\n")
}
