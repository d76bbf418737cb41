//! What a model was asked at the beginning of an execution.

use ensemble_core::thread::{Iteration, Role};
use serde::Serialize;

/// The messages of the first request of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The system prompt, as it was rendered.
    pub system: Option<String>,
    /// The task, as it was rendered.
    pub prompt: String,
}

impl Asked {
    /// The beginning of this exchange, if it has one.
    pub fn of(exchange: &[Iteration]) -> Option<Self> {
        let first = exchange.first()?;
        let prompt = first.messages.iter().find(|message| message.role == Role::User)?;
        let system = first.metadata.get("system_prompt").and_then(|text| text.as_str());
        Some(Self {
            system: system.map(str::to_owned),
            prompt: prompt.content.clone(),
        })
    }
}
