//! Ollama's own API.

use serde_json::{Value, json};

use crate::providers::dialect::{Dialect, names, sampling};
use crate::providers::failure::reported;
use crate::reply::assembly::Assembly;
use crate::request::attachments;
use crate::transport::frames::Framing;
use crate::transport::reply_error::ReplyError;
use crate::{ModelRequest, ToolSpec};
use ensemble_core::thread::{Message, Role, StopReason, ToolCall};

pub(crate) struct Ollama;

impl Dialect for Ollama {
    fn default_path(&self) -> &'static str {
        ""
    }

    fn chat_path(&self, _model: &str) -> String {
        "/api/chat".to_owned()
    }

    fn models_path(&self) -> &'static str {
        "/api/tags"
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("authorization", format!("Bearer {key}")))
            .into_iter()
            .collect()
    }

    fn takes_schema(&self, request: &ModelRequest, _schema: &Value) -> bool {
        // Beside tools it is refused, or keeps the model from calling any.
        request.tools.is_empty()
    }

    fn body(&self, request: &ModelRequest, schema: Option<&Value>) -> Value {
        let words = [Some("temperature"), Some("top_p"), Some("num_predict"), Some("seed")];
        let options = sampling(&request.profile, words);
        let messages: Vec<Value> = request.messages.iter().flat_map(messages).collect();
        let mut body = json!({"model": request.profile.model, "stream": true, "messages": messages});
        if !options.is_empty() {
            body["options"] = Value::Object(options);
        }
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(tool).collect();
        } else if let Some(schema) = schema {
            body["format"] = schema.clone();
        }
        body
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn take(&self, event: &Value, reply: &mut Assembly<'_>) -> Result<(), ReplyError> {
        if let Some(error) = event.get("error") {
            return Err(reported(error));
        }
        let said = &event["message"];
        reply.think(said["thinking"].as_str().unwrap_or_default(), Some("thinking"))?;
        reply.say(said["content"].as_str().unwrap_or_default())?;
        for call in said["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let name = function["name"].as_str().unwrap_or_default();
            reply.whole_call(call["id"].as_str(), name, &function["arguments"])?;
        }
        if event["done"].as_bool() == Some(true) {
            reply.input = event["prompt_eval_count"].as_u64();
            reply.output = event["eval_count"].as_u64();
            reply.stop = Some(match event["done_reason"].as_str() {
                Some("length") => StopReason::MaxTokens,
                _ => StopReason::EndTurn,
            });
            reply.ended = true;
        }
        Ok(())
    }

    fn models(&self, list: &Value) -> Vec<String> {
        names(list, "models", "name")
    }
}

fn messages(message: &Message) -> Vec<Value> {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    if !message.attachments.is_empty() {
        return vec![attachments::ollama(message)];
    }
    let mut said = json!({"role": role, "content": message.content});
    if message.tool_calls.is_empty() {
        return vec![said];
    }
    if let Some(reasoning) = message.reasoning.as_ref().filter(|one| !one.text.is_empty()) {
        said["thinking"] = json!(reasoning.text);
    }
    let call = |call: &ToolCall| json!({"function": {"name": call.name, "arguments": call.arguments}});
    said["tool_calls"] = message.tool_calls.iter().map(call).collect();
    let result = |call: &ToolCall| {
        let said = json!({"role": "tool", "tool_name": call.name, "content": call.told()});
        attachments::with_images(said, &call.attachments)
    };
    let results = message.tool_calls.iter().map(result);
    std::iter::once(said).chain(results).collect()
}

fn tool(tool: &ToolSpec) -> Value {
    let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    json!({"type": "function", "function": function})
}
