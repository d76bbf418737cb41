//! What a chat program hears of a run.

use ensemble_core::conversation::{CompletionReason, ConversationState};
use ensemble_history::answer::find_run_answer;
use ensemble_history::output_text;

/// Returns the reply of a successful run: the text of its answer.
pub(crate) fn successful_reply_text(state: &ConversationState) -> String {
    find_run_answer(state).map_or_else(String::new, |output| output_text(&output))
}

/// Returns whether a run with this outcome has a reply.
pub(crate) fn gives_reply(outcome: CompletionReason) -> bool {
    outcome == CompletionReason::Completed || outcome.is_limit()
}

/// Returns whether the message permits a call: `yes` or `y`.
pub(crate) fn is_yes_message(message: &str) -> bool {
    matches!(message.trim().to_lowercase().as_str(), "yes" | "y")
}
