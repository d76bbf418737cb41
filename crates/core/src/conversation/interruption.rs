//! What ends a run from outside the conversation, and who.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An event outside the conversation that ends the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "InterruptionCause", into = "InterruptionCause")]
pub enum RunInterruption {
    /// The run was cancelled.
    Cancelled {
        /// Who cancelled the run.
        by: RunCanceller,
    },
    /// The run reached its `timeout_seconds`.
    Timeout,
}

/// The person or program that cancels a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunCanceller {
    /// A person at the terminal, with Ctrl-C.
    Keyboard,
    /// A process that sent SIGTERM.
    Signal,
    /// A program that controls the run, with the name that it gives.
    Client(Arc<str>),
}

/// `Ctrl-C`, `SIGTERM`, or the name of the program.
impl fmt::Display for RunCanceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keyboard => "Ctrl-C",
            Self::Signal => "SIGTERM",
            Self::Client(name) => name,
        })
    }
}

/// Form of a [`RunInterruption`] in the journal.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
enum InterruptionCause {
    CtrlC,
    Terminated,
    Cancelled { by: Arc<str> },
    Timeout,
}

impl From<InterruptionCause> for RunInterruption {
    fn from(cause: InterruptionCause) -> Self {
        let by = match cause {
            InterruptionCause::Timeout => return Self::Timeout,
            InterruptionCause::CtrlC => RunCanceller::Keyboard,
            InterruptionCause::Terminated => RunCanceller::Signal,
            InterruptionCause::Cancelled { by } => RunCanceller::Client(by),
        };
        Self::Cancelled { by }
    }
}

impl From<RunInterruption> for InterruptionCause {
    fn from(interruption: RunInterruption) -> Self {
        match interruption {
            RunInterruption::Timeout => Self::Timeout,
            RunInterruption::Cancelled { by } => match by {
                RunCanceller::Keyboard => Self::CtrlC,
                RunCanceller::Signal => Self::Terminated,
                RunCanceller::Client(by) => Self::Cancelled { by },
            },
        }
    }
}
