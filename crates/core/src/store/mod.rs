//! The interface for storing runs, as the run layer uses it.
//!
//! A [`RunStore`] contains [`StoredRun`]s. A run has an id, the text of its ensemble, a log, and runs inside it. The
//! process that executes a run holds its [`Lease`]. Every store passes the same test suite, `contract` (feature `store-contract`).
//!
//! Invariant: no error of a store contains a path type; one process at a time drives a run.

#[cfg(any(test, feature = "store-contract"))]
pub mod contract;
mod id;
mod memory;
mod nested_name;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use crate::conversation::Record;
use crate::log::RunLog;
use crate::runner::BoxFuture;

pub use crate::log::LogReadError;
pub use id::{InvalidRunId, RunId, is_valid_run_name};
pub use memory::MemoryStore;
pub use nested_name::NestedRunName;

/// The data that a power failure may destroy. The end of the process alone destroys nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The data that the operating system has not written yet.
    None,
    /// At most the open turn.
    Turn,
    /// At most the data of the last instant: everything is written to the disk before the next execution starts.
    #[default]
    Commit,
}

/// Runs that are kept in one place.
pub trait RunStore: Send + Sync {
    /// Returns the place, in a form for messages: a folder, a database, "memory".
    fn describe_location(&self) -> String;

    /// Creates a run with this id and the text of its ensemble. The run has an empty log.
    ///
    /// # Errors
    /// [`StoreError::Exists`], or [`StoreError::InvalidId`] for an id that was created from another text.
    fn create_run<'a>(
        &'a self,
        id: &'a RunId,
        ensemble: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>>;

    /// Returns all runs with at least one record, in the order of their [ids](RunId), without runs inside other runs.
    fn list_runs(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn StoredRun>>, StoreError>>;

    /// Returns the run with this id, or the only run that this text [names](RunId::matches_prefix).
    fn find_run_by_prefix<'a>(&'a self, given: &'a str) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move { resolve_run_prefix(given, self.list_runs().await?, self.describe_location()) })
    }

    /// Returns the run with this id, also one inside other runs, or the only run whose id begins so. An id is never a path.
    fn find_run_by_id<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move {
            id.check_validity()?;
            let outermost = id.outermost_run_id();
            let run = resolve_run_prefix(outermost.as_str(), self.list_runs().await?, self.describe_location())?;
            find_nested_run_in(run, id, self.describe_location()).await
        })
    }

    /// Returns the run with the last id: the latest.
    fn find_latest_run(&self) -> BoxFuture<'_, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move {
            let last = self.list_runs().await?.pop();
            last.ok_or_else(|| StoreError::Empty {
                place: self.describe_location(),
            })
        })
    }
}

/// A run in a store.
pub trait StoredRun: Send + Sync {
    /// Returns the id of the run.
    fn id(&self) -> &RunId;

    /// Returns the folder in which the run is kept, if it is kept in files.
    fn run_folder(&self) -> Option<&Path> {
        None
    }

    /// Takes the right to execute the run, until the lease is dropped or the process ends.
    ///
    /// # Errors
    /// [`StoreError::Leased`]: another process executes the run.
    fn acquire_lease(&self) -> BoxFuture<'_, Result<Box<dyn RunLease>, StoreError>>;

    /// Returns the process id of the holder of the lease; `None` if there is no holder or the store does not know it.
    fn lease_holder_pid(&self) -> Option<u32> {
        None
    }

    /// Opens the log for appending at `end`; anything after that (an incomplete record) is dropped. The caller must
    /// hold the lease of the run, or of the run that contains it.
    fn open_log(&self, end: LogEnd, durability: Durability) -> BoxFuture<'_, Result<Box<dyn RunLog>, StoreError>>;

    /// Reads the log from its first record.
    fn open_reader(&self) -> BoxFuture<'_, Result<Box<dyn RunRecordReader>, LogReadError>>;

    /// Reads the log while another process may append to it.
    fn open_follower(&self) -> Box<dyn RunLogFollower>;

    /// Returns the text of the ensemble, as it was when the run was created.
    fn load_ensemble_text(&self) -> BoxFuture<'_, Result<String, StoreError>>;

    /// Creates a run inside this run. If a run with this name exists, it must not contain records.
    ///
    /// # Errors
    /// [`StoreError::InvalidId`]: a run cannot have this name, see [`is_run_name`].
    fn create_nested_run<'a>(
        &'a self,
        name: &'a str,
        ensemble: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>>;

    /// Returns the run with this name inside this run, if it was created.
    fn find_nested_run<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Arc<dyn StoredRun>>, StoreError>>;

