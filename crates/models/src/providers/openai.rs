//! OpenAI's chat completions, as many servers speak them.

use serde_json::{Value, json};

use crate::providers::dialect::{ProviderDialect, sampling_settings_with_keys};
use crate::providers::failure::reported_stream_error;
use crate::reply::assembly::ReplyAssembly;
use crate::reply::calls::CallPiece;
use crate::request::attachments;
use crate::request::schema::allows_openai_strict_mode;
use crate::transport::reply_error::ReplyError;
use crate::{ModelRequest, ToolSpec};
use ensemble_core::thread::{Message, MessageRole, ToolCall};

/// Protocol of the OpenAI API and compatible servers.
pub(crate) struct OpenAiDialect;

impl ProviderDialect for OpenAiDialect {
    fn default_base_path(&self) -> &'static str {
        "/v1"
    }

    fn chat_path(&self, _model: &str) -> String {
        "/chat/completions".to_owned()
    }

    fn models_path(&self) -> &'static str {
        "/models"
    }

    fn request_headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("authorization", format!("Bearer {key}")))
            .into_iter()
            .collect()
    }

    fn request_body(&self, request: &ModelRequest, schema: Option<&Value>) -> Value {
        let profile = &request.profile;
        // OpenAI's own models take no other word; other servers do not all know it.
        let is_own = &*profile.provider == "openai" && profile.base_url.is_none();
        let limit_key = if is_own || needs_max_completion_tokens(&profile.model) {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        let mut body = sampling_settings_with_keys(
            profile,
            [Some("temperature"), Some("top_p"), Some(limit_key), Some("seed")],
        );
        body.insert("model".into(), json!(profile.model));
        body.insert("stream".into(), json!(true));
        body.insert("stream_options".into(), json!({"include_usage": true}));
        if !request.tools.is_empty() {
            body.insert("tools".into(), request.tools.iter().map(tool_to_json).collect());
        }
        if let Some(schema) = schema {
            let format = json!({"name": "output", "schema": schema, "strict": allows_openai_strict_mode(schema)});
            body.insert(
                "response_format".into(),
                json!({"type": "json_schema", "json_schema": format}),
            );
        }
        // DeepSeek wants the reasoning back once a tool was called, and does not want it before.
        let with_reasoning = request.messages.iter().any(|message| !message.tool_calls.is_empty());
        let convert_message = |message| message_with_results_to_json(message, with_reasoning);
        let messages: Vec<Value> = request.messages.iter().flat_map(convert_message).collect();
        body.insert("messages".into(), json!(messages));
        Value::Object(body)
    }

    fn ends_with_done(&self) -> bool {
        true
    }

    fn recognizes_event(&self, event: &Value) -> bool {
        event.get("choices").is_some()
    }

    fn add_event_to_reply(&self, event: &Value, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            return Err(reported_stream_error(error));
        }
        if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
            reply.input = usage["prompt_tokens"].as_u64().or(reply.input);
            let cached = [
                &usage["prompt_tokens_details"]["cached_tokens"],
                &usage["prompt_cache_hit_tokens"],
            ];
            reply.cached_tokens = cached.iter().find_map(|count| count.as_u64()).or(reply.cached_tokens);
            reply.output = usage["completion_tokens"].as_u64().or(reply.output);
        }
        let choice = &event["choices"][0];
        // A server that does not stream sends the whole message.
        match (choice.get("delta"), choice.get("message")) {
            (Some(delta), _) => add_message_or_piece(delta, false, reply)?,
            (None, Some(message)) => add_message_or_piece(message, true, reply)?,
            (None, None) => {}
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            match reason {
                "content_filter" => reply.set_refusal(Some(describe_content_filter(choice))),
                _ => reply.set_end_reason(reason, find_end_reason_message(event, choice))?,
            }
        }
        Ok(())
    }
}

/// Finds the message about the end of a reply. OpenRouter puts an error into the choice.
fn find_end_reason_message<'e>(event: &'e Value, choice: &'e Value) -> Option<&'e str> {
    let messages = [
        &choice["error"]["message"],
        &choice["error"],
        &choice["message"]["error"],
        &choice["stop_reason"],
        &choice["native_finish_reason"],
        &event["message"],
    ];
    messages.into_iter().find_map(Value::as_str)
}

/// Describes a stop by the content filter, with the categories that Azure reports.
fn describe_content_filter(choice: &Value) -> String {
    let results = choice["content_filter_results"].as_object().into_iter().flatten();
    let filtered_results = results.filter(|(_, result)| result["filtered"].as_bool() == Some(true));
    let filter_names: Vec<&str> = filtered_results.map(|(name, _)| name.as_str()).collect();
    match filter_names.is_empty() {
        true => "a content filter stopped the reply".to_owned(),
        false => format!("a content filter stopped the reply ({})", filter_names.join(", ")),
    }
}

/// Returns whether the model needs `max_completion_tokens` instead of `max_tokens`, as reasoning models of OpenAI do.
fn needs_max_completion_tokens(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let begins_with_digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let version = name.strip_prefix("gpt-").and_then(|rest| rest.chars().next());
    name.strip_prefix('o').is_some_and(begins_with_digit)
        || version.is_some_and(|version| ('5'..='9').contains(&version))
}

/// Adds a message or a piece of one to the reply.
fn add_message_or_piece(said: &Value, is_whole: bool, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
    add_and_emit_reasoning(said, reply)?;
    add_content(&said["content"], reply)?;
    if let Some(refusal) = said["refusal"].as_str().filter(|text| !text.is_empty()) {
        reply.add_text(refusal)?;
        reply.set_refusal(None);
    }
    for call in said["tool_calls"].as_array().into_iter().flatten() {
        add_tool_call_or_piece(call, is_whole, reply)?;
    }
    Ok(())
}

