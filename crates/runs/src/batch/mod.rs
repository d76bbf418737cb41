//! A batch: one run of an ensemble for each row of a table.
//!
//! The id of a row's run is computed from everything that decides the result of the run: the ensemble, its models, and the values of the
//! row. An ended row is not run again, an interrupted run is resumed, and the order of the rows does not matter.
//!
//! **Invariants:** the journals of the runs are the only record. All other files in the folder of a batch are computed from them. A row is
//! exported only as a [`TableLine`], which contains no secrets.

mod answers;
mod csv_table;
mod drive;
mod entry;
mod exact_numbers;
mod facts;
mod forecast;
mod identity;
mod json_lines;
mod report;
mod row;
mod row_place;
mod row_task;
mod summary;
mod table;
mod tries;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_agents::agent::kinds::input::PreparedAnswers;
use ensemble_core::conversation::CompletionReason;
use ensemble_core::executor::WallClock;
use ensemble_core::secrets::Secrets;
use ensemble_core::store::StoreError;
use ensemble_language::data::Cost;

use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::prepare::PreparedEnsemble;
use crate::service::answer_checks::check_and_resolve_answers;
use crate::start::runs::Runs;
use crate::store::files::BatchFiles;
use answers::RowDirectory;
use facts::LastBatchCall;
use identity::{BatchVersion, VersionParts, build_row_keys};
use tries::{BatchIndexRecords, RowTries, sum_costs};

pub use answers::{RowAnswer, RowAnswers, parse_answer_table};
pub use csv_table::parse_csv;
pub use drive::{BatchOptions, BatchRunEngine, BatchWorkEnd, EngineRunOptions, RowReport};
pub use entry::{BatchEntry, ExhaustedRowPolicy, RowStatus};
pub use json_lines::{DecodedTable, decode_table, parse_json_lines};
pub use report::{RowCauseGroup, RowStatusCounts, group_failures, group_open_work};
pub use row::{
    BatchRow, CellValue, ColumnMapping, INPUT_COLUMN, LABEL_COLUMN, ParsedTable, TableRow, resolve_rows,
    table_row_from_file,
};
pub use row_place::{RowError, RowPlace};
pub use row_task::{RetriedRows, RowTask, RowTaskGroup};
pub use summary::{BatchSummary, FoundRow, find_batch, index_run_end, list_batches, remove_idle_batch};
pub use table::{MergedResults, TableLine, json_lines_to_csv, merge_results, to_json_lines};
pub use tries::TriesTotals;

/// The rows of a batch with their results, and the files of the batch.
pub struct Batch {
    runs: Runs,
    prepared: Arc<PreparedEnsemble>,
    files: BatchFiles,
    version: BatchVersion,
    /// The versions of earlier calls.
    earlier_versions: BTreeMap<String, VersionParts>,
    rows: Vec<PlannedRow>,
    retry: Vec<RetriedRows>,
    limits: ExhaustedRowPolicy,
    answers: PreparedAnswers,
    decides_tools: bool,
    /// The texts that no file and no message of the batch contains.
    secrets: Secrets,
    /// The rows whose runs other processes execute.
    busy: Vec<(usize, String)>,
}

/// A row with its number, key, answers and tries.
struct PlannedRow {
    /// The number of the row in the table, from 1.
    number: usize,
    row: BatchRow,
    key: String,
    answers: RowAnswers,
    tries: RowTries,
}

/// The request to work on a batch: rows, and options that decide which rows run.
#[derive(Debug, Default)]
pub struct BatchRequest<'a> {
    /// The name.
    pub name: &'a str,
    /// The data, in a form for messages.
    pub data: String,
    /// All rows.
    pub rows: Vec<BatchRow>,
    /// The share of the rows to work on. `None` means all rows.
    pub shard: Option<BatchShard>,
    /// The overrides of models.
    pub models: &'a [String],
    /// The rows that run again although their runs have ended.
    pub retry: Vec<RetriedRows>,
    /// The meaning of a success with exhausted agents.
    pub limits: ExhaustedRowPolicy,
    /// The answers for all rows.
    pub answers: PreparedAnswers,
    /// The answers for single rows.
    pub row_answers: Vec<RowAnswer>,
    /// True if the options allow or deny tools.
    pub decides_tools: bool,
}

