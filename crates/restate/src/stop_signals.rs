//! Signals that end a worker.

/// Signal that ends the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerStopSignal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl WorkerStopSignal {
    /// Returns the exit code of a process that the signal ended: 128 plus the number of the signal.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Receiver of the signals that the process gets after the creation of the value.
pub(crate) struct WorkerStopSignals {
    #[cfg(unix)]
    interrupts: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminations: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl WorkerStopSignals {
    /// Starts to listen for signals.
    ///
    /// # Errors
    /// The system refuses it.
    pub(crate) fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupts: signal(SignalKind::interrupt())?,
            terminations: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn wait_for_signal(&mut self) -> WorkerStopSignal {
        tokio::select! {
            _ = self.interrupts.recv() => WorkerStopSignal::Interrupt,
            _ = self.terminations.recv() => WorkerStopSignal::Terminate,
        }
    }
}

#[cfg(not(unix))]
impl WorkerStopSignals {
    /// Starts to listen for signals.
    ///
    /// # Errors
    /// None.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal.
    pub(crate) async fn wait_for_signal(&mut self) -> StopSignal {
        let _ = tokio::signal::ctrl_c().await;
        StopSignal::Interrupt
    }
}