/// Adds text, or a list of parts as Mistral and some servers send it.
fn add_content(content: &Value, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
    let Some(parts) = content.as_array() else {
        return reply.add_text(content.as_str().unwrap_or_default());
    };
    for part in parts {
        match part["type"].as_str() {
            Some("refusal") => {
                reply.add_text(part["refusal"].as_str().unwrap_or_default())?;
                reply.set_refusal(None);
            }
            Some("thinking" | "reasoning") => reply.add_reasoning(&reasoning_part_text(part), None)?,
            _ => reply.add_text(part.as_str().or(part["text"].as_str()).unwrap_or_default())?,
        }
    }
    Ok(())
}

/// Adds the reasoning from the fields of DeepSeek, vLLM or OpenRouter.
fn add_and_emit_reasoning(said: &Value, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
    let text = |key: &'static str| Some((key, said[key].as_str().filter(|text| !text.is_empty())?));
    // Some servers say it under both keys.
    let plain = text("reasoning_content").or_else(|| text("reasoning"));
    if let Some((key, text)) = plain {
        reply.add_reasoning(text, Some(key))?;
    }
    for detail in said["reasoning_details"].as_array().into_iter().flatten() {
        if plain.is_none() {
            let text = detail["text"].as_str().or(detail["summary"].as_str());
            reply.emit_reasoning(text.unwrap_or_default());
        }
        let size = detail.to_string().len();
        reply
            .reserve_reasoning_bytes(size)?
            .add_piece(detail["index"].as_u64(), detail);
    }
    Ok(())
}

/// Returns the text of a Mistral reasoning part, which is a list of parts.
fn reasoning_part_text(part: &Value) -> String {
    let text = |value: &Value| value.as_str().or(value["text"].as_str()).unwrap_or_default().to_owned();
    let inner = part.get("thinking").or(part.get("text")).unwrap_or(&Value::Null);
    match inner.as_array() {
        Some(parts) => parts.iter().map(text).collect(),
        None => text(inner),
    }
}

/// Adds a tool call or a piece of one to the reply.
fn add_tool_call_or_piece(call: &Value, is_whole: bool, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
    let function = &call["function"];
    let id = call["id"].as_str();
    let name = function["name"].as_str().unwrap_or_default();
    let signature = call["extra_content"]["google"]["thought_signature"].as_str();
    let signature = signature.map(str::to_owned);
    if is_whole {
        let assembled_call = reply.add_whole_call(id, name, &function["arguments"])?;
        assembled_call.signatures.extend(signature);
        return Ok(());
    }
    let written;
    let arguments = match &function["arguments"] {
        Value::String(piece) => piece.as_str(),
        Value::Null => "",
        whole => {
            written = whole.to_string();
            &written
        }
    };
    let assembled_call = reply.add_call_piece(CallPiece {
        index: call["index"].as_u64(),
        id: id.unwrap_or_default(),
        name,
        arguments,
    })?;
    assembled_call.signatures.extend(signature);
    Ok(())
}

/// Converts a message, and the results of its tool calls, to messages of the API.
fn message_with_results_to_json(message: &Message, with_reasoning: bool) -> Vec<Value> {
    let role = match message.role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    };
    if !message.attachments.is_empty() {
        return vec![json!({"role": role, "content": attachments::openai_user_content(message)})];
    }
    if message.tool_calls.is_empty() {
        let mut message_json = json!({"role": role, "content": message.content});
        set_reasoning_fields(&mut message_json, message, with_reasoning);
        return vec![message_json];
    }
    let content = Some(&message.content).filter(|content| !content.is_empty());
    let calls: Vec<Value> = message
        .tool_calls
        .iter()
        .map(|one| call_to_json(one, message.reasoning.is_some()))
        .collect();
    let result = |call: &ToolCall| json!({"role": "tool", "tool_call_id": call.id, "content": call.text_for_model()});
    let mut message_json = json!({"role": role, "content": content, "tool_calls": calls});
    set_reasoning_fields(&mut message_json, message, with_reasoning);
    let mut all = vec![message_json];
    all.extend(message.tool_calls.iter().map(result));
    all.extend(attachments::openai_result_files_message(&message.tool_calls));
    all
}

/// Converts a tool call to JSON. Includes its signature only for the model that created it (`is_own`).
fn call_to_json(call: &ToolCall, is_own: bool) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
    let mut call_json = json!({"id": call.id, "type": "function", "function": function});
    if let Some(signature) = call.signatures.first().filter(|_| is_own) {
        call_json["extra_content"] = json!({"google": {"thought_signature": signature}});
    }
    call_json
}

/// Adds the reasoning of the message in the fields in which the provider sent it.
fn set_reasoning_fields(said: &mut Value, message: &Message, with_reasoning: bool) {
    let Some(reasoning) = message.reasoning.as_ref().filter(|_| with_reasoning) else {
        return;
    };
    if let Some(key) = reasoning.key.as_ref().filter(|_| !reasoning.text.is_empty()) {
        said[key.as_str()] = json!(reasoning.text);
    }
    if !reasoning.blocks.is_empty() {
        said["reasoning_details"] = json!(reasoning.blocks);
    }
}

/// Converts a tool to JSON for the API.
fn tool_to_json(tool: &ToolSpec) -> Value {
    let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    json!({"type": "function", "function": function})
}