    /// Returns the names of the runs inside this one, in order.
    fn list_nested_run_names(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;

    /// Deletes the run and all runs inside it. The caller must hold the lease.
    fn remove_run(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Reads all records.
    fn read_journal(&self) -> BoxFuture<'_, Result<JournalContents, LogReadError>> {
        Box::pin(async move {
            let mut reader = self.open_reader().await?;
            let mut records = Vec::new();
            while let Some(record) = reader.next_record().await? {
                records.push(record);
            }
            Ok(JournalContents {
                records,
                end: reader.position_after_read_records(),
                is_torn: reader.has_dropped_incomplete_record(),
            })
        })
    }
}

/// The right to execute a run. Dropping it gives the right back.
pub trait RunLease: Send + Sync {}

/// The position in a log at which the next record is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// The position, in the unit of the store: bytes for files, records for memory.
    pub position: u64,
}

impl LogEnd {
    /// The beginning of a new log.
    pub const NEW: Self = Self { position: 0 };
}

/// Reads the records of a log in order, each once.
pub trait RunRecordReader: Send {
    /// Returns the next record; `None` at the end. After an error there are no more records.
    fn next_record(&mut self) -> BoxFuture<'_, Result<Option<Record>, LogReadError>>;

    /// Returns the end of the records that were read.
    fn position_after_read_records(&self) -> LogEnd;

    /// Returns whether an incomplete last record was dropped.
    fn has_dropped_incomplete_record(&self) -> bool;
}

/// Reads a log while another process may append to it.
pub trait RunLogFollower: Send + Sync {
    /// Returns the records that were completed since the last call.
    fn poll_records(&mut self) -> BoxFuture<'_, Result<Vec<Record>, LogReadError>>;
}

/// The content of a log.
#[derive(Debug)]
pub struct JournalContents {
    /// All complete records, at least one.
    pub records: Vec<Record>,
    /// The end of the records.
    pub end: LogEnd,
    /// Whether an incomplete last record was dropped.
    pub is_torn: bool,
}

/// The reason why a run is not available.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no run with this id.
    #[error("there is no run `{id}` in {place}")]
    Unknown {
        /// The id or the beginning of an id.
        id: String,
        /// The place of the runs.
        place: String,
    },
    /// Several ids begin with this text.
    #[error("`{id}` matches several runs: {}", join_run_ids(candidates))]
    Ambiguous {
        /// The beginning of the ids.
        id: String,
        /// The ids.
        candidates: Vec<RunId>,
    },
    /// The store contains no run.
    #[error("there is no run in {place}")]
    Empty {
        /// The place where runs would be stored.
        place: String,
    },
    /// Another process executes the run.
    #[error("another process ({owner}) executes run {id}")]
    Leased {
        /// The run.
        id: RunId,
        /// The process, as the store knows it.
        owner: String,
    },
    /// There is already a run with this id.
    #[error("there is already a run `{0}`")]
    Exists(RunId),
    /// A run cannot have this id.
    #[error(transparent)]
    InvalidId(#[from] InvalidRunId),
    /// The store reported an error.
    #[error("cannot {action} {place}: {source}")]
    Unavailable {
        /// The action that failed: `read`, `create the folder`.
        action: &'static str,
        /// The object of the action.
        place: String,
        /// The reason.
        source: Box<dyn Error + Send + Sync>,
    },
}

fn join_run_ids(ids: &[RunId]) -> String {
    let ids: Vec<&str> = ids.iter().map(RunId::as_str).collect();
    ids.join(", ")
}

/// Returns the run with this id inside the outermost run around it, which may be this one.
///
/// # Errors
/// There is no such run inside.
pub async fn find_nested_run_in(
    outermost: Arc<dyn StoredRun>,
    id: &RunId,
    place: String,
) -> Result<Arc<dyn StoredRun>, StoreError> {
    let mut run = outermost;
    for name in id.nested_names() {
        let Some(inside) = run.find_nested_run(name).await? else {
            let id = id.to_string();
            return Err(StoreError::Unknown { id, place });
        };
        run = inside;
    }
    Ok(run)
}

/// Returns the run with this id, or the only run that this text [names](RunId::matches_prefix).
///
/// # Errors
/// There is no such run, or there are several.
pub fn resolve_run_prefix(
    given: &str,
    all: Vec<Arc<dyn StoredRun>>,
    place: String,
) -> Result<Arc<dyn StoredRun>, StoreError> {
    if let Some(exact) = all.iter().find(|run| run.id().as_str() == given) {
        return Ok(Arc::clone(exact));
    }
    let mut matching = all;
    matching.retain(|run| run.id().matches_prefix(given));
    match matching.len() {
        1 => Ok(matching.remove(0)),
        0 => Err(StoreError::Unknown {
            id: given.to_owned(),
            place,
        }),
        _ => Err(StoreError::Ambiguous {
            id: given.to_owned(),
            candidates: matching.iter().map(|run| run.id().clone()).collect(),
        }),
    }
}
