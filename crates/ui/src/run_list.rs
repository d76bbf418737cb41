//! The list of runs. Each journal is read once, and later only what was added to it.
//!
//! Invariant: no record is read twice.

use std::collections::HashMap;

use ensemble_core::conversation::AgentWorkCounts;
use ensemble_core::store::{RunId, RunLogFollower, StoreError, StoredRun};
use ensemble_history::{RunHistory, RunSummary};
use ensemble_runs::service::run_service::RunService;
use serde_json::{Value, json};

use crate::reply::ApiFailure;

/// Cache of the runs in the list, so that only new records are read.
#[derive(Default)]
pub(crate) struct RunListCache(HashMap<RunId, CachedListRun>);

/// Run in the list, with the records that were read.
struct CachedListRun {
    follower: Box<dyn RunLogFollower>,
    history: RunHistory,
}

/// The highest number of characters of an input in the list.
const MAX_LISTED_INPUT_CHARS: usize = 120;

impl RunListCache {
    /// Lists all runs of the project as JSON, the latest first.
    pub(crate) async fn list_runs(&mut self, runs: &RunService) -> Result<Value, ApiFailure> {
        let stored = match runs.runs().store().list_runs().await {
            Err(StoreError::Empty { .. }) => Vec::new(),
            stored => stored.map_err(|error| ApiFailure::not_found(error.to_string()))?,
        };
        let mut rows = Vec::new();
        for run in stored.iter().rev() {
            let cached_run = self.0.entry(run.id().clone()).or_insert_with(|| CachedListRun {
                follower: run.open_follower(),
                history: RunHistory::default(),
            });
            rows.push(cached_run.refresh_to_json(&**run, runs).await);
        }
        self.0.retain(|id, _| stored.iter().any(|run| run.id() == id));
        Ok(rows.into())
    }
}

impl CachedListRun {
    /// Reads the new records, and converts the run to JSON for the list.
    async fn refresh_to_json(&mut self, run: &dyn StoredRun, runs: &RunService) -> Value {
        // Found before the log is read: everything that another process wrote before its end is read.
        let driver = runs.find_run_driver(run);
        match self.follower.poll_records().await {
            Ok(records) => records.iter().for_each(|record| self.history.apply_record(record)),
            Err(error) => return json!({"id": run.id(), "error": error.to_string()}),
        }
        let Some(summary) = runs.summarize_current_run(run.id(), &self.history, driver) else {
            return json!({"id": run.id(), "error": "the run has no records yet"});
        };
        json!({
            "id": summary.id,
            "ensemble": summary.ensemble,
            "input": shorten_input_or_values(&summary, &self.history),
            "begun": summary.started_at,
            "latest": summary.last_at,
            "state": summary.state,
            "process": summary.process,
            "outcome": summary.completion_reason,
            "success": summary.success,
            "turns": summary.turns,
            "executions": summary.executions,
            "failed": summary.failed,
            "failed_work": summary.failed_work.iter().flat_map(AgentWorkCounts::list_failure_sentences).collect::<Vec<_>>(),
            "usage": summary.usage,
            "forked_from": summary.forked_from,
        })
    }
}

/// Returns the start of the input; without an input, of the values that the run received.
fn shorten_input_or_values(summary: &RunSummary, history: &RunHistory) -> String {
    let given = history.start_event().into_iter().flat_map(|started| {
        // The context contains the inputs as well.
        let is_input = |name: &str| started.inputs.iter().any(|(input, _)| **input == *name);
        let other_values = started.context.iter().filter(move |(name, _)| !is_input(name));
        let values = started.inputs.iter().chain(other_values);
        values.map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name}: {text}"),
            None => format!("{name}: {value}"),
        })
    });
    let text = match summary.input.is_empty() {
        true => given.collect::<Vec<_>>().join(", "),
        false => summary.input.to_string(),
    };
    text.chars().take(MAX_LISTED_INPUT_CHARS).collect()
}
