//! Lines of standard input, read one at a time, only on demand. At a terminal a line can be edited.

#[cfg(unix)]
mod editing;

use std::io::Write;
use std::sync::{Arc, mpsc};

#[cfg(unix)]
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::terminal::streams::StandardStreams;
#[cfg(unix)]
use editing::{LineEditor, TerminalMode};

/// Standard input, shared by all readers.
#[derive(Clone)]
pub(crate) struct InputLines {
    streams: StandardStreams,
    reader: Arc<Mutex<Option<LineReaderThread>>>,
}

/// The request for a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineRequest {
    /// What stands before the line at a terminal.
    pub(crate) text: &'static str,
    /// Whether the line can be recalled later.
    pub(crate) is_remembered: bool,
}

struct LineReaderThread {
    requests: mpsc::Sender<LineRequest>,
    typed_lines: UnboundedReceiver<String>,
    /// A line was requested and has not arrived.
    pending: bool,
    /// The line that was requested contains text that was typed before the current question was shown.
    is_stale: bool,
    streams: StandardStreams,
    #[cfg(unix)]
    mode: Option<TerminalMode>,
}

impl InputLines {
    /// Returns the standard input of the process with these streams.
    pub(crate) fn new(streams: StandardStreams) -> Self {
        Self {
            streams,
            reader: Arc::default(),
        }
    }

    /// Returns whether a person reads the prompts and types the lines.
    pub(crate) fn is_interactive(&self) -> bool {
        self.streams.in_is_terminal && self.streams.err_is_terminal
    }

    /// Discards everything that was typed until now: it is not the answer to a question that is shown after it.
    pub(crate) async fn discard_typed_lines(&self) {
        let mut reader = self.reader.lock().await;
        let reader = reader.get_or_insert_with(|| LineReaderThread::spawn_thread(self.streams, self.is_interactive()));
        reader.discard_typed();
    }

    /// Returns the next line, without its line break; `None` at the end of the input. Requests are answered in order.
    /// If the future is dropped, the line stays available for the next request.
    pub(crate) async fn read_line(&self, prompt: LineRequest) -> Option<String> {
        let mut reader = self.reader.lock().await;
        let reader = reader.get_or_insert_with(|| LineReaderThread::spawn_thread(self.streams, self.is_interactive()));
        reader.next_fresh_line(prompt).await
    }
}

/// The note for a person whose line was typed in part before the question was shown.
const STALE_NOTE: &str = "  (not used: a part of this line was typed before the question was shown)\n";

impl LineReaderThread {
    /// Starts the reading thread. It reads only on request, so that no input is taken from later readers.
    fn spawn_thread(streams: StandardStreams, are_typed: bool) -> Self {
        let (requests, asked) = mpsc::channel();
        let (sender, typed_lines) = unbounded_channel();
        #[cfg(unix)]
        let editor = are_typed.then(|| LineEditor::for_terminal(streams)).flatten();
        #[cfg(unix)]
        let mode = editor.as_ref().map(|(_, mode)| mode.clone());
        std::thread::spawn(move || {
            #[cfg(unix)]
            if let Some((mut editor, _)) = editor {
                return answer_line_requests(&asked, &sender, |prompt| editor.read_line(prompt, streams));
            }
            answer_line_requests(&asked, &sender, |prompt| read_unedited_line(prompt, streams, are_typed));
        });
        Self {
            requests,
            typed_lines,
            pending: false,
            is_stale: false,
            streams,
            #[cfg(unix)]
            mode,
        }
    }

    /// Discards everything that was typed until now.
    fn discard_typed(&mut self) {
        while self.typed_lines.try_recv().is_ok() {
            self.pending = false;
            self.is_stale = false;
        }
        #[cfg(unix)]
        {
            // What cannot be discarded is not typed at a terminal.
            let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
            if let Some(mode) = &self.mode {
                mode.request_discard();
                self.is_stale = self.pending && !mode.is_line_empty();
            }
        }
    }

    async fn next_fresh_line(&mut self, prompt: LineRequest) -> Option<String> {
        loop {
            let line = self.receive_line(prompt).await?;
            if !std::mem::take(&mut self.is_stale) {
                return Some(line);
            }
            // If the terminal cannot be written to, reading fails too and reports the end of the input.
            let _ = self.streams.human_err().write_all(STALE_NOTE.as_bytes());
        }
    }

    async fn receive_line(&mut self, prompt: LineRequest) -> Option<String> {
        if !self.pending && self.requests.send(prompt).is_err() {
            return None;
        }
        #[cfg(unix)]
        let _waiting = self
            .mode
            .as_ref()
            .map(|mode| mode.enter_line_wait(self.pending.then_some(prompt)));
        self.pending = true;
        let line = self.typed_lines.recv().await?;
        self.pending = false;
        Some(line.trim_end_matches(['\n', '\r']).to_owned())
    }
}

/// Answers each request with a line, until there are no more lines or requests.
fn answer_line_requests(
    asked: &mpsc::Receiver<LineRequest>,
    sender: &UnboundedSender<String>,
    mut read: impl FnMut(LineRequest) -> Option<String>,
) {
    while let Ok(prompt) = asked.recv() {
        let send_result = read(prompt).map(|line| sender.send(line));
        if !matches!(send_result, Some(Ok(()))) {
            return;
        }
    }
}

/// Returns a line as the terminal, or whatever standard input is, passes it on.
fn read_unedited_line(prompt: LineRequest, streams: StandardStreams, is_prompted: bool) -> Option<String> {
    if is_prompted {
        let mut err = streams.human_err();
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
impl Drop for LineReaderThread {
    fn drop(&mut self) {
        if let Some(mode) = self.mode.as_ref().filter(|_| self.pending) {
            mode.restore_normal_mode();
        }
    }
}
