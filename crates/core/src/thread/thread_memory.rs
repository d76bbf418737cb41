//! What an agent remembers of an execution, and how a thread goes on after an exchange that was cut short.

use serde_json::Value;

use super::{MessageRole, Thread, ThreadIteration, ToolCallEnd};

/// Metadata key for the errors of a reply that was sent back to the model.
pub const REJECTED_KEY: &str = "rejected";

/// Metadata key for the user message that is remembered instead of the message that was sent.
pub const TASK_KEY: &str = "task";

/// Metadata key for the messages of earlier executions that a request left out, as pairs of the first index and the index after the last.
pub const LEFT_OUT_KEY: &str = "left_out";

/// Error of a tool call that was running when its execution was interrupted.
pub const INTERRUPTED_CALL_ERROR: &str = "the call was interrupted: it is not known whether it has taken effect";

/// Returns the iterations that an agent remembers: the task, the tool calls with results, and the final reply.
/// Omits rejected replies and their corrections.
pub fn select_remembered_iterations(iterations: Vec<ThreadIteration>) -> Vec<ThreadIteration> {
    let mut kept_iterations: Vec<ThreadIteration> = Vec::with_capacity(iterations.len());
    // The messages before a first reply that was sent back: they stand before the reply that follows.
    let mut opening = None;
    let mut is_correction = false;
    for mut iteration in iterations {
        if let Some(Value::String(task)) = iteration.metadata.shift_remove(TASK_KEY)
            && let Some(first) = iteration.messages.first_mut()
        {
            first.content = task;
        }
        let is_rejected = iteration.metadata.contains_key(REJECTED_KEY);
        if is_correction {
            iteration
                .messages
                .retain(|message| message.role == MessageRole::Assistant);
        }
        if is_rejected {
            if !is_correction {
                iteration
                    .messages
                    .retain(|message| message.role != MessageRole::Assistant);
                opening = Some(iteration.messages);
            }
        } else {
            let mut messages = opening.take().unwrap_or_default();
            messages.append(&mut iteration.messages);
            kept_iterations.push(ThreadIteration { messages, ..iteration });
        }
        is_correction = is_rejected;
    }
    kept_iterations
}

/// Returns all iterations of a failed exchange, with the task as the remembered message. Keeps rejected replies.
pub fn select_iterations_after_failure(mut iterations: Vec<ThreadIteration>) -> Vec<ThreadIteration> {
    for iteration in &mut iterations {
        if let Some(Value::String(task)) = iteration.metadata.shift_remove(TASK_KEY)
            && let Some(first) = iteration.messages.first_mut()
        {
            first.content = task;
        }
    }
    iterations
}

impl Thread {
    /// Sets this error as the end of every tool call that has not ended.
    #[must_use]
    pub fn fail_open_calls(mut self, fate: &str) -> Self {
        let calls = self
            .iterations
            .iter_mut()
            .flat_map(|iteration| &mut iteration.tool_calls);
        for call in calls.filter(|call| call.end.is_none()) {
            call.end = Some(ToolCallEnd::Error(fate.to_owned()));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::{Message, ToolCall};
    use serde_json::json;

    /// `u:` a user message, `a:` a reply, `t:` a call; `!` marks a reply that was sent back.
    fn iteration(text: &str) -> ThreadIteration {
        let mut iteration = ThreadIteration::default();
        for word in text.split(' ') {
            match word.split_once(':') {
                Some(("u", said)) => iteration.messages.push(Message::new(MessageRole::User, said)),
                Some(("a", said)) => iteration.messages.push(Message::new(MessageRole::Assistant, said)),
                Some(("t", id)) => iteration.tool_calls.push(ToolCall::new(id, "tool", json!({}))),
                _ => {
                    iteration.metadata.insert(REJECTED_KEY.to_owned(), "wrong".into());
                }
            }
        }
        iteration
    }

    fn told(iterations: &[ThreadIteration]) -> Vec<String> {
        let one = |iteration: &ThreadIteration| {
            let messages = iteration.messages.iter().map(|message| match message.role {
                MessageRole::Assistant => format!("a:{}", message.content),
                _ => format!("u:{}", message.content),
            });
            let calls = iteration.tool_calls.iter().map(|call| format!("t:{}", call.id));
            messages.chain(calls).collect::<Vec<_>>().join(" ")
        };
        iterations.iter().map(one).collect()
    }

    #[test]
    fn replies_that_were_sent_back_and_corrections_are_forgotten() {
        let cases: [(&[&str], &[&str]); 6] = [
            (&["u:task a:ok"], &["u:task a:ok"]),
            (&["u:task a:no !", "u:fix a:ok"], &["u:task a:ok"]),
            (
                &["u:task a:look t:1", "a:no !", "u:fix a:ok"],
                &["u:task a:look t:1", "a:ok"],
            ),
            (
                &["u:task a:no !", "u:fix a:no !", "u:fix a:look t:1", "a:ok"],
                &["u:task a:look t:1", "a:ok"],
            ),
            (&["u:task a:no !"], &[]),
            (&[], &[]),
        ];
        for (said, expected) in cases {
            let said = said.iter().map(|text| iteration(text)).collect();
            assert_eq!(told(&select_remembered_iterations(said)), expected);
        }
    }

    #[test]
    fn a_failed_exchange_stays_with_its_replies_that_were_sent_back() {
        let mut said = vec![iteration("u:task,again a:no !"), iteration("u:fix a:bad !")];
        said[0].metadata.insert(TASK_KEY.to_owned(), "task".into());
        assert_eq!(
            told(&select_iterations_after_failure(said)),
            ["u:task a:no", "u:fix a:bad"]
        );
    }

    #[test]
    fn the_task_is_remembered_and_not_what_was_added_to_it() {
        let mut said = iteration("u:task,with,errors a:ok");
        said.metadata.insert(TASK_KEY.to_owned(), "task".into());
        assert_eq!(told(&select_remembered_iterations(vec![said])), ["u:task a:ok"]);
    }
}
