//! Runs as a client names them, and their states.

use std::path::Path;
use std::time::Duration;

use ensemble_core::store::{RunId, StoreError, only};
use ensemble_history::{RunState, RunSummary};
use ensemble_runs::{RunError, RunOptions};
use serde_json::{Value, json};

use super::{Refusal, Reply, Session, document};
use crate::status::{brief, told};
use crate::tools::Arguments;

/// How many runs are looked through for the latest of an ensemble.
const LOOKED_BACK: usize = 1000;

impl Session {
    /// The run with this id or this beginning of an id, of an ensemble of the folder. Paths name no run.
    pub(super) async fn run(&self, given: &str) -> Result<RunId, Refusal> {
        let place = || "the served folder".to_owned();
        let store = self.service().runs().store();
        let all = store.list().await.map_err(RunError::from)?;
        let found = only(given, all, place()).map_err(RunError::from)?;
        let summary = self.service().summary(found.id()).await?;
        if !self.is_served(&summary) {
            let (id, place) = (given.to_owned(), place());
            return Err(RunError::from(StoreError::Unknown { id, place }).into());
        }
        Ok(found.id().clone())
    }

    /// The runs of the project can be those of other folders, too.
    pub(super) fn is_served(&self, summary: &RunSummary) -> bool {
        self.project().holds(Path::new(&summary.ensemble_file))
    }

    /// The latest run of an ensemble.
    pub(super) async fn latest_of(&self, file: &Path) -> Result<RunId, Refusal> {
        let file = self.project().folder.join(file).canonicalize().unwrap_or_default();
        let runs = self.runs(LOOKED_BACK).await?;
        let is_own = |summary: &&RunSummary| {
            Path::new(&summary.ensemble_file)
                .canonicalize()
                .is_ok_and(|own| own == file)
        };
        let why = || "there is no run of this ensemble; name another `run`".to_owned();
        Ok(runs.iter().find(is_own).ok_or_else(why)?.id.clone())
    }

    /// The latest runs of ensembles of the folder, the latest first.
    pub(super) async fn runs(&self, limit: usize) -> Result<Vec<RunSummary>, RunError> {
        let mut looked = limit;
        loop {
            let all = self.service().list(looked).await?;
            let is_whole = all.len() < looked;
            // A run that cannot be read is nobody's.
            let served = all.into_iter().flatten().filter(|summary| self.is_served(summary));
            let served: Vec<RunSummary> = served.take(limit).collect();
            if is_whole || served.len() == limit {
                return Ok(served);
            }
            looked = looked.saturating_mul(4);
        }
    }

    pub(super) fn wait(&self, arguments: &mut Arguments) -> Result<Duration, String> {
        let most = self.services.wait;
        let wanted = arguments.number("wait_seconds")?;
        Ok(wanted.map_or(most, |seconds| {
            most.min(Duration::try_from_secs_f64(seconds).unwrap_or(most))
        }))
    }

    /// `list_runs`.
    pub(super) async fn list(&self, limit: usize) -> Reply {
        let summaries = self.runs(limit).await?;
        let runs: Vec<Value> = summaries.iter().map(brief).collect();
        Ok(document(json!({"runs": runs}), false))
    }

    /// Goes on with a run that nobody drives and whose conversation is not over; with one that waits for an answer, if
    /// somebody can be asked. The number of the first record that is new.
    pub(super) async fn go_on(&self, id: &RunId, can_ask: bool) -> Result<u64, Refusal> {
        let summary = self.service().summary(id).await?;
        let waits = can_ask && summary.process.is_none() && summary.state == RunState::Waiting;
        if summary.state == RunState::Interrupted || waits {
            let resumed = self.service().resume(id, RunOptions::default()).await;
            // Another client may have been quicker.
            let is_driven = || async {
                self.service()
                    .summary(id)
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

    pub(super) async fn state(&self, id: &RunId) -> Reply {
        let told = told(self.service(), id).await?;
        Ok(document(told.document, told.is_error))
    }
}
