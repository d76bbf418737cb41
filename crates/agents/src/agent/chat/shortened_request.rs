//! Requests that the model refuses because they are too long: they are repeated once with fewer messages. What was accepted
//! then is the room for the requests that follow.

use serde_json::{Value, json};

use crate::agent::window::tokens::TokenCounter;
use ensemble_core::thread::Message;
use ensemble_core::thread::window::{
    ThreadSize, TrimInput, TrimRules, TurnRetention, WindowLimits, select_messages_to_send,
};
use ensemble_models::{ModelErrorKind, ModelQueryResult, ToolSpec, estimate_tokens};

/// Messages of a request without the dropped ones, with a note about the dropped ones.
pub(crate) struct ShortenedRequest {
    pub(crate) messages: Vec<Message>,
    /// What the iteration notes as left out.
    pub(crate) note: Value,
}

/// Estimates the tokens of the system prompt and the tools.
pub(crate) fn overhead_tokens(system: Option<&str>, tools: &[ToolSpec]) -> u64 {
    let of_tool = |tool: &ToolSpec| {
        let texts = [&tool.name, &tool.description, &tool.parameters.to_string()];
        texts.iter().map(|text| estimate_tokens(text)).sum::<u64>()
    };
    system.map_or(0, estimate_tokens) + tools.iter().map(of_tool).sum::<u64>()
}

/// Estimates the tokens of the messages.
pub(crate) fn estimate_message_tokens(messages: &[Message]) -> u64 {
    TokenCounter::default().count_each_message(messages).iter().sum()
}

/// Drops the oldest messages if the request has more estimated tokens than `room`. Returns `None` if nothing can or must be dropped.
pub(crate) fn drop_oldest_messages_to_fit(
    room: u64,
    messages: &[Message],
    task: Option<&Message>,
    min_recent_turns: usize,
    before: Option<&Value>,
) -> Option<ShortenedRequest> {
    let rules = TrimRules {
        limits: WindowLimits {
            max_tokens: Some(room),
            max_messages: None,
        },
        keeps_system: true,
        min_recent_turns,
        keep: TurnRetention::Latest,
        in_place: ThreadSize::default(),
    };
    let tokens = TokenCounter::default().count_each_message(messages);
    let full_thread = trimmable_thread(messages, &tokens, task);
    let left_out = select_messages_to_send(&rules, &full_thread).dropped;
    (!left_out.is_empty()).then(|| drop_messages(&full_thread, &left_out, before))
}

/// Drops the older half of the droppable messages if the provider refused the request as too long. Returns the request and a warning.
///
/// Returns `None` for other replies, or if no message can be dropped. `task` is the first message of the execution, `before` the note about
/// earlier drops.
pub(crate) fn drop_older_half_if_too_long(
    messages: &[Message],
    task: Option<&Message>,
    min_recent_turns: usize,
    before: Option<&Value>,
    answer: &mut ModelQueryResult,
) -> Option<(ShortenedRequest, String)> {
    let error = answer
        .result
        .as_mut()
        .err()
        .filter(|error| error.kind == ModelErrorKind::ContextTooLong)?;
    let tokens = TokenCounter::default().count_each_message(messages);
    let full_thread = trimmable_thread(messages, &tokens, task);
    let left_out = full_thread.list_older_half_of_droppable(min_recent_turns);
    if left_out.is_empty() {
        let stays = "the instructions, the task and the latest messages are always sent";
        error.message = format!("{error}; nothing can be left out of the request: {stays}");
        return None;
    }
    let warning = format!("the request was too long for the model and was repeated without older messages ({error})");
    Some((drop_messages(&full_thread, &left_out, before), warning))
}

/// Wraps the messages and their token counts for trimming. The task and later messages stay.
fn trimmable_thread<'a>(messages: &'a [Message], tokens: &'a [u64], task: Option<&Message>) -> TrimInput<'a> {
    let is_task = |message: &Message| Some(message) == task;
    TrimInput {
        system: None,
        messages,
        tokens,
        task: messages.iter().rposition(is_task).unwrap_or(messages.len()),
    }
}

/// Removes the messages at these sorted indexes, and creates the note.
fn drop_messages(whole: &TrimInput<'_>, left_out: &[usize], before: Option<&Value>) -> ShortenedRequest {
    let is_sent = |at: &usize| left_out.binary_search(at).is_err();
    let sent_indexes = (0..whole.messages.len()).filter(is_sent);
    ShortenedRequest {
        messages: sent_indexes.map(|at| whole.messages[at].clone()).collect(),
        note: merge_dropped_note(before, whole.sum_sizes(left_out.iter().copied())),
    }
}

/// Adds the size of the dropped messages to the earlier note.
fn merge_dropped_note(before: Option<&Value>, size: ThreadSize) -> Value {
    let mut note = before.cloned().unwrap_or_else(|| json!({"messages": 0, "tokens": 0}));
    for (key, more) in [("messages", size.messages), ("tokens", size.tokens)] {
        note[key] = json!(note[key].as_u64().unwrap_or_default() + more);
    }
    note["estimated"] = json!(true);
    note
}

/// Returns the reply to the repeated request, with the warnings of the first reply.
pub(crate) fn merge_retried_answer(first: ModelQueryResult, mut answer: ModelQueryResult) -> ModelQueryResult {
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
