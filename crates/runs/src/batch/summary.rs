//! The batches of a project, for lists, loaded from their indexes and last calls without reading journals.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use ensemble_core::conversation::ConversationState;
use ensemble_core::store::{RunId, StoreError};
use ensemble_language::data::Cost;
use serde_json::{Value, json};

use super::answers::{DirectoryEntry, RowDirectory};
use super::entry::ExhaustedRowPolicy;
use super::facts::LastBatchCall;
use super::identity::{BatchVersion, RowRunName, VersionParts, format_row_run_id, list_changed_parts};
use super::report::describe_short_cause;
use super::tries::{parse_index_lines, sum_costs};
use super::{BatchEntry, BatchError, RowStatus, RowStatusCounts, append_entry_to_index, open_files_for_work};
use crate::error::RunError;
use crate::prepare::PreparedEnsemble;
use crate::start::runs::Runs;
use crate::store::files::BatchFiles;

/// A batch in a list of batches, loaded from its index and its last call.
pub struct BatchSummary {
    /// The name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// The name of the ensemble of the last call.
    pub ensemble: String,
    /// The data of the last call.
    pub data: String,
    /// The start of the last call. `None` if the start is unknown.
    pub started_at: Option<DateTime<Utc>>,
    /// The process that works on the batch.
    pub process: Option<u32>,
    /// The rows of the last call, by their standing.
    pub counts: RowStatusCounts,
    /// The meaning of a success with exhausted agents in the last call.
    pub limits: ExhaustedRowPolicy,
    /// What all tries of these rows have cost, as far as it is known.
    pub cost: Option<Cost>,
    /// The rows of the last call.
    rows: Vec<SummaryRow>,
    /// The overrides of models of the last call.
    models: Vec<String>,
    /// The parts of the version of the last call. `None` if the parts are unknown.
    parts: Option<VersionParts>,
}

/// A row that was found in a batch.
pub struct FoundRow<'b> {
    /// The number of the row in the table, from 1.
    pub number: usize,
    /// The label of the row. `None` if the table has no column with labels.
    pub label: Option<&'b str>,
    /// The folder of the latest run that is known.
    pub folder: PathBuf,
    /// The result of this run. `None` if the run has not ended.
    pub entry: Option<&'b BatchEntry>,
}

/// A row of a batch summary, with the latest entry of its run.
struct SummaryRow {
    /// The number of the row in the table, from 1.
    number: usize,
    key: String,
    label: Option<String>,
    /// The id of the latest run that is known.
    run: String,
    /// The result of this run.
    entry: Option<BatchEntry>,
}

/// Lists the batches of the project, sorted by name.
///
/// # Errors
/// The folder of the batches, or one of them, cannot be read.
pub fn list_batches(project_root: &Path) -> Result<Vec<BatchSummary>, StoreError> {
    let names = BatchFiles::list_batch_names(project_root)?.into_iter();
    names.map(|name| BatchSummary::load(project_root, &name)).collect()
}

/// Loads the batch of this name. Returns `None` if the project has no such batch.
///
/// # Errors
///
/// The folder of the batches, or the batch, cannot be read.
pub fn find_batch(project_root: &Path, name: &str) -> Result<Option<BatchSummary>, StoreError> {
    let is_known = BatchFiles::list_batch_names(project_root)?
        .iter()
        .any(|known| known == name);
    is_known.then(|| BatchSummary::load(project_root, name)).transpose()
}

/// Deletes the batch with all its runs.
///
/// # Errors
///
/// A process works on the batch or executes one of its runs, or the folder cannot be deleted.
pub fn remove_idle_batch(project_root: &Path, name: &str) -> Result<(), BatchError> {
    let files = open_files_for_work(project_root, name)?;
    for run in files.list_run_names() {
        if let Some(process) = files.find_run(&run).and_then(|run| run.lease_holder_pid()) {
            return Err(BatchError::Busy {
                name: name.to_owned(),
                owner: format!("pid {process}"),
            });
        }
    }
    Ok(files.remove_batch()?)
}

