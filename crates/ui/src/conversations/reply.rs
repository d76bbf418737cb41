//! What a chat program hears of a run.

use ensemble_core::conversation::{CompletionReason, ConversationState};
use ensemble_history::answer::find_run_answer;
use ensemble_history::output_text;

/// Returns the reply of a run that ended well: the text of its answer.
pub(crate) fn successful_reply_text(state: &ConversationState) -> String {
    find_run_answer(state).map_or_else(String::new, |output| output_text(&output))
}

/// Does a run with this outcome give a reply?
pub(crate) fn gives_reply(outcome: CompletionReason) -> bool {
    outcome == CompletionReason::Completed || outcome.is_limit()
}

/// Does the message permit a call?
pub(crate) fn is_yes_message(message: &str) -> bool {
    matches!(message.trim().to_lowercase().as_str(), "yes" | "y")
}
