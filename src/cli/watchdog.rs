//! The program as its own watchdog: a command that no person calls, and that no help shows.

use tokio::signal::unix::{SignalKind, signal};

use ensemble_agents::agent::process::{Invocation, run_watchdog};

/// What the program is called with to be a watchdog.
const COMMAND: &str = "__watchdog";

/// The command that starts a watchdog: this program once more.
pub(super) fn command() -> Option<Invocation> {
    let program = std::env::current_exe().ok()?;
    Some(Invocation {
        program,
        arguments: vec![COMMAND.into()],
    })
}

/// Are we to be one?
pub(super) fn is_called() -> bool {
    std::env::args_os().skip(1).eq([COMMAND])
}

/// Keeps watch until whoever started us has ended. What tells others to end must not end us before them.
pub(super) fn watch() {
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
