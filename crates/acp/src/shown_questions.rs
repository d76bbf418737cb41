//! The questions that a client was shown as messages, and the ids of these messages.
//!
//! Invariant: two messages never have the same id, and an id follows from the records of the run alone.

use std::collections::{HashMap, HashSet};

use ensemble_core::request::RequestAddress;
use ensemble_core::store::RunId;

/// Questions of a session by their keys: how often each was shown, and which ones are unanswered.
#[derive(Debug, Default)]
pub(crate) struct ShownQuestions {
    counts: HashMap<String, u32>,
    unanswered: HashSet<String>,
}

/// Ids of the messages of an answered question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AnsweredQuestionIds {
    /// The id of the question; `None`: the client was shown the question before.
    pub(crate) question: Option<String>,
    pub(crate) answer: String,
}

impl ShownQuestions {
    /// Marks a question as shown, and returns the id of its message.
    pub(crate) fn show_question(&mut self, key: &str) -> String {
        let count = self.counts.entry(key.to_owned()).or_default();
        *count += 1;
        self.unanswered.insert(key.to_owned());
        message_id(key, '?', *count)
    }

    /// Marks a question as answered, and returns the ids of its messages.
    pub(crate) fn answer_question(&mut self, key: &str) -> AnsweredQuestionIds {
        let question = (!self.unanswered.contains(key)).then(|| self.show_question(key));
        self.unanswered.remove(key);
        let count = self.counts.get(key).copied().unwrap_or(1);
        AnsweredQuestionIds {
            question,
            answer: message_id(key, '!', count),
        }
    }
}

/// Returns the key of a question: the nested runs, the address inside the innermost run, and the execution, such as
/// `bot/ask#2.person#1`.
pub(crate) fn question_key(run: &RunId, address: &RequestAddress, execution: u32) -> String {
    let outer: String = run.nested_names().map(|name| format!("{name}/")).collect();
    let inside = address.segments().iter().skip(run.nested_names().count());
    let local = inside.fold(RequestAddress::default(), |local, segment| {
        let local = local.append_agent(segment.agent.clone());
        let local = match &segment.part {
            Some(part) => local.set_last_part(part.clone()),
            None => local,
        };
        let calls = segment.calls.iter();
        calls.fold(local, |local, call| {
            local.append_tool_call(call.tool.clone(), call.number)
        })
    });
    format!("{outer}{local}#{execution}")
}

/// Returns the id of a message of a question. Only the ids of a question that was shown again have a number.
fn message_id(key: &str, mark: char, count: u32) -> String {
    match count {
        1 => format!("{key}{mark}"),
        count => format!("{key}{mark}{count}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_contain_runs_parts_calls_and_executions() {
        for (run, address, execution, key) in [
            ("r", "q", 2, "q#2"),
            ("r", "each[a]", 1, "each[a]#1"),
            ("r", "bot/ask#2.person", 1, "bot/ask#2.person#1"),
            ("r", "bot/files.delete#1", 3, "bot/files.delete#1#3"),
            ("r/sub/l-1-1", "l.q", 1, "l-1-1/q#1"),
            ("r/sub/e-1.0-1", "e[a].bot/ask#1.q", 1, "e-1.0-1/bot/ask#1.q#1"),
        ] {
            let address: RequestAddress = address.parse().expect("an address");
            assert_eq!(question_key(&RunId::new(run), &address, execution), key);
        }
    }

    #[test]
    fn a_question_that_is_asked_again_has_another_id() {
        let mut shown = ShownQuestions::default();
        assert_eq!(shown.show_question("q#1"), "q#1?");
        assert_eq!(shown.show_question("q#1"), "q#1?2");
        let ids = shown.answer_question("q#1");
        assert_eq!((ids.question, ids.answer.as_str()), (None, "q#1!2"));
        let ids = shown.answer_question("q#1");
        assert_eq!((ids.question.as_deref(), ids.answer.as_str()), (Some("q#1?3"), "q#1!3"));
    }
}
