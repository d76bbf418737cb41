//! The first model request of an execution.

use ensemble_core::thread::{Attachment, MessageRole, SYSTEM_PROMPT_KEY, ThreadIteration};
use serde::Serialize;
use serde_json::Value;

/// The messages of the first model request of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstModelRequest {
    /// The system prompt, as it was rendered.
    pub system: Option<String>,
    /// The task, as it was rendered.
    pub prompt: String,
    /// The files that were sent with it: `{name, mime_type, size, sha256}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Value>,
}

impl FirstModelRequest {
    /// Returns the prompts and files of this iteration. Returns `None` if the iteration sends only the results of tools.
    pub fn from_iteration(first: &ThreadIteration) -> Option<Self> {
        let prompt = first
            .messages
            .iter()
            .find(|message| message.role == MessageRole::User)?;
        let system = first.metadata.get(SYSTEM_PROMPT_KEY).and_then(|text| text.as_str());
        Some(Self {
            system: system.map(str::to_owned),
            prompt: prompt.content.clone(),
            attachments: prompt
                .attachments
                .iter()
                .map(Attachment::to_json_without_bytes)
                .collect(),
        })
    }
}
