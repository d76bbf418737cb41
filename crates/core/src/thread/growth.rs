//! Additions to a thread: the replies of a model and the results of its tool calls.
//!
//! Invariant: an addition that does not fit the thread is an error, which contains the unchanged thread.

use chrono::{DateTime, Utc};

use super::{Message, MessageRole, Thread, ToolCall};

/// Error about an addition that does not fit the thread, with the unchanged thread.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{kind}")]
pub struct ThreadAppendError {
    /// The cause.
    pub kind: ThreadAppendErrorKind,
    /// The thread without the addition.
    pub thread: Thread,
}

/// Kind of an error about an addition to a thread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadAppendErrorKind {
    /// The thread is empty, so there is nothing to reply to.
    #[error("the thread has no iteration; open one with the message of the user first")]
    NoIteration,
    /// The current iteration has a reply.
    #[error("iteration {0} has a reply; add the results of its tools, or open another iteration first")]
    AlreadyReplied(u32),
    /// A result belongs to no call of the current iteration.
    #[error("iteration {iteration} has no call with the id `{id}`")]
    UnknownCall {
        /// The number of the current iteration.
        iteration: u32,
        /// The id of the result.
        id: String,
    },
    /// A result belongs to a call that has ended in another way, or is given twice.
    #[error("the call `{0}` has already ended")]
    CallAlreadyEnded(String),
    /// A result contains neither a value nor an error.
    #[error("the result of the call `{0}` contains neither a value nor an error")]
    ResultWithoutEnd(String),
    /// The current iteration has no tool calls, so there are no results to add.
    #[error("iteration {0} has no tool calls that need results")]
    NoCalls(u32),
    /// A result has another name or other arguments than its call.
    #[error("the result of the call `{0}` is that of a call with another name or other arguments")]
    OtherCall(String),
    /// A call of the current iteration gets no result.
    #[error("the call `{0}` has no result")]
    MissingResult(String),
}

impl ThreadAppendError {
    /// Returns the thread without the addition.
    pub fn into_thread(self) -> Thread {
        self.thread
    }
}

impl Thread {
    /// Adds the reply of the model to the current iteration, with its tool calls.
    ///
    /// # Errors
    /// The thread is empty, or its current iteration has a reply. The error contains the thread.
    pub fn add_assistant_message(
        mut self,
        content: impl Into<String>,
        tool_calls: Vec<ToolCall>,
    ) -> Result<Self, ThreadAppendError> {
        let number = self.current_iteration();
        let Some(current) = self.iterations.last_mut() else {
            return Err(self.into_append_error(ThreadAppendErrorKind::NoIteration));
        };
        if current.has_reply() {
            return Err(self.into_append_error(ThreadAppendErrorKind::AlreadyReplied(number)));
        }
        current.messages.push(Message::new(MessageRole::Assistant, content));
        current.tool_calls.extend(tool_calls);
        Ok(self)
    }

    /// Adds the results of tools to their calls, by id, completes the current iteration and starts the next one. Each
    /// call that has not ended needs a result; the result of a call that has ended can be repeated.
    ///
    /// # Errors
    /// The thread is empty, its current iteration has no calls, a result does not belong to an open call or differs from it, a
    /// result is missing, or a result contains neither a value nor an error. The error contains the thread.
    pub fn add_tool_results(mut self, results: Vec<ToolCall>, at: DateTime<Utc>) -> Result<Self, ThreadAppendError> {
        if let Some(kind) = self.find_tool_result_error(&results) {
            return Err(self.into_append_error(kind));
        }
        let calls = self.iterations.last_mut().map(|current| &mut current.tool_calls);
        for call in calls.into_iter().flatten() {
            if let Some(result) = results.iter().find(|result| result.id == call.id) {
                *call = result.clone();
            }
        }
        Ok(self.start_iteration(Vec::new(), at))
    }

