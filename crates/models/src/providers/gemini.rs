//! Google's Gemini API.

use serde_json::{Value, json};

use crate::providers::dialect::{ProviderDialect, collect_name_fields, sampling_settings_with_keys};
use crate::providers::failure::reported_stream_error;
use crate::reply::assembly::ReplyAssembly;
use crate::request::attachments;
use crate::transport::reply_error::ReplyError;
use crate::{ModelRequest, ToolSpec};
use ensemble_core::thread::{INTERRUPTED_TOOL_ERROR, Message, MessageRole, ToolCall, ToolCallEnd};

/// Key for the signature of the thoughts that led to a part.
const SIGNATURE_KEY: &str = "thoughtSignature";

/// Documented signature for a call that another model made.
const FOREIGN_CALL_SIGNATURE: &str = "skip_thought_signature_validator";

/// Protocol of the Gemini API.
pub(crate) struct GeminiDialect;

impl ProviderDialect for GeminiDialect {
    fn default_base_path(&self) -> &'static str {
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

    fn request_headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect()
    }

    fn supports_schema(&self, request: &ModelRequest, _schema: &Value) -> bool {
        // Beside tools it is refused, or keeps the model from calling any.
        request.tools.is_empty()
    }

    fn request_body(&self, request: &ModelRequest, schema: Option<&Value>) -> Value {
        let words = [Some("temperature"), Some("topP"), Some("maxOutputTokens"), Some("seed")];
        let mut config = sampling_settings_with_keys(&request.profile, words);
        let mut body = json!({});
        let is_system = |message: &&Message| message.role == MessageRole::System;
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
            let tools: Vec<Value> = request.tools.iter().map(tool_to_json).collect();
            body["tools"] = json!([{"functionDeclarations": tools}]);
        } else if let Some(schema) = schema {
            config.insert("responseMimeType".into(), json!("application/json"));
            config.insert("responseJsonSchema".into(), schema.clone());
        }
        if !config.is_empty() {
            body["generationConfig"] = Value::Object(config);
        }
        let message_contents =
            |message| message_with_results_to_json(message, needs_call_signatures(&request.profile.model));
        let contents = request
            .messages
            .iter()
            .filter(|one| !is_system(one))
            .flat_map(message_contents);
        body["contents"] = contents.collect();
        body
    }

    fn recognizes_event(&self, event: &Value) -> bool {
        let keys = ["candidates", "promptFeedback", "usageMetadata"];
        keys.iter().any(|key| event.get(*key).is_some())
    }

    fn add_event_to_reply(&self, event: &Value, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError> {
        if let Some(error) = event.get("error") {
            return Err(reported_stream_error(error));
        }
        if let Some(usage) = event.get("usageMetadata") {
            let sum = |keys: [&str; 2]| -> Option<u64> {
                let counts: Vec<u64> = keys.iter().filter_map(|key| usage[*key].as_u64()).collect();
                (!counts.is_empty()).then(|| counts.iter().sum())
            };
            reply.input = sum(["promptTokenCount", "toolUsePromptTokenCount"]).or(reply.input);
            reply.cached_tokens = usage["cachedContentTokenCount"].as_u64().or(reply.cached_tokens);
            reply.output = sum(["candidatesTokenCount", "thoughtsTokenCount"]).or(reply.output);
        }
        if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
            let message = event["promptFeedback"]["blockReasonMessage"].as_str();
            reply.set_refusal(Some(refusal_message(
                "a content filter blocked the prompt",
                reason,
                message,
            )));
        }
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            let text = part["text"].as_str().unwrap_or_default();
            let signature = part["thoughtSignature"].as_str();
            match part["thought"].as_bool() {
                Some(true) => reply.add_reasoning(text, None)?,
                _ => reply.add_text(text)?,
            }
            if let (Some(signature), None) = (signature, part.get("functionCall")) {
                reply
                    .reserve_reasoning_bytes(signature.len())?
                    .add_block(None, json!({SIGNATURE_KEY: signature}));
            }
            if let Some(call) = part.get("functionCall") {
                let name = call["name"].as_str().unwrap_or_default();
                let call = reply.add_whole_call(call["id"].as_str(), name, &call["args"])?;
                call.signatures.extend(signature.map(str::to_owned));
            }
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            reply.set_end_reason(reason, candidate["finishMessage"].as_str())?;
        }
        Ok(())
    }

    fn parse_model_names(&self, list: &Value) -> Vec<String> {
        let plain = |name: String| name.strip_prefix("models/").map(str::to_owned).unwrap_or(name);
        collect_name_fields(list, "models", "name")
            .into_iter()
            .map(plain)
            .collect()
    }
}

