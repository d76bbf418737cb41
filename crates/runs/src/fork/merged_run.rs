//! Runs that contain the messages of two other runs.
//!
//! Invariant: a merge executes nothing, and does not change the other runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use ensemble_core::conversation::{Event, ForkedFrom, MergedRecords, RunStarted, merge_records};
use ensemble_core::executor::WallClock;
use ensemble_core::log::SyncPoint;
use ensemble_core::store::{Durability, RunId, RunLease, StoreError, StoredRun};
use ensemble_core::thread::MergeOrder;

use crate::error::{RunError, RunMergeError};
use crate::fork::forked_run::ForkEnsemble;
use crate::options::run_options::RunOptions;
use crate::start::nested_run::PROGRAM_VERSION;
use crate::start::new_run::NewRunOptions;
use crate::start::recorded_run::RecordedRun;
use crate::start::runs::{RunSelector, Runs};

/// A run that contains the messages of two other runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedRun {
    /// The new run.
    pub run: RunId,
    /// The runs whose messages it contains.
    pub origins: [RunId; 2],
    /// The number of messages that both have, the input included.
    pub shared_messages: usize,
    /// The number of messages that each of them adds.
    pub added_messages: [usize; 2],
}

/// A run that is merged, with the lease that prevents other processes from executing it.
struct LeasedOrigin {
    recorded: RecordedRun,
    text: ForkEnsemble,
    _lease: Box<dyn RunLease>,
}

impl Runs {
    /// Creates a run with the messages that both runs share, and then the further messages of both in this order. The new run
    /// has ended and can be continued. Its models and stubs are those of the first run.
    ///
    /// # Errors
    /// There is no such run, the runs cannot be merged, or the store cannot be written.
    pub async fn merge_runs(
        &self,
        first: impl Into<RunSelector>,
        second: impl Into<RunSelector>,
        order: MergeOrder,
        durability: Durability,
    ) -> Result<MergedRun, RunError> {
        let (first, second) = (self.resolve_run(first).await?, self.resolve_run(second).await?);
        if first.id() == second.id() {
            return Err(RunMergeError::SameRun(first.id().clone()).into());
        }
        let origins = [
            self.lease_and_load_origin(first).await?,
            self.lease_and_load_origin(second).await?,
        ];
        let [left, right] = &origins;
        let merged = merge_records(
            &left.recorded.prepared.plan,
            &left.recorded.journal.records,
            &right.recorded.journal.records,
            order,
        )
        .map_err(RunMergeError::from)?;
        let start = RunStarted {
            forked_from: Some(ForkedFrom {
                run_id: left.recorded.start_event()?.run_id.clone(),
                merged_with: Some(right.recorded.start_event()?.run_id.clone()),
                turn: merged.shared_turn,
                repeats: None,
                given: Some(merged.records.len() as u64 - 1),
                outdated: list_outdated_executions(&origins, &merged),
            }),
            definitions: Some(left.text.definitions.clone()),
            trace: None,
            program: PROGRAM_VERSION.to_owned(),
            ..left.recorded.start_event()?.clone()
        };
        let mut records = merged.records;
        records[0].at = self.host().now();
        records[0].event = Event::RunStarted(Box::new(start));
        let prepared = &left.recorded.prepared;
        let store = self.store_for_root(&prepared.root);
        let new_run = NewRunOptions {
            store: &*store,
            host: self.host(),
            ensemble: prepared.source.text(),
            id: None,
            durability,
        };
        let mut stored = new_run.create_with_records(records).await?;
        stored.log.sync(SyncPoint::Turn).await?;
        Ok(MergedRun {
            run: stored.stored.id().clone(),
            origins: [left.recorded.run.id().clone(), right.recorded.run.id().clone()],
            shared_messages: merged.shared_messages,
            added_messages: merged.added_messages,
        })
    }

    /// Takes the lease of the run, and loads its records and its ensemble.
    ///
    /// # Errors
    ///
    /// Another process executes the run, or the run cannot be loaded.
    async fn lease_and_load_origin(&self, run: Arc<dyn StoredRun>) -> Result<LeasedOrigin, RunError> {
        let lease = run.acquire_lease().await.map_err(|error| match error {
            StoreError::Leased { id, owner } => RunMergeError::Running { run: id, owner }.into(),
            error => RunError::Store(error),
        })?;
        let recorded = RecordedRun::load(run, self.project()).await?;
        let text = self
            .load_fork_ensemble(&recorded, None, &mut RunOptions::default())
            .await?;
        Ok(LeasedOrigin {
            recorded,
            text,
            _lease: lease,
        })
    }
}

/// Returns the agents whose executions were performed with another definition, each with the new number of the last such execution.
fn list_outdated_executions(origins: &[LeasedOrigin; 2], merged: &MergedRecords) -> BTreeMap<Arc<str>, u32> {
    let mut outdated: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for (origin, numbers) in origins.iter().zip(&merged.executions) {
        for (agent, execution) in origin.text.list_outdated_executions(&origin.recorded.journal.records) {
            let number = numbers.get(&(agent.clone(), execution)).copied().unwrap_or(execution);
            let last = outdated.entry(agent).or_default();
            *last = number.max(*last);
        }
    }
    outdated
}
