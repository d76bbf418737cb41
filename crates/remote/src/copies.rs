//! Copies of runs of an engine in a store.
//!
//! Invariant: a run is read and checked as a whole before any part is written. The engine decides neither the id of the copy, nor a path,
//! nor the size of the copy.

use std::collections::HashSet;
use std::sync::Arc;

use ensemble_core::conversation::{Event, Record};
use ensemble_core::log::SyncPoint;
use ensemble_core::operator::escape_hidden;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{Durability, LogEnd, RunId, RunStore, StoreError, StoredRun, is_valid_run_name};
use indexmap::IndexMap;

use crate::client::EngineClient;
use crate::client_error::EngineClientError;
use crate::protocol::{NestedRunLines, RecordsReply};

/// Maximum number of levels of nested runs. Ensembles are nested less deeply.
const DEEPEST: usize = 16;
/// Maximum number of runs that are copied with a run.
const MAX_COPIED_RUNS: usize = 100_000;
/// Maximum number of bytes of records and ensembles that are copied with a run.
const MAX_COPIED_BYTES: usize = 1 << 30;

/// Run with its nested runs, as the engine sent them.
struct FetchedRunTree {
    ensemble: Arc<str>,
    records: Vec<Record>,
    /// Nested runs, by their names.
    inside: IndexMap<String, FetchedRunTree>,
}

/// Remaining numbers of runs and bytes that a copy can contain.
struct RemainingCopyBudget {
    runs: usize,
    bytes: usize,
}

impl RemainingCopyBudget {
    /// Budget of a whole copy.
    const WHOLE: Self = Self {
        runs: MAX_COPIED_RUNS,
        bytes: MAX_COPIED_BYTES,
    };

    /// Subtracts one run with so many bytes.
    ///
    /// # Errors
    /// The budget is exceeded.
    fn spend_run(&mut self, bytes: usize) -> Result<(), String> {
        match (self.runs.checked_sub(1), self.bytes.checked_sub(bytes)) {
            (Some(runs), Some(bytes)) => {
                *self = Self { runs, bytes };
                Ok(())
            }
            (None, _) => Err(format!("it has more than {MAX_COPIED_RUNS} runs inside it")),
            (_, None) => Err(format!("it has more than {} MiB of records", MAX_COPIED_BYTES >> 20)),
        }
    }
}

impl EngineClient {
    /// Copies the present state of a run with its nested runs into a store that does not contain the run.
    ///
    /// # Errors
    /// The run cannot be read or is too large, or the store contains the run or cannot be written.
    pub async fn copy_run(&self, id: &RunId, store: &dyn RunStore) -> Result<Arc<dyn StoredRun>, EngineClientError> {
        let fetched = self.fetch_run(id).await?;
        self.write_run(id, &fetched, store).await
    }

    /// Copies the present state of a run into a store. Replaces an earlier copy.
    ///
    /// # Errors
    /// The run cannot be read or is too large, the store cannot be written, or the earlier copy was continued.
    pub async fn copy_or_replace_run(
        &self,
        id: &RunId,
        store: &dyn RunStore,
    ) -> Result<Arc<dyn StoredRun>, EngineClientError> {
        let fetched = self.fetch_run(id).await?;
        match self.write_run(id, &fetched, store).await {
            Err(EngineClientError::Store(StoreError::Exists(_))) => {}
            written => return written,
        }
        let before = store.find_run_by_id(id).await?;
        let lease = before.acquire_lease().await?;
        if !fetched.records.starts_with(&before.read_journal().await?.records) {
            return Err(EngineClientError::CopyDiverged(id.clone()));
        }
        before.remove_run().await?;
        drop(lease);
        self.write_run(id, &fetched, store).await
    }

    /// Fetches a run with its nested runs, and checks their size and their ids.
    async fn fetch_run(&self, id: &RunId) -> Result<FetchedRunTree, EngineClientError> {
        let reply = self.fetch_records(id.as_str(), 0).await?;
        let Some(start) = reply.start else {
            return Err(self.no_run_error(id.as_str()));
        };
        self.check_run_protocol(&start)?;
        let mut budget = RemainingCopyBudget::WHOLE;
        let taken = budget.spend_run(reply.lines.len() + start.ensemble.len());
        taken.map_err(|reason| self.content_error(reason))?;
        let records = self.decode_records(&reply.lines)?;
        self.check_first_record(id, &records)?;
        Ok(FetchedRunTree {
            ensemble: start.ensemble,
            records,
            inside: self.fetch_nested_runs(&reply.inside, 1, &mut budget).await?,
        })
    }

