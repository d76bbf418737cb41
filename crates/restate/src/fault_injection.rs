//! Faults on purpose: a worker holds an answer back, so that a test forces what is a matter of luck otherwise.
//!
//! Builds for tests only: elsewhere no worker does, and none reads the environment for it.
//!
//! Invariant: a build without debug assertions does not read the environment for it.

use ensemble_remote::protocol::WorkerVersion;

/// Holds back that an execution waits for runs, as long as the file is there that `ENSEMBLE_FAULT_HELD` names. A file beside it says
/// that it is held.
#[cfg(debug_assertions)]
#[expect(clippy::disallowed_methods, reason = "a fault of tests")]
pub(crate) async fn wait_while_held() {
    let Ok(file) = std::env::var("ENSEMBLE_FAULT_HELD") else {
        return;
    };
    while std::path::Path::new(&file).exists() {
        // Whoever waits for it looks again.
        let _ = std::fs::write(format!("{file}.reached"), "");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Nothing is held back.
#[cfg(not(debug_assertions))]
pub(crate) async fn wait_while_held() {}

/// Returns the version and the protocol of this worker. A test chooses the protocol with `ENSEMBLE_FAULT_PROTOCOL`.
#[expect(clippy::disallowed_methods, reason = "a fault of tests")]
#[cfg(debug_assertions)]
pub(crate) fn own_version() -> WorkerVersion {
    let version = WorkerVersion::for_this_build();
    let other = std::env::var("ENSEMBLE_FAULT_PROTOCOL").ok();
    match other.and_then(|protocol| protocol.parse().ok()) {
        Some(protocol) => WorkerVersion {
            protocol,
            oldest: protocol,
            ..version
        },
        None => version,
    }
}

/// Returns the version and the protocol of this worker.
#[cfg(not(debug_assertions))]
pub(crate) fn own_version() -> WorkerVersion {
    WorkerVersion::of_this_build()
}

/// Ends the worker when an execution has come to the point that `ENSEMBLE_FAULT_DIES` counts: each record that is to be kept has two, before
/// and after it is kept.
#[cfg(debug_assertions)]
#[expect(clippy::disallowed_methods, reason = "a fault of tests")]
pub(crate) fn die_if_due() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static POINTS: AtomicU32 = AtomicU32::new(0);
    let due = std::env::var("ENSEMBLE_FAULT_DIES").ok();
    let due = due.and_then(|due| due.parse::<u32>().ok());
    if due == Some(POINTS.fetch_add(1, Ordering::Relaxed)) {
        std::process::abort();
    }
}

/// No worker dies.
#[cfg(not(debug_assertions))]
pub(crate) fn die_if_due() {}
