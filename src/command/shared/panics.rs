//! The message of a panic, which may repeat a text of others.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;

use crate::terminal::streams::ColorChoice;
use crate::terminal::streams::StandardStreams;

/// Makes panics print their message as all other messages are printed. `RUST_BACKTRACE` works as always.
pub(crate) fn install_sanitizing_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => format!("{trace}\n"),
            _ => String::new(),
        };
        let mut err = StandardStreams::detect(ColorChoice::Never).human_err();
        let _ = err.write_all(format!("\n{panic}\n{trace}").as_bytes());
    }));
}
