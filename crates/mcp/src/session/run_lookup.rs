//! The lookup of runs that a client names, and the replies with their states.

use std::path::Path;
use std::time::Duration;

use ensemble_core::store::{RunId, StoreError, resolve_run_prefix};
use ensemble_history::{RunState, RunSummary};
use ensemble_runs::{RunError, RunOptions};
use serde_json::{Value, json};

use super::{McpCallError, McpSession, McpToolReply, document_response};
use crate::status::{load_run_status, run_summary_json};
use crate::tools::ToolArguments;

/// The maximum number of runs that are searched for the latest run of an ensemble.
const MAX_SEARCHED_RUNS: usize = 1000;

impl McpSession {
    /// Resolves a run of an ensemble of the folder by its id or the start of its id. Paths are not accepted.
    pub(super) async fn resolve_served_run(&self, given: &str) -> Result<RunId, McpCallError> {
        let place = || "the served folder".to_owned();
        let store = self.run_service().runs().store();
        let all = store.list_runs().await.map_err(RunError::from)?;
        let stored_run = resolve_run_prefix(given, all, place()).map_err(RunError::from)?;
        let summary = self.run_service().load_summary(stored_run.id()).await?;
        if !self.is_run_served(&summary) {
            let (id, place) = (given.to_owned(), place());
            return Err(RunError::from(StoreError::Unknown { id, place }).into());
        }
        Ok(stored_run.id().clone())
    }

    /// Returns whether the ensemble of the run belongs to the served folder. Other runs of the project do not.
    pub(super) fn is_run_served(&self, summary: &RunSummary) -> bool {
        self.project().contains_file(Path::new(&summary.ensemble_file))
    }

    /// Resolves the latest run of the ensemble in this file. Fails if there is no such run.
    pub(super) async fn resolve_latest_run(&self, file: &Path) -> Result<RunId, McpCallError> {
        let file = self.project().folder.join(file).canonicalize().unwrap_or_default();
        let runs = self.list_served_summaries(MAX_SEARCHED_RUNS).await?;
        let is_own = |summary: &&RunSummary| {
            Path::new(&summary.ensemble_file)
                .canonicalize()
                .is_ok_and(|own| own == file)
        };
        let missing_message = || "there is no run of this ensemble; name another `run`".to_owned();
        Ok(runs.iter().find(is_own).ok_or_else(missing_message)?.id.clone())
    }

    /// Lists the latest runs of ensembles of the folder, latest first.
    pub(super) async fn list_served_summaries(&self, limit: usize) -> Result<Vec<RunSummary>, RunError> {
        let mut search_limit = limit;
        loop {
            let all = self.run_service().load_latest_summaries(search_limit).await?;
            let is_whole = all.len() < search_limit;
            // A run that cannot be read is nobody's.
            let served = all.into_iter().flatten().filter(|summary| self.is_run_served(summary));
            let served: Vec<RunSummary> = served.take(limit).collect();
            if is_whole || served.len() == limit {
                return Ok(served);
            }
            search_limit = search_limit.saturating_mul(4);
        }
    }

    /// Removes the argument `wait_seconds`, and limits the time to the maximum of the server.
    pub(super) fn take_wait_argument(&self, arguments: &mut ToolArguments) -> Result<Duration, String> {
        let max_wait = self.services.wait;
        let requested_seconds = arguments.take_number_argument("wait_seconds")?;
        Ok(requested_seconds.map_or(max_wait, |seconds| {
            max_wait.min(Duration::try_from_secs_f64(seconds).unwrap_or(max_wait))
        }))
    }

    /// Returns the latest runs as a document (tool `list_runs`).
    pub(super) async fn list_runs(&self, limit: usize) -> McpToolReply {
        let summaries = self.list_served_summaries(limit).await?;
        let runs: Vec<Value> = summaries.iter().map(run_summary_json).collect();
        Ok(document_response(json!({"runs": runs}), false))
    }

    /// Resumes an interrupted run, or with `can_ask` a waiting run. Returns the number of the first new record, from which callers follow
    /// the run.
    pub(super) async fn resume_if_stopped(&self, id: &RunId, can_ask: bool) -> Result<u64, McpCallError> {
        let summary = self.run_service().load_summary(id).await?;
        let waits = can_ask && summary.process.is_none() && summary.state == RunState::Waiting;
        if summary.state == RunState::Interrupted || waits {
            let resumed = self.run_service().resume_run(id, RunOptions::default()).await;
            // Another client may have been quicker.
            let is_driven = || async {
                self.run_service()
                    .load_summary(id)
                    .await
                    .is_ok_and(|summary| summary.process.is_some())
            };
            if let Err(error) = resumed
                && !is_driven().await
            {
                return Err(error.into());
            }
        }
        Ok(summary.records)
    }

    /// Returns the state of the run as a document.
    pub(super) async fn run_state_reply(&self, id: &RunId) -> McpToolReply {
        let status = load_run_status(self.run_service(), id).await?;
        Ok(document_response(status.document, status.is_error))
    }
}
