//! The log of a run, as the executor sees it: every event goes there before anything acts on it.

use std::io;
use std::path::PathBuf;

use crate::conversation::Record;

/// Version of the journal's format, in the first record of every journal.
///
/// - 1: the first.
/// - 2: a field of more than [`LARGE`](crate::records::LARGE) bytes stands in a file beside the journal, under `blobs`. A program of format 1
///   would take such an output for an empty one.
pub const FORMAT: u32 = 2;

/// Where events go before they are applied.
pub trait Ledger {
    /// Takes the event; an error means that it has not happened.
    fn append(&mut self, record: &Record) -> Result<(), LedgerError>;
    /// Makes sure that everything appended so far survives what it has to survive.
    fn sync(&mut self, point: SyncPoint) -> Result<(), LedgerError>;
}

/// At which point of a run the ledger is asked to sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPoint {
    /// Before executions begin, and after some have ended.
    Commit,
    /// A turn has finished, or the run has ended.
    Turn,
}

/// Why an event could not be committed.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The journal could not be written.
    #[error("cannot write the journal {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A replay has come to the end of a record that was cut.
    #[error("the record ends before turn {turn}")]
    EndOfRecord {
        /// The turn that the record knows nothing of.
        turn: u32,
    },
    /// A replay cannot read its record any further.
    #[error(transparent)]
    Record(Box<dyn std::error::Error + Send + Sync>),
    /// A replay decides differently from its record.
    #[error("the decision differs from the record in turn {}", .0.turn)]
    Diverged(Box<Divergence>),
}

/// The first decision of a replay that differs from the record.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Divergence {
    /// The turn.
    pub turn: u32,
    /// What the record says.
    pub recorded: String,
    /// What was decided now.
    pub decided: String,
}
