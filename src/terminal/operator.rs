//! The operator at the terminal.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use tokio::sync::Mutex;

use super::lines::{Lines, Prompt};
use crate::terminal::streams::Streams;
use ensemble_core::conversation::PermissionDecision;
use ensemble_core::operator::{Answer, Operator, PermissionAnswer, PermissionRequest, QuestionRequest, visible};
use ensemble_core::request::{AnswerSource, Answerer};
use ensemble_core::runner::BoxFuture;
use ensemble_history::asked_text;
use ensemble_reports::report::ConsoleWriter;
use ensemble_reports::report::door::{Door, Ink};

/// How often a request for permission is repeated after an answer that is not one of the choices.
const ASKED_AT_MOST: usize = 3;

/// The highest number of characters of a tool's arguments that are shown without being asked for.
const SHOWN: usize = 2_000;

/// The highest number of characters of a tool's arguments that are shown at all: a terminal forgets what it has shown long
/// before.
const READABLE: usize = 20_000;

/// The choices when a tool needs permission.
const CHOICES: [&str; 3] = ["yes", "no", "always in this run"];

/// The choices while the arguments are not shown: a call that nobody has seen whole cannot be permitted.
const CHOICES_UNSEEN: [&str; 2] = ["view all of the arguments", "no"];

/// The only choice if there is more than a person can read.
const CHOICES_TOO_LONG: [&str; 1] = ["no"];

/// Ends whatever style, character set and column the output before has left behind.
const RESET: &str = "\u{1b}[0m\u{1b}(B\r";

/// The style of a request for permission, which stands at the left margin; output of others is indented.
const ASKING: Ink = Ink::of(AnsiColor::Yellow.on_default().bold().invert());

/// The same where no colours are wanted.
const ASKING_WITHOUT_COLOUR: Ink = Ink::of(Style::new().invert());

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
pub(crate) struct TerminalOperator {
    streams: Streams,
    /// The writer of agents' replies, which is paused during a question.
    console: Option<ConsoleWriter>,
    lines: Lines,
    /// The user of the operating system, if known.
    user: Option<String>,
    /// Ensures that questions are asked one at a time.
    turn: Mutex<()>,
}

impl TerminalOperator {
    /// Asks on standard error and reads standard input; other output is paused during a question.
    pub(crate) fn new(streams: Streams, console: Option<ConsoleWriter>, lines: Lines, user: Option<String>) -> Self {
        Self {
            streams,
            console,
            lines,
            user,
            turn: Mutex::new(()),
        }
    }

    /// Returns the user at the terminal.
    fn answerer(&self) -> Answerer {
        Answerer::with_user(AnswerSource::Terminal, self.user.as_deref().unwrap_or_default())
    }

    /// Begins a line of its own, which nothing that was shown before can change.
    fn reset(&self) {
        self.streams.steer_err(RESET);
    }

    /// Shows a question. Only its first row begins at the left margin.
    fn show(&self, mut err: Door, agent: &str, prompt: &str, choices: &[&str], default: Option<&str>) {
        let width = self.streams.err_width();
        let (first, others) = prompt.trim_end().split_once('\n').unwrap_or((prompt.trim_end(), ""));
        let mut text = format!("\n{}", width.question(&format!("{agent} asks: {}\n", first.trim_end())));
        text.push_str(&width.block(others, 2));
        for (at, choice) in (1..).zip(choices) {
            text.push_str(&width.question(&format!("  {at}  {}\n", visible(choice))));
        }
        if let Some(default) = default {
            text.push_str(&format!("  (Enter: {})\n", visible(default)));
        }
        // If the terminal cannot be written to, reading fails too and reports the end of the input.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    async fn answer(&self, asked: QuestionRequest) -> Answer {
        let _turn = self.turn.lock().await;
        let _pause = QuestionPause::on(self.console.as_ref());
        let prompt = asked_text(&asked);
        let choices: Vec<&str> = asked.request.question.choices.iter().map(String::as_str).collect();
        let err = self.streams.err();
        self.show(
            err,
            &visible(&asked.request.address.to_string()),
            &prompt,
            &choices,
            asked.default.as_deref(),
        );
        let line = async {
            match self.lines.next(ANSWER).await {
                Some(text) => Answer::text(text, self.answerer()),
                None => Answer::Nobody,
            }
        };
        match asked.timeout {
            None => line.await,
            Some(timeout) => tokio::time::timeout(timeout, line).await.unwrap_or(Answer::TimedOut),
        }
    }

