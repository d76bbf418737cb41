//! The list of runs. Each journal is read once, and later only what was added to it.
//!
//! Invariant: no record is read twice.

use std::collections::HashMap;

use ensemble_core::store::{RunFollower, RunId, StoreError, StoredRun};
use ensemble_history::RunHistory;
use ensemble_runs::service::run_service::RunService;
use serde_json::{Value, json};

use crate::reply::Failure;

/// The runs that were listed before.
#[derive(Default)]
pub(crate) struct Briefs(HashMap<RunId, ListedRun>);

/// A run in the list, with the records that were read.
struct ListedRun {
    follower: Box<dyn RunFollower>,
    history: RunHistory,
}

/// The highest number of characters of an input in the list.
const MAX_INPUT: usize = 120;

impl Briefs {
    /// Lists all runs of the project, the latest first.
    pub(crate) async fn list(&mut self, runs: &RunService) -> Result<Value, Failure> {
        let stored = match runs.runs().store().list().await {
            Err(StoreError::Empty { .. }) => Vec::new(),
            stored => stored.map_err(|error| Failure::missing(error.to_string()))?,
        };
        let mut listed = Vec::new();
        for run in stored.iter().rev() {
            let known = self.0.entry(run.id().clone()).or_insert_with(|| ListedRun {
                follower: run.follow(),
                history: RunHistory::default(),
            });
            listed.push(known.refresh_json(&**run, runs).await);
        }
        self.0.retain(|id, _| stored.iter().any(|run| run.id() == id));
        Ok(listed.into())
    }
}

impl ListedRun {
    /// Reads the new records, and returns the run for the list.
    async fn refresh_json(&mut self, run: &dyn StoredRun, runs: &RunService) -> Value {
        // Found before the log is read: everything that another process wrote before its end is read.
        let driver = runs.driver(run);
        match self.follower.poll().await {
            Ok(records) => records.iter().for_each(|record| self.history.apply(record)),
            Err(error) => return json!({"id": run.id(), "error": error.to_string()}),
        }
        let Some(summary) = runs.summarize(run.id(), &self.history, driver) else {
            return json!({"id": run.id(), "error": "the run has no records yet"});
        };
        let input: String = summary.input.chars().take(MAX_INPUT).collect();
        json!({
            "id": summary.id,
            "ensemble": summary.ensemble,
            "input": input,
            "begun": summary.started_at,
            "latest": summary.last_at,
            "state": summary.state,
            "process": summary.process,
            "outcome": summary.completion_reason,
            "turns": summary.turns,
            "executions": summary.executions,
            "failed": summary.failed,
            "usage": summary.usage,
            "forked_from": summary.forked_from,
        })
    }
}
