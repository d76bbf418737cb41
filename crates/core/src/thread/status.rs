//! The status of a thread, its instructions and its options, all of which follow from its iterations.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MessageRole, Thread};

/// The metadata key for the instructions of the requests from an iteration on, which the messages do not contain.
pub const SYSTEM_PROMPT_KEY: &str = "system_prompt";

/// The metadata key for the options of the requests from an iteration on.
pub const REQUEST_OPTIONS_KEY: &str = "options";

/// The status of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadStatus {
    /// The thread has no message.
    Empty,
    /// The model has not replied to the last message, or to the results of its tools.
    InProgress,
    /// The model has called tools that have not ended.
    WaitingForTools,
    /// The thread ends with the final reply of the model.
    Complete,
    /// The last request failed, or was stopped before a reply.
    Failed,
}

impl Thread {
    /// Returns the status, computed from the last iteration.
    pub fn status(&self) -> ThreadStatus {
        let Some(last) = self.iterations.last() else {
            return ThreadStatus::Empty;
        };
        if last.tool_calls.iter().any(|call| call.end.is_none()) {
            return ThreadStatus::WaitingForTools;
        }
        if self.has_final_reply() {
            return ThreadStatus::Complete;
        }
        match last.completed_at.is_some() && last.tool_calls.is_empty() {
            true => ThreadStatus::Failed,
            false => ThreadStatus::InProgress,
        }
    }

    /// Returns the latest instructions: the metadata, or the first system message.
    pub fn instructions(&self) -> Option<&str> {
        let stated = self.find_latest_metadata(SYSTEM_PROMPT_KEY).and_then(Value::as_str);
        stated.or_else(|| {
            let messages = self.iterations.iter().flat_map(|iteration| &iteration.messages);
            let mut systems = messages.filter(|message| message.role == MessageRole::System);
            systems.next().map(|message| message.content.as_str())
        })
    }

    /// Returns the latest options of requests in the metadata.
    pub fn options(&self) -> Option<&Value> {
        self.find_latest_metadata(REQUEST_OPTIONS_KEY)
    }

    /// Returns the time of the first iteration.
    pub fn created_at(&self) -> Option<DateTime<Utc>> {
        self.iterations.iter().find_map(|iteration| iteration.started_at)
    }

    /// Returns the latest time in the thread: the end of its last iteration, or its start while it is in progress.
    pub fn updated_at(&self) -> Option<DateTime<Utc>> {
        let mut times = self.iterations.iter().rev();
        times.find_map(|iteration| iteration.completed_at.or(iteration.started_at))
    }

    /// Returns the latest value of the metadata key in all iterations.
    fn find_latest_metadata(&self, key: &str) -> Option<&Value> {
        self.iterations
            .iter()
            .rev()
            .find_map(|iteration| iteration.metadata.get(key))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::thread::{Message, ToolCall, ToolCallEnd};

    fn at(second: u32) -> DateTime<Utc> {
        DateTime::from_timestamp(i64::from(second), 0).expect("is a time")
    }

    #[test]
    fn the_status_follows_from_the_iterations() {
        let call = ToolCall::new("1", "look", json!({}));
        let asked = Thread::new("x", None, at(1));
        let replied = asked.clone().add_assistant_message("y", vec![]).expect("fits");
        let calling = asked
            .clone()
            .add_assistant_message("", vec![call.clone()])
            .expect("fits");
        let ended = call.with_end(ToolCallEnd::Result(json!(1)), 0.0);
        let with_results = calling.clone().add_tool_results(vec![ended], at(2)).expect("fits");
        let table = [
            (Thread::default(), ThreadStatus::Empty),
            (asked.clone(), ThreadStatus::InProgress),
            (asked.complete_current_iteration(at(2)), ThreadStatus::Failed),
            (replied.clone(), ThreadStatus::Complete),
            (replied.complete_current_iteration(at(2)), ThreadStatus::Complete),
            (calling, ThreadStatus::WaitingForTools),
            (with_results.clone(), ThreadStatus::InProgress),
            (with_results.complete_current_iteration(at(3)), ThreadStatus::InProgress),
        ];
        for (number, (thread, status)) in table.into_iter().enumerate() {
            assert_eq!(thread.status(), status, "row {number}");
        }
    }

    #[test]
    fn times_and_statements_are_those_of_the_latest_iteration_that_has_them() {
        let thread = Thread::new("x", Some("Be brief.".into()), at(1));
        assert_eq!((thread.instructions(), thread.options()), (Some("Be brief."), None));
        assert_eq!((thread.created_at(), thread.updated_at()), (Some(at(1)), Some(at(1))));
        let later = thread
            .complete_current_iteration(at(2))
            .start_iteration(vec![Message::new(MessageRole::User, "y")], at(3))
            .set_metadata(SYSTEM_PROMPT_KEY, "Be long.")
            .set_metadata(REQUEST_OPTIONS_KEY, json!({"model": "a"}))
            .start_iteration(vec![Message::new(MessageRole::User, "z")], at(4));
        assert_eq!(later.instructions(), Some("Be long."));
        assert_eq!(later.options(), Some(&json!({"model": "a"})));
        assert_eq!((later.created_at(), later.updated_at()), (Some(at(1)), Some(at(4))));
        assert_eq!(Thread::default().updated_at(), None);
    }
}
