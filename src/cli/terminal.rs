//! The person at the terminal.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::streams::Streams;
use crate::agent::BoxFuture;
use crate::agent::input::{Answered, Person};
use crate::data::Question;

/// Nobody: answers come from elsewhere, or not at all.
pub struct Nobody;

impl Person for Nobody {
    fn ask<'a>(
        &'a self,
        _question: &'a Question,
        _agent_name: &'a str,
        _timeout: Option<Duration>,
        _default: Option<&'a str>,
    ) -> BoxFuture<'a, Answered> {
        Box::pin(std::future::ready(Answered::NobodyThere))
    }
}

/// Whoever sits at the terminal; asked one question at a time.
pub struct AtTheTerminal {
    streams: Streams,
    progress: ProgressBar,
    /// Lines as they are typed; read by one thread, which begins with the first question.
    lines: Mutex<Option<Lines>>,
}

struct Lines {
    wanted: mpsc::Sender<()>,
    typed: UnboundedReceiver<String>,
    /// A line was asked for and has not come.
    pending: bool,
}

impl AtTheTerminal {
    /// Asks on standard error and reads standard input; the spinner gives way meanwhile.
    pub fn new(streams: Streams, progress: ProgressBar) -> Self {
        Self {
            streams,
            progress,
            lines: Mutex::new(None),
        }
    }

    fn show(&self, question: &Question, agent_name: &str, default: Option<&str>) {
        let mut text = format!("\n{agent_name} asks: {}\n", question.prompt.trim_end());
        for (at, choice) in (1..).zip(&question.choices) {
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
            let mut lines = self.lines.lock().await;
            let lines = lines.get_or_insert_with(Lines::open);
            let spins = !self.progress.is_hidden() && !self.progress.is_finished();
            if spins {
                self.progress.finish_and_clear();
            }
            self.show(question, agent_name, default);
            let answered = match timeout {
                None => lines.next().await,
                Some(timeout) => tokio::time::timeout(timeout, lines.next())
                    .await
                    .unwrap_or(Answered::TimedOut),
            };
            if spins {
                self.progress.reset();
                self.progress.enable_steady_tick(Duration::from_millis(100));
            }
            answered
        })
    }
}

impl Lines {
    /// Starts the thread that reads. It reads only when asked to, so that nothing is taken from who comes after.
    fn open() -> Self {
        let (wanted, asked) = mpsc::channel::<()>();
        let (sender, typed) = unbounded_channel();
        std::thread::spawn(move || {
            while asked.recv().is_ok() {
                let mut line = String::new();
                match std::io::stdin().read_line(&mut line) {
                    Ok(1..) if sender.send(line).is_ok() => {}
                    _ => return,
                }
            }
        });
        Self {
            wanted,
            typed,
            pending: false,
        }
    }

    async fn next(&mut self) -> Answered {
        if !self.pending && self.wanted.send(()).is_err() {
            return Answered::NobodyThere;
        }
        self.pending = true;
        match self.typed.recv().await {
            Some(line) => {
                self.pending = false;
                Answered::Text(line.trim_end_matches(['\n', '\r']).to_owned())
            }
            None => Answered::NobodyThere,
        }
    }
}
