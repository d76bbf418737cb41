//! Anthropic's messages.

use serde_json::{Value, json};

use crate::providers::dialect::{ProviderDialect, sampling_settings_with_keys};
use crate::providers::failure::reported_stream_error;
use crate::reply::assembly::ReplyAssembly;
use crate::request::attachments;
use crate::request::schema::to_anthropic_schema;
use crate::transport::reply_error::ReplyError;
use crate::{ModelRequest, ToolSpec};
use ensemble_core::thread::{Message, MessageRole, ToolCall, ToolCallEnd};
use ensemble_language::ensemble::ModelProfile;

/// Limit on reply tokens if the profile has none. The API requires a limit, and every model accepts this one.
const DEFAULT_REPLY_TOKENS: u64 = 4096;

/// Protocol of the Anthropic API.
pub(crate) struct AnthropicDialect;

impl ProviderDialect for AnthropicDialect {
    fn default_base_path(&self) -> &'static str {
        "/v1"
    }

    fn chat_path(&self, _model: &str) -> String {
        "/messages".to_owned()
    }

    fn models_path(&self) -> &'static str {
        "/models"
    }

    fn request_headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let version = ("anthropic-version", "2023-06-01".to_owned());
        let key = key.map(|key| ("x-api-key", key.to_owned()));
        std::iter::once(version).chain(key).collect()
    }

    fn supports_schema(&self, _request: &ModelRequest, schema: &Value) -> bool {
        to_anthropic_schema(schema).is_some()
    }

    fn request_body(&self, request: &ModelRequest, schema: Option<&Value>) -> Value {
        let mut body = sampling_settings_with_keys(
            &request.profile,
            [Some("temperature"), Some("top_p"), Some("max_tokens"), None],
        );
        body.entry("max_tokens").or_insert(json!(DEFAULT_REPLY_TOKENS));
        body.insert("model".into(), json!(request.profile.model));
        body.insert("stream".into(), json!(true));
        let is_system = |message: &&Message| message.role == MessageRole::System;
        let system: Vec<&str> = request
            .messages
            .iter()
            .filter(is_system)
            .map(|one| one.content.as_str())
            .collect();
        if !system.is_empty() {
            body.insert("system".into(), json!(system.join("\n\n")));
        }
        if !request.tools.is_empty() {
            body.insert("tools".into(), request.tools.iter().map(tool_to_json).collect());
        }
        if let Some(schema) = schema.and_then(to_anthropic_schema) {
            let format = json!({"type": "json_schema", "schema": schema});
            body.insert("output_config".into(), json!({"format": format}));
        }
        let messages: Vec<Value> = request
            .messages
            .iter()
            .filter(|one| !is_system(one))
            .flat_map(message_with_results_to_json)
            .collect();
        body.insert("messages".into(), json!(messages));
        Value::Object(body)
    }

    fn recognizes_event(&self, event: &Value) -> bool {
        let kind = event["type"].as_str().unwrap_or_default();
        kind.starts_with("message") || kind.starts_with("content_block")
    }

    fn max_tokens(&self, profile: &ModelProfile) -> Option<u64> {
        Some(profile.max_tokens.unwrap_or(DEFAULT_REPLY_TOKENS))
    }

    fn add_event_to_reply(&self, event: &Value, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "error" => return Err(reported_stream_error(&event["error"])),
            "message_start" => set_token_counts(&event["message"]["usage"], reply),
            "content_block_start" => add_content_block_start(&event["content_block"], index, reply)?,
            "content_block_delta" => {
                let delta = &event["delta"];
                reply.add_text(delta["text"].as_str().unwrap_or_default())?;
                if matches!(delta["type"].as_str(), Some("thinking_delta" | "signature_delta")) {
                    add_reasoning_delta(delta, index, reply)?;
                }
                if let Some(piece) = delta["partial_json"].as_str() {
                    reply.append_call_arguments(index, piece)?;
                }
            }
            "message_delta" => {
                set_token_counts(&event["usage"], reply);
                set_stop_reason_or_refusal(&event["delta"], reply)?;
            }
            "message_stop" => reply.is_complete = true,
            // A server that does not stream sends the whole message.
            "message" => {
                for (index, part) in (0..).zip(event["content"].as_array().into_iter().flatten()) {
                    add_content_block_start(part, index, reply)?;
                    if part["input"].as_object().is_some_and(|input| !input.is_empty()) {
                        reply.append_call_arguments(index, &part["input"].to_string())?;
                    }
                }
                set_token_counts(&event["usage"], reply);
                set_stop_reason_or_refusal(event, reply)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Adds the start of a content block to the reply: text, reasoning or a tool call.
fn add_content_block_start(block: &Value, index: u64, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
    reply.add_text(block["text"].as_str().unwrap_or_default())?;
    if matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking")) {
        let size = block.to_string().len();
        reply.emit_reasoning(block["thinking"].as_str().unwrap_or_default());
        reply
            .reserve_reasoning_bytes(size)?
            .add_block(Some(index), block.clone());
    }
    if block["type"] == "tool_use" {
        let call = reply.start_call(index)?;
        call.id = block["id"].as_str().unwrap_or_default().to_owned();
        call.name = block["name"].as_str().unwrap_or_default().to_owned();
    }
    Ok(())
}

/// Adds a piece of a thinking block, or its signature.
fn add_reasoning_delta(delta: &Value, index: u64, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
    for key in ["thinking", "signature"] {
        if let Some(piece) = delta[key].as_str() {
            if key == "thinking" {
                reply.emit_reasoning(piece);
            }
            reply
                .reserve_reasoning_bytes(piece.len())?
                .add_piece(Some(index), &json!({ key: piece }));
        }
    }
    Ok(())
}

/// Sets the token counts of the reply from a usage object. Input includes cached tokens.
fn set_token_counts(usage: &Value, reply: &mut ReplyAssembly<'_>) {
    if let Some(input) = usage["input_tokens"].as_u64() {
        let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
        let cached = cached.iter().filter_map(|key| usage[*key].as_u64());
        reply.input = Some(input + cached.sum::<u64>());
        reply.cached_tokens = usage["cache_read_input_tokens"].as_u64();
    }
    reply.output = usage["output_tokens"].as_u64().or(reply.output);
}

/// Sets the end reason or the refusal of the reply.
fn set_stop_reason_or_refusal(said: &Value, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
    if let Some(reason) = said["stop_reason"].as_str() {
        match reason {
            "refusal" => {
                let details = ["explanation", "category"]
                    .iter()
                    .find_map(|key| said["stop_details"][*key].as_str());
                reply.set_refusal(details.map(str::to_owned));
            }
            _ => {
                let details = ["explanation", "message"]
                    .iter()
                    .find_map(|key| said["stop_details"][*key].as_str());
                reply.set_end_reason(reason, details)?;
            }
        }
    }
    Ok(())
}

/// Converts a message, and the results of its tool calls, to messages of the API.
fn message_with_results_to_json(message: &Message) -> Vec<Value> {
    let role = if message.role == MessageRole::User {
        "user"
    } else {
        "assistant"
    };
    if !message.attachments.is_empty() {
        return vec![json!({"role": role, "content": attachments::anthropic_user_content(message)})];
    }
    if message.tool_calls.is_empty() {
        // A message without text is refused.
        let content = if message.content.trim().is_empty() {
            "…"
        } else {
            message.content.as_str()
        };
        return vec![json!({"role": role, "content": content})];
    }
    let text = Some(&message.content).filter(|content| !content.trim().is_empty());
    let text = text.map(|text| json!({"type": "text", "text": text}));
    let call = |call: &ToolCall| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call_arguments_object(call)});
    // Signed thinking comes before the calls that it led to, or they are refused.
    let thinking = message.reasoning.iter().flat_map(|reasoning| reasoning.blocks.clone());
    let blocks: Vec<Value> = thinking
        .chain(text)
        .chain(message.tool_calls.iter().map(call))
        .collect();
    let result = |call: &ToolCall| {
        let is_error = !matches!(call.end, Some(ToolCallEnd::Result(_)));
        json!({"type": "tool_result", "tool_use_id": call.id, "content": attachments::anthropic_tool_result_content(call), "is_error": is_error})
    };
    let results: Vec<Value> = message.tool_calls.iter().map(result).collect();
    vec![
        json!({"role": "assistant", "content": blocks}),
        json!({"role": "user", "content": results}),
    ]
}

/// Returns the arguments of a call as an object. Wraps other values.
fn call_arguments_object(call: &ToolCall) -> Value {
    match &call.arguments {
        Value::Object(_) => call.arguments.clone(),
        other => json!({ "arguments": other }),
    }
}

/// Converts a tool to JSON for the API.
fn tool_to_json(tool: &ToolSpec) -> Value {
    json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
}
