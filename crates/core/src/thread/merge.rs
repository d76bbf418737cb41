//! The merge of two threads that continue the same thread.

use std::fmt;

use super::{MessageRole, Thread, ThreadIteration, ThreadStatus, make_call_ids_unique};

/// Order in which a merge adds the rounds of two threads. A round starts with a user message and ends before the next user message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MergeOrder {
    /// All rounds of the left thread, then all rounds of the right thread.
    #[default]
    Sequence,
    /// Alternately one round of the left thread and one of the right thread; the rest of the longer thread follows.
    SideBySide,
}

/// Side of a merge: the first or the second thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeSide {
    /// The first thread.
    Left,
    /// The second thread.
    Right,
}

/// Reason why two threads cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadMergeError {
    /// The thread of this side is shorter than the base, or differs from it in this iteration.
    #[error("the {side} thread does not continue the base: iteration {iteration} differs")]
    NotContinued {
        /// The thread that differs.
        side: MergeSide,
        /// The number of the first iteration that differs, from 1.
        iteration: u32,
    },
    /// The base ends within a round, so both threads would end the same round.
    #[error("the base ends within a round ({0}); merge from a thread that is empty, complete or failed")]
    OpenBase(&'static str),
    /// The thread of this side ends within a round.
    #[error("the {side} thread ends within a round ({state}); continue it to its final reply first")]
    OpenThread {
        /// The thread that ends within a round.
        side: MergeSide,
        /// The state of the round, in words.
        state: &'static str,
    },
}

impl fmt::Display for MergeSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "left",
            Self::Right => "right",
        })
    }
}

impl Thread {
    /// Merges two threads that continue `base`: returns the base, followed by the rounds that each thread adds. The result
    /// can be continued. Ids of tool calls that both threads use are changed on the right side.
    ///
    /// ```
    /// use ensemble_core::thread::{MergeOrder, Message, MessageRole, Thread};
    ///
    /// let at = chrono::DateTime::UNIX_EPOCH;
    /// let base = Thread::new("Plan a trip.", None, at).add_assistant_message("Where to?", vec![])?.complete_current_iteration(at);
    /// let ask = |text: &str, reply: &str| {
    ///     let asked = base.clone().start_iteration(vec![Message::new(MessageRole::User, text)], at);
    ///     asked.add_assistant_message(reply, vec![])
    /// };
    /// let (left, right) = (ask("Paris?", "By train.")?, ask("Rome?", "By air.")?);
    /// let merged = Thread::merge(&base, &left, &right, MergeOrder::Sequence)?;
    /// let texts: Vec<String> = merged.to_messages().into_iter().map(|message| message.content).collect();
    /// assert_eq!(texts, ["Plan a trip.", "Where to?", "Paris?", "By train.", "Rome?", "By air."]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A thread does not continue the base, or the base or a thread ends within a round.
    pub fn merge(base: &Self, left: &Self, right: &Self, order: MergeOrder) -> Result<Self, ThreadMergeError> {
        if let Some(state) = describe_open_round(base) {
            return Err(ThreadMergeError::OpenBase(state));
        }
        let left = list_added_rounds(base, left, MergeSide::Left)?;
        let right = list_added_rounds(base, right, MergeSide::Right)?;
        let rounds = order.order_rounds(left, right);
        // The iterations with whose ids those of the right side may not collide.
        let mut used = Self::from_iterations(
            rounds
                .iter()
                .filter(|(side, _)| *side == MergeSide::Left)
                .flat_map(|(_, round)| round.clone())
                .collect(),
        );
        let mut merged = base.clone();
        for (side, mut round) in rounds {
            for iteration in round.iter_mut().filter(|_| side == MergeSide::Right) {
                make_call_ids_unique(&mut iteration.tool_calls, [base, &used]);
                used = used.append_iterations(vec![iteration.clone()]);
            }
            merged = merged.append_iterations(round);
        }
        Ok(merged)
    }
}

impl MergeOrder {
    /// Returns the rounds of both sides in this order, each with its side.
    pub(crate) fn order_rounds<T>(self, left: Vec<T>, right: Vec<T>) -> Vec<(MergeSide, T)> {
        let mut left = left.into_iter().map(|round| (MergeSide::Left, round));
        let mut right = right.into_iter().map(|round| (MergeSide::Right, round));
        if self == Self::Sequence {
            return left.chain(right).collect();
        }
        let mut rounds = Vec::new();
        loop {
            match (left.next(), right.next()) {
                (None, None) => return rounds,
                (one, other) => rounds.extend(one.into_iter().chain(other)),
            }
        }
    }
}

