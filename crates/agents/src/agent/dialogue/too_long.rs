//! Requests that the model refuses because they are too long: they are repeated once with fewer messages.

use serde_json::{Value, json};

use crate::agent::window::tokens::TokenCounter;
use crate::model::{ModelAnswer, ModelErrorKind};
use ensemble_core::thread::Message;
use ensemble_core::thread::window::{Size, Whole};

/// The repeated request.
pub(super) struct Shorter {
    pub(super) messages: Vec<Message>,
    /// What the iteration notes as left out.
    pub(super) note: Value,
    /// The warning for the user.
    pub(super) warning: String,
}

/// The request without the older half of what may be left out; `None` if the answer is another one, or if nothing may be
/// left out. `task` is the message with which the execution began, `before` the note of what is left out already.
pub(super) fn shorter(
    messages: &[Message],
    task: Option<&Message>,
    min_recent_turns: usize,
    before: Option<Value>,
    answer: &mut ModelAnswer,
) -> Option<Shorter> {
    let error = answer
        .result
        .as_mut()
        .err()
        .filter(|error| error.kind == ModelErrorKind::ContextTooLong)?;
    let tokens = TokenCounter::default().messages(messages);
    let is_task = |message: &Message| Some(message) == task;
    let whole = Whole {
        system: None,
        messages,
        tokens: &tokens,
        task: messages.iter().rposition(is_task).unwrap_or(messages.len()),
    };
    let left_out = whole.older_half(min_recent_turns);
    if left_out.is_empty() {
        let stays = "the instructions, the task and the latest messages are always sent";
        error.message = format!("{error}; nothing can be left out of the request: {stays}");
        return None;
    }
    let is_sent = |at: &usize| left_out.binary_search(at).is_err();
    let sent = (0..messages.len()).filter(is_sent);
    Some(Shorter {
        messages: sent.map(|at| messages[at].clone()).collect(),
        note: noted(before, whole.size(left_out.iter().copied())),
        warning: format!("the request was too long for the model and was repeated without older messages ({error})"),
    })
}

/// The note of the iteration with what is left out now, too.
fn noted(before: Option<Value>, size: Size) -> Value {
    let mut note = before.unwrap_or_else(|| json!({"messages": 0, "tokens": 0}));
    for (key, more) in [("messages", size.messages), ("tokens", size.tokens)] {
        note[key] = json!(note[key].as_u64().unwrap_or_default() + more);
    }
    note["estimated"] = json!(true);
    note
}

/// The answer to the repeated request, with the warnings of the first one.
pub(super) fn again(first: ModelAnswer, mut answer: ModelAnswer) -> ModelAnswer {
    answer.warnings.splice(..0, first.warnings);
    if let Some(error) = answer
        .result
        .as_mut()
        .err()
        .filter(|error| error.kind == ModelErrorKind::ContextTooLong)
    {
        error.message = format!("{error}; the request was repeated without older messages and is still too long");
    }
    answer
}