/// Renders a refusal with its reason and message.
fn refusal_message(what: &str, reason: &str, message: Option<&str>) -> String {
    match message {
        Some(message) => format!("{what} ({reason}): {message}"),
        None => format!("{what} ({reason})"),
    }
}

/// Returns whether the model refuses calls without a signature, as Gemini 3 and later do.
fn needs_call_signatures(model: &str) -> bool {
    let version = model.rsplit('/').next().and_then(|name| name.strip_prefix("gemini-"));
    version.is_some_and(|version| version.starts_with(|c: char| ('3'..='9').contains(&c)))
}

/// Converts a message, and the results of its tool calls, to contents of the API.
fn message_with_results_to_json(message: &Message, needs_signatures: bool) -> Vec<Value> {
    let role = if message.role == MessageRole::User {
        "user"
    } else {
        "model"
    };
    if !message.attachments.is_empty() {
        return vec![json!({"role": role, "parts": attachments::gemini_user_parts(message)})];
    }
    let mut text = json!({"text": message.content});
    let blocks = message.reasoning.iter().flat_map(|reasoning| &reasoning.blocks);
    if let Some(signature) = blocks.filter_map(|block| block.get(SIGNATURE_KEY)).next_back() {
        text[SIGNATURE_KEY] = signature.clone();
    }
    if message.tool_calls.is_empty() {
        return vec![json!({"role": role, "parts": [text]})];
    }
    let calls = message.tool_calls.iter().map(call_to_json);
    let text = (!message.content.is_empty()).then_some(text);
    let mut parts: Vec<Value> = text.into_iter().chain(calls).collect();
    let is_signed = message.tool_calls.iter().any(|call| !call.signatures.is_empty());
    let first = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let Some(first) = first.filter(|_| needs_signatures && !is_signed) {
        first[SIGNATURE_KEY] = json!(FOREIGN_CALL_SIGNATURE);
    }
    let mut results: Vec<Value> = message.tool_calls.iter().map(result_to_json).collect();
    results.extend(attachments::gemini_result_file_parts(&message.tool_calls));
    vec![
        json!({"role": role, "parts": parts}),
        json!({"role": "user", "parts": results}),
    ]
}

/// Converts a tool call to a part with its signature.
fn call_to_json(call: &ToolCall) -> Value {
    let mut part = json!({"functionCall": {"name": call.name, "args": call.arguments}});
    if let Some(signature) = call.signatures.first() {
        part[SIGNATURE_KEY] = json!(signature);
    }
    part
}

/// Converts the result of a tool call to a part.
fn result_to_json(call: &ToolCall) -> Value {
    let response = match &call.end {
        Some(ToolCallEnd::Result(Value::Object(result))) => Value::Object(result.clone()),
        Some(ToolCallEnd::Result(result)) => json!({ "result": result }),
        Some(ToolCallEnd::Error(error)) => json!({ "error": error }),
        None => json!({ "error": INTERRUPTED_TOOL_ERROR }),
    };
    json!({"functionResponse": {"name": call.name, "response": response}})
}

/// Converts a tool to JSON for the API.
fn tool_to_json(tool: &ToolSpec) -> Value {
    json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters})
}
