//! The operator at the terminal.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use tokio::sync::Mutex;

use super::lines::{InputLines, LineRequest};
use crate::terminal::streams::StandardStreams;
use ensemble_core::conversation::PermissionDecision;
use ensemble_core::operator::{
    Operator, OperatorAnswer, PermissionAnswer, PermissionRequest, QuestionRequest, escape_hidden,
};
use ensemble_core::request::{AnswerAuthor, AnswerSource};
use ensemble_core::runner::BoxFuture;
use ensemble_history::question_text_with_refusal;
use ensemble_reports::report::ConsoleWriter;
use ensemble_reports::report::sanitized_writer::{SanitizedWriter, TrustedStyle};

/// Maximum number of answers to a request for permission that are not one of the choices. Then permission is denied.
const MAX_UNCLEAR_ANSWERS: usize = 3;

/// Maximum number of characters of tool arguments that a request for permission shows immediately.
const MAX_SHOWN_CHARACTERS: usize = 2_000;

/// Maximum number of characters of tool arguments that the user can view. The scrollback of a terminal is limited.
const MAX_READABLE_CHARACTERS: usize = 20_000;

/// Choices for a tool call whose arguments are shown.
const CHOICES: [&str; 3] = ["yes", "no", "always in this run"];

/// Choices while the arguments are hidden. A call can only be permitted after its arguments were shown.
const CHOICES_BEFORE_VIEW: [&str; 2] = ["view all of the arguments", "no"];

/// Only choice if the arguments are too long to show.
const CHOICES_TOO_LONG: [&str; 1] = ["no"];

/// Code that ends the style, the character set and the column of earlier output.
const RESET: &str = "\u{1b}[0m\u{1b}(B\r";

/// Style of a request for permission, which begins at the left margin. Output of agents is indented.
const PERMISSION_STYLE: TrustedStyle = TrustedStyle::new(AnsiColor::Yellow.on_default().bold().invert());

/// Style of a request for permission without colors.
const PERMISSION_STYLE_COLORLESS: TrustedStyle = TrustedStyle::new(Style::new().invert());

/// Request for the line with an answer to a question.
const ANSWER_REQUEST: LineRequest = LineRequest {
    text: "> ",
    is_remembered: true,
};

/// Request for the line with a decision about a tool call.
const PERMISSION_REQUEST: LineRequest = LineRequest {
    text: "> ",
    is_remembered: false,
};

/// Operator at the terminal, which shows one question at a time.
pub(crate) struct TerminalOperator {
    streams: StandardStreams,
    /// The writer of agents' replies, which is paused during a question.
    console: Option<ConsoleWriter>,
    lines: InputLines,
    /// The user of the operating system, if known.
    user: Option<String>,
    /// Ensures that questions are asked one at a time.
    turn: Mutex<()>,
}

impl TerminalOperator {
    /// Creates an operator that asks on standard error and reads standard input. `console` is paused during a question.
    pub(crate) fn new(
        streams: StandardStreams,
        console: Option<ConsoleWriter>,
        lines: InputLines,
        user: Option<String>,
    ) -> Self {
        Self {
            streams,
            console,
            lines,
            user,
            turn: Mutex::new(()),
        }
    }

    /// Returns the author of answers: the user at the terminal.
    fn answer_author(&self) -> AnswerAuthor {
        AnswerAuthor::with_visible_user(AnswerSource::Terminal, self.user.as_deref().unwrap_or_default())
    }

    /// Writes the code that ends the style, the character set and the column of earlier output.
    fn start_clean_line(&self) {
        self.streams.write_terminal_code(RESET);
    }

