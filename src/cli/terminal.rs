//! The operator at the terminal.

use std::io::Write;

use serde_json::Value;
use tokio::sync::Mutex;

use super::lines::{Lines, Prompt};
use super::streams::Streams;
use ensemble_core::operator::{Answer, Asked, Decision, Operator, PermissionRequest, visible};
use ensemble_core::runner::BoxFuture;
use ensemble_reports::report::ConsoleWriter;

/// How often a request for permission is repeated after an answer that is not one of the choices.
const ASKED_AT_MOST: usize = 3;

/// The number of characters of a tool's arguments that are shown at first.
const SHOWN: usize = 2000;

/// The choices when a tool needs permission; the last one only if the arguments are shortened.
const CHOICES: [&str; 4] = ["yes", "no", "always in this run", "show all of the arguments"];

/// The prompt of an answer.
const ANSWER: Prompt = Prompt {
    text: "> ",
    is_remembered: true,
};

/// The prompt of a decision.
const PERMISSION: Prompt = Prompt {
    text: "> ",
    is_remembered: false,
};

/// The operator at the terminal. It shows one question at a time.
pub(super) struct TerminalOperator {
    streams: Streams,
    /// The writer of agents' replies, which is paused during a question.
    console: Option<ConsoleWriter>,
    lines: Lines,
    /// Ensures that questions are asked one at a time.
    turn: Mutex<()>,
}

impl TerminalOperator {
    /// Asks on standard error and reads standard input; other output is paused during a question.
    pub(super) fn new(streams: Streams, console: Option<ConsoleWriter>, lines: Lines) -> Self {
        Self {
            streams,
            console,
            lines,
            turn: Mutex::new(()),
        }
    }

    fn show(&self, agent: &str, prompt: &str, choices: &[&str], default: Option<&str>) {
        let width = self.streams.err_width();
        let asks = format!("{agent} asks: {}", prompt.trim_end());
        let mut text = format!("\n{}", width.block(&asks, 0));
        for (at, choice) in (1..).zip(choices) {
            text.push_str(&width.sentences(&format!("  {at}  {choice}\n")));
        }
        if let Some(default) = default {
            text.push_str(&format!("  (Enter: {default})\n"));
        }
        let mut err = self.streams.err();
        // If the terminal cannot be written to, reading fails too and reports the end of the input.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    async fn answer(&self, asked: Asked) -> Answer {
        let _turn = self.turn.lock().await;
        let _pause = QuestionPause::on(self.console.as_ref());
        let prompt = match &asked.refused {
            Some(refused) => format!("{refused}\n{}", asked.question.prompt),
            None => asked.question.prompt.clone(),
        };
        let choices: Vec<&str> = asked.question.choices.iter().map(String::as_str).collect();
        self.show(&asked.agent, &prompt, &choices, asked.default.as_deref());
        let line = async { self.lines.next(ANSWER).await.map_or(Answer::Nobody, Answer::Text) };
        match asked.timeout {
            None => line.await,
            Some(timeout) => tokio::time::timeout(timeout, line).await.unwrap_or(Answer::TimedOut),
        }
    }

    async fn decide(&self, requested: PermissionRequest) -> Decision {
        let _turn = self.turn.lock().await;
        let _pause = QuestionPause::on(self.console.as_ref());
        let arguments = visible(&Value::Object(requested.arguments.clone()).to_string());
        let (mut most, mut unclear) = (SHOWN, 0);
        while unclear < ASKED_AT_MOST {
            let (shown, is_cut) = beginning(&arguments, most);
            let prompt = format!("may the tool `{}` be called with {shown}?", requested.tool);
            let choices = if is_cut { &CHOICES[..] } else { &CHOICES[..3] };
            self.show(&requested.agent, &prompt, choices, None);
            let Some(line) = self.lines.next(PERMISSION).await else {
                return Decision::Nobody;
            };
            match typed(&line, is_cut) {
                Some(Typed::Decision(decision)) => return decision,
                Some(Typed::ShowAll) => most = usize::MAX,
                None => unclear += 1,
            }
        }
        Decision::Denied
    }
}

/// The meaning of an input line.
#[derive(Debug, PartialEq)]
enum Typed {
    Decision(Decision),
    ShowAll,
}

/// The meaning of an input line; `None`: it is not one of the choices.
fn typed(line: &str, is_cut: bool) -> Option<Typed> {
    Some(match line.trim().to_lowercase().as_str() {
        "y" | "yes" | "1" => Typed::Decision(Decision::Once),
        "n" | "no" | "2" => Typed::Decision(Decision::Denied),
        "a" | "always" | "always in this run" | "3" => Typed::Decision(Decision::Always),
        "s" | "show" | "show all of the arguments" | "4" if is_cut => Typed::ShowAll,
        _ => return None,
    })
}

/// At most this number of characters of the arguments, and whether they were shortened.
fn beginning(arguments: &str, most: usize) -> (String, bool) {
    let Some((at, _)) = arguments.char_indices().nth(most) else {
        return (arguments.to_owned(), false);
    };
    let more = arguments[at..].chars().count();
    (
        format!("{}… ({more} more characters; 4 shows them)", &arguments[..at]),
        true,
    )
}

impl Operator for TerminalOperator {
    fn ask(&self, asked: Asked) -> BoxFuture<'_, Answer> {
        Box::pin(self.answer(asked))
    }

    fn permit(&self, requested: PermissionRequest) -> BoxFuture<'_, Decision> {
        Box::pin(self.decide(requested))
    }
}

/// Pauses other output until it is dropped, also when the question is withdrawn.
struct QuestionPause<'a>(Option<&'a ConsoleWriter>);

impl<'a> QuestionPause<'a> {
    fn on(console: Option<&'a ConsoleWriter>) -> Self {
        if let Some(console) = console {
            console.pause_for_question();
        }
        Self(console)
    }
}

impl Drop for QuestionPause<'_> {
    fn drop(&mut self) {
        if let Some(console) = self.0 {
            console.resume_after_question();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_word_is_a_decision() {
        for (line, expected) in [
            ("Y", Some(Decision::Once)),
            (" yes ", Some(Decision::Once)),
            ("1", Some(Decision::Once)),
            ("n", Some(Decision::Denied)),
            ("2", Some(Decision::Denied)),
            ("always", Some(Decision::Always)),
            ("3", Some(Decision::Always)),
            ("", None),
            ("ok", None),
            ("yes please", None),
            ("0", None),
            ("4", None),
        ] {
            assert_eq!(typed(line, false), expected.map(Typed::Decision), "{line:?}");
        }
        // If the arguments are shortened, the full text can be requested.
        assert_eq!(typed("4", true), Some(Typed::ShowAll));
        assert_eq!(typed("y", true), Some(Typed::Decision(Decision::Once)));
    }

    #[test]
    fn long_arguments_are_cut_at_a_character() {
        assert_eq!(beginning("ééé", 3), ("ééé".to_owned(), false));
        let (shown, is_cut) = beginning(&"é".repeat(5000), SHOWN);
        assert!(
            is_cut && shown.ends_with("é… (3000 more characters; 4 shows them)"),
            "{shown}"
        );
        assert_eq!(beginning(&shown, usize::MAX), (shown, false));
    }
}
