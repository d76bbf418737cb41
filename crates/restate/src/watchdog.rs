//! Worker as its own watchdog: an internal command that the help does not show.

use tokio::signal::unix::{SignalKind, signal};

use ensemble_process::{ProgramInvocation, run_watchdog};

/// Name of the internal command.
const COMMAND: &str = "__watchdog";

/// Returns the command that starts a watchdog: the worker with the internal command. Returns `None` if the path of the program is unknown.
pub(crate) fn watchdog_command() -> Option<ProgramInvocation> {
    let program = std::env::current_exe().ok()?;
    Some(ProgramInvocation {
        program,
        arguments: vec![COMMAND.into()],
    })
}

/// Returns whether this process was started as a watchdog.
pub(crate) fn is_started_as_watchdog() -> bool {
    std::env::args_os().skip(1).eq([COMMAND])
}

/// Runs this process as the watchdog of its parent, until standard input closes. Ignores the signals that end the parent.
pub(crate) fn run_as_watchdog() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let _entered = runtime.as_ref().map(tokio::runtime::Runtime::enter);
    let _heard_and_ignored = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ]
    .map(|kind| runtime.as_ref().ok().map(|_| signal(kind)));
    run_watchdog(std::io::stdin());
}