    /// Prints a question with its numbered choices and its default. Only the first row begins at the left margin.
    fn print_question(
        &self,
        mut err: SanitizedWriter,
        agent: &str,
        prompt: &str,
        choices: &[&str],
        default: Option<&str>,
    ) {
        let width = self.streams.err_width();
        let (first, others) = prompt.trim_end().split_once('\n').unwrap_or((prompt.trim_end(), ""));
        let mut text = format!(
            "\n{}",
            width.wrap_question(&format!("{agent} asks: {}\n", first.trim_end()))
        );
        text.push_str(&width.wrap_block(others, 2));
        for (at, choice) in (1..).zip(choices) {
            text.push_str(&width.wrap_question(&format!("  {at}  {}\n", escape_hidden(choice))));
        }
        if let Some(default) = default {
            text.push_str(&format!("  (Enter: {})\n", escape_hidden(default)));
        }
        // If the terminal cannot be written to, reading fails too and reports the end of the input.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// Shows the question and waits for an answer or the timeout. Waits for other questions first and pauses the console.
    async fn ask_and_read_answer(&self, asked: QuestionRequest) -> OperatorAnswer {
        let _turn = self.turn.lock().await;
        let _pause = QuestionPauseGuard::pause(self.console.as_ref());
        self.lines.discard_typed_lines().await;
        let prompt = question_text_with_refusal(&asked);
        let choices: Vec<&str> = asked.request.question.choices.iter().map(String::as_str).collect();
        let err = self.streams.human_err();
        self.print_question(
            err,
            &escape_hidden(&asked.request.address.to_string()),
            &prompt,
            &choices,
            asked.default.as_deref(),
        );
        let line = async {
            match self.lines.read_line(ANSWER_REQUEST).await {
                Some(text) => OperatorAnswer::from_text(text, self.answer_author()),
                None => OperatorAnswer::Nobody,
            }
        };
        match asked.timeout {
            None => line.await,
            Some(timeout) => tokio::time::timeout(timeout, line)
                .await
                .unwrap_or(OperatorAnswer::TimedOut),
        }
    }

    /// Shows the request for permission and waits for a decision. Denies the call after too many unclear answers.
    async fn ask_and_read_decision(&self, requested: PermissionRequest) -> PermissionAnswer {
        let _turn = self.turn.lock().await;
        let _pause = QuestionPauseGuard::pause(self.console.as_ref());
        self.lines.discard_typed_lines().await;
        let arguments = escape_hidden(&Value::Object(requested.arguments.clone()).to_string());
        let (tool, length) = (escape_hidden(&requested.tool), arguments.chars().count());
        let (mut view, mut unclear) = (ArgumentsView::for_character_count(length), 0);
        self.start_clean_line();
        while unclear < MAX_UNCLEAR_ANSWERS {
            let (prompt, choices) = match view {
                ArgumentsView::Whole => (
                    format!("may the tool `{tool}` be called with {arguments}?"),
                    &CHOICES[..],
                ),
                ArgumentsView::Unseen => (
                    format!("may the tool `{tool}` be called? Its arguments have {length} characters"),
                    &CHOICES_BEFORE_VIEW[..],
                ),
                ArgumentsView::TooLong => (
                    format!(
                        "may the tool `{tool}` be called? Its arguments have {length} characters, too many to show \
                         here. Deny the call, or permit it with the option --allow-tool"
                    ),
                    &CHOICES_TOO_LONG[..],
                ),
            };
            let asking = match self.streams.colors_on_stderr() {
                true => PERMISSION_STYLE,
                false => PERMISSION_STYLE_COLORLESS,
            };
            let agent = format!(
                "{asking}permission{asking:#} {}",
                escape_hidden(&requested.request.address.to_string())
            );
            self.print_question(self.streams.styled_err_without_colors(), &agent, &prompt, choices, None);
            let Some(line) = self.lines.read_line(PERMISSION_REQUEST).await else {
                return PermissionAnswer::Nobody;
            };
            match parse_permission_input(&line, view) {
                Some(PermissionInput::Decision(decision)) => {
                    return PermissionAnswer::from_decision(decision, self.answer_author());
                }
                Some(PermissionInput::ShowAll) => view = ArgumentsView::Whole,
                None => unclear += 1,
            }
        }
        PermissionAnswer::from_decision(PermissionDecision::Denied, self.answer_author())
    }
}

/// Part of the arguments of a tool call that a request for permission shows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ArgumentsView {
    Whole,
    Unseen,
    TooLong,
}

impl ArgumentsView {
    /// Chooses the view for arguments with this number of characters.
    fn for_character_count(length: usize) -> Self {
        if length > MAX_READABLE_CHARACTERS {
            Self::TooLong
        } else if length > MAX_SHOWN_CHARACTERS {
            Self::Unseen
        } else {
            Self::Whole
        }
    }
}

/// Meaning of an input line at a request for permission.
#[derive(Debug, PartialEq)]
enum PermissionInput {
    Decision(PermissionDecision),
    ShowAll,
}

/// Parses an input line. Returns `None` if the line is not one of the choices of the view.
fn parse_permission_input(line: &str, view: ArgumentsView) -> Option<PermissionInput> {
    let line = line.trim().to_lowercase();
    Some(match (line.as_str(), view) {
        ("v" | "view" | "view all of the arguments" | "1", ArgumentsView::Unseen) => PermissionInput::ShowAll,
        ("n" | "no", _) | ("2", ArgumentsView::Whole | ArgumentsView::Unseen) | ("1", ArgumentsView::TooLong) => {
            PermissionInput::Decision(PermissionDecision::Denied)
        }
        ("y" | "yes" | "1", ArgumentsView::Whole) => PermissionInput::Decision(PermissionDecision::Once),
        ("a" | "always" | "always in this run" | "3", ArgumentsView::Whole) => {
            PermissionInput::Decision(PermissionDecision::Always)
        }
        _ => return None,
    })
}

impl Operator for TerminalOperator {
    fn ask_question(&self, asked: QuestionRequest) -> BoxFuture<'_, OperatorAnswer> {
        Box::pin(self.ask_and_read_answer(asked))
    }

    fn request_permission(&self, requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
        Box::pin(self.ask_and_read_decision(requested))
    }
}

/// Drop guard that pauses the console, until the question is answered or withdrawn.
struct QuestionPauseGuard<'a>(Option<&'a ConsoleWriter>);

impl<'a> QuestionPauseGuard<'a> {
    /// Pauses the console, if there is one, until the guard is dropped.
    fn pause(console: Option<&'a ConsoleWriter>) -> Self {
        if let Some(console) = console {
            console.pause_for_question();
        }
        Self(console)
    }
}

impl Drop for QuestionPauseGuard<'_> {
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
            assert_eq!(
                parse_permission_input(line, ArgumentsView::Whole),
                expected.map(PermissionInput::Decision),
                "{line:?}"
            );
        }
        // What is not shown cannot be permitted.
        for (line, expected) in [
            ("1", Some(PermissionInput::ShowAll)),
            ("v", Some(PermissionInput::ShowAll)),
            ("no", Some(PermissionInput::Decision(PermissionDecision::Denied))),
            ("2", Some(PermissionInput::Decision(PermissionDecision::Denied))),
            ("y", None),
            ("always", None),
            ("3", None),
        ] {
            assert_eq!(
                parse_permission_input(line, ArgumentsView::Unseen),
                expected,
                "{line:?}"
            );
        }
        for line in ["y", "yes", "v", "always", "2", "3"] {
            assert_eq!(parse_permission_input(line, ArgumentsView::TooLong), None, "{line:?}");
        }
        for line in ["1", "no"] {
            assert_eq!(
                parse_permission_input(line, ArgumentsView::TooLong),
                Some(PermissionInput::Decision(PermissionDecision::Denied)),
                "{line:?}"
            );
        }
    }
}
