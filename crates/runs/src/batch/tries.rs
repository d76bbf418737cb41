//! The tries of a row, loaded from the index and the journals.
//!
//! Invariant: a journal is read only if the index does not contain the end of its run, or if another process can have resumed the run
//! since.

use std::collections::HashMap;
use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, RunEnded};
use ensemble_core::store::{LogReadError, StoredRun};
use ensemble_history::RunHistory;
use ensemble_language::data::Cost;
use serde_json::{Value, json};

use super::BatchEntry;
use super::entry::sum_usage;
use super::identity::RowRunName;
use crate::error::RunError;
use crate::project::Project;
use crate::start::recorded_run::RecordedRun;
use crate::store::files::BatchFiles;

/// The recorded tries of a row.
#[derive(Debug, Default)]
pub(super) struct RowTries {
    /// The number of the latest try of the current version; 0: there is none.
    pub(super) latest: u32,
    /// The result of the latest try.
    pub(super) entry: Option<BatchEntry>,
    /// The latest try, if it has begun and has not ended.
    pub(super) open: Option<OpenTry>,
    /// The usage of all other tries, also of other versions; `null`: there are none.
    pub(super) earlier_usage: Value,
    /// The number of the other tries.
    pub(super) earlier_count: u32,
    /// The last try of another version that has ended.
    pub(super) outdated: Option<OutdatedTry>,
    /// True if the index does not contain the result of the latest try.
    pub(super) is_unindexed: bool,
}

/// The number of all tries of a row, with their usage.
#[derive(Debug, Clone, PartialEq)]
pub struct TriesTotals {
    /// The number of tries that have begun.
    pub count: u32,
    /// The usage of all of them.
    pub usage: Value,
}

/// A try that has started and has not ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpenTry {
    /// The process that drives it.
    pub(super) driver: Option<u32>,
    /// The cost until now.
    pub(super) cost: Option<Cost>,
}

/// A try that ended with another version of the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutdatedTry {
    /// The version.
    pub(super) version: String,
}

impl RowTries {
    /// Returns the usage of all tries.
    fn total_usage(&self) -> Value {
        let latest = self.entry.as_ref().map_or(&Value::Null, |entry| &entry.usage);
        sum_usage(&self.earlier_usage, latest)
    }

    /// Returns the number and usage of all tries.
    pub(super) fn totals(&self) -> TriesTotals {
        let has_latest = self.entry.is_some() || self.open.is_some();
        TriesTotals {
            count: self.earlier_count + u32::from(has_latest),
            usage: self.total_usage(),
        }
    }

    /// Returns the sum of the known costs of all tries.
    pub(super) fn known_cost(&self) -> Option<Cost> {
        let open = self.open.as_ref().and_then(|open| open.cost);
        let latest = self.entry.as_ref().and_then(BatchEntry::cost);
        sum_costs([self.earlier_cost(), latest, open].into_iter().flatten())
    }

    /// Returns what the latest try has cost until now, if the next call continues it.
    pub(super) fn unfinished_cost(&self) -> Option<Cost> {
        let continued = self.entry.as_ref().filter(|entry| entry.outcome.is_resumable());
        let open = self.open.as_ref().and_then(|open| open.cost);
        open.or_else(|| continued.and_then(BatchEntry::cost))
    }

    /// Returns the cost of all tries except the latest.
    fn earlier_cost(&self) -> Option<Cost> {
        self.earlier_usage.get("cost")?.as_f64().map(Cost::from_amount)
    }

    /// Sets the latest try to this number, and moves the usage of the previous try to the earlier usage.
    pub(super) fn start_next_try(&mut self, number: u32) {
        if let Some(entry) = self.entry.take() {
            self.add_earlier_usage(&entry.usage);
        }
        self.latest = number;
    }

    /// Adds the usage of one try to the usage of earlier tries, and counts the try.
    fn add_earlier_usage(&mut self, usage: &Value) {
        self.earlier_usage = sum_usage(&self.earlier_usage, usage);
        self.earlier_count += 1;
    }
}

/// Sums costs. Returns `None` if there are no costs.
pub(super) fn sum_costs(costs: impl Iterator<Item = Cost>) -> Option<Cost> {
    costs.reduce(|sum, cost| sum + cost)
}

/// The index of a batch by run, and the run names of each row key.
pub(super) struct BatchIndexRecords {
    /// The last line of each run.
    entries: HashMap<String, BatchEntry>,
    /// The runs of each row, in the order in which they are known.
    runs: HashMap<String, Vec<String>>,
}

/// A try as recorded in the index or the journal.
enum RecordedTry {
    Ended(Box<BatchEntry>),
    Open(OpenTry, Value),
    /// No record was written.
    NotBegun,
}

impl BatchIndexRecords {
    /// Loads the index, and the names of the run folders.
    pub(super) fn load(files: &BatchFiles) -> Result<Self, RunError> {
        let mut records = Self {
            entries: HashMap::new(),
            runs: HashMap::new(),
        };
        for entry in parse_index_lines(&files.read_index()?) {
            records.add_run_name(&entry.run);
            records.entries.insert(entry.run.clone(), entry);
        }
        for run in files.list_run_names() {
            records.add_run_name(&run);
        }
        Ok(records)
    }

    /// Adds a run to the runs of its row key, unless the run is known. Ignores names that are not runs of rows.
    fn add_run_name(&mut self, run: &str) {
        let Some(name) = RowRunName::parse(run) else { return };
        let runs = self.runs.entry(name.key.to_owned()).or_default();
        if !self.entries.contains_key(run) && !runs.iter().any(|known| known == run) {
            runs.push(run.to_owned());
        }
    }

