//! Faults for tests: a worker delays an answer or dies, so that a test does not depend on luck.
//!
//! Invariant: a build without debug assertions reads no environment variable for faults.

use ensemble_remote::protocol::WorkerVersion;

/// Waits while the file exists that `ENSEMBLE_FAULT_HELD` names, so that a test delays the wait for nested runs. Writes a marker file.
#[expect(clippy::disallowed_methods, reason = "a fault of tests")]
pub(crate) async fn wait_while_held() {
    let Some(file) = read_fault_variable("ENSEMBLE_FAULT_HELD") else {
        return;
    };
    while std::path::Path::new(&file).exists() {
        // Whoever waits for it looks again.
        let _ = std::fs::write(format!("{file}.reached"), "");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Returns the version and the protocol of this worker. A test selects the protocol with `ENSEMBLE_FAULT_PROTOCOL`.
pub(crate) fn own_version() -> WorkerVersion {
    let version = WorkerVersion::for_this_build();
    let other = read_fault_variable("ENSEMBLE_FAULT_PROTOCOL");
    match other.and_then(|protocol| protocol.parse().ok()) {
        Some(protocol) => WorkerVersion {
            protocol,
            oldest: protocol,
            ..version
        },
        None => version,
    }
}

/// Aborts the process when the number of passed points reaches `ENSEMBLE_FAULT_DIES`. Each record has two points, before and after
/// it is stored.
pub(crate) fn die_if_due() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static POINTS: AtomicU32 = AtomicU32::new(0);
    let due = read_fault_variable("ENSEMBLE_FAULT_DIES");
    let due = due.and_then(|due| due.parse::<u32>().ok());
    if due == Some(POINTS.fetch_add(1, Ordering::Relaxed)) {
        std::process::abort();
    }
}

/// Returns the value of an environment variable for faults; always `None` in a build without debug assertions.
#[expect(clippy::disallowed_methods, reason = "a fault of tests")]
fn read_fault_variable(name: &str) -> Option<String> {
    match cfg!(debug_assertions) {
        true => std::env::var(name).ok(),
        false => None,
    }
}
