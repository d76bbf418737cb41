//! Ctrl-C and SIGTERM: once stops politely, twice at once.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use ensemble_agents::agent::process::kill_leftovers;
use ensemble_core::conversation::Interruption;

/// Listens; the first signal comes out of the receiver, the second ends the process.
#[cfg(unix)]
pub(super) fn listen(run_id: Arc<str>) -> UnboundedReceiver<Interruption> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = unbounded_channel();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return receiver;
    };
    fail_instead_of_dying();
    tokio::spawn(async move {
        for already in [false, true] {
            let cause = tokio::select! {
                _ = interrupt.recv() => Interruption::CtrlC,
                _ = terminate.recv() => Interruption::Terminated,
            };
            if already {
                leave(&run_id, cause);
            }
            let _ = sender.send(cause);
        }
    });
    receiver
}

/// A journal that may not grow any more (`ulimit -f`) is a write that fails, as on a full disk, and not the end.
#[cfg(unix)]
fn fail_instead_of_dying() {
    use tokio::signal::unix::{SignalKind, signal};
    // That somebody listened once is all it takes.
    let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
}

/// Ends the process at once. The journal needs no farewell: every line in it is whole.
#[cfg(unix)]
#[expect(clippy::exit, reason = "the second Ctrl-C means now")]
fn leave(run_id: &str, cause: Interruption) {
    kill_leftovers(run_id);
    std::process::exit(if cause == Interruption::Terminated { 143 } else { 130 });
}

/// Listens for Ctrl-C.
#[cfg(not(unix))]
pub fn listen(_run_id: Arc<str>) -> UnboundedReceiver<Interruption> {
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            let _ = sender.send(Interruption::CtrlC);
        }
    });
    receiver
}