/// Returns the rounds that the thread adds to the base.
///
/// # Errors
/// The thread does not continue the base, or ends within a round.
fn list_added_rounds(
    base: &Thread,
    thread: &Thread,
    side: MergeSide,
) -> Result<Vec<Vec<ThreadIteration>>, ThreadMergeError> {
    for (at, iteration) in base.iterations.iter().enumerate() {
        let is_same = thread
            .iterations
            .get(at)
            .is_some_and(|other| has_same_content(iteration, other));
        if !is_same {
            return Err(ThreadMergeError::NotContinued {
                side,
                iteration: iteration.number,
            });
        }
    }
    if let Some(state) = describe_open_round(thread) {
        return Err(ThreadMergeError::OpenThread { side, state });
    }
    let mut rounds: Vec<Vec<ThreadIteration>> = Vec::new();
    for iteration in thread.iterations.iter().skip(base.iterations.len()) {
        let begins = iteration
            .messages
            .iter()
            .any(|message| message.role == MessageRole::User);
        match rounds.last_mut() {
            Some(round) if !begins => round.push(iteration.clone()),
            _ => rounds.push(vec![iteration.clone()]),
        }
    }
    Ok(rounds)
}

/// Returns whether two iterations have equal messages, calls and start times. The completion time can differ.
fn has_same_content(one: &ThreadIteration, other: &ThreadIteration) -> bool {
    (&one.messages, &one.tool_calls, one.started_at) == (&other.messages, &other.tool_calls, other.started_at)
}

/// Describes the open round at the end of the thread. Returns `None` if the thread ends after a round.
fn describe_open_round(thread: &Thread) -> Option<&'static str> {
    match thread.status() {
        ThreadStatus::Empty | ThreadStatus::Complete | ThreadStatus::Failed => None,
        ThreadStatus::InProgress => Some("the model has not replied"),
        ThreadStatus::WaitingForTools => Some("a tool call has not ended"),
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use serde_json::json;

    use super::*;
    use crate::thread::{Message, ToolCall, ToolCallEnd};

    fn at(second: u32) -> DateTime<Utc> {
        DateTime::from_timestamp(i64::from(second), 0).expect("is a time")
    }

    /// Adds a round with one tool call.
    fn add_round(thread: &Thread, text: &str, second: u32) -> Thread {
        let id = thread.iterations().len().to_string();
        let call = ToolCall::new(id, "look", json!({"at": text}));
        let ended = call.clone().with_end(ToolCallEnd::Result(json!(text)), 0.0);
        let asked = thread
            .clone()
            .start_iteration(vec![Message::new(MessageRole::User, text)], at(second));
        let calling = asked.add_assistant_message("", vec![call]).expect("fits");
        let answered = calling.add_tool_results(vec![ended], at(second)).expect("fits");
        let replied = answered.add_assistant_message(format!("{text}!"), vec![]);
        replied.expect("fits").complete_current_iteration(at(second + 1))
    }

    fn list_texts(thread: &Thread) -> Vec<String> {
        let messages = thread.to_messages().into_iter().map(|message| message.content);
        messages.filter(|text| !text.is_empty()).collect()
    }

    #[test]
    fn both_orders_have_the_base_and_then_the_rounds_of_both_threads() {
        let base = add_round(&Thread::default(), "base", 1);
        let left = add_round(&add_round(&base, "l1", 3), "l2", 5);
        let right = add_round(&base, "r1", 4);
        let merge = |order| Thread::merge(&base, &left, &right, order).expect("continue the base");
        let sequence = merge(MergeOrder::Sequence);
        assert_eq!(
            list_texts(&sequence),
            ["base", "base!", "l1", "l1!", "l2", "l2!", "r1", "r1!"]
        );
        let side_by_side = merge(MergeOrder::SideBySide);
        assert_eq!(
            list_texts(&side_by_side),
            ["base", "base!", "l1", "l1!", "r1", "r1!", "l2", "l2!"]
        );
        for merged in [&sequence, &side_by_side] {
            let calls = merged.iterations().iter().flat_map(|iteration| &iteration.tool_calls);
            let mut ids: Vec<&str> = calls.map(|call| call.id.as_str()).collect();
            ids.sort_unstable();
            assert_eq!(ids, ["0", "2", "2_2", "4"], "each id occurs once");
            assert_eq!(merged.status(), ThreadStatus::Complete);
            let numbers: Vec<u32> = merged.iterations().iter().map(|iteration| iteration.number).collect();
            assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
        }
        assert_eq!(
            Thread::merge(&base, &base, &base, MergeOrder::Sequence),
            Ok(base.clone())
        );
    }

    #[test]
    fn what_cannot_be_merged_says_why() {
        let base = add_round(&Thread::default(), "base", 1);
        let other = add_round(&Thread::default(), "other", 1);
        let open = base
            .clone()
            .start_iteration(vec![Message::new(MessageRole::User, "open")], at(3));
        let calling = open
            .clone()
            .add_assistant_message("", vec![ToolCall::new("9", "look", json!({}))])
            .expect("fits");
        let table = [
            (
                (&base, &other, &base),
                "the left thread does not continue the base: iteration 1 differs",
            ),
            (
                (&base, &base, &Thread::default()),
                "the right thread does not continue the base: iteration 1 differs",
            ),
            (
                (&open, &open, &open),
                "the base ends within a round (the model has not replied); merge from a thread that is empty, complete or failed",
            ),
            (
                (&base, &base, &calling),
                "the right thread ends within a round (a tool call has not ended); continue it to its final reply first",
            ),
        ];
        for ((base, left, right), words) in table {
            let error = Thread::merge(base, left, right, MergeOrder::Sequence).expect_err("cannot be merged");
            assert_eq!(error.to_string(), words);
        }
    }
}