/// Appends the end of a run to the index of its batch. Does nothing if the run belongs to no batch or the batch is locked.
///
/// # Errors
///
/// The index cannot be written.
pub fn index_run_end(run_folder: &Path, state: &ConversationState) -> Result<(), BatchError> {
    let Some((project_root, name, run)) = parse_batch_run_folder(run_folder) else {
        return Ok(());
    };
    let (Some(row), Ok(())) = (RowRunName::parse(run), RunId::new(name).check_validity()) else {
        return Ok(());
    };
    let Some(entry) = BatchEntry::from_ended_run(row.key, run, state) else {
        return Ok(());
    };
    match open_files_for_work(project_root, name) {
        Err(BatchError::Busy { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(files) => append_entry_to_index(&files, &entry).map_err(Into::into),
    }
}

/// Returns the project folder, the batch name and the run id of the folder of a run. Returns `None` if the run is not in a batch.
fn parse_batch_run_folder(folder: &Path) -> Option<(&Path, &str, &str)> {
    let runs = folder.parent()?;
    let batch = runs.parent()?;
    let is_batch = runs.ends_with("runs") && batch.parent()?.ends_with(".ensemble/batches");
    is_batch.then_some((
        folder.ancestors().nth(5)?,
        batch.file_name()?.to_str()?,
        folder.file_name()?.to_str()?,
    ))
}

impl BatchSummary {
    /// Loads the batch of this name.
    ///
    /// # Errors
    ///
    /// The files of the batch cannot be read.
    pub fn load(project_root: &Path, name: &str) -> Result<Self, StoreError> {
        let files = BatchFiles::open_read_only(project_root, name)?;
        let facts = LastBatchCall::parse(&files.read_last_call()?).unwrap_or_default();
        let index = files.read_index()?;
        // The last line of each run, by row; the runs in the order of their first lines.
        let mut tries: HashMap<String, Vec<BatchEntry>> = HashMap::new();
        for entry in parse_index_lines(&index) {
            let of_row = tries.entry(entry.id.clone()).or_default();
            match of_row.iter_mut().find(|known| known.run == entry.run) {
                Some(known) => *known = entry,
                None => of_row.push(entry),
            }
        }
        let mut costs = Vec::new();
        let mut rows = Vec::with_capacity(facts.rows.len());
        let mut labels = facts.labels;
        for (number, key) in facts.rows {
            let mut tries = tries.remove(&key).unwrap_or_default();
            costs.extend(tries.iter().filter_map(BatchEntry::cost));
            tries.retain(|entry| RowRunName::parse(&entry.run).is_some_and(|run| run.version == facts.current));
            let latest = tries
                .into_iter()
                .max_by_key(|entry| RowRunName::parse(&entry.run).map(|run| run.number));
            let run = latest.as_ref().map_or_else(
                || format_row_run_id(&key, &facts.current, 1).to_string(),
                |entry| entry.run.clone(),
            );
            rows.push(SummaryRow {
                number,
                label: labels.remove(&number),
                key,
                run,
                entry: latest,
            });
        }
        Ok(Self {
            name: name.to_owned(),
            folder: files.folder(),
            started_at: Some(facts.started_at).filter(|_| facts.version > 0),
            ensemble: facts.ensemble,
            data: facts.data,
            process: files.working_process_id(),
            counts: RowStatusCounts::from_entries(rows.iter().map(|row| row.entry.as_ref()), facts.exhausted_rows),
            limits: facts.exhausted_rows,
            cost: sum_costs(costs.into_iter()),
            rows,
            models: facts.models,
            parts: facts.versions.get(&facts.current).cloned(),
        })
    }

    /// Returns whether rows can continue: rows that wait for an answer, reached a time limit, or have not ended.
    pub fn has_resumable_rows(&self) -> bool {
        let mut entries = self.rows.iter().map(|row| row.entry.as_ref());
        entries.any(|entry| entry.is_none_or(|entry| entry.outcome.is_resumable()))
    }

    /// Lists the folders of the runs of all rows, each with the number of its row.
    pub fn list_run_folders(&self) -> impl Iterator<Item = (usize, PathBuf)> {
        let runs = self.folder.join("runs");
        self.rows.iter().map(move |row| (row.number, runs.join(&row.run)))
    }

    /// Finds a row by the id of its run, by its label, or by its number if no row has a label.
    ///
    /// # Errors
    ///
    /// No row has this name, or several rows have it.
    pub fn find_row(&self, name: &str) -> Result<FoundRow<'_>, String> {
        let directory = RowDirectory::new(self.rows.iter().map(|row| DirectoryEntry {
            number: row.number,
            key: &row.key,
            label: row.label.as_deref(),
        }));
        Ok(self.to_found_row(&self.rows[directory.find_row(name)?]))
    }

    /// Returns all rows of the batch.
    pub fn list_rows(&self) -> Vec<FoundRow<'_>> {
        self.rows.iter().map(|row| self.to_found_row(row)).collect()
    }

    /// Converts a row of the summary to a found row, with the folder of its run.
    fn to_found_row<'b>(&self, row: &'b SummaryRow) -> FoundRow<'b> {
        FoundRow {
            number: row.number,
            label: row.label.as_deref(),
            folder: self.folder.join("runs").join(&row.run),
            entry: row.entry.as_ref(),
        }
    }

    /// Lists the numbers of the rows in the table.
    pub fn list_row_numbers(&self) -> impl Iterator<Item = usize> {
        self.rows.iter().map(|row| row.number)
    }

    /// Lists the keys of the rows, which depend only on their values.
    pub fn list_row_keys(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.key.as_str())
    }

    /// Returns the entry of each row, in the order of the rows.
    pub fn list_row_entries(&self) -> Vec<Option<&BatchEntry>> {
        self.rows.iter().map(|row| row.entry.as_ref()).collect()
    }

    /// Lists the parts that can change results and have changed since the last call.
    ///
    /// # Errors
    ///
    /// A model override is invalid.
    pub fn list_changed_version_parts(
        &self,
        runs: &Runs,
        prepared: &PreparedEnsemble,
    ) -> Result<Vec<String>, RunError> {
        let now = BatchVersion::compute(runs, prepared, &self.models)?;
        let before = self.parts.as_ref();
        Ok(before.map_or_else(Vec::new, |before| list_changed_parts(before, &now.parts)))
    }

    /// Returns the batch as JSON, without its rows.
    pub fn to_json_without_rows(&self) -> Value {
        let counts = &self.counts;
        json!({
            "batch": self.name,
            "ensemble": self.ensemble,
            "data": self.data,
            "started_at": self.started_at,
            "state": if self.process.is_some() { "running" } else { "idle" },
            "driver_pid": self.process,
            "rows": counts.rows,
            "failed": counts.failed,
            "waiting": counts.count_waiting_rows(),
            "waiting_for": counts.waiting,
            "limited": counts.limited,
            "left": counts.left,
            "completed": counts.succeeded,
            "cost": self.cost,
        })
    }

    /// Returns the rows of the batch as JSON: number, run, standing, outcome, cause, open questions, and cost of the latest try.
    pub fn rows_to_json(&self) -> Vec<Value> {
        let rows = self.rows.iter();
        rows.map(|row| {
            let (number, run) = (row.number, &row.run);
            let Some(entry) = &row.entry else {
                return json!({"row": number, "run": run, "standing": RowStatus::Left.as_str()});
            };
            let standing = entry.status(self.limits);
            let is_failure = matches!(standing, RowStatus::Failed | RowStatus::Limited);
            json!({
                "row": number,
                "run": run,
                "standing": standing.as_str(),
                "outcome": entry.outcome,
                "success": (!entry.is_cancelled()).then(|| entry.has_exit_code_zero(self.limits)),
                "detail": entry.detail,
                "exhausted": entry.exhausted,
                "failed_work": entry.failed_work,
                "nested_failures": entry.nested_failures,
                "cause": is_failure.then(|| describe_short_cause(entry)),
                "questions": entry.questions,
                "turns": entry.turns,
                "cost": entry.cost(),
            })
        })
        .collect()
    }
}
