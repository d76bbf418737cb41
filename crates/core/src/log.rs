//! The log of a run, as the executor uses it: every event is appended to it before anything else uses the event.
//!
//! Invariant: an event whose append failed has not happened. The start of a turn with one agent and the start of its execution are appended
//! in one operation.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::conversation::{CompletionReason, IllegalRecord, Record};
use crate::runner::BoxFuture;
use crate::secrets::RedactionError;

/// Version of the journal's format, in the first record of every journal. No other version is read.
pub const JOURNAL_FORMAT: u32 = 1;

/// Log of one run, which receives every event before the event is applied to the state.
pub trait RunLog: Send {
    /// Appends the record. On an error the event has not happened.
    fn append<'a>(&'a mut self, record: &'a Record) -> LogFuture<'a>;

    /// Appends both records, in one operation if the log supports it.
    /// On an error neither event has happened, but the log may contain the first record.
    fn append_both<'a>(&'a mut self, first: &'a Record, second: &'a Record) -> LogFuture<'a> {
        LogFuture::boxed(async move {
            self.append(first).await?;
            self.append(second).await
        })
    }

    /// Makes all appended records as durable as the log promises at this point.
    fn sync(&mut self, point: SyncPoint) -> LogFuture<'_>;
}

/// Future of a log operation. Most operations have ended when the future is created, so they need no allocation.
pub enum LogFuture<'a> {
    /// The operation has ended. `None`: the result was taken.
    Ready(Option<Result<(), CommitError>>),
    /// The operation takes time.
    Boxed(BoxFuture<'a, Result<(), CommitError>>),
}

impl<'a> LogFuture<'a> {
    /// Creates a future with this result.
    pub fn ready(result: Result<(), CommitError>) -> Self {
        Self::Ready(Some(result))
    }

    /// Creates a future for an operation that takes time.
    pub fn boxed(operation: impl Future<Output = Result<(), CommitError>> + Send + 'a) -> Self {
        Self::Boxed(Box::pin(operation))
    }
}

impl Future for LogFuture<'_> {
    type Output = Result<(), CommitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Ready(result) => Poll::Ready(result.take().expect("a future is not polled after its end")),
            Self::Boxed(operation) => operation.as_mut().poll(context),
        }
    }
}

/// Point of a run at which the log must sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPoint {
    /// Before executions start, and after executions have ended.
    Commit,
    /// After a turn has finished, or after the run has ended.
    Turn,
}

/// Reason why an event was not committed.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The log cannot be written.
    #[error("cannot write the journal {place}: {source}")]
    Write {
        /// The place of the log, in a form for messages.
        place: String,
        /// The reason.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A replay has reached the end of an incomplete record.
    #[error("the record ends before turn {turn}")]
    EndOfRecord {
        /// The first turn that the record does not contain.
        turn: u32,
    },
    /// A replay cannot continue reading its record.
    #[error(transparent)]
    Record(#[from] LogReadError),
    /// The event may not follow in the present state, so it was not appended.
    #[error(transparent)]
    Illegal(#[from] IllegalRecord),
    /// The secrets of the event cannot be removed, so it was not appended.
    #[error(transparent)]
    Secrets(#[from] RedactionError),
    /// A decision of a replay differs from its record.
    #[error("the decision differs from the record in turn {}", .0.turn)]
    Diverged(Box<ReplayDivergence>),
}

/// Reason why a log cannot be read.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum LogReadError {
    /// The store reported an error.
    #[error("cannot read {place}: {source}")]
    Unavailable {
        /// The place that was read.
        place: String,
        /// The reason.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A record other than the last one is damaged.
    #[error("{place}:{line}: the journal is damaged: {error}")]
    Damaged {
        /// The log.
        place: String,
        /// The number of the line or record, from 1.
        line: u64,
        /// The error in the record.
        error: String,
    },
    /// The log contains no record.
    #[error("{place} contains no record")]
    Empty {
        /// The log.
        place: String,
    },
    /// The log has another format.
    #[error("{place}: journal format {format} is not supported; this program reads format {JOURNAL_FORMAT}")]
    Format {
        /// The log.
        place: String,
        /// The version of the log's format.
        format: u32,
    },
}

/// First decision of a replay that differs from the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayDivergence {
    /// The turn.
    pub turn: u32,
    /// The recorded decision.
    pub recorded: ReplayDecision,
    /// The new decision.
    pub decided: ReplayDecision,
}

/// Decision that a replay compares with the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayDecision {
    /// These agents run.
    Turn(BTreeSet<Arc<str>>),
    /// The run ends with this outcome; `None`: the record does not contain the outcome.
    End(Option<CompletionReason>),
}

impl ReplayDecision {
    /// Returns the agents that run. Returns no agents if the run ends.
    pub fn list_started_agents(&self) -> impl Iterator<Item = &Arc<str>> {
        let agents = match self {
            Self::Turn(agents) => Some(agents),
            Self::End(_) => None,
        };
        agents.into_iter().flatten()
    }
}

/// `writer, critic`, or `the run ends: completed`.
impl fmt::Display for ReplayDecision {
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

/// `{turn, recorded, decided}`, with the decisions as text.
impl Serialize for ReplayDivergence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Divergence", 3)?;
        fields.serialize_field("turn", &self.turn)?;
        fields.serialize_field("recorded", &self.recorded.to_string())?;
        fields.serialize_field("decided", &self.decided.to_string())?;
        fields.end()
    }
}