/// A share of the rows of a table, for one of several processes: part `part` of `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchShard {
    part: usize,
    of: usize,
}

impl BatchShard {
    /// Returns whether the row with this number, from 1, belongs to the share.
    fn contains_row(self, number: usize) -> bool {
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

/// An error that prevents work on a batch.
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
    /// Answers do not fit their rows.
    #[error("{}", .0.iter().map(RowError::to_string).collect::<Vec<_>>().join("\n"))]
    Answers(Vec<RowError>),
    /// A run, or the folder of the batch.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<StoreError> for BatchError {
    fn from(error: StoreError) -> Self {
        Self::Run(error.into())
    }
}

impl Batch {
    /// Opens the batch to run its rows: takes the lock, writes the facts of this call, and completes the index.
    ///
    /// # Errors
    ///
    /// Another process works on the batch, its folder cannot be used, a model override is invalid, or an answer names no row.
    pub async fn open_for_work(
        runs: &Runs,
        prepared: Arc<PreparedEnsemble>,
        request: BatchRequest<'_>,
    ) -> Result<Self, BatchError> {
        let (data, models) = (request.data.clone(), request.models.to_vec());
        let root = prepared.root.clone();
        let batch = Self::load_with_files(runs, prepared, request, |name| open_files_for_work(&root, name)).await?;
        batch.write_call_record(data, models)?;
        for planned in batch.rows.iter().filter(|planned| planned.tries.is_unindexed) {
            if let Some(entry) = &planned.tries.entry {
                batch.append_entry(entry)?;
            }
        }
        Ok(batch)
    }

    /// Opens the batch without writing and without a lock. Another process can work on the batch meanwhile.
    ///
    /// # Errors
    ///
    /// The folder cannot be read, a model override is invalid, or an answer names no row.
    pub async fn open_read_only(
        runs: &Runs,
        prepared: Arc<PreparedEnsemble>,
        request: BatchRequest<'_>,
    ) -> Result<Self, BatchError> {
        let root = prepared.root.clone();
        let open_files = |name: &str| BatchFiles::open_read_only(&root, name).map_err(BatchError::from);
        Self::load_with_files(runs, prepared, request, open_files).await
    }

    /// Loads the batch: assigns the answers to rows, and reads the recorded tries of each row. `open_files` opens the folder.
    async fn load_with_files(
        runs: &Runs,
        prepared: Arc<PreparedEnsemble>,
        request: BatchRequest<'_>,
        open_files: impl FnOnce(&str) -> Result<BatchFiles, BatchError>,
    ) -> Result<Self, BatchError> {
        let version = BatchVersion::compute(runs, &prepared, request.models)?;
        let keys = build_row_keys(&request.rows);
        let directory = RowDirectory::for_table(&keys, &request.rows);
        let answers = directory.assign_answers(request.row_answers);
        let secrets = runs.collect_secrets(&prepared)?;
        let refuse = |wrong| BatchError::Answers(redact_errors(wrong, &secrets));
        let mut answers = answers.map_err(refuse)?.into_iter();
        let files = open_files(request.name)?;
        let records = BatchIndexRecords::load(&files)?;
        let mut rows = Vec::with_capacity(request.rows.len());
        for ((number, row), key) in (1..).zip(request.rows).zip(keys) {
            let answers = answers.next().unwrap_or_default();
            if request.shard.is_some_and(|shard| !shard.contains_row(number)) {
                continue;
            }
            let identity = (key.as_str(), version.digest.as_str());
            let tries = records.load_row_tries(identity, &files, runs.project()).await?;
            rows.push(PlannedRow {
                number,
                row,
                key,
                answers,
                tries,
            });
        }
        let store = Arc::new(files.run_store().clone());
        Ok(Self {
            runs: runs.clone().with_store(store),
            prepared,
            earlier_versions: LastBatchCall::parse(&files.read_last_call()?)
                .unwrap_or_default()
                .versions,
            files,
            version,
            rows,
            retry: request.retry,
            limits: request.limits,
            answers: request.answers,
            decides_tools: request.decides_tools,
            secrets,
            busy: Vec::new(),
        })
    }

