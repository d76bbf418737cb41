//! Lines of standard input, read one at a time, only on demand. At a terminal a line can be edited.

#[cfg(unix)]
mod editing;

use std::io::Write;
use std::sync::{Arc, mpsc};

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::terminal::streams::Streams;
#[cfg(unix)]
use editing::{LineEditor, TerminalMode};

/// Standard input, shared by all readers.
#[derive(Clone)]
pub(crate) struct Lines {
    streams: Streams,
    reader: Arc<Mutex<Option<Reader>>>,
}

/// The request for a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt {
    /// What stands before the line at a terminal.
    pub(crate) text: &'static str,
    /// Whether the line can be recalled later.
    pub(crate) is_remembered: bool,
}

struct Reader {
    wanted: mpsc::Sender<Prompt>,
    typed: UnboundedReceiver<String>,
    /// A line was requested and has not arrived.
    pending: bool,
    #[cfg(unix)]
    mode: Option<TerminalMode>,
}

impl Lines {
    /// The standard input of the process with these streams.
    pub(crate) fn of(streams: Streams) -> Self {
        Self {
            streams,
            reader: Arc::default(),
        }
    }

    /// Returns whether a person reads the prompts and types the lines.
    pub(crate) fn are_typed(&self) -> bool {
        self.streams.in_is_terminal && self.streams.err_is_terminal
    }

    /// The next line, without its line break; `None` at the end of the input. Requests are answered in order.
    /// If the future is dropped, the line stays available for the next request.
    pub(crate) async fn next(&self, prompt: Prompt) -> Option<String> {
        let mut reader = self.reader.lock().await;
        let reader = reader.get_or_insert_with(|| Reader::open(self.streams, self.are_typed()));
        reader.next(prompt).await
    }
}

impl Reader {
    /// Starts the reading thread. It reads only on request, so that no input is taken from later readers.
    fn open(streams: Streams, are_typed: bool) -> Self {
        let (wanted, asked) = mpsc::channel();
        let (sender, typed) = unbounded_channel();
        #[cfg(unix)]
        let editor = are_typed.then(|| LineEditor::open(streams)).flatten();
        #[cfg(unix)]
        let mode = editor.as_ref().map(|(_, mode)| mode.clone());
        std::thread::spawn(move || {
            #[cfg(unix)]
            if let Some((mut editor, _)) = editor {
                return send_lines(&asked, &sender, |prompt| editor.line(prompt, streams));
            }
            send_lines(&asked, &sender, |prompt| plain_line(prompt, streams, are_typed));
        });
        Self {
            wanted,
            typed,
            pending: false,
            #[cfg(unix)]
            mode,
        }
    }

    async fn next(&mut self, prompt: Prompt) -> Option<String> {
        if !self.pending && self.wanted.send(prompt).is_err() {
            return None;
        }
        #[cfg(unix)]
        let _waiting = self
            .mode
            .as_ref()
            .map(|mode| mode.while_waiting(self.pending.then_some(prompt)));
        self.pending = true;
        let line = self.typed.recv().await?;
        self.pending = false;
        Some(line.trim_end_matches(['\n', '\r']).to_owned())
    }
}

/// Answers each request with a line, until there are no more lines or requests.
fn send_lines(
    asked: &mpsc::Receiver<Prompt>,
    sender: &UnboundedSender<String>,
    mut read: impl FnMut(Prompt) -> Option<String>,
) {
    while let Ok(prompt) = asked.recv() {
        let sent = read(prompt).map(|line| sender.send(line));
        if !matches!(sent, Some(Ok(()))) {
            return;
        }
    }
}

/// A line as the terminal, or whatever standard input is, passes it on.
fn plain_line(prompt: Prompt, streams: Streams, is_prompted: bool) -> Option<String> {
    if is_prompted {
        let mut err = streams.err();
        // If the terminal cannot be written to, reading fails too and reports the end of the input.
        let _ = err.write_all(prompt.text.as_bytes()).and_then(|()| err.flush());
    }
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(1..) => Some(line),
        _ => None,
    }
}

#[cfg(unix)]
impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(mode) = self.mode.as_ref().filter(|_| self.pending) {
            mode.leave();
        }
    }
}
