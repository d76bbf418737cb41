//! A batch: one run of an ensemble for each row of a table.
//!
//! The id of a row's run follows from what decides the run: the ensemble, its models, and what the row gives. A row that has ended is
//! not run again, a run that was cut goes on where it stopped, and the order of the rows does not matter.
//!
//! **Invariant:** the journals of the runs are the only record. Whatever else the folder of a batch holds is made from them.

mod drive;
mod entry;
mod row;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use ensemble_core::conversation::CompletionReason;
use ensemble_core::store::{RunId, StoreError};
use ensemble_language::data::digest_text;
use serde_json::json;

use crate::error::RunError;
use crate::options::arguments::parse_overrides;
use crate::prepare::PreparedEnsemble;
use crate::start::definitions::{DefinitionOptions, read_definitions};
use crate::start::runs::Runs;
use crate::store::files::BatchFiles;

pub use drive::{BatchEnd, BatchOptions, EngineRunOptions, RetriedRows, RowResult, RunEngine};
pub use entry::BatchEntry;
pub use row::{
    BatchRow, CellValue, ColumnMapping, INPUT, RowError, TableRow, parse_csv, parse_json_lines, resolve_rows,
    row_from_file,
};
pub use table::{MergedTable, TableLine, merge_results, to_csv, to_json_lines};

/// The rows of a batch, with what has come of them.
pub struct Batch {
    runs: Runs,
    prepared: Arc<PreparedEnsemble>,
    files: BatchFiles,
    rows: Vec<PlannedRow>,
}

/// A row with its place in the batch.
struct PlannedRow {
    /// The number of the row in the table, from 1.
    number: usize,
    row: BatchRow,
    id: RunId,
    entry: Option<BatchEntry>,
}

/// A part of the rows: those whose number leaves this remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchShard {
    part: usize,
    of: usize,
}

impl BatchShard {
    /// Returns whether the row with this number, from 1, is in this part.
    fn contains(self, number: usize) -> bool {
        (number - 1) % self.of == self.part - 1
    }
}

impl std::str::FromStr for BatchShard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = text.split_once('/').and_then(|(part, of)| {
            let (part, of) = (part.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&part).then_some(Self { part, of })
        });
        read.ok_or_else(|| "expected PART/PARTS, such as 3/8, with PART from 1 to PARTS".to_owned())
    }
}

impl fmt::Display for BatchShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

/// An error that prevents working on a batch.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// Another process works on it.
    #[error("another process ({owner}) works on the batch `{name}`")]
    Busy {
        /// The batch.
        name: String,
        /// The process, as the lock names it.
        owner: String,
    },
    /// A run, or the folder of the batch.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Batch {
    /// Opens the batch of that name with these rows, or with a part of them. `answers` is what the runs are given beside their rows.
    ///
    /// # Errors
    /// Another process works on the batch, its folder cannot be used, or a model override cannot be read.
    pub fn open(
        runs: &Runs,
        prepared: Arc<PreparedEnsemble>,
        name: &str,
        rows: Vec<BatchRow>,
        shard: Option<BatchShard>,
        decides: &BatchIdentity<'_>,
    ) -> Result<Self, BatchError> {
        let ids = row::build_run_ids(&identity_text(runs, &prepared, decides)?, &rows);
        let files = BatchFiles::open(&prepared.root, name).map_err(|error| match error {
            StoreError::Leased { owner, .. } => BatchError::Busy {
                name: name.to_owned(),
                owner,
            },
            other => BatchError::Run(other.into()),
        })?;
        let mut entries = parse_index(&files.read_index().map_err(RunError::from)?);
        let rows = (1..).zip(rows).zip(ids);
        let rows = rows.map(|((number, row), id)| PlannedRow {
            number,
            row,
            entry: entries.remove(id.as_str()),
            id,
        });
        let rows = rows.filter(|planned| shard.is_none_or(|shard| shard.contains(planned.number)));
        let store = Arc::new(files.run_store().clone());
        Ok(Self {
            runs: runs.clone().with_store(store),
            prepared,
            rows: rows.collect(),
            files,
        })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Are there no rows?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the ensemble.
    pub fn prepared_ensemble(&self) -> &Arc<PreparedEnsemble> {
        &self.prepared
    }

    /// Iterates over the results of the rows, in their order; `None` for those that have not ended.
    pub fn table_lines(&self) -> impl Iterator<Item = TableLine<'_>> {
        self.rows.iter().map(|planned| TableLine {
            number: planned.number,
            row: &planned.row,
            entry: planned.entry.as_ref(),
        })
    }

    /// Returns the number of rows by outcome, in order of precedence. Rows that have not ended are not counted.
    pub fn count_outcomes(&self) -> Vec<(CompletionReason, usize)> {
        let count = |reason| {
            let entries = self.rows.iter().filter_map(|planned| planned.entry.as_ref());
            entries.filter(|entry| entry.outcome == reason).count()
        };
        let all = CompletionReason::ALL.iter().map(|reason| (*reason, count(*reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the cost of the rows that have ended. Returns `None` if no cost is known.
    pub fn total_cost(&self) -> Option<f64> {
        let entries = self.rows.iter().filter_map(|planned| planned.entry.as_ref());
        entries
            .filter_map(BatchEntry::cost)
            .fold(None, |sum, cost| Some(sum.unwrap_or(0.0) + cost))
    }

    /// Writes the table of results into the folder of the batch, and returns its path.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_results(&self) -> Result<std::path::PathBuf, BatchError> {
        let text = to_json_lines(self.table_lines());
        self.files.replace_results(&text).map_err(RunError::from)?;
        Ok(self.files.results_path())
    }

    /// Returns the folder of the run of an entry.
    pub fn run_folder(&self, entry: &BatchEntry) -> std::path::PathBuf {
        self.files.run_store().runs_folder().join(&entry.run)
    }
}

/// The facts that decide all runs of a batch in addition to the text of the ensemble.
#[derive(Debug, Clone, Default)]
pub struct BatchIdentity<'a> {
    /// The overrides of models.
    pub models: &'a [String],
    /// The answers, in any form that is the same when they are.
    pub answers: String,
}

/// Returns a text that is the same if all runs of two batches have the same ensemble, answers and definitions.
fn identity_text(runs: &Runs, prepared: &PreparedEnsemble, decides: &BatchIdentity<'_>) -> Result<String, RunError> {
    let none = BTreeMap::new();
    let options = DefinitionOptions {
        overrides: &parse_overrides(decides.models)?,
        stubs: &none,
        responders: &none,
    };
    let definitions = read_definitions(prepared, options, runs.project());
    let parts = [
        prepared.source.text().to_string(),
        decides.answers.clone(),
        json!(definitions).to_string(),
    ];
    let digests: Vec<String> = parts.iter().map(|part| digest_text(part)).collect();
    Ok(digests.join(" "))
}

/// Returns the last entry of each row. Lines that cannot be read are left out: their runs are found by their ids.
fn parse_index(text: &str) -> HashMap<String, BatchEntry> {
    let entries = text
        .lines()
        .filter_map(|line| serde_json::from_str::<BatchEntry>(line).ok());
    entries.map(|entry| (entry.id.clone(), entry)).collect()
}
