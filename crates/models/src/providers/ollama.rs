//! Ollama's own API.

use serde_json::{Value, json};

use crate::providers::dialect::{ProviderDialect, collect_name_fields, sampling_settings_with_keys};
use crate::providers::failure::reported_stream_error;
use crate::reply::assembly::ReplyAssembly;
use crate::request::attachments;
use crate::transport::frames::EventFraming;
use crate::transport::reply_error::ReplyError;
use crate::{ModelRequest, ToolSpec};
use ensemble_core::thread::{Message, MessageRole, ToolCall};

/// Protocol of the Ollama API.
pub(crate) struct OllamaDialect;

impl ProviderDialect for OllamaDialect {
    fn default_base_path(&self) -> &'static str {
        ""
    }

    fn chat_path(&self, _model: &str) -> String {
        "/api/chat".to_owned()
    }

    fn models_path(&self) -> &'static str {
        "/api/tags"
    }

    fn request_headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("authorization", format!("Bearer {key}")))
            .into_iter()
            .collect()
    }

    fn supports_schema(&self, request: &ModelRequest, _schema: &Value) -> bool {
        // Beside tools it is refused, or keeps the model from calling any.
        request.tools.is_empty()
    }

    fn request_body(&self, request: &ModelRequest, schema: Option<&Value>) -> Value {
        let words = [Some("temperature"), Some("top_p"), Some("num_predict"), Some("seed")];
        let options = sampling_settings_with_keys(&request.profile, words);
        let messages: Vec<Value> = request.messages.iter().flat_map(message_with_results_to_json).collect();
        let mut body = json!({"model": request.profile.model, "stream": true, "messages": messages});
        if !options.is_empty() {
            body["options"] = Value::Object(options);
        }
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(tool_to_json).collect();
        } else if let Some(schema) = schema {
            body["format"] = schema.clone();
        }
        body
    }

    fn reply_event_framing(&self) -> EventFraming {
        EventFraming::Lines
    }

    fn recognizes_event(&self, event: &Value) -> bool {
        event.get("message").is_some() || event.get("done").is_some()
    }

    fn add_event_to_reply(&self, event: &Value, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
        if let Some(error) = event.get("error") {
            return Err(reported_stream_error(error));
        }
        let message = &event["message"];
        reply.add_reasoning(message["thinking"].as_str().unwrap_or_default(), Some("thinking"))?;
        reply.add_text(message["content"].as_str().unwrap_or_default())?;
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let name = function["name"].as_str().unwrap_or_default();
            reply.add_whole_call(call["id"].as_str(), name, &function["arguments"])?;
        }
        if event["done"].as_bool() == Some(true) {
            reply.input = event["prompt_eval_count"].as_u64();
            reply.output = event["eval_count"].as_u64();
            reply.set_end_reason(event["done_reason"].as_str().unwrap_or_default(), None)?;
            reply.is_complete = true;
        }
        Ok(())
    }

    fn parse_model_names(&self, list: &Value) -> Vec<String> {
        collect_name_fields(list, "models", "name")
    }
}

/// Converts a message, and the results of its tool calls, to messages of the API.
fn message_with_results_to_json(message: &Message) -> Vec<Value> {
    let role = match message.role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    };
    if !message.attachments.is_empty() {
        return vec![attachments::ollama_user_message(message)];
    }
    let mut message_json = json!({"role": role, "content": message.content});
    if message.tool_calls.is_empty() {
        return vec![message_json];
    }
    if let Some(reasoning) = message.reasoning.as_ref().filter(|one| !one.text.is_empty()) {
        message_json["thinking"] = json!(reasoning.text);
    }
    let call = |call: &ToolCall| json!({"function": {"name": call.name, "arguments": call.arguments}});
    message_json["tool_calls"] = message.tool_calls.iter().map(call).collect();
    let result = |call: &ToolCall| {
        let result_json = json!({"role": "tool", "tool_name": call.name, "content": call.text_for_model()});
        attachments::with_images(result_json, &call.attachments)
    };
    let results = message.tool_calls.iter().map(result);
    std::iter::once(message_json).chain(results).collect()
}

/// Converts a tool to JSON for the API.
fn tool_to_json(tool: &ToolSpec) -> Value {
    let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    json!({"type": "function", "function": function})
}