    /// Writes the facts of this call, with the versions of all earlier calls.
    fn write_call_record(&self, data: String, models: Vec<String>) -> Result<(), BatchError> {
        let mut versions = self.earlier_versions.clone();
        versions.insert(self.version.digest.clone(), self.version.parts.clone());
        let ensemble = self.prepared.plan.ensemble();
        let facts = LastBatchCall {
            version: 1,
            ensemble: ensemble.name.to_string(),
            data,
            models,
            started_at: self.runs.host().now(),
            current: self.version.digest.clone(),
            rows: self
                .rows
                .iter()
                .map(|planned| (planned.number, planned.key.clone()))
                .collect(),
            labels: self.list_secretless_labels(),
            exhausted_rows: self.limits,
            versions,
        };
        Ok(self.files.replace_last_call(&facts.to_json_text())?)
    }

    /// Lists the labels that contain no secret, by the numbers of the rows.
    fn list_secretless_labels(&self) -> BTreeMap<usize, String> {
        let labels = self
            .rows
            .iter()
            .filter_map(|planned| Some((planned.number, planned.row.label.as_deref()?)));
        labels
            .filter(|(_, label)| self.secrets.redact(*label) == *label)
            .map(|(number, label)| (number, label.to_owned()))
            .collect()
    }

    /// Checks the answers of all rows that are to run, before the first row runs.
    ///
    /// # Errors
    ///
    /// All answers that their questions cannot take, and answers for agents that do not ask.
    pub fn check_answers(&self, options: impl Fn() -> Result<RunOptions, RunError>) -> Result<(), BatchError> {
        let mut wrong = Vec::new();
        let mut checked = HashSet::new();
        for planned in &self.rows {
            let task = self.decide_row_task(planned);
            // A row that waits although it has answers: perhaps they name no agent.
            if !task.is_executed() && task != RowTask::Wait {
                continue;
            }
            let mut refuse = |what: String| {
                let place = planned.row.place.clone();
                wrong.push(RowError { place, what });
            };
            // The options are read from files, so not for rows without answers.
            let read_options = || -> Result<RunOptions, RunError> {
                let mut row_options = options()?;
                row_options.answers = planned.answers.with_common_answers(&self.answers);
                Ok(row_options)
            };
            if let (RowTask::Answer, Some(entry)) = (&task, &planned.tries.entry) {
                let mut row_options = read_options()?;
                let no_records = std::iter::empty::<&ensemble_core::conversation::Record>();
                if let Err(refusal) = check_and_resolve_answers(&mut row_options, &entry.questions, no_records, false) {
                    refuse(refusal.to_string());
                }
            } else if !planned.answers.is_empty() && checked.insert(planned.answers.to_comparison_text()) {
                let mut row_options = read_options()?;
                row_options.input = planned.row.input.clone();
                row_options.context = planned.row.values.clone();
                row_options.texts = planned.row.texts.clone();
                if let Err(error) = self.runs.prepare_run_from_prepared(self.prepared.clone(), row_options) {
                    refuse(error.to_string());
                }
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(BatchError::Answers(redact_errors(wrong, &self.secrets)))
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether the batch has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the ensemble of the batch.
    pub fn prepared_ensemble(&self) -> &Arc<PreparedEnsemble> {
        &self.prepared
    }

    /// Returns the process id of the process that works on the batch, if there is one.
    pub fn working_process_id(&self) -> Option<u32> {
        self.files.working_process_id()
    }

    /// Returns the rows that other processes execute: the number of each row, and the error with the owner.
    pub fn busy_rows(&self) -> &[(usize, String)] {
        &self.busy
    }

    /// Iterates over all rows with their results, in the order of the table, without secrets. Rows that have not ended have no entry.
    pub fn table_lines(&self) -> impl Iterator<Item = TableLine<'_>> {
        self.rows
            .iter()
            .map(|planned| planned.redacted_table_line(&self.secrets, self.limits))
    }

    /// Renders the open questions as a CSV table in which an operator can fill in the answers.
    ///
    /// # Errors
    /// The table cannot be written.
    pub fn questions_to_csv(&self) -> std::io::Result<String> {
        let lines = self.rows.iter().map(|planned| {
            (
                planned.redacted_table_line(&self.secrets, self.limits),
                &planned.answers,
            )
        });
        answers::questions_to_csv(lines, &self.secrets)
    }

    /// Counts the ended rows by outcome, in order of precedence. Omits outcomes without rows.
    pub fn count_rows_by_outcome(&self) -> Vec<(CompletionReason, usize)> {
        let count = |reason| {
            let entries = self.rows.iter().filter_map(|planned| planned.tries.entry.as_ref());
            entries.filter(|entry| entry.outcome == reason).count()
        };
        let all = CompletionReason::ALL.iter().map(|reason| (*reason, count(*reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Counts the rows by their status in the report.
    pub fn count_rows_by_status(&self) -> RowStatusCounts {
        let entries = self.rows.iter().map(|planned| planned.tries.entry.as_ref());
        RowStatusCounts::from_entries(entries, self.limits)
    }

    /// Returns the cost of all tries of all rows, including earlier calls. Returns `None` if no cost is known.
    pub fn total_cost(&self) -> Option<Cost> {
        sum_costs(self.rows.iter().filter_map(|planned| planned.tries.known_cost()))
    }

    /// Counts the rows that used models without a known price.
    pub fn count_unpriced_rows(&self) -> usize {
        let entries = self.rows.iter().filter_map(|planned| planned.tries.entry.as_ref());
        entries.filter(|entry| entry.is_unpriced()).count()
    }

    /// Writes the table of results into the folder of the batch, and returns its path.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write_results(&self) -> Result<PathBuf, BatchError> {
        let text = to_json_lines(self.table_lines());
        self.files.replace_results(&text).map_err(RunError::from)?;
        Ok(self.files.results_file_path())
    }

    /// Returns the folder of a run of this batch. `run` is the id of the run.
    pub fn run_folder(&self, run: &str) -> PathBuf {
        self.files.run_store().runs_folder().join(run)
    }

    /// Appends the entry to the index of the batch.
    fn append_entry(&self, entry: &BatchEntry) -> Result<(), RunError> {
        append_entry_to_index(&self.files, entry)
    }
}

/// Redacts the secrets in the messages of the errors.
pub fn redact_errors(wrong: Vec<RowError>, secrets: &Secrets) -> Vec<RowError> {
    let redact = |error: RowError| RowError {
        what: secrets.redact(error.what).into_owned(),
        ..error
    };
    wrong.into_iter().map(redact).collect()
}

/// Appends the entry to the index of the batch as a JSON line.
fn append_entry_to_index(files: &BatchFiles, entry: &BatchEntry) -> Result<(), RunError> {
    let line = serde_json::to_string(entry).unwrap_or_default();
    Ok(files.append_index_line(&line)?)
}

/// Opens and locks the folder of a batch.
///
/// # Errors
///
/// Another process works on the batch, or the folder cannot be used.
fn open_files_for_work(project_root: &Path, name: &str) -> Result<BatchFiles, BatchError> {
    BatchFiles::open_locked(project_root, name).map_err(|error| match error {
        StoreError::Leased { owner, .. } => BatchError::Busy {
            name: name.to_owned(),
            owner,
        },
        other => other.into(),
    })
}

impl PlannedRow {
    /// Returns the row with its result as a line of the table of results, without secrets.
    fn redacted_table_line(&self, secrets: &Secrets, limits: ExhaustedRowPolicy) -> TableLine<'_> {
        TableLine {
            number: self.number,
            row: self.row.redact(secrets),
            entry: self.tries.entry.as_ref(),
            tries: Some(&self.tries)
                .filter(|tries| tries.earlier_count > 0)
                .map(RowTries::totals),
            limits,
        }
    }
}
