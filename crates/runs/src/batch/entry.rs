//! What has come of a row.

use ensemble_core::conversation::{CompletionReason, ConversationState, ExhaustedAgent, RunResult};
use ensemble_core::store::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of a row: a line of the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchEntry {
    /// The id of the row.
    pub id: String,
    /// The id of its run.
    pub run: String,
    /// How the run has ended.
    pub outcome: CompletionReason,
    /// Whether the exit code of the run is 0; absent in older indexes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// The agents that their own limits kept from their work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exhausted: Vec<ExhaustedAgent>,
    /// More about the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The number of turns.
    pub turns: u64,
    /// The result of the run.
    pub result: Value,
    /// What models were asked and have cost.
    pub usage: Value,
}

impl BatchEntry {
    /// Returns the result of the row whose run has this state. Returns `None` if the run has not ended.
    pub(crate) fn from_state(id: &RunId, run: &RunId, state: &ConversationState) -> Option<Self> {
        let run_end = state.run_end()?;
        let document = RunResult(state);
        Some(Self {
            id: id.to_string(),
            run: run.to_string(),
            outcome: run_end.completion_reason,
            success: Some(run_end.is_success()),
            exhausted: run_end.exhausted.clone(),
            detail: run_end.detail.as_deref().map(str::to_owned),
            turns: u64::from(state.finished_turns()),
            result: document.result_value(),
            usage: document.usage_value(),
        })
    }

    /// Returns the cost of the models, in the unit of the prices. Returns `None` if a price is missing.
    pub fn cost(&self) -> Option<f64> {
        self.usage.get("cost")?.as_f64()
    }

    /// Returns a number of the usage, such as `input_tokens`.
    pub fn usage_number(&self, what: &str) -> u64 {
        self.usage.get(what).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Was the run stopped, so that it goes on when the batch does?
    pub fn is_resumable(&self) -> bool {
        self.outcome == CompletionReason::Cancelled
    }

    /// Returns whether the exit code of the run is 0.
    pub fn is_success(&self) -> bool {
        self.success.unwrap_or(self.outcome == CompletionReason::Completed)
    }
}
