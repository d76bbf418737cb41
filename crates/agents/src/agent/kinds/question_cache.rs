//! Cache of the answers of a model that replaces a user or a script agent, by question and context.
//!
//! The cache is the thread of the agent, which contains each question word for word. So a resumed run finds exactly the
//! answers of the interrupted run. The lines with the turn, the last agents and the history are not part of the cache key,
//! because no question would repeat with these lines.

use std::fmt::Write as _;

use serde_json::json;

use crate::agent::ExecutionInput;
use ensemble_core::thread::{MessageRole, Thread};

/// Beginning of the line with the turn and the last agents.
const TURN_LINE_START: &str = "Turn ";

/// Beginning of the line with the history.
const HISTORY_LINE_START: &str = "History of the conversation: ";

/// Renders the lines of a question that are not part of the cache key: the turn, the last agents and, if the agent reads it, the history.
pub(super) fn render_unkeyed_lines(execution: &ExecutionInput, has_history: bool) -> String {
    let turn = execution.turn_count + 1;
    let mut lines = match execution.recent_agents.as_slice() {
        [] => format!("{TURN_LINE_START}{turn}.\n"),
        agents => format!("{TURN_LINE_START}{turn}; the last agents: {}.\n", agents.join(", ")),
    };
    if has_history && !execution.history.is_empty() {
        let _always_written = writeln!(lines, "{HISTORY_LINE_START}{}", json!(execution.history));
    }
    lines
}

/// Finds the latest reply in the thread to a question with the same cache key.
pub(super) fn find_reply_to_same_question<'a>(thread: &'a Thread, question: &str) -> Option<&'a str> {
    let mut iterations = thread.iterations().iter().rev();
    iterations.find_map(|iteration| match iteration.messages.as_slice() {
        [asked, answer] => {
            let is_same_question = asked.role == MessageRole::User
                && answer.role == MessageRole::Assistant
                && question_cache_key(&asked.content) == question_cache_key(question);
            is_same_question.then_some(answer.content.trim())
        }
        _ => None,
    })
}

/// Returns the question without the lines that change in every turn.
fn question_cache_key(question: &str) -> &str {
    let strip_line = |text, start| match str::split_once(text, '\n') {
        Some((line, rest)) if line.starts_with(start) => rest,
        _ => text,
    };
    strip_line(strip_line(question, TURN_LINE_START), HISTORY_LINE_START)
}
