//! The spinner: one row of the terminal with the running agents, which is removed afterwards.
//!
//! The row is short, and the cursor is directly behind it. So the `^C` that a terminal prints after Ctrl-C stays on the
//! row and is cleared with it, and a terminal that becomes narrower does not split the row in two.

use std::io;
use std::time::Duration;

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::report::wrap::cut;

/// The time between two frames of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// The columns that are left free at the end of the row, for characters that the terminal prints.
const FREE: u16 = 8;

/// The columns for the spinner and the time.
const AROUND: u16 = 12;

/// Shows a message and the time since its start, while nothing else is written.
pub(super) struct Spinner {
    bar: ProgressBar,
    message: String,
    turns: bool,
}

impl Spinner {
    /// The output: standard error, or none.
    pub(super) fn new(is_shown: bool) -> Self {
        let target = match is_shown {
            true => ProgressDrawTarget::term_like(Box::new(Row(Term::stderr()))),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}") {
            bar.set_style(style);
        }
        Self {
            bar,
            message: String::new(),
            turns: false,
        }
    }

    /// Sets the message without restarting the time; an empty message stops the spinner.
    pub(super) fn set_message(&mut self, message: String) {
        self.message = message;
        if self.message.is_empty() {
            self.stop();
        } else if self.turns {
            self.bar.set_message(self.fitting());
        }
    }

    /// Restarts the time.
    pub(super) fn reset_time(&self) {
        self.bar.reset_elapsed();
    }

    /// Starts the spinner, if there is a message.
    pub(super) fn start(&mut self) {
        if self.turns || self.message.is_empty() || self.bar.is_hidden() {
            return;
        }
        self.turns = true;
        self.bar.set_message(self.fitting());
        self.bar.reset();
        self.bar.enable_steady_tick(TICK);
    }

    /// Clears the row and stops.
    pub(super) fn stop(&mut self) {
        if !std::mem::take(&mut self.turns) {
            return;
        }
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
    }

    /// Clears the row while other output is written.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        if self.turns {
            self.bar.suspend(write);
        } else {
            write();
        }
    }

    fn fitting(&self) -> String {
        let columns = Term::stderr().size().1;
        cut(
            &self.message,
            usize::from(columns.saturating_sub(FREE + AROUND)).max(10),
        )
    }
}

/// A terminal that does not pad a row with blanks.
#[derive(Debug)]
struct Row(Term);

impl TermLike for Row {
    fn width(&self) -> u16 {
        self.0.size().1.saturating_sub(FREE).max(FREE)
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        // The padding would move the cursor to the end of the row.
        if text.bytes().all(|byte| byte == b' ') {
            return Ok(());
        }
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