    /// Loads the tries of the row with this key, of this version and of other versions.
    pub(super) async fn load_row_tries(
        &self,
        (key, version): (&str, &str),
        files: &BatchFiles,
        project: &Project,
    ) -> Result<RowTries, RunError> {
        let mut tries = RowTries::default();
        let mut latest = None;
        for run in self.runs.get(key).into_iter().flatten() {
            let Some(name) = RowRunName::parse(run) else { continue };
            let is_current = name.version == version;
            let recorded = self.load_recorded_try(run, is_current, files, project).await?;
            if let RecordedTry::NotBegun = recorded {
                continue;
            }
            if !is_current {
                if let RecordedTry::Ended(entry) = &recorded
                    && !entry.is_cancelled()
                {
                    tries.outdated = Some(OutdatedTry {
                        version: name.version.to_owned(),
                    });
                }
                tries.add_earlier_usage(recorded.usage());
            } else if name.number > tries.latest {
                let before: Option<RecordedTry> = latest.replace(recorded);
                if let Some(before) = before {
                    tries.add_earlier_usage(before.usage());
                }
                tries.latest = name.number;
            } else {
                tries.add_earlier_usage(recorded.usage());
            }
        }
        match latest {
            Some(RecordedTry::Ended(entry)) => {
                tries.is_unindexed = self.entries.get(&entry.run) != Some(&*entry);
                tries.entry = Some(*entry);
            }
            Some(RecordedTry::Open(open, _)) => tries.open = Some(open),
            Some(RecordedTry::NotBegun) | None => {}
        }
        Ok(tries)
    }

    /// Loads one try from the index, or from its journal if the index does not have the final end.
    async fn load_recorded_try(
        &self,
        run: &str,
        is_current: bool,
        files: &BatchFiles,
        project: &Project,
    ) -> Result<RecordedTry, RunError> {
        let entry = self.entries.get(run);
        let ended = |entry: &BatchEntry| RecordedTry::Ended(Box::new(entry.clone()));
        if let Some(entry) = entry.filter(|entry| !entry.outcome.is_resumable()) {
            return Ok(ended(entry));
        }
        let Some(stored) = files.find_run(run) else {
            return Ok(entry.map_or(RecordedTry::NotBegun, ended));
        };
        // Found before the journal is read: everything that another process wrote before its end is read.
        let driver = stored.lease_holder_pid();
        let journal = match stored.read_journal().await {
            Err(LogReadError::Empty { .. }) => return Ok(RecordedTry::NotBegun),
            journal => journal?,
        };
        let history = RunHistory::from_records(&journal.records);
        let Some(end) = history.end_event() else {
            let cost = history.usage().cost;
            return Ok(match history.start_event() {
                Some(_) => RecordedTry::Open(OpenTry { driver, cost }, history_usage_to_json(&history)),
                None => RecordedTry::NotBegun,
            });
        };
        match entry {
            Some(entry) if is_indexed_end(entry, end, &history) => Ok(ended(entry)),
            _ => load_try_end(run, &history, end, stored, is_current.then_some(project)).await,
        }
    }
}

impl RecordedTry {
    /// Returns the usage of the try, whatever its state.
    fn usage(&self) -> &Value {
        match self {
            Self::Ended(entry) => &entry.usage,
            Self::Open(_, usage) => usage,
            Self::NotBegun => &Value::Null,
        }
    }
}

/// Returns the usage of the run as JSON.
fn history_usage_to_json(history: &RunHistory) -> Value {
    json!(history.usage())
}

/// Returns whether the entry of the index describes this end of the journal.
fn is_indexed_end(entry: &BatchEntry, end: &RunEnded, history: &RunHistory) -> bool {
    let pending = history.pending_requests();
    let addresses = pending.iter().map(|request| &request.address);
    let is_waiting = end.completion_reason == CompletionReason::WaitingForInput;
    entry.outcome == end.completion_reason
        && (!is_waiting || addresses.eq(entry.questions.iter().map(|question| &question.address)))
}

/// Loads the end of a try. Without `project`, only the outcome and the usage are loaded.
async fn load_try_end(
    run: &str,
    history: &RunHistory,
    end: &RunEnded,
    stored: Arc<dyn StoredRun>,
    project: Option<&Project>,
) -> Result<RecordedTry, RunError> {
    let key = RowRunName::parse(run).map_or(run, |name| name.key);
    if let Some(project) = project {
        let recorded = RecordedRun::load(stored, project).await?;
        if let Some(entry) = BatchEntry::from_ended_run(key, run, &recorded.state) {
            return Ok(RecordedTry::Ended(Box::new(entry)));
        }
    }
    Ok(RecordedTry::Ended(Box::new(BatchEntry {
        id: key.to_owned(),
        run: run.to_owned(),
        outcome: end.completion_reason,
        success: end.success,
        exhausted: end.exhausted.clone(),
        failed_work: Vec::new(),
        nested_failures: Vec::new(),
        detail: end.detail.clone(),
        questions: Vec::new(),
        turns: u64::from(history.run_totals().turns),
        result: Value::Null,
        usage: history_usage_to_json(history),
    })))
}

/// Parses the lines of an index. Skips lines that cannot be parsed, because their runs are found by their names.
pub(super) fn parse_index_lines(text: &str) -> impl Iterator<Item = BatchEntry> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}
