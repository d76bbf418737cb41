//! Content of messages, in the form of the GenAI conventions.
//!
//! Invariant: content is rendered only if the user asks for content in spans.

use ensemble_core::thread::{Message, MessageRole, ThreadIteration};
use serde_json::{Value, json};

/// Maximum size of one attribute in bytes. The rest is left out.
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// Span attributes with messages: system instructions, new messages, and the reply.
pub(crate) struct MessageAttributes {
    /// `gen_ai.system_instructions`.
    pub(crate) system: Option<String>,
    /// `gen_ai.input.messages`.
    pub(crate) input: Option<String>,
    /// `gen_ai.output.messages`.
    pub(crate) output: Option<String>,
}

/// Creates the message attributes of an iteration. Tool results are in the spans of the calls.
pub(crate) fn message_attributes(iteration: &ThreadIteration) -> MessageAttributes {
    let of = |role: MessageRole| iteration.messages.iter().filter(move |message| message.role == role);
    let system: Vec<Value> = of(MessageRole::System)
        .map(|message| text_part(&message.content))
        .collect();
    let input: Vec<Value> = of(MessageRole::User)
        .map(|message| message_with_role("user", message))
        .collect();
    let mut output: Vec<Value> = of(MessageRole::Assistant)
        .map(|message| message_with_role("assistant", message))
        .collect();
    let calls = iteration.tool_calls.iter();
    let calls =
        calls.map(|call| json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}));
    if !iteration.tool_calls.is_empty() && output.is_empty() {
        output.push(json!({"role": "assistant", "parts": []}));
    }
    if let Some(parts) = output.last_mut().and_then(|last| last["parts"].as_array_mut()) {
        parts.extend(calls);
    }
    MessageAttributes {
        system: messages_json(system),
        input: messages_json(input),
        output: messages_json(output),
    }
}

/// Renders one message as a JSON list of messages.
pub(crate) fn single_message_json(role: &str, text: &str) -> String {
    limit_length(&json!([{"role": role, "parts": [text_part(text)]}]).to_string())
}

/// Converts a value to text with the maximum length of an attribute.
pub(crate) fn limited_value_text(value: &Value) -> String {
    limit_length(&value.to_string())
}

/// Shortens the text to the maximum length of an attribute.
pub(crate) fn limit_length(text: &str) -> String {
    match text.len() > MAX_ATTRIBUTE_BYTES {
        true => format!("{}…", &text[..text.floor_char_boundary(MAX_ATTRIBUTE_BYTES)]),
        false => text.to_owned(),
    }
}

/// Renders messages as JSON. Returns `None` without messages.
fn messages_json(messages: Vec<Value>) -> Option<String> {
    (!messages.is_empty()).then(|| limit_length(&Value::Array(messages).to_string()))
}

/// Converts the text of a message to JSON with this role.
fn message_with_role(role: &str, message: &Message) -> Value {
    json!({"role": role, "parts": [text_part(&message.content)]})
}

/// Creates a text part of a message.
fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}
