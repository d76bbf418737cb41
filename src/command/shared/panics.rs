//! Messages of panics, which can repeat untrusted text.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;

use crate::terminal::streams::ColorChoice;
use crate::terminal::streams::StandardStreams;

/// Installs a panic hook that prints messages through the sanitizing writer. `RUST_BACKTRACE` keeps its effect.
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
