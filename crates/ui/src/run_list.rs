//! The list of runs and batches. Each journal is read once, and later only what was added to it.
//!
//! Invariant: no record is read twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ensemble_core::conversation::FailedWork;
use ensemble_core::store::{RunFollower, RunId, RunStore, StoreError, StoredRun};
use ensemble_history::{RunHistory, RunState, RunSummary};
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::store::files::RecordedBatch;
use serde_json::{Value, json};

use crate::reply::RequestFailure;

/// The runs that were listed before.
#[derive(Default)]
pub(crate) struct RunListCache {
    runs: ListedRuns,
    batches: HashMap<String, ListedRuns>,
}

/// The runs of a store that were listed before.
#[derive(Default)]
struct ListedRuns(HashMap<RunId, ListedRun>);

/// A run in the list.
enum ListedRun {
    /// The records of the run can still be added to.
    Open {
        follower: Box<dyn RunFollower>,
        history: Box<RunHistory>,
    },
    /// A row of a batch that has ended, as the list shows it.
    Settled(Value),
}

/// The highest number of characters of an input in the list.
const MAX_INPUT: usize = 120;

impl RunListCache {
    /// Lists all runs of the project, the latest first.
    pub(crate) async fn list_runs(&mut self, runs: &RunService) -> Result<Value, RequestFailure> {
        let stored = match runs.runs().store().list_runs().await {
            Err(StoreError::Empty { .. }) => Vec::new(),
            stored => stored.map_err(|error| RequestFailure::not_found(error.to_string()))?,
        };
        Ok(self.runs.refresh(&stored, runs, false).await.into())
    }

    /// Lists the batches of the project, each with the number of its rows by state.
    pub(crate) async fn list_batches(&mut self, runs: &RunService) -> Vec<Value> {
        let batches = list_recorded_batches(runs);
        self.batches
            .retain(|name, _| batches.iter().any(|batch| batch.name() == name));
        let mut listed = Vec::new();
        for batch in &batches {
            let rows = self.refresh_batch(batch, runs).await;
            listed.push(batch_to_json(batch.name(), &rows));
        }
        listed.sort_by(|one, other| other["latest"].as_str().cmp(&one["latest"].as_str()));
        listed
    }

    /// Returns a batch with its rows, the latest first.
    pub(crate) async fn find_batch(&mut self, name: &str, runs: &RunService) -> Result<Value, RequestFailure> {
        let mut batches = list_recorded_batches(runs).into_iter();
        let batch = batches.find(|batch| batch.name() == name);
        let batch = batch.ok_or_else(|| RequestFailure::not_found(format!("there is no batch `{name}`")))?;
        let rows = self.refresh_batch(&batch, runs).await;
        let mut document = batch_to_json(name, &rows);
        document["runs"] = rows.into();
        Ok(document)
    }

    async fn refresh_batch(&mut self, batch: &RecordedBatch, runs: &RunService) -> Vec<Value> {
        let stored = batch.run_store().list_runs().await.unwrap_or_default();
        let listed = self.batches.entry(batch.name().to_owned()).or_default();
        listed.refresh(&stored, runs, true).await
    }
}

impl ListedRuns {
    /// Returns the runs for the list, the latest first. `is_batch`: a run that has ended is not read again.
    async fn refresh(&mut self, stored: &[Arc<dyn StoredRun>], runs: &RunService, is_batch: bool) -> Vec<Value> {
        let mut rows = Vec::new();
        for run in stored.iter().rev() {
            let listed = self.0.entry(run.id().clone()).or_insert_with(|| ListedRun::Open {
                follower: run.open_follower(),
                history: Box::default(),
            });
            rows.push(listed.refresh_to_json(&**run, runs, is_batch).await);
        }
        self.0.retain(|id, _| stored.iter().any(|run| run.id() == id));
        rows
    }
}

impl ListedRun {
    /// Reads the new records, and returns the run for the list.
    async fn refresh_to_json(&mut self, run: &dyn StoredRun, runs: &RunService, is_batch: bool) -> Value {
        let (follower, history) = match self {
            Self::Settled(document) => return document.clone(),
            Self::Open { follower, history } => (follower, history),
        };
        // Found before the log is read: everything that another process wrote before its end is read.
        let driver = runs.run_driver(run);
        match follower.poll_records().await {
            Ok(records) => records.iter().for_each(|record| history.apply_record(record)),
            Err(error) => return json!({"id": run.id(), "error": error.to_string()}),
        }
        let Some(summary) = runs.summarize_run(run.id(), history, driver) else {
            return json!({"id": run.id(), "error": "the run has no records yet"});
        };
        let document = summary_to_json(&summary, history);
        let is_settled = matches!(summary.state, RunState::Ended(outcome) if !outcome.is_resumable());
        if is_batch && is_settled {
            *self = Self::Settled(document.clone());
        }
        document
    }
}

fn list_recorded_batches(runs: &RunService) -> Vec<RecordedBatch> {
    let project = runs.runs().project();
    RecordedBatch::list_batches(&project.project_root(&project.folder))
}

fn summary_to_json(summary: &RunSummary, history: &RunHistory) -> Value {
    json!({
        "id": summary.id,
        "ensemble": summary.ensemble,
        "input": describe_input(summary, history),
        "begun": summary.started_at,
        "latest": summary.last_at,
        "state": summary.state,
        "process": summary.process,
        "outcome": summary.completion_reason,
        "success": summary.success,
        "detail": summary.detail,
        "turns": summary.turns,
        "executions": summary.executions,
        "failed": summary.failed,
        "failed_work": summary.failed_work.iter().flat_map(FailedWork::list_sentences).collect::<Vec<_>>(),
        "usage": summary.usage,
        "forked_from": summary.forked_from,
    })
}

/// Returns the beginning of the input; without an input, of the values that the run was given.
fn describe_input(summary: &RunSummary, history: &RunHistory) -> String {
    let given = history.start_event().into_iter().flat_map(|started| {
        let values = started.inputs.iter().chain(started.context.iter());
        values.map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name}: {text}"),
            None => format!("{name}: {value}"),
        })
    });
    let text = match summary.input.is_empty() {
        true => given.collect::<Vec<_>>().join(", "),
        false => summary.input.to_string(),
    };
    text.chars().take(MAX_INPUT).collect()
}

/// Returns a batch with the number of its rows by state. `rows`: the latest first.
fn batch_to_json(name: &str, rows: &[Value]) -> Value {
    let mut states: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for row in rows {
        let state = row["state"].as_str().unwrap_or("unreadable");
        let count = states.entry(state).or_insert((0, row["success"] == true));
        count.0 += 1;
    }
    let mut states: Vec<Value> = states
        .into_iter()
        .map(|(state, (count, success))| json!({"state": state, "success": success, "count": count}))
        .collect();
    // Failures first, as in the summary of the batch.
    states.sort_by_key(|state| state["success"] == true);
    let latest = rows.iter().filter_map(|row| row["latest"].as_str()).max();
    let costs: Vec<f64> = rows.iter().filter_map(|row| row["usage"]["cost"].as_f64()).collect();
    let cost: f64 = costs.iter().sum();
    json!({
        "name": name,
        "ensemble": rows.iter().find_map(|row| row["ensemble"].as_str()),
        "rows": rows.len(),
        "states": states,
        "begun": rows.iter().filter_map(|row| row["begun"].as_str()).min(),
        "latest": latest,
        "cost": (!costs.is_empty()).then_some(cost),
    })
}
