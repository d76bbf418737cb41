//! The list of runs. Each journal is read once, and later only what was added to it.
//!
//! Invariant: no record is read twice.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{CompletionReason, Event, Record};
use ensemble_core::store::{RunFollower, RunId, StoreError, StoredRun};
use ensemble_runs::service::RunService;
use serde_json::{Value, json};

use crate::reply::Failure;

/// The runs that were listed before.
#[derive(Default)]
pub(crate) struct Briefs(HashMap<RunId, Brief>);

struct Brief {
    follower: Box<dyn RunFollower>,
    ensemble: Arc<str>,
    input: String,
    begun: Option<DateTime<Utc>>,
    latest: Option<DateTime<Utc>>,
    outcome: Option<CompletionReason>,
    turns: u32,
    executions: usize,
    failed: usize,
    forked_from: Option<Arc<str>>,
}

/// Most characters of an input in the list.
const INPUT: usize = 120;

impl Briefs {
    /// All runs of the project, the latest first.
    pub(crate) async fn list(&mut self, runs: &RunService) -> Result<Value, Failure> {
        let stored = match runs.runs().store().list().await {
            Err(StoreError::Empty { .. }) => Vec::new(),
            stored => stored.map_err(|error| Failure::missing(error.to_string()))?,
        };
        let mut listed = Vec::new();
        for run in stored.iter().rev() {
            let brief = self.0.entry(run.id().clone()).or_insert_with(|| Brief::of(&**run));
            listed.push(brief.look(&**run, runs).await);
        }
        self.0.retain(|id, _| stored.iter().any(|run| run.id() == id));
        Ok(listed.into())
    }
}

impl Brief {
    fn of(run: &dyn StoredRun) -> Self {
        Self {
            follower: run.follow(),
            ensemble: "".into(),
            input: String::new(),
            begun: None,
            latest: None,
            outcome: None,
            turns: 0,
            executions: 0,
            failed: 0,
            forked_from: None,
        }
    }

    async fn look(&mut self, run: &dyn StoredRun, runs: &RunService) -> Value {
        // Before the log is read: what another process wrote before its end is read, too.
        let elsewhere = run.driver().filter(|process| *process != std::process::id());
        let is_driven = elsewhere.is_some() || runs.is_driven_here(run.id());
        match self.follower.poll().await {
            Ok(records) => records.iter().for_each(|record| self.take(record)),
            Err(error) => return json!({"id": run.id(), "error": error.to_string()}),
        }
        json!({
            "id": run.id(),
            "ensemble": self.ensemble,
            "input": self.input,
            "begun": self.begun,
            "latest": self.latest,
            "state": match self.outcome {
                _ if is_driven => "running",
                Some(outcome) if outcome.is_resumable() => "stopped",
                Some(_) => "ended",
                None => "interrupted",
            },
            "outcome": self.outcome,
            "turns": self.turns,
            "executions": self.executions,
            "failed": self.failed,
            "forked_from": self.forked_from,
        })
    }

    fn take(&mut self, record: &Record) {
        self.latest = Some(record.at);
        match &record.event {
            Event::RunStarted(started) => {
                self.begun = Some(record.at);
                self.ensemble = started.ensemble.clone();
                self.input = started.input.chars().take(INPUT).collect();
                self.forked_from = started.forked_from.as_ref().map(|from| from.run_id.clone());
            }
            Event::TurnFinished(turn) => self.turns = turn.turn,
            Event::ExecutionFinished(finished) => {
                self.executions += 1;
                self.failed += usize::from(finished.failure().is_some());
            }
            Event::RunEnded(ended) => self.outcome = Some(ended.completion_reason),
            Event::RunResumed(_) | Event::MessageAdded(_) => self.outcome = None,
            _ => {}
        }
    }
}