    /// Returns the first error of these tool results. Returns `None` if all results can be added.
    fn find_tool_result_error(&self, results: &[ToolCall]) -> Option<ThreadAppendErrorKind> {
        let Some(current) = self.iterations.last() else {
            return Some(ThreadAppendErrorKind::NoIteration);
        };
        if results.is_empty() && current.tool_calls.is_empty() {
            return Some(ThreadAppendErrorKind::NoCalls(current.number));
        }
        for (at, result) in results.iter().enumerate() {
            let id = || result.id.clone();
            let call = current.tool_calls.iter().find(|call| call.id == result.id);
            let has_ended = call.is_some_and(|call| call.end.is_some() && call != result);
            match call {
                None => {
                    return Some(ThreadAppendErrorKind::UnknownCall {
                        iteration: current.number,
                        id: id(),
                    });
                }
                Some(_) if has_ended || results[..at].iter().any(|earlier| earlier.id == result.id) => {
                    return Some(ThreadAppendErrorKind::CallAlreadyEnded(id()));
                }
                Some(call) if (&call.name, &call.arguments) != (&result.name, &result.arguments) => {
                    return Some(ThreadAppendErrorKind::OtherCall(id()));
                }
                Some(_) if result.end.is_none() => return Some(ThreadAppendErrorKind::ResultWithoutEnd(id())),
                Some(_) => {}
            }
        }
        let is_missing = |call: &&ToolCall| call.end.is_none() && !results.iter().any(|result| result.id == call.id);
        let missing = current.tool_calls.iter().find(is_missing)?;
        Some(ThreadAppendErrorKind::MissingResult(missing.id.clone()))
    }

    /// Creates the error, which contains the thread.
    fn into_append_error(self, kind: ThreadAppendErrorKind) -> ThreadAppendError {
        ThreadAppendError { kind, thread: self }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::thread::ToolCallEnd;

    fn at(second: u32) -> DateTime<Utc> {
        DateTime::from_timestamp(i64::from(second), 0).expect("is a time")
    }

    fn ended(id: &str) -> ToolCall {
        ToolCall::new(id, "look", json!({})).with_end(ToolCallEnd::Result(json!(1)), 0.0)
    }

    fn renamed(id: &str) -> ToolCall {
        ToolCall::new(id, "other", json!({})).with_end(ToolCallEnd::Result(json!(1)), 0.0)
    }

    fn open(id: &str) -> ToolCall {
        ToolCall::new(id, "look", json!({}))
    }

    #[test]
    fn an_addition_that_does_not_fit_is_an_error_with_the_unchanged_thread() {
        let empty = Thread::default();
        let asked = Thread::new("x", None, at(1));
        let replied = asked.clone().add_assistant_message("y", vec![]).expect("fits");
        let calling = asked
            .clone()
            .add_assistant_message("", vec![open("1"), open("2")])
            .expect("fits");
        let say = |thread: &Thread| thread.clone().add_assistant_message("z", vec![]);
        let add = |thread: &Thread, results: Vec<ToolCall>| thread.clone().add_tool_results(results, at(2));
        let unknown = |iteration, id: &str| ThreadAppendErrorKind::UnknownCall {
            iteration,
            id: id.into(),
        };
        let table = [
            (say(&empty), &empty, ThreadAppendErrorKind::NoIteration),
            (say(&replied), &replied, ThreadAppendErrorKind::AlreadyReplied(1)),
            (say(&calling), &calling, ThreadAppendErrorKind::AlreadyReplied(1)),
            (add(&empty, vec![]), &empty, ThreadAppendErrorKind::NoIteration),
            (add(&asked, vec![ended("1")]), &asked, unknown(1, "1")),
            (add(&asked, vec![]), &asked, ThreadAppendErrorKind::NoCalls(1)),
            (add(&replied, vec![]), &replied, ThreadAppendErrorKind::NoCalls(1)),
            (
                add(&calling, vec![ended("1"), renamed("2")]),
                &calling,
                ThreadAppendErrorKind::OtherCall("2".into()),
            ),
            (add(&calling, vec![ended("1"), ended("3")]), &calling, unknown(1, "3")),
            (
                add(&calling, vec![ended("1"), ended("1")]),
                &calling,
                ThreadAppendErrorKind::CallAlreadyEnded("1".into()),
            ),
            (
                add(&calling, vec![ended("1"), open("2")]),
                &calling,
                ThreadAppendErrorKind::ResultWithoutEnd("2".into()),
            ),
            (
                add(&calling, vec![ended("2")]),
                &calling,
                ThreadAppendErrorKind::MissingResult("1".into()),
            ),
        ];
        for (number, (result, before, kind)) in table.into_iter().enumerate() {
            let error = result.expect_err("does not fit");
            assert_eq!(error.kind, kind, "row {number}");
            assert_eq!(&error.into_thread(), before, "row {number}");
        }
        let both = add(&calling, vec![ended("2"), ended("1")]).expect("fits in any order");
        assert_eq!(
            both.get_iteration(1).expect("is there").tool_calls,
            [ended("1"), ended("2")]
        );
    }
}
