//! The person at the terminal.

use std::io::Write;

use serde_json::Value;
use tokio::sync::Mutex;

use super::lines::Lines;
use super::streams::Streams;
use ensemble_core::operator::{Answer, Asked, Decision, Operator, PermissionRequest};
use ensemble_core::runner::BoxFuture;
use ensemble_language::data::JsonMap;
use ensemble_reports::report::Stage;

/// How often a person is asked again whose answer to a request for permission is none.
const ASKED_AT_MOST: usize = 3;

/// Characters of a tool's arguments that are shown.
const SHOWN: usize = 2000;

/// The choices when a tool needs permission.
const DECISIONS: [&str; 3] = ["yes", "no", "always in this run"];

/// Whoever sits at the terminal; asked one question at a time.
pub(super) struct AtTheTerminal {
    streams: Streams,
    /// Where agents speak meanwhile.
    stage: Option<Stage>,
    lines: Lines,
    /// Questions are asked one at a time.
    turn: Mutex<()>,
}

impl AtTheTerminal {
    /// Asks on standard error and reads standard input; everybody else is silent meanwhile.
    pub(super) fn new(streams: Streams, stage: Option<Stage>, lines: Lines) -> Self {
        Self {
            streams,
            stage,
            lines,
            turn: Mutex::new(()),
        }
    }

    fn show(&self, agent: &str, prompt: &str, choices: &[&str], default: Option<&str>) {
        let mut text = format!("\n{agent} asks: {}\n", prompt.trim_end());
        for (at, choice) in (1..).zip(choices) {
            text.push_str(&format!("  {at}  {choice}\n"));
        }
        if let Some(default) = default {
            text.push_str(&format!("  (Enter: {default})\n"));
        }
        text.push_str("> ");
        let mut err = self.streams.err();
        // A terminal that cannot be written to will not answer either; reading finds out.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    async fn answer(&self, asked: Asked) -> Answer {
        let _turn = self.turn.lock().await;
        let _silence = Silence::on(self.stage.as_ref());
        let prompt = match &asked.refused {
            Some(refused) => format!("{refused}\n{}", asked.question.prompt),
            None => asked.question.prompt.clone(),
        };
        let choices: Vec<&str> = asked.question.choices.iter().map(String::as_str).collect();
        self.show(&asked.agent, &prompt, &choices, asked.default.as_deref());
        let line = async { self.lines.next().await.map_or(Answer::Nobody, Answer::Text) };
        match asked.timeout {
            None => line.await,
            Some(timeout) => tokio::time::timeout(timeout, line).await.unwrap_or(Answer::TimedOut),
        }
    }

    async fn decide(&self, requested: PermissionRequest) -> Decision {
        let _turn = self.turn.lock().await;
        let _silence = Silence::on(self.stage.as_ref());
        let prompt = format!(
            "may I use the tool `{}` with {}?",
            requested.tool,
            shown(&requested.arguments)
        );
        for _ in 0..ASKED_AT_MOST {
            self.show(&requested.agent, &prompt, &DECISIONS, None);
            let Some(line) = self.lines.next().await else {
                return Decision::Nobody;
            };
            if let Some(decision) = decision(&line) {
                return decision;
            }
        }
        Decision::Denied
    }
}

/// What a typed line decides; `None`: it is none of the choices.
fn decision(line: &str) -> Option<Decision> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" | "1" => Some(Decision::Once),
        "n" | "no" | "2" => Some(Decision::Denied),
        "a" | "always" | "always in this run" | "3" => Some(Decision::Always),
        _ => None,
    }
}

/// Arguments as a person may safely see them: what a terminal would obey is spelt out.
fn shown(arguments: &JsonMap) -> String {
    let text = Value::Object(arguments.clone()).to_string();
    let mut shown = String::new();
    for (at, character) in text.chars().enumerate() {
        if at >= SHOWN {
            shown.push_str(&format!("… ({} more)", text.chars().count() - SHOWN));
            break;
        }
        let turns_text =
            matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character.is_control() || turns_text {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

impl Operator for AtTheTerminal {
    fn ask(&self, asked: Asked) -> BoxFuture<'_, Answer> {
        Box::pin(self.answer(asked))
    }

    fn permit(&self, requested: PermissionRequest) -> BoxFuture<'_, Decision> {
        Box::pin(self.decide(requested))
    }
}

/// Keeps everybody else silent as long as it lives, also when the question is dropped.
struct Silence<'a>(Option<&'a Stage>);

impl<'a> Silence<'a> {
    fn on(stage: Option<&'a Stage>) -> Self {
        if let Some(stage) = stage {
            stage.ask();
        }
        Self(stage)
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        if let Some(stage) = self.0 {
            stage.answered();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        ] {
            assert_eq!(decision(line), expected, "{line:?}");
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_spelt_out() {
        let arguments = json!({"path": "a\u{1b}[2K\u{202e}b\u{9b}c\n"});
        let text = shown(arguments.as_object().expect("an object"));
        assert_eq!(text, r#"{"path":"a\u001b[2K\u{202e}b\u{9b}c\n"}"#);
        let long = json!({"x": "y".repeat(5000)});
        let text = shown(long.as_object().expect("an object"));
        assert!(text.ends_with("… (3008 more)"), "{}", &text[1990..]);
    }
}
