//! What a chat program hears of a run.

use ensemble_core::conversation::{CompletionReason, ConversationState};
use serde_json::{Value, json};

/// The reply of a run that has ended well: its result, or what its last agent said.
pub(crate) fn reply_of(state: &ConversationState) -> String {
    if let Some(result) = state.run_value() {
        return spoken(&json!(result.value));
    }
    let last = state.history().filter(|entry| entry.success()).last();
    last.map(|entry| spoken(&entry.output_data())).unwrap_or_default()
}

/// Does a run with this outcome give a reply?
pub(crate) fn is_reply(outcome: CompletionReason) -> bool {
    outcome == CompletionReason::Completed || outcome.is_limit()
}

/// Does the message permit a call?
pub(crate) fn permits(message: &str) -> bool {
    matches!(message.trim().to_lowercase().as_str(), "yes" | "y")
}

/// The text of an output: its response, or the value itself.
fn spoken(output: &Value) -> String {
    let text = output.get("response").unwrap_or(output).as_str();
    text.map_or_else(|| output.to_string(), str::to_owned)
}
