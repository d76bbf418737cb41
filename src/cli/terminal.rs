//! The person at the terminal.

use std::io::Write;
use std::time::Duration;

use tokio::sync::Mutex;

use super::lines::Lines;
use super::streams::Streams;
use ensemble_agents::agent::BoxFuture;
use ensemble_agents::agent::input::{Answered, Person};
use ensemble_language::data::Question;
use ensemble_reports::report::ConsoleWriter;

/// Whoever sits at the terminal; asked one question at a time.
pub(super) struct AtTheTerminal {
    streams: Streams,
    /// Where agents speak meanwhile.
    console: Option<ConsoleWriter>,
    lines: Lines,
    /// Questions are asked one at a time.
    turn: Mutex<()>,
}

impl AtTheTerminal {
    /// Asks on standard error and reads standard input; everybody else is silent meanwhile.
    pub(super) fn new(streams: Streams, console: Option<ConsoleWriter>, lines: Lines) -> Self {
        Self {
            streams,
            console,
            lines,
            turn: Mutex::new(()),
        }
    }

    fn show(&self, question: &Question, agent_name: &str, default: Option<&str>) {
        let width = self.streams.err_width();
        let asks = format!("{agent_name} asks: {}", question.prompt.trim_end());
        let mut text = format!("\n{}", width.block(&asks, 0));
        for (at, choice) in (1..).zip(&question.choices) {
            text.push_str(&width.sentences(&format!("  {at}  {choice}\n")));
        }
        if let Some(default) = default {
            text.push_str(&format!("  (Enter: {default})\n"));
        }
        text.push_str("> ");
        let mut err = self.streams.err();
        // A terminal that cannot be written to will not answer either; reading finds out.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}

impl Person for AtTheTerminal {
    fn ask<'a>(
        &'a self,
        question: &'a Question,
        agent_name: &'a str,
        timeout: Option<Duration>,
        default: Option<&'a str>,
    ) -> BoxFuture<'a, Answered> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let _pause = QuestionPause::on(self.console.as_ref());
            self.show(question, agent_name, default);
            let line = async {
                let line = self.lines.next().await;
                line.map_or(Answered::NobodyThere, Answered::Text)
            };
            match timeout {
                None => line.await,
                Some(timeout) => tokio::time::timeout(timeout, line).await.unwrap_or(Answered::TimedOut),
            }
        })
    }
}

/// Keeps everybody else silent as long as it lives, also when the question is dropped.
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
