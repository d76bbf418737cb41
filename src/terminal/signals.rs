//! Ctrl-C and SIGTERM: the first signal cancels the run, and a second signal during the cancellation ends the process at once.
//!
//! A separate thread receives the signals, so that the second signal ends the process even if all other threads are blocked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use ensemble_core::conversation::{RunCanceller, RunInterruption};
use ensemble_core::store::RunId;
use ensemble_process::kill_processes_of_run;

/// Receiver of the signals that the process gets after the creation of the value.
pub(crate) struct SignalReceiver {
    receiver: UnboundedReceiver<RunCanceller>,
    /// Whether a signal was received that has not been dealt with. Then the next one ends the process.
    is_pending: Arc<AtomicBool>,
    /// The run whose child processes are killed when the process ends at once.
    run: Arc<OnceLock<RunId>>,
}

impl SignalReceiver {
    /// Sets the run whose child processes are killed when a second signal ends the process. Only the first call has an effect.
    pub(crate) fn set_run_to_kill(&self, run: &RunId) {
        let _ = self.run.set(run.clone());
    }

    /// Marks all earlier signals as handled, so that the next signal does not end the process.
    pub(crate) fn mark_signals_handled(&self) {
        self.is_pending.store(false, Ordering::Relaxed);
    }

    /// Waits for the next signal and returns it. Another signal before this one is marked as handled ends the process.
    pub(crate) async fn wait_for_signal(&mut self) -> RunCanceller {
        match self.receiver.recv().await {
            Some(by) => by,
            None => std::future::pending().await,
        }
    }

    /// Spawns a task that sends the first signal as the interruption of a replay.
    pub(crate) fn into_interruptions(mut self) -> UnboundedReceiver<RunInterruption> {
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(async move {
            let by = self.wait_for_signal().await;
            let _ = sender.send(RunInterruption::Cancelled { by });
        });
        receiver
    }
}

/// Starts the thread that receives Ctrl-C and SIGTERM. Waits until the handlers are installed.
#[cfg(unix)]
pub(crate) fn listen_for_signals() -> SignalReceiver {
    let (sender, received) = unbounded_channel();
    let signals = SignalReceiver {
        receiver: received,
        is_pending: Arc::default(),
        run: Arc::default(),
    };
    ignore_file_size_signal();
    let (is_pending, run) = (Arc::clone(&signals.is_pending), Arc::clone(&signals.run));
    let (ready, is_ready) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("signals".into());
    let started = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(forward_signals(ready, |by| {
                if is_pending.swap(true, Ordering::Relaxed) {
                    kill_run_and_exit(run.get(), &by);
                }
                let _nobody_listens = sender.send(by);
            }));
        }
    });
    if started.is_ok() {
        let _ended_without = is_ready.recv();
    }
    signals
}

/// Calls `heard` for each signal, forever. Sends to `ready` when the handlers are installed.
#[cfg(unix)]
async fn forward_signals(ready: std::sync::mpsc::Sender<()>, heard: impl Fn(RunCanceller)) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    let _nobody_waits = ready.send(());
    drop(ready);
    loop {
        let by = tokio::select! {
            _ = interrupt.recv() => RunCanceller::Keyboard,
            _ = terminate.recv() => RunCanceller::Signal,
        };
        heard(by);
    }
}

/// Installs a handler for SIGXFSZ, so that a write beyond the file size limit (`ulimit -f`) fails instead of ending the process.
#[cfg(unix)]
fn ignore_file_size_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    // It is enough that a handler was installed once.
    let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
}

/// Makes writes beyond the file size limit fail with an error instead of a fatal signal, in every command.
#[cfg(unix)]
pub(crate) fn ignore_file_size_signal_if_limited() {
    use rustix::process::{Resource, getrlimit};
    if getrlimit(Resource::Fsize).current.is_none() {
        return;
    }
    // The handler stays when the runtime ends.
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() {
        let _entered = runtime.enter();
        ignore_file_size_signal();
    }
}

/// Kills the child processes of the run and exits the process at once. Every line of the journal is complete.
#[cfg(unix)]
#[expect(clippy::exit, reason = "the second Ctrl-C means now")]
fn kill_run_and_exit(run: Option<&RunId>, by: &RunCanceller) {
    if let Some(run) = run {
        kill_processes_of_run(run.as_str());
    }
    std::process::exit(if *by == RunCanceller::Signal { 143 } else { 130 });
}

/// Starts to listen for Ctrl-C.
#[cfg(not(unix))]
pub(crate) fn listen_for_signals() -> SignalReceiver {
    let (sender, received) = unbounded_channel();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            let _ = sender.send(RunCanceller::Keyboard);
        }
    });
    SignalReceiver {
        received,
        is_pending: Arc::default(),
        run: Arc::default(),
    }
}
