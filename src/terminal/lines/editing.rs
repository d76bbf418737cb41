//! Line editor for a terminal, with the earlier lines of the session.
//!
//! While a line is edited, the terminal passes keys instead of lines, and does not turn Ctrl-C into a signal. So the editor clears
//! a line on Ctrl-C, and sends the signal itself if the line is empty. A question that is withdrawn leaves the reading thread in
//! the middle of a line. [`TerminalMode`] then restores the normal mode of the terminal until the next question.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::config::{Behavior, BellStyle};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use super::{LineRequest, read_unedited_line};
use crate::terminal::streams::StandardStreams;

/// Code that turns off the marks around pasted text, with a line break.
const PASTE_MARKS_OFF: &str = "\x1b[?2004l\n";

/// Code that turns on the marks around pasted text, so that its line breaks do not end the line.
const PASTE_MARKS_ON: &str = "\x1b[?2004h";

/// Editor of lines at a terminal, with the lines of the session.
pub(crate) struct LineEditor {
    editor: Editor<EmptyLineObserver, MemHistory>,
    config: Config,
    /// The lines that can be recalled.
    remembered_lines: Vec<String>,
    mode: TerminalMode,
}

/// Mode of the terminal outside of a line, and in the line that was abandoned.
#[derive(Clone)]
pub(crate) struct TerminalMode {
    streams: StandardStreams,
    normal_mode: Termios,
    line_mode: Arc<Mutex<Option<Termios>>>,
    /// Whether the current line contains nothing.
    is_line_empty: Arc<AtomicBool>,
    /// Set to make the editor forget the text that was read from the terminal after the end of the last line.
    forgets_rest: Arc<AtomicBool>,
}

/// Drop guard that restores the normal mode of the terminal, also if the question is withdrawn.
pub(crate) struct LineModeGuard<'a>(&'a TerminalMode);

/// Helper of the editor that records whether the line is empty.
struct EmptyLineObserver {
    is_empty: Arc<AtomicBool>,
}

impl LineEditor {
    /// Creates the editor, and reads the mode of the terminal. Returns `None` if the terminal cannot edit lines.
    pub(crate) fn for_terminal(streams: StandardStreams) -> Option<(Self, TerminalMode)> {
        let is_simple =
            |term: &std::ffi::OsStr| term.is_empty() || ["dumb", "cons25", "emacs"].iter().any(|it| term == *it);
        if std::env::var_os("TERM").is_none_or(|term| is_simple(&term)) {
            return None;
        }
        // If standard output is a file, the line is edited at the terminal of the process.
        let behavior = match streams.out_is_terminal {
            true => Behavior::Stdio,
            false => File::open("/dev/tty").map(|_| Behavior::PreferTerm).ok()?,
        };
        let config = Config::builder().behavior(behavior).bell_style(BellStyle::None).build();
        let mode = TerminalMode {
            streams,
            normal_mode: tcgetattr(std::io::stdin()).ok()?,
            line_mode: Arc::default(),
            is_line_empty: Arc::new(AtomicBool::new(true)),
            forgets_rest: Arc::default(),
        };
        let editor = Self {
            editor: create_editor(&config, &mode)?,
            config,
            remembered_lines: Vec::new(),
            mode: mode.clone(),
        };
        Some((editor, mode))
    }

    /// Discards the text after the end of the last line, by replacing the editor.
    fn discard_typed_rest(&mut self) {
        if let Some(mut editor) = create_editor(&self.config, &self.mode) {
            for line in &self.remembered_lines {
                let _ = editor.add_history_entry(line);
            }
            self.editor = editor;
        }
    }

    /// Reads the next line. Returns `None` at the end of the input.
    /// On Ctrl-C in an empty line, sends SIGINT to the process group and reads a line without the editor.
    pub(crate) fn read_line(&mut self, prompt: LineRequest, streams: StandardStreams) -> Option<String> {
        if self.mode.forgets_rest.swap(false, Ordering::AcqRel) {
            self.discard_typed_rest();
        }
        loop {
            self.mode.is_line_empty.store(true, Ordering::Release);
            match self.editor.readline(prompt.text) {
                Ok(line) => {
                    if prompt.is_remembered {
                        // A line that cannot be recalled is still an answer.
                        let _ = self.editor.add_history_entry(line.trim_end());
                        self.remembered_lines.push(line.trim_end().to_owned());
                    }
                    return Some(line);
                }
                Err(ReadlineError::Interrupted) if !self.mode.is_line_empty() => {}
                Err(ReadlineError::Interrupted) => {
                    // What Ctrl-C does in other programs: the terminal tells all processes in the foreground.
                    let _ = kill_current_process_group(Signal::INT);
                    return read_unedited_line(LineRequest { text: "", ..prompt }, streams, false);
                }
                Err(_) => return None,
            }
        }
    }
}

/// Builds an editor that reports an empty line to `mode`. Returns `None` if the terminal cannot be opened.
fn create_editor(config: &Config, mode: &TerminalMode) -> Option<Editor<EmptyLineObserver, MemHistory>> {
    let history = MemHistory::with_config(config);
    let mut editor = Editor::with_history(config.clone(), history).ok()?;
    editor.set_helper(Some(EmptyLineObserver {
        is_empty: Arc::clone(&mode.is_line_empty),
    }));
    Some(editor)
}

impl TerminalMode {
    /// Returns whether the current line contains nothing.
    pub(crate) fn is_line_empty(&self) -> bool {
        self.is_line_empty.load(Ordering::Acquire)
    }

    /// Asks the reading thread to discard the text it has read from the terminal, before it reads the next line.
    pub(crate) fn request_discard(&self) {
        self.forgets_rest.store(true, Ordering::Release);
    }

    /// Returns a guard for the time until a line arrives. Restores the mode of an abandoned line, and prints the prompt of `again`.
    pub(crate) fn enter_line_wait(&self, again: Option<LineRequest>) -> LineModeGuard<'_> {
        if let Some(prompt) = again {
            let inside = self.line_mode.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(inside) = inside {
                self.switch_mode(&inside, PASTE_MARKS_ON);
                self.streams.write_terminal_code(prompt.text);
            }
        }
        LineModeGuard(self)
    }

    /// Stores the mode of the current line and restores the normal mode, if the terminal is in line mode.
    pub(crate) fn restore_normal_mode(&self) {
        let Ok(now) = tcgetattr(std::io::stdin()) else {
            return;
        };
        if now.local_modes.contains(LocalModes::ICANON) {
            return;
        }
        *self.line_mode.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        self.switch_mode(&self.normal_mode, PASTE_MARKS_OFF);
    }

    /// Switches the terminal to the mode and writes the code to standard error.
    fn switch_mode(&self, mode: &Termios, code: &'static str) {
        let _ = tcsetattr(std::io::stdin().as_fd(), OptionalActions::Drain, mode);
        self.streams.write_terminal_code(code);
    }
}

impl Drop for LineModeGuard<'_> {
    fn drop(&mut self) {
        self.0.restore_normal_mode();
    }
}

impl Hinter for EmptyLineObserver {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.is_empty.store(line.is_empty(), Ordering::Release);
        None
    }
}

impl Completer for EmptyLineObserver {
    type Candidate = String;
}

impl Highlighter for EmptyLineObserver {}

impl Validator for EmptyLineObserver {}

impl Helper for EmptyLineObserver {}