    /// Writes a run with its nested runs into a store. Removes the run again after an error.
    async fn write_run(
        &self,
        id: &RunId,
        fetched: &FetchedRunTree,
        store: &dyn RunStore,
    ) -> Result<Arc<dyn StoredRun>, EngineClientError> {
        let run = store.create_run(id, &fetched.ensemble).await?;
        let lease = run.acquire_lease().await?;
        if let Err(error) = self.write_records_and_nested(&*run, fetched).await {
            // Half a run would be taken for a run that was cut short.
            let _ = run.remove_run().await;
            return Err(error);
        }
        drop(lease);
        Ok(run)
    }

    /// Checks that the records belong to the run with this id.
    fn check_first_record(&self, id: &RunId, records: &[Record]) -> Result<(), EngineClientError> {
        match records.first().map(|record| &record.event) {
            Some(Event::RunStarted(started)) if *started.run_id != *id.as_str() => {
                let other = escape_hidden(&started.run_id);
                Err(self.content_error(format!("the records of run {id} are those of `{other}`")))
            }
            _ => Ok(()),
        }
    }

    /// Fetches the nested runs of a run on all levels. `depth` is the level of these runs.
    fn fetch_nested_runs<'a>(
        &'a self,
        inside: &'a [NestedRunLines],
        depth: usize,
        budget: &'a mut RemainingCopyBudget,
    ) -> BoxFuture<'a, Result<IndexMap<String, FetchedRunTree>, EngineClientError>> {
        Box::pin(async move {
            if depth > DEEPEST && !inside.is_empty() {
                return Err(self.content_error(format!("runs are nested more than {DEEPEST} levels deep")));
            }
            let (mut fetched_runs, mut names) = (IndexMap::new(), HashSet::new());
            for inner in inside {
                if !is_valid_run_name(&inner.name) || !names.insert(&inner.name) {
                    let name = escape_hidden(&inner.name);
                    return Err(self.content_error(format!("`{name}` cannot be the name of a run here")));
                }
                let reply = self.fetch_nested_records(inner).await?;
                let taken = budget.spend_run(reply.lines.len() + inner.ensemble.len());
                taken.map_err(|reason| self.content_error(reason))?;
                // Otherwise it was called, and has not begun.
                if !reply.lines.is_empty() {
                    let fetched = FetchedRunTree {
                        ensemble: inner.ensemble.as_str().into(),
                        records: self.decode_records(&reply.lines)?,
                        inside: self.fetch_nested_runs(&reply.inside, depth + 1, budget).await?,
                    };
                    fetched_runs.insert(inner.name.clone(), fetched);
                }
            }
            Ok(fetched_runs)
        })
    }

    /// Fetches the records of a nested run from its workflow, or takes the records that the lines contain.
    async fn fetch_nested_records(&self, inner: &NestedRunLines) -> Result<RecordsReply, EngineClientError> {
        match &inner.run {
            Some(id) => {
                let id = RunId::parse(id).map_err(|error| self.content_error(error.to_string()))?;
                match self.fetch_records(id.as_str(), 0).await {
                    // The run never began. The record of its agent contains the reason.
                    Err(EngineClientError::RunRefused { .. }) => Ok(RecordsReply::default()),
                    reply => reply,
                }
            }
            None => Ok(RecordsReply {
                lines: inner.lines.clone(),
                inside: inner.inside.clone(),
                ..RecordsReply::default()
            }),
        }
    }

    /// Writes the records of a run and of its nested runs.
    fn write_records_and_nested<'a>(
        &'a self,
        run: &'a dyn StoredRun,
        fetched: &'a FetchedRunTree,
    ) -> BoxFuture<'a, Result<(), EngineClientError>> {
        Box::pin(async move {
            self.append_and_sync_records(run, &fetched.records).await?;
            for (name, inner) in &fetched.inside {
                let stored = run.create_nested_run(name, &inner.ensemble).await?;
                self.write_records_and_nested(&*stored, inner).await?;
            }
            Ok(())
        })
    }

    /// Appends the records to the log of a new run, and syncs the log.
    async fn append_and_sync_records(&self, run: &dyn StoredRun, records: &[Record]) -> Result<(), EngineClientError> {
        let mut log = run.open_log(LogEnd::NEW, Durability::Commit).await?;
        for record in records {
            log.append(record).await?;
        }
        log.sync(SyncPoint::Turn).await?;
        Ok(())
    }
}