    async fn decide(&self, requested: PermissionRequest) -> PermissionAnswer {
        let _turn = self.turn.lock().await;
        let _pause = QuestionPause::on(self.console.as_ref());
        let arguments = visible(&Value::Object(requested.arguments.clone()).to_string());
        let (tool, length) = (visible(&requested.tool), arguments.chars().count());
        let (mut view, mut unclear) = (View::of(length), 0);
        self.reset();
        while unclear < ASKED_AT_MOST {
            let (prompt, choices) = match view {
                View::Whole => (
                    format!("may the tool `{tool}` be called with {arguments}?"),
                    &CHOICES[..],
                ),
                View::Unseen => (
                    format!("may the tool `{tool}` be called? Its arguments have {length} characters"),
                    &CHOICES_UNSEEN[..],
                ),
                View::TooLong => (
                    format!(
                        "may the tool `{tool}` be called? Its arguments have {length} characters, which are too many to be \
                         shown, and what is not shown cannot be permitted here; the option --allow-tool permits it"
                    ),
                    &CHOICES_TOO_LONG[..],
                ),
            };
            let asking = match self.streams.colors_on_stderr() {
                true => ASKING,
                false => ASKING_WITHOUT_COLOUR,
            };
            let agent = format!(
                "{asking}permission{asking:#} {}",
                visible(&requested.request.address.to_string())
            );
            self.show(self.streams.err_styled(), &agent, &prompt, choices, None);
            let Some(line) = self.lines.next(PERMISSION).await else {
                return PermissionAnswer::Nobody;
            };
            match typed(&line, view) {
                Some(Typed::Decision(decision)) => return PermissionAnswer::decided(decision, self.answerer()),
                Some(Typed::ShowAll) => view = View::Whole,
                None => unclear += 1,
            }
        }
        PermissionAnswer::decided(PermissionDecision::Denied, self.answerer())
    }
}

/// The part of the arguments of a call that is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
enum View {
    Whole,
    Unseen,
    TooLong,
}

impl View {
    fn of(length: usize) -> Self {
        if length > READABLE {
            Self::TooLong
        } else if length > SHOWN {
            Self::Unseen
        } else {
            Self::Whole
        }
    }
}

/// The meaning of an input line.
#[derive(Debug, PartialEq)]
enum Typed {
    Decision(PermissionDecision),
    ShowAll,
}

/// The meaning of an input line; `None`: it is not one of the choices.
fn typed(line: &str, view: View) -> Option<Typed> {
    let line = line.trim().to_lowercase();
    Some(match (line.as_str(), view) {
        ("v" | "view" | "view all of the arguments" | "1", View::Unseen) => Typed::ShowAll,
        ("n" | "no", _) | ("2", View::Whole | View::Unseen) | ("1", View::TooLong) => {
            Typed::Decision(PermissionDecision::Denied)
        }
        ("y" | "yes" | "1", View::Whole) => Typed::Decision(PermissionDecision::Once),
        ("a" | "always" | "always in this run" | "3", View::Whole) => Typed::Decision(PermissionDecision::Always),
        _ => return None,
    })
}

impl Operator for TerminalOperator {
    fn ask(&self, asked: QuestionRequest) -> BoxFuture<'_, Answer> {
        Box::pin(self.answer(asked))
    }

    fn permit(&self, requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
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
            ("Y", Some(PermissionDecision::Once)),
            (" yes ", Some(PermissionDecision::Once)),
            ("1", Some(PermissionDecision::Once)),
            ("n", Some(PermissionDecision::Denied)),
            ("2", Some(PermissionDecision::Denied)),
            ("always", Some(PermissionDecision::Always)),
            ("3", Some(PermissionDecision::Always)),
            ("", None),
            ("ok", None),
            ("yes please", None),
            ("0", None),
            ("4", None),
        ] {
            assert_eq!(typed(line, View::Whole), expected.map(Typed::Decision), "{line:?}");
        }
        // What is not shown cannot be permitted.
        for (line, expected) in [
            ("1", Some(Typed::ShowAll)),
            ("v", Some(Typed::ShowAll)),
            ("no", Some(Typed::Decision(PermissionDecision::Denied))),
            ("2", Some(Typed::Decision(PermissionDecision::Denied))),
            ("y", None),
            ("always", None),
            ("3", None),
        ] {
            assert_eq!(typed(line, View::Unseen), expected, "{line:?}");
        }
        for line in ["y", "yes", "v", "always", "2", "3"] {
            assert_eq!(typed(line, View::TooLong), None, "{line:?}");
        }
        for line in ["1", "no"] {
            assert_eq!(
                typed(line, View::TooLong),
                Some(Typed::Decision(PermissionDecision::Denied)),
                "{line:?}"
            );
        }
    }
}
