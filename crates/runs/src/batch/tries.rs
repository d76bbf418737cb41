//! The tries of a row, as the index and the journals record them.
//!
//! Invariant: a journal is read only if the index does not have the end of its run, or if somebody can have resumed the run
//! since.

use std::collections::HashMap;
use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, RunEnded};
use ensemble_core::store::{ReadError, StoredRun};
use ensemble_history::RunHistory;
use ensemble_language::data::Cost;
use serde_json::{Value, json};

use super::BatchEntry;
use super::entry::add_usage;
use super::identity::RunName;
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
    /// Whether the index does not have the result of the latest try.
    pub(super) is_unindexed: bool,
}

/// The tries of a row, taken together.
#[derive(Debug, Clone, PartialEq)]
pub struct TriesTotals {
    /// The number of tries that have begun.
    pub count: u32,
    /// The usage of all of them.
    pub usage: Value,
}

/// A try that has begun and has not ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpenTry {
    /// The process that drives it.
    pub(super) driver: Option<u32>,
    /// The cost until now.
    pub(super) cost: Option<Cost>,
}

/// A try that has ended with another version of what its result depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutdatedTry {
    /// The version.
    pub(super) version: String,
}

impl RowTries {
    /// Returns the usage of all tries.
    fn total_usage(&self) -> Value {
        let latest = self.entry.as_ref().map_or(&Value::Null, |entry| &entry.usage);
        add_usage(&self.earlier_usage, latest)
    }

    /// Returns the tries taken together.
    pub(super) fn totals(&self) -> TriesTotals {
        let has_latest = self.entry.is_some() || self.open.is_some();
        TriesTotals {
            count: self.earlier_count + u32::from(has_latest),
            usage: self.total_usage(),
        }
    }

    /// Returns the cost of all tries, as far as it is known.
    pub(super) fn total_cost(&self) -> Option<Cost> {
        let open = self.open.as_ref().and_then(|open| open.cost);
        let latest = self.entry.as_ref().and_then(BatchEntry::cost);
        sum_costs([self.earlier_cost(), latest, open].into_iter().flatten())
    }

    /// Returns the cost of all tries but the latest.
    fn earlier_cost(&self) -> Option<Cost> {
        self.earlier_usage.get("cost")?.as_f64().map(Cost::from_amount)
    }

    /// Notes that another try begins: what the latest one has used counts on.
    pub(super) fn begin_try(&mut self, number: u32) {
        if let Some(entry) = self.entry.take() {
            self.add_earlier(&entry.usage);
        }
        self.latest = number;
    }

    fn add_earlier(&mut self, usage: &Value) {
        self.earlier_usage = add_usage(&self.earlier_usage, usage);
        self.earlier_count += 1;
    }
}

/// Returns the sum of costs; `None` if there are none.
pub(super) fn sum_costs(costs: impl Iterator<Item = Cost>) -> Option<Cost> {
    costs.reduce(|sum, cost| sum + cost)
}

/// The index of a batch and the names of its runs.
pub(super) struct BatchRecords {
    /// The last line of each run.
    entries: HashMap<String, BatchEntry>,
    /// The runs of each row, in the order in which they are known.
    runs: HashMap<String, Vec<String>>,
}

/// A try as it is recorded.
enum RecordedTry {
    Ended(Box<BatchEntry>),
    Open(OpenTry, Value),
    /// No record was written.
    NotBegun,
}

impl BatchRecords {
    /// Reads the index and the names of the runs.
    pub(super) fn read(files: &BatchFiles) -> Result<Self, RunError> {
        let mut records = Self {
            entries: HashMap::new(),
            runs: HashMap::new(),
        };
        for entry in parse_index(&files.read_index()?) {
            records.add_run(&entry.run);
            records.entries.insert(entry.run.clone(), entry);
        }
        for run in files.list_run_names() {
            records.add_run(&run);
        }
        Ok(records)
    }

    fn add_run(&mut self, run: &str) {
        let Some(name) = RunName::parse(run) else { return };
        let runs = self.runs.entry(name.key.to_owned()).or_default();
        if !self.entries.contains_key(run) && !runs.iter().any(|known| known == run) {
            runs.push(run.to_owned());
        }
    }

    /// Returns what is recorded of the row, of this version and of others.
    pub(super) async fn read_tries(
        &self,
        (key, version): (&str, &str),
        files: &BatchFiles,
        project: &Project,
    ) -> Result<RowTries, RunError> {
        let mut tries = RowTries::default();
        let mut latest = None;
        for run in self.runs.get(key).into_iter().flatten() {
            let Some(name) = RunName::parse(run) else { continue };
            let is_current = name.version == version;
            let recorded = self.read_try(run, is_current, files, project).await?;
            if let RecordedTry::NotBegun = recorded {
                continue;
            }
            if !is_current {
                if let RecordedTry::Ended(entry) = &recorded
                    && !entry.is_interrupted()
                {
                    tries.outdated = Some(OutdatedTry {
                        version: name.version.to_owned(),
                    });
                }
                tries.add_earlier(recorded.usage());
            } else if name.number > tries.latest {
                let before: Option<RecordedTry> = latest.replace(recorded);
                if let Some(before) = before {
                    tries.add_earlier(before.usage());
                }
                tries.latest = name.number;
            } else {
                tries.add_earlier(recorded.usage());
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

    async fn read_try(
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
        let driver = stored.driver_pid();
        let journal = match stored.read_journal().await {
            Err(ReadError::Empty { .. }) => return Ok(RecordedTry::NotBegun),
            journal => journal?,
        };
        let history = RunHistory::from_records(&journal.records);
        let Some(end) = history.end_event() else {
            let cost = history.usage().cost;
            return Ok(match history.start_event() {
                Some(_) => RecordedTry::Open(OpenTry { driver, cost }, usage_to_json(&history)),
                None => RecordedTry::NotBegun,
            });
        };
        match entry {
            Some(entry) if is_same_end(entry, end, &history) => Ok(ended(entry)),
            _ => read_end(run, &history, end, stored, is_current.then_some(project)).await,
        }
    }
}

impl RecordedTry {
    fn usage(&self) -> &Value {
        match self {
            Self::Ended(entry) => &entry.usage,
            Self::Open(_, usage) => usage,
            Self::NotBegun => &Value::Null,
        }
    }
}

fn usage_to_json(history: &RunHistory) -> Value {
    json!(history.usage())
}

/// Returns whether the end that the index has is the end of the journal.
fn is_same_end(entry: &BatchEntry, end: &RunEnded, history: &RunHistory) -> bool {
    let pending = history.pending_requests();
    let addresses = pending.iter().map(|request| &request.address);
    let is_waiting = end.completion_reason == CompletionReason::WaitingForInput;
    entry.outcome == end.completion_reason
        && (!is_waiting || addresses.eq(entry.questions.iter().map(|question| &question.address)))
}

/// Reads the end of a run. Of a run of another version (without `project`), only the outcome and the usage are read.
async fn read_end(
    run: &str,
    history: &RunHistory,
    end: &RunEnded,
    stored: Arc<dyn StoredRun>,
    project: Option<&Project>,
) -> Result<RecordedTry, RunError> {
    let key = RunName::parse(run).map_or(run, |name| name.key);
    if let Some(project) = project {
        let recorded = RecordedRun::load(stored, project).await?;
        if let Some(entry) = BatchEntry::from_state(key, run, &recorded.state) {
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
        usage: usage_to_json(history),
    })))
}

/// Parses the lines of an index. Lines that cannot be read are left out: their runs are found by their names.
pub(super) fn parse_index(text: &str) -> impl Iterator<Item = BatchEntry> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}
