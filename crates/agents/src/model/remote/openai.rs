//! OpenAI's chat completions, as many servers speak them.

use serde_json::{Value, json};

use super::assembly::Assembly;
use super::attached;
use super::dialect::{Dialect, sampling};
use super::failure::reported;
use super::reply_error::ReplyError;
use super::schema::is_strict;
use crate::model::{ModelRequest, ToolSpec};
use ensemble_core::thread::{Message, Role, StopReason, ToolCall};

pub(super) struct OpenAi;

impl Dialect for OpenAi {
    fn default_path(&self) -> &'static str {
        "/v1"
    }

    fn chat_path(&self, _model: &str) -> String {
        "/chat/completions".to_owned()
    }

    fn models_path(&self) -> &'static str {
        "/models"
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("authorization", format!("Bearer {key}")))
            .into_iter()
            .collect()
    }

    fn body(&self, request: &ModelRequest, schema: Option<&Value>) -> Value {
        let profile = &request.profile;
        // OpenAI's own models take no other word; other servers do not all know it.
        let is_own = &*profile.provider == "openai" && profile.base_url.is_none();
        let most = if is_own { "max_completion_tokens" } else { "max_tokens" };
        let mut body = sampling(profile, [Some("temperature"), Some("top_p"), Some(most), Some("seed")]);
        body.insert("model".into(), json!(profile.model));
        body.insert("stream".into(), json!(true));
        body.insert("stream_options".into(), json!({"include_usage": true}));
        if !request.tools.is_empty() {
            body.insert("tools".into(), request.tools.iter().map(tool).collect());
        }
        if let Some(schema) = schema {
            let format = json!({"name": "output", "schema": schema, "strict": is_strict(schema)});
            body.insert(
                "response_format".into(),
                json!({"type": "json_schema", "json_schema": format}),
            );
        }
        let messages: Vec<Value> = request.messages.iter().flat_map(messages).collect();
        body.insert("messages".into(), json!(messages));
        Value::Object(body)
    }

    fn is_end(&self, event: &str) -> bool {
        event == "[DONE]"
    }

    fn take(&self, event: &Value, reply: &mut Assembly<'_>) -> Result<(), ReplyError> {
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            return Err(reported(error));
        }
        if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
            reply.input = usage["prompt_tokens"].as_u64().or(reply.input);
            reply.output = usage["completion_tokens"].as_u64().or(reply.output);
        }
        let choice = &event["choices"][0];
        // A server that does not stream sends the whole message.
        let said = choice.get("delta").or(choice.get("message")).unwrap_or(&Value::Null);
        reply.say(said["content"].as_str().unwrap_or_default())?;
        if let Some(refusal) = said["refusal"].as_str().filter(|text| !text.is_empty()) {
            reply.say(refusal)?;
            reply.stop = Some(StopReason::Refusal);
        }
        for (at, call) in (0..).zip(said["tool_calls"].as_array().into_iter().flatten()) {
            let index = call["index"].as_u64().unwrap_or(at);
            let function = &call["function"];
            let known = reply.call(index)?;
            if let Some(id) = call["id"].as_str().filter(|id| !id.is_empty()) {
                known.id = id.to_owned();
            }
            if let Some(name) = function["name"].as_str().filter(|name| !name.is_empty()) {
                known.name = name.to_owned();
            }
            match &function["arguments"] {
                Value::String(piece) => reply.argue(index, piece)?,
                Value::Null => {}
                whole => reply.argue(index, &whole.to_string())?,
            }
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            let reason = match reason {
                "length" => StopReason::MaxTokens,
                "content_filter" => StopReason::Refusal,
                _ => StopReason::EndTurn,
            };
            reply.stop = reply.stop.or(Some(reason));
        }
        Ok(())
    }
}

fn messages(message: &Message) -> Vec<Value> {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    if !message.attachments.is_empty() {
        return vec![json!({"role": role, "content": attached::openai(message)})];
    }
    if message.tool_calls.is_empty() {
        return vec![json!({"role": role, "content": message.content})];
    }
    let content = Some(&message.content).filter(|content| !content.is_empty());
    let calls: Vec<Value> = message.tool_calls.iter().map(call).collect();
    let result = |call: &ToolCall| json!({"role": "tool", "tool_call_id": call.id, "content": call.told()});
    let mut all = vec![json!({"role": role, "content": content, "tool_calls": calls})];
    all.extend(message.tool_calls.iter().map(result));
    all
}

fn call(call: &ToolCall) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
    json!({"id": call.id, "type": "function", "function": function})
}

fn tool(tool: &ToolSpec) -> Value {
    let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    json!({"type": "function", "function": function})
}
