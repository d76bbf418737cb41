//! The messages that a script selects.
//!
//! A script sees the messages as providers do: each tool result is a message of its own after the reply that calls the
//! tool. A call and its result are sent together or not at all.

use std::collections::BTreeSet;

use crate::thread::{Message, MessageRole};

/// Message or tool result, as a script receives the messages of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptMessageEntry {
    /// The message at this index, without the results of its tool calls.
    Message(usize),
    /// The result of a call, by the indexes of the message and of the call.
    Result(usize, usize),
}

/// Messages that a script selected, and the indexes of the entries that are not sent.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptSelectedMessages {
    /// The messages.
    pub messages: Vec<Message>,
    /// The indexes of the entries that are not sent.
    pub left_out: Vec<usize>,
}

/// The reason why entries are not a selection of a thread. Items are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// An entry is not part of the thread, or it is not in the order of the thread.
    #[error("item {0} is not one of the messages, or is out of order")]
    UnknownItem(usize),
    /// The last user message and the last reply must be sent.
    #[error("the last user message and the latest reply after it must be kept")]
    MissingLatest,
    /// A tool result without the reply that calls the tool.
    #[error("item {0} is the result of a tool call that is left out")]
    Dangling(usize),
}

/// Returns the messages and the tool results of a thread as separate entries, as a script receives them.
pub fn list_script_entries(messages: &[Message]) -> Vec<ScriptMessageEntry> {
    let of_message = |(at, message): (usize, &Message)| {
        let results = (0..message.tool_calls.len()).map(move |call| ScriptMessageEntry::Result(at, call));
        std::iter::once(ScriptMessageEntry::Message(at)).chain(results)
    };
    messages.iter().enumerate().flat_map(of_message).collect()
}

/// Returns the messages that a script has selected. `all` has the form in which the script receives the entries.
///
/// A call whose result is left out is left out as well, and so is a reply without content. Results that the model waits for are always
/// sent.
///
/// # Errors
/// [`SelectionError`]: the selection is not a part of the entries in their order, or a required message is missing.
pub fn apply_script_selection<T: PartialEq>(
    all: &[T],
    selection: &[T],
    messages: &[Message],
) -> Result<ScriptSelectedMessages, SelectionError> {
    let indexes = find_selected_indexes(all, selection)?;
    let chosen_indexes: BTreeSet<usize> = indexes.iter().copied().collect();
    let entries = list_script_entries(messages);
    let last = messages.len().checked_sub(1);
    let last_user = messages.iter().rposition(|message| message.role == MessageRole::User);
    let mut sent_flags = vec![false; entries.len()];
    let mut kept_messages = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let ScriptMessageEntry::Message(index) = *entry else {
            continue;
        };
        let results = at + 1..at + 1 + messages[index].tool_calls.len();
        if !chosen_indexes.contains(&at) {
            let result = indexes.iter().position(|entry| results.contains(entry));
            match result {
                Some(item) => return Err(SelectionError::Dangling(item + 1)),
                None if Some(index) == last || Some(index) == last_user => return Err(SelectionError::MissingLatest),
                None => continue,
            }
        }
        let is_sent = |result: &usize| Some(index) == last || chosen_indexes.contains(result);
        let calls: Vec<usize> = results.clone().filter(is_sent).collect();
        if calls.is_empty() && !results.is_empty() && messages[index].content.trim().is_empty() {
            continue;
        }
        sent_flags[at] = true;
        calls.iter().for_each(|result| sent_flags[*result] = true);
        let of = |result: usize| messages[index].tool_calls[result - at - 1].clone();
        kept_messages.push(Message {
            tool_calls: calls.into_iter().map(of).collect(),
            ..messages[index].clone()
        });
    }
    Ok(ScriptSelectedMessages {
        messages: kept_messages,
        left_out: (0..sent_flags.len()).filter(|at| !sent_flags[*at]).collect(),
    })
}

/// Returns the indexes of the selected entries.
///
/// # Errors
/// An item is not an entry, or is out of order.
fn find_selected_indexes<T: PartialEq>(all: &[T], selection: &[T]) -> Result<Vec<usize>, SelectionError> {
    let mut indexes = Vec::with_capacity(selection.len());
    let mut end = all.len();
    // Starts from the end, so that the latest of equal messages is selected.
    for (item, wanted) in selection.iter().enumerate().rev() {
        let at = all[..end].iter().rposition(|entry| entry == wanted);
        end = at.ok_or(SelectionError::UnknownItem(item + 1))?;
        indexes.push(end);
    }
    indexes.reverse();
    Ok(indexes)
}
