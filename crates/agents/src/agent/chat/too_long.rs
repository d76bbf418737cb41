//! Requests that the model refuses because they are too long: they are repeated once with fewer messages. What was accepted
//! then is the room for the requests that follow.

use serde_json::{Value, json};

use crate::agent::window::tokens::TokenCounter;
use ensemble_core::thread::Message;
use ensemble_core::thread::window::{Keep, Limits, Rules, Size, Whole, cut};
use ensemble_models::{ModelAnswer, ModelErrorKind, ToolSpec, estimate_tokens};

/// A request without a part of its messages.
pub(crate) struct Shorter {
    pub(crate) messages: Vec<Message>,
    /// What the iteration notes as left out.
    pub(crate) note: Value,
}

/// The estimated tokens of a request without its messages.
pub(crate) fn beside_messages(system: Option<&str>, tools: &[ToolSpec]) -> u64 {
    let of_tool = |tool: &ToolSpec| {
        let texts = [&tool.name, &tool.description, &tool.parameters.to_string()];
        texts.iter().map(|text| estimate_tokens(text)).sum::<u64>()
    };
    system.map_or(0, estimate_tokens) + tools.iter().map(of_tool).sum::<u64>()
}

/// The estimated tokens of the messages.
pub(crate) fn tokens(messages: &[Message]) -> u64 {
    TokenCounter::default().messages(messages).iter().sum()
}

/// The request without its oldest messages, if it has more than this number of estimated tokens.
pub(crate) fn within(
    room: u64,
    messages: &[Message],
    task: Option<&Message>,
    min_recent_turns: usize,
    before: Option<&Value>,
) -> Option<Shorter> {
    let rules = Rules {
        limits: Limits {
            max_tokens: Some(room),
            max_messages: None,
        },
        keeps_system: true,
        min_recent_turns,
        keep: Keep::Latest,
        in_place: Size::default(),
    };
    let tokens = TokenCounter::default().messages(messages);
    let whole = whole(messages, &tokens, task);
    let left_out = cut(&rules, &whole).dropped;
    (!left_out.is_empty()).then(|| without(&whole, &left_out, before))
}

/// The request without the older half of what may be left out; `None` if the answer is another one, or if nothing may be
/// left out. `task` is the message with which the execution began, `before` the note of what is left out already.
pub(crate) fn shorter(
    messages: &[Message],
    task: Option<&Message>,
    min_recent_turns: usize,
    before: Option<&Value>,
    answer: &mut ModelAnswer,
) -> Option<(Shorter, String)> {
    let error = answer
        .result
        .as_mut()
        .err()
        .filter(|error| error.kind == ModelErrorKind::ContextTooLong)?;
    let tokens = TokenCounter::default().messages(messages);
    let whole = whole(messages, &tokens, task);
    let left_out = whole.older_half(min_recent_turns);
    if left_out.is_empty() {
        let stays = "the instructions, the task and the latest messages are always sent";
        error.message = format!("{error}; nothing can be left out of the request: {stays}");
        return None;
    }
    let warning = format!("the request was too long for the model and was repeated without older messages ({error})");
    Some((without(&whole, &left_out, before), warning))
}

fn whole<'a>(messages: &'a [Message], tokens: &'a [u64], task: Option<&Message>) -> Whole<'a> {
    let is_task = |message: &Message| Some(message) == task;
    Whole {
        system: None,
        messages,
        tokens,
        task: messages.iter().rposition(is_task).unwrap_or(messages.len()),
    }
}

/// The request without the messages at these indexes, which are in order.
fn without(whole: &Whole<'_>, left_out: &[usize], before: Option<&Value>) -> Shorter {
    let is_sent = |at: &usize| left_out.binary_search(at).is_err();
    let sent = (0..whole.messages.len()).filter(is_sent);
    Shorter {
        messages: sent.map(|at| whole.messages[at].clone()).collect(),
        note: noted(before, whole.size(left_out.iter().copied())),
    }
}

/// The note of the iteration with what is left out now, too.
fn noted(before: Option<&Value>, size: Size) -> Value {
    let mut note = before.cloned().unwrap_or_else(|| json!({"messages": 0, "tokens": 0}));
    for (key, more) in [("messages", size.messages), ("tokens", size.tokens)] {
        note[key] = json!(note[key].as_u64().unwrap_or_default() + more);
    }
    note["estimated"] = json!(true);
    note
}

/// The answer to the repeated request, with the warnings of the first one.
pub(crate) fn again(first: ModelAnswer, mut answer: ModelAnswer) -> ModelAnswer {
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
