//! Notices the end of the client's process.

use std::sync::mpsc::Sender;
use std::time::Duration;

use super::{LspServerEnd, LspServerEvent};

/// How often the process is looked for.
const PROCESS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Starts a thread that ends the server when the process with this id has ended.
pub(super) fn end_with_client_process(id: u32, events: Sender<LspServerEvent>) {
    std::thread::spawn(move || {
        while is_process_running(id) {
            std::thread::sleep(PROCESS_CHECK_INTERVAL);
        }
        let _ended = events.send(LspServerEvent::End(LspServerEnd::ClientGone));
    });
}

/// Returns whether the process exists. An id that is not valid counts as running.
#[cfg(unix)]
fn is_process_running(id: u32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    // A process of another user is there, and may not be asked.
    id.is_none_or(|id| test_kill_process(id) != Err(Errno::SRCH))
}

#[cfg(not(unix))]
fn is_process_running(_id: u32) -> bool {
    true
}
