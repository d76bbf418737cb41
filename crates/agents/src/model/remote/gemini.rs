//! Google's Gemini API.

use serde_json::{Value, json};

use super::assembly::Assembly;
use super::attached;
use super::dialect::{Dialect, names, sampling};
use super::failure::reported;
use super::reply_error::ReplyError;
use crate::model::{ModelRequest, ToolSpec};
use ensemble_core::thread::{Message, Role, StopReason, ToolCall, ToolEnd};

pub(super) struct Gemini;

impl Dialect for Gemini {
    fn default_path(&self) -> &'static str {
        "/v1beta"
    }

    fn chat_path(&self, model: &str) -> String {
        // A model that somebody has tuned has a folder of its own.
        let folder = if model.contains('/') { "" } else { "models/" };
        let model = model.replace(['?', '#'], "");
        format!("/{folder}{model}:streamGenerateContent?alt=sse")
    }

    fn models_path(&self) -> &'static str {
        "/models?pageSize=1000"
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect()
    }

    fn body(&self, request: &ModelRequest, schema: Option<&Value>) -> Value {
        let words = [Some("temperature"), Some("topP"), Some("maxOutputTokens"), Some("seed")];
        let mut config = sampling(&request.profile, words);
        let mut body = json!({});
        let is_system = |message: &&Message| message.role == Role::System;
        let system: Vec<Value> = request
            .messages
            .iter()
            .filter(is_system)
            .map(|message| json!({"text": message.content}))
            .collect();
        if !system.is_empty() {
            body["systemInstruction"] = json!({"parts": system});
        }
        if !request.tools.is_empty() {
            let tools: Vec<Value> = request.tools.iter().map(tool).collect();
            body["tools"] = json!([{"functionDeclarations": tools}]);
        } else if let Some(schema) = schema {
            // Beside tools it is refused.
            config.insert("responseMimeType".into(), json!("application/json"));
            config.insert("responseJsonSchema".into(), schema.clone());
        }
        if !config.is_empty() {
            body["generationConfig"] = Value::Object(config);
        }
        let contents = request.messages.iter().filter(|one| !is_system(one)).flat_map(messages);
        body["contents"] = contents.collect();
        body
    }

    fn take(&self, event: &Value, reply: &mut Assembly<'_>) -> Result<(), ReplyError> {
        if let Some(error) = event.get("error") {
            return Err(reported(error));
        }
        if let Some(usage) = event.get("usageMetadata") {
            let sum = |keys: [&str; 2]| -> Option<u64> {
                let counts: Vec<u64> = keys.iter().filter_map(|key| usage[*key].as_u64()).collect();
                (!counts.is_empty()).then(|| counts.iter().sum())
            };
            reply.input = sum(["promptTokenCount", "toolUsePromptTokenCount"]).or(reply.input);
            reply.output = sum(["candidatesTokenCount", "thoughtsTokenCount"]).or(reply.output);
        }
        if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
            reply.say(&format!("the prompt was blocked ({reason})"))?;
            reply.stop = Some(StopReason::Refusal);
        }
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            if part["thought"].as_bool() != Some(true) {
                reply.say(part["text"].as_str().unwrap_or_default())?;
            }
            if let Some(call) = part.get("functionCall") {
                let name = call["name"].as_str().unwrap_or_default();
                let call = reply.whole_call(call["id"].as_str(), name, &call["args"])?;
                call.signatures
                    .extend(part["thoughtSignature"].as_str().map(str::to_owned));
            }
        }
        match candidate["finishReason"].as_str() {
            None => {}
            Some("MAX_TOKENS") => reply.stop = Some(StopReason::MaxTokens),
            Some("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL") => {
                return Err(ReplyError::Malformed("the model's tool call is malformed".to_owned()));
            }
            Some(
                "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE" | "IMAGE_SAFETY",
            ) => reply.stop = Some(StopReason::Refusal),
            Some(_) => reply.stop = reply.stop.or(Some(StopReason::EndTurn)),
        }
        Ok(())
    }

    fn models(&self, list: &Value) -> Vec<String> {
        let plain = |name: String| name.strip_prefix("models/").map(str::to_owned).unwrap_or(name);
        names(list, "models", "name").into_iter().map(plain).collect()
    }
}

fn messages(message: &Message) -> Vec<Value> {
    let role = if message.role == Role::User { "user" } else { "model" };
    if !message.attachments.is_empty() {
        return vec![json!({"role": role, "parts": attached::gemini(message)})];
    }
    let text = json!({"text": message.content});
    if message.tool_calls.is_empty() {
        return vec![json!({"role": role, "parts": [text]})];
    }
    let calls = message.tool_calls.iter().map(call);
    let text = (!message.content.is_empty()).then_some(text);
    let parts: Vec<Value> = text.into_iter().chain(calls).collect();
    let results: Vec<Value> = message.tool_calls.iter().map(result).collect();
    vec![
        json!({"role": role, "parts": parts}),
        json!({"role": "user", "parts": results}),
    ]
}

fn call(call: &ToolCall) -> Value {
    let mut part = json!({"functionCall": {"name": call.name, "args": call.arguments}});
    if let Some(signature) = call.signatures.first() {
        part["thoughtSignature"] = json!(signature);
    }
    part
}

fn result(call: &ToolCall) -> Value {
    let response = match &call.end {
        Some(ToolEnd::Result(Value::Object(result))) => Value::Object(result.clone()),
        Some(ToolEnd::Result(result)) => json!({ "result": result }),
        _ => json!({ "error": call.told() }),
    };
    json!({"functionResponse": {"name": call.name, "response": response}})
}

fn tool(tool: &ToolSpec) -> Value {
    json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters})
}
