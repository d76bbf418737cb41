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

/// Lines of standard input, shared by all readers.
#[derive(Clone)]
pub(crate) struct InputLines {
    streams: StandardStreams,
    reader: Arc<Mutex<Option<LineReaderThread>>>,
}

/// Request for one line: the prompt, and whether the line can be recalled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineRequest {
    /// Prompt before the line at a terminal.
    pub(crate) text: &'static str,
    /// Whether the line can be recalled later.
    pub(crate) is_remembered: bool,
}

/// Handle of the thread that reads lines: its requests and its lines.
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
    /// Creates the lines of standard input. No line is read yet.
    pub(crate) fn new(streams: StandardStreams) -> Self {
        Self {
            streams,
            reader: Arc::default(),
        }
    }

    /// Returns whether a user sees the prompts and types the lines.
    pub(crate) fn is_interactive(&self) -> bool {
        self.streams.in_is_terminal && self.streams.err_is_terminal
    }

    /// Discards the text that was typed until now, which cannot answer a question that appears later. Starts the reading thread.
    pub(crate) async fn discard_typed_lines(&self) {
        let mut reader = self.reader.lock().await;
        let reader = reader.get_or_insert_with(|| LineReaderThread::spawn_thread(self.streams, self.is_interactive()));
        reader.discard_typed();
    }

    /// Waits for the next line and returns it without its line break. Returns `None` at the end of the input.
    /// Requests are answered in order. If the future is dropped, the line stays available for the next request.
    pub(crate) async fn read_line(&self, prompt: LineRequest) -> Option<String> {
        let mut reader = self.reader.lock().await;
        let reader = reader.get_or_insert_with(|| LineReaderThread::spawn_thread(self.streams, self.is_interactive()));
        reader.next_fresh_line(prompt).await
    }
}

/// Note about a line that was typed in part before the question appeared.
const STALE_NOTE: &str = "  (not used: a part of this line was typed before the question was shown)\n";

impl LineReaderThread {
    /// Spawns the reading thread. The thread reads only on request, so that later readers of standard input lose nothing.
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

    /// Discards the text that was typed until now. Marks a half-typed line as stale.
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

    /// Waits for the next line that was typed after the question. Discards a stale line and prints a note about it.
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

    /// Requests a line, unless a request is pending, and waits for it. Returns `None` at the end of the input.
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

/// Reads and sends one line for each request, until the input or the requests end.
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

/// Prints the prompt if `is_prompted`, and reads a line of standard input without an editor. Returns `None` at the end of the input.
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
