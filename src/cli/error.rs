//! What can go wrong before or around a run, in words, with the exit code that follows.

use std::path::PathBuf;

use super::exit;
use ensemble_language::diagnostic::Diagnostic;
use ensemble_reports::report::diagnostics;
use ensemble_runs::journal::{LedgerError, ReadError, StoreError};

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The command line asks for something that cannot be.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do.
        help: Option<String>,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A text is wrong.
    #[error("{} findings", .0.len())]
    Invalid(Vec<Diagnostic>),
    /// The folder of runs.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A journal cannot be read.
    #[error(transparent)]
    Journal(#[from] ReadError),
    /// A journal cannot be written, so the run stopped.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The program's own machinery.
    #[error("{0}")]
    Internal(String),
}

impl CliError {
    /// A usage error.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            help: None,
        }
    }

    /// A usage error that says what to do.
    pub(super) fn usage_with_help(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            help: Some(help.into()),
        }
    }

    /// The exit code that follows.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } | Self::Unreadable { .. } | Self::Invalid(_) | Self::Journal(_) => exit::USAGE,
            Self::Store(StoreError::Unknown { .. } | StoreError::Ambiguous { .. } | StoreError::None(_)) => exit::USAGE,
            Self::Store(_) | Self::Ledger(_) | Self::Internal(_) => exit::FAILURE,
        }
    }

    /// As a person reads it.
    pub(super) fn render(&self, color: bool) -> String {
        if let Self::Invalid(findings) = self {
            return diagnostics::human(findings, color);
        }
        let (bold, reset) = if color { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
        let mut text = format!("{bold}error{reset}: {self}\n");
        if let Some(help) = self.help() {
            text.push_str(&format!("  help: {help}\n"));
        }
        text
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Usage { help, .. } => help.clone(),
            Self::Store(StoreError::Unknown { .. } | StoreError::Ambiguous { .. }) => {
                Some("`ensemble runs list` shows all".to_owned())
            }
            Self::Store(StoreError::None(_)) => Some("`ensemble run FILE` makes one".to_owned()),
            Self::Store(StoreError::Locked { .. }) => Some("wait for it to end, or stop it".to_owned()),
            Self::Ledger(LedgerError::Write { .. }) => {
                Some("the run has stopped; what was recorded stands, and `ensemble resume` goes on once the folder can be written".to_owned())
            }
            Self::Store(StoreError::Io { .. }) => {
                Some("a run is recorded in `.ensemble/runs` of the project; that folder must be writable".to_owned())
            }
            _ => None,
        }
    }
}
