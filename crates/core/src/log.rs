//! The log of a run, as the executor sees it: every event goes there before anything acts on it.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::conversation::{CompletionReason, Record};
use crate::runner::BoxFuture;

/// Version of the journal's format, in the first record of every journal.
///
/// - 1: the first.
/// - 2: a field of more than [`LARGE`](crate::records::LARGE) bytes is stored beside the journal. A program of format 1
///   would read such an output as an empty one.
pub const FORMAT: u32 = 2;

/// Takes the events of one run before they are applied to the state.
pub trait RunLog: Send {
    /// Appends the record. An error means that the event has not happened.
    fn append<'a>(&'a mut self, record: &'a Record) -> BoxFuture<'a, Result<(), CommitError>>;

    /// Makes sure that everything that was appended survives what the log's durability says it survives.
    fn sync(&mut self, point: SyncPoint) -> BoxFuture<'_, Result<(), CommitError>>;
}

/// At which point of a run the log is asked to sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPoint {
    /// Before executions begin, and after some have ended.
    Commit,
    /// A turn has finished, or the run has ended.
    Turn,
}

/// Why an event was not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The log cannot be written.
    #[error("cannot write the journal {place}: {source}")]
    Write {
        /// Where the log is kept, as a person would name it.
        place: String,
        /// Why it cannot be written.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A replay has reached the end of a record that was cut.
    #[error("the record ends before turn {turn}")]
    EndOfRecord {
        /// The first turn that the record does not hold.
        turn: u32,
    },
    /// A replay cannot read its record any further.
    #[error(transparent)]
    Record(#[from] ReadError),
    /// A replay decides differently from its record.
    #[error("the decision differs from the record in turn {}", .0.turn)]
    Diverged(Box<Divergence>),
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store itself fails.
    #[error("cannot read {place}: {source}")]
    Unavailable {
        /// What was to be read.
        place: String,
        /// Why it cannot be read.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A record that is not the last is damaged.
    #[error("{place}:{line}: the journal is damaged: {error}")]
    Damaged {
        /// The log.
        place: String,
        /// The line or record, from 1.
        line: u64,
        /// What is wrong with it.
        error: String,
    },
    /// The log holds no record.
    #[error("{place} holds no record")]
    Empty {
        /// The log.
        place: String,
    },
    /// A later version of the program wrote the log.
    #[error("{place} has format {format}, and this version reads up to {FORMAT}: use a later version of ensemble")]
    Format {
        /// The log.
        place: String,
        /// The version of its format.
        format: u32,
    },
}

/// The first decision of a replay that differs from the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The turn.
    pub turn: u32,
    /// What the record says.
    pub recorded: Decided,
    /// What was decided now.
    pub decided: Decided,
}

/// A decision that a replay compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// These agents run.
    Turn(BTreeSet<Arc<str>>),
    /// The run ends; `None`: the record does not say why.
    End(Option<CompletionReason>),
}

impl Decided {
    /// The agents that run; none at the end of a run.
    pub fn agents(&self) -> impl Iterator<Item = &Arc<str>> {
        let agents = match self {
            Self::Turn(agents) => Some(agents),
            Self::End(_) => None,
        };
        agents.into_iter().flatten()
    }
}

/// `writer, critic`, or `the run ends: completed`.
impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn(agents) => {
                for (at, agent) in agents.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    f.write_str(agent)?;
                }
                Ok(())
            }
            Self::End(Some(reason)) => write!(f, "the run ends: {reason}"),
            Self::End(None) => f.write_str("the run ends"),
        }
    }
}

/// `{turn, recorded, decided}`, the decisions as texts.
impl Serialize for Divergence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Divergence", 3)?;
        fields.serialize_field("turn", &self.turn)?;
        fields.serialize_field("recorded", &self.recorded.to_string())?;
        fields.serialize_field("decided", &self.decided.to_string())?;
        fields.end()
    }
}
