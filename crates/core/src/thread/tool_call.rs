//! A tool call and its result, as one record.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::Attachment;
use crate::request::AnswerRecord;
use ensemble_language::data::ModelUsage;

/// A tool call of a model, with the result or the error once the call has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The id of the call, given by the model or the provider.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
    /// The result; `None` while the call is in progress.
    pub end: Option<ToolCallEnd>,
    /// The duration in seconds.
    pub duration: f64,
    /// The images and PDFs of the result.
    pub attachments: Vec<Attachment>,
    /// The questions that the tool asked during the call, with their answers. A model does not get them.
    pub answers: Vec<AnswerRecord>,
    /// Data of the provider that must be sent back with the call; it is not interpreted.
    pub signatures: Vec<String>,
    /// The text that the model receives instead of the result.
    pub summary: Option<Box<ResultSummary>>,
}

/// The text that a model receives instead of a large result of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultSummary {
    /// The text.
    pub text: String,
    /// The size of the result in bytes, also of the part that was not kept.
    pub result_bytes: u64,
    /// `PROVIDER/MODEL` of the model that wrote the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The usage of the summary, which is a part of the usage of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ModelUsage>,
    /// The reason why no summary was written: the text is the beginning and the end of the result then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ResultSummary {
    /// Returns the sentence for the user that a result of this tool was not summarized; `None` if there is a summary.
    pub fn failure_sentence(&self, tool: &str) -> Option<String> {
        let error = self.error.as_ref()?;
        Some(format!(
            "a result of the tool {tool} was not summarized: {error}; the model received its beginning and its end"
        ))
    }
}

/// Error that the model receives for a call without an end.
pub const INTERRUPTED_TOOL_ERROR: &str = "the tool was interrupted";

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolCallEnd {
    /// The value that the tool returned.
    Result(Value),
    /// The error message, which is sent to the model.
    Error(String),
}

impl ToolCall {
    /// Creates a call that has not ended.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments,
            end: None,
            duration: 0.0,
            attachments: Vec::new(),
            answers: Vec::new(),
            signatures: Vec::new(),
            summary: None,
        }
    }

    /// Returns the call with this end and duration in seconds.
    #[must_use]
    pub fn with_end(self, end: ToolCallEnd, duration: f64) -> Self {
        Self {
            end: Some(end),
            duration,
            ..self
        }
    }

    /// Returns the call as JSON. Files have names, types and digests instead of bytes.
    pub fn to_json_without_bytes(&self) -> Value {
        let mut call = json!(Self {
            attachments: Vec::new(),
            ..self.clone()
        });
        if !self.attachments.is_empty() {
            call["attachments"] = self.attachments.iter().map(Attachment::to_json_without_bytes).collect();
        }
        call
    }

    /// Returns the text that the model receives as the result: the summary, the result, or an error.
    pub fn text_for_model(&self) -> String {
        if let Some(summary) = &self.summary {
            return summary.text.clone();
        }
        match &self.end {
            Some(ToolCallEnd::Result(Value::String(text))) => text.clone(),
            Some(ToolCallEnd::Result(value)) => value.to_string(),
            Some(ToolCallEnd::Error(error)) => json!({ "error": error }).to_string(),
            None => json!({ "error": INTERRUPTED_TOOL_ERROR }).to_string(),
        }
    }
}

/// `NAME(ARGUMENTS) -> RESULT`, on one line: the result as JSON if it is not a text, `ERROR: MESSAGE` if the call failed, and
/// `…` while it is in progress.
impl fmt::Display for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}) -> ", self.name, self.arguments)?;
        match &self.end {
            Some(ToolCallEnd::Result(Value::String(text))) => write!(f, "{}", text.escape_debug()),
            Some(ToolCallEnd::Result(value)) => write!(f, "{value}"),
            Some(ToolCallEnd::Error(error)) => write!(f, "ERROR: {}", error.escape_debug()),
            None => f.write_str("…"),
        }
    }
}

/// `{id, name, arguments, result | error, duration, attachments, answers, signatures, summary}`.
impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = Map::new();
        map.insert("id".into(), json!(self.id));
        map.insert("name".into(), json!(self.name));
        map.insert("arguments".into(), self.arguments.clone());
        match &self.end {
            Some(ToolCallEnd::Result(result)) => map.insert("result".into(), result.clone()),
            Some(ToolCallEnd::Error(error)) => map.insert("error".into(), json!(error)),
            None => None,
        };
        if self.end.is_some() {
            map.insert("duration".into(), json!(self.duration));
        }
        if !self.attachments.is_empty() {
            map.insert("attachments".into(), json!(self.attachments));
        }
        if !self.answers.is_empty() {
            map.insert("answers".into(), json!(self.answers));
        }
        if !self.signatures.is_empty() {
            map.insert("signatures".into(), json!(self.signatures));
        }
        if let Some(summary) = &self.summary {
            map.insert("summary".into(), json!(summary));
        }
        map.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct ToolCallFields {
            id: String,
            name: String,
            arguments: Value,
            // A result of `null` is different from a missing result.
            #[serde(default, deserialize_with = "present")]
            result: Option<Value>,
            #[serde(default)]
            error: Option<String>,
            // JSON has no infinite numbers, so such a duration is written as `null`.
            #[serde(default)]
            duration: Option<f64>,
            #[serde(default)]
            attachments: Vec<Attachment>,
            #[serde(default)]
            answers: Vec<AnswerRecord>,
            #[serde(default)]
            signatures: Vec<String>,
            #[serde(default)]
            summary: Option<Box<ResultSummary>>,
        }
        let fields = ToolCallFields::deserialize(deserializer)?;
        let error = fields.error.map(ToolCallEnd::Error);
        Ok(Self {
            id: fields.id,
            name: fields.name,
            arguments: fields.arguments,
            end: error.or(fields.result.map(ToolCallEnd::Result)),
            duration: fields.duration.unwrap_or_default(),
            attachments: fields.attachments,
            answers: fields.answers,
            signatures: fields.signatures,
            summary: fields.summary,
        })
    }
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
