//! The reasoning of the models of an execution, which is not part of their replies.

use ensemble_core::conversation::ExecutionFinished;
use ensemble_core::thread::Reasoning;

/// Joins the reasoning of all replies of the execution. Returns `None` if there is none.
pub(super) fn reasoning_text(finished: &ExecutionFinished) -> Option<String> {
    let messages = finished.exchange.iter().flat_map(|iteration| &iteration.messages);
    let texts = messages.filter_map(|message| message.reasoning.as_ref().map(Reasoning::to_text));
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}
