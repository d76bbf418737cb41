//! The interface for storing runs, as the run layer uses it.
//!
//! A [`RunStore`] contains [`StoredRun`]s. A run has an id, the text of its ensemble, a log, and runs inside it. The
//! process that executes a run holds its [`RunLease`]. Every store passes the same test suite, `contract` (feature `store-contract`).
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

/// Guarantee of a log about data that a power failure can destroy. The end of the process alone destroys nothing.
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

/// Store of runs in one place.
pub trait RunStore: Send + Sync {
    /// Returns the location of the runs for messages: a folder, a database, `memory`.
    fn describe_location(&self) -> String;

    /// Creates a run with this id, the text of its ensemble, and an empty log.
    ///
    /// # Errors
    /// [`StoreError::Exists`], or [`StoreError::InvalidId`] for an id that was created from another text.
    fn create_run<'a>(
        &'a self,
        id: &'a RunId,
        ensemble: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>>;

    /// Returns all outermost runs with at least one record, sorted by their [ids](RunId).
    fn list_runs(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn StoredRun>>, StoreError>>;

    /// Returns the run with this id, or the only run whose id starts with this text.
    ///
    /// # Errors
    /// No run or several runs match.
    fn find_run_by_prefix<'a>(&'a self, given: &'a str) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move { resolve_run_prefix(given, self.list_runs().await?, self.describe_location()) })
    }

    /// Returns the run with this id, also a nested run. An outermost run is also found by a unique beginning of the id.
    fn find_run_by_id<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move {
            id.check_validity()?;
            let outermost = id.outermost_run_id();
            let run = resolve_run_prefix(outermost.as_str(), self.list_runs().await?, self.describe_location())?;
            find_nested_run_in(run, id, self.describe_location()).await
        })
    }

    /// Returns the run with the last id, which is the latest run.
    fn find_latest_run(&self) -> BoxFuture<'_, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move {
            let last = self.list_runs().await?.pop();
            last.ok_or_else(|| StoreError::Empty {
                place: self.describe_location(),
            })
        })
    }
}

/// Run in a store.
pub trait StoredRun: Send + Sync {
    /// Returns the id of the run.
    fn id(&self) -> &RunId;

    /// Returns the folder of the run, if the store uses files.
    fn run_folder(&self) -> Option<&Path> {
        None
    }

    /// Acquires the right to execute the run, until the lease is dropped or the process ends.
    ///
    /// # Errors
    /// [`StoreError::Leased`]: another process executes the run.
    fn acquire_lease(&self) -> BoxFuture<'_, Result<Box<dyn RunLease>, StoreError>>;

    /// Returns the process id of the holder of the lease. Returns `None` without a holder, or if the store does not record the process.
    fn lease_holder_pid(&self) -> Option<u32> {
        None
    }

    /// Opens the log for appending at `end`. Removes later data, such as an incomplete record. The caller must hold the lease.
    fn open_log(&self, end: LogEnd, durability: Durability) -> BoxFuture<'_, Result<Box<dyn RunLog>, StoreError>>;

    /// Opens the log for reading from its first record.
    fn open_reader(&self) -> BoxFuture<'_, Result<Box<dyn RunRecordReader>, LogReadError>>;

    /// Opens the log for reading while another process appends to it.
    fn open_follower(&self) -> Box<dyn RunLogFollower>;

    /// Loads the text of the ensemble at the creation of the run.
    fn load_ensemble_text(&self) -> BoxFuture<'_, Result<String, StoreError>>;

    /// Creates a nested run. A run with this name may exist if it has no records.
    ///
    /// # Errors
    /// [`StoreError::InvalidId`]: a run cannot have this name.
    fn create_nested_run<'a>(
        &'a self,
        name: &'a str,
        ensemble: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>>;

    /// Returns the nested run with this name. Returns `None` if it was not created.
    fn find_nested_run<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Arc<dyn StoredRun>>, StoreError>>;

    /// Returns the names of the directly nested runs, sorted.
    fn list_nested_run_names(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;

    /// Deletes the run and all nested runs. The caller must hold the lease.
    fn remove_run(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Reads all records into memory.
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

/// Right to execute a run. Dropping the lease releases the right.
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

/// Reader of the records of a log, in order and each once.
pub trait RunRecordReader: Send {
    /// Returns the next record. Returns `None` at the end and after an error.
    fn next_record(&mut self) -> BoxFuture<'_, Result<Option<Record>, LogReadError>>;

    /// Returns the position in the log after the records that were read.
    fn position_after_read_records(&self) -> LogEnd;

    /// Returns whether an incomplete last record was dropped.
    fn has_dropped_incomplete_record(&self) -> bool;
}

/// Reader of a log to which another process can append.
pub trait RunLogFollower: Send + Sync {
    /// Reads the records that were completed since the last call, without waiting.
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
#[non_exhaustive]
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

/// Joins the ids with commas.
fn join_run_ids(ids: &[RunId]) -> String {
    let ids: Vec<&str> = ids.iter().map(RunId::as_str).collect();
    ids.join(", ")
}

/// Returns the run with this id inside the outermost run, which can be the outermost run itself.
///
/// # Errors
/// The run does not exist.
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

/// Returns the run with this id, or the only run whose id starts with this text.
///
/// # Errors
/// No run or several runs match.
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
