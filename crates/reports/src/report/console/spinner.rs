//! The spinner: one row of the terminal with the running agents, which is removed afterwards.
//!
//! While a reply is streamed, the row is shown below the reply without the time.
//!
//! The row is short, and the cursor is directly behind it. So the `^C` that a terminal prints after Ctrl-C stays on the
//! row and is cleared with it, and a terminal that becomes narrower does not split the row in two.

use std::io;
use std::time::Duration;

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike};

use super::activity::RunActivity;
use crate::report::wrap::truncate_to_width;
use ensemble_language::hidden_characters::escape_hidden;

/// The time between two frames of the spinner.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// The columns that stay free at the end of the row, for characters that the terminal echoes.
const FREE_COLUMNS: u16 = 8;

/// The columns of the spinner and the elapsed time.
const SPINNER_COLUMNS: u16 = 12;

/// The escape sequence that saves the cursor, makes room for a row below the cursor, and moves there.
const OPEN_ROW_BELOW: &str = "\x0b\x1b[A\x1b7\x1b[B\r\x1b[2K";

/// The escape sequence that returns to the saved cursor position.
const RETURN_FROM_BELOW: &str = "\x1b8";

/// The escape sequence that clears everything after the cursor.
const CLEAR_AFTER_CURSOR: &str = "\x1b[J";

/// A spinner with the current activity and the time since its start.
pub(super) struct ActivitySpinner {
    bar: ProgressBar,
    activity: RunActivity,
    turns: bool,
    /// There is a row below the cursor.
    is_below: bool,
}

impl ActivitySpinner {
    /// Creates the spinner on standard error, or a hidden one.
    pub(super) fn new(is_shown: bool, activity: RunActivity) -> Self {
        let target = match is_shown {
            true => ProgressDrawTarget::term_like(Box::new(UnpaddedTerminal(Term::stderr()))),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {activity} {elapsed:.dim}") {
            let shown_activity = activity.clone();
            let write = move |_: &ProgressState, row: &mut dyn std::fmt::Write| {
                // A row that cannot be written is not shown.
                let _ = row.write_str(&truncate_row_to_terminal(&shown_activity.render_activity_row()));
            };
            bar.set_style(style.with_key("activity", write));
        }
        Self {
            bar,
            activity,
            turns: false,
            is_below: false,
        }
    }

    /// Redraws the spinner with the current activity. Stops and clears the spinner if there is no activity.
    pub(super) fn show_or_stop(&mut self) {
        if self.activity.render_activity_row().is_empty() {
            self.stop_and_clear();
        } else if self.turns {
            self.bar.tick();
        }
    }

    /// Shows this row below the cursor until it is cleared.
    pub(super) fn show_row_below(&mut self, row: &str) {
        if row.is_empty() || self.bar.is_hidden() {
            return;
        }
        self.is_below = true;
        // The row is only for show.
        let _ = Term::stderr().write_str(&format!(
            "{OPEN_ROW_BELOW}{}{RETURN_FROM_BELOW}",
            truncate_row_to_terminal(row)
        ));
    }

    /// Clears the row below the cursor.
    pub(super) fn clear_row_below(&mut self) {
        if std::mem::take(&mut self.is_below) {
            let _ = Term::stderr().write_str(CLEAR_AFTER_CURSOR);
        }
    }

    /// Restarts the elapsed time.
    pub(super) fn restart_time(&self) {
        self.bar.reset_elapsed();
    }

    /// Starts the spinner if there is activity.
    pub(super) fn start_if_active(&mut self) {
        if self.turns || self.bar.is_hidden() || self.activity.render_activity_row().is_empty() {
            return;
        }
        self.turns = true;
        self.bar.reset();
        self.bar.enable_steady_tick(FRAME_INTERVAL);
    }

    /// Stops the spinner and clears its row.
    pub(super) fn stop_and_clear(&mut self) {
        if !std::mem::take(&mut self.turns) {
            return;
        }
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
    }

    /// Clears the row while `write` writes other output, and redraws the row afterwards.
    pub(super) fn suspend_while(&self, write: impl FnOnce()) {
        if self.turns {
            self.bar.suspend(write);
        } else {
            write();
        }
    }
}

/// Escapes the row, and shortens the row to the width of the terminal.
fn truncate_row_to_terminal(row: &str) -> String {
    let columns = Term::stderr().size().1;
    truncate_to_width(
        &escape_hidden(row),
        usize::from(columns.saturating_sub(FREE_COLUMNS + SPINNER_COLUMNS)).max(10),
    )
}

/// A terminal that does not pad rows with blanks.
#[derive(Debug)]
struct UnpaddedTerminal(Term);

impl TermLike for UnpaddedTerminal {
    fn width(&self) -> u16 {
        self.0.size().1.saturating_sub(FREE_COLUMNS).max(FREE_COLUMNS)
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
