//! What ends a run from outside the conversation, and who.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An event outside the conversation that ends the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Cause", into = "Cause")]
pub enum Interruption {
    /// The run was cancelled.
    Cancelled {
        /// Who cancelled the run.
        by: Canceller,
    },
    /// The run reached its `timeout_seconds`.
    Timeout,
}

/// The person or program that cancels a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Canceller {
    /// A person at the terminal, with Ctrl-C.
    Keyboard,
    /// A process that sent SIGTERM.
    Signal,
    /// A program that controls the run, with the name that it gives.
    Client(Arc<str>),
}

/// `Ctrl-C`, `SIGTERM`, or the name of the program.
impl fmt::Display for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keyboard => "Ctrl-C",
            Self::Signal => "SIGTERM",
            Self::Client(name) => name,
        })
    }
}

/// The form of an [`Interruption`] in a journal.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
enum Cause {
    CtrlC,
    Terminated,
    Cancelled { by: Arc<str> },
    Timeout,
}

impl From<Cause> for Interruption {
    fn from(cause: Cause) -> Self {
        let by = match cause {
            Cause::Timeout => return Self::Timeout,
            Cause::CtrlC => Canceller::Keyboard,
            Cause::Terminated => Canceller::Signal,
            Cause::Cancelled { by } => Canceller::Client(by),
        };
        Self::Cancelled { by }
    }
}

impl From<Interruption> for Cause {
    fn from(interruption: Interruption) -> Self {
        match interruption {
            Interruption::Timeout => Self::Timeout,
            Interruption::Cancelled { by } => match by {
                Canceller::Keyboard => Self::CtrlC,
                Canceller::Signal => Self::Terminated,
                Canceller::Client(by) => Self::Cancelled { by },
            },
        }
    }
}
