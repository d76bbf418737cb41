//! A new run in the store, with its first records.
//!
//! Invariant: a run that could not be started is not in the store.

use std::sync::Arc;

use ensemble_core::conversation::{Event, Record};
use ensemble_core::executor::WallClock;
use ensemble_core::log::{CommitError, RunLog};
use ensemble_core::store::{Durability, LogEnd, RunId, RunLease, RunStore, StoreError, StoredRun};

use crate::drive::host::RunHost;
use crate::error::RunError;

/// The options for storing a new run.
pub(crate) struct NewRunOptions<'a> {
    pub(crate) store: &'a dyn RunStore,
    pub(crate) host: &'a RunHost,
    /// The text of the ensemble.
    pub(crate) ensemble: &'a str,
    /// The id of the run. `None` means an id from the current time.
    pub(crate) id: Option<&'a RunId>,
    pub(crate) durability: Durability,
}

/// A new run in the store, with its lease, its log and its first records.
pub(crate) struct StoredNewRun {
    pub(crate) stored: Arc<dyn StoredRun>,
    pub(crate) lease: Box<dyn RunLease>,
    pub(crate) log: Box<dyn RunLog>,
    /// The records, with their numbers and the id of the run.
    pub(crate) records: Vec<Record>,
}

impl NewRunOptions<'_> {
    /// Creates the run and appends its first records. Removes the run if a record cannot be appended.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub(crate) async fn create_with_records(self, records: Vec<Record>) -> Result<StoredNewRun, RunError> {
        let stored = match self.id {
            Some(id) => self.store.create_run(id, self.ensemble).await?,
            None => create_run_with_free_id(self.store, self.host, self.ensemble).await?,
        };
        let records: Vec<Record> = (0..)
            .zip(records)
            .map(|(seq, record)| with_run_position(record, seq, stored.id()))
            .collect();
        match append_first_records(&*stored, self.durability, &records).await {
            Ok((lease, log)) => Ok(StoredNewRun {
                stored,
                lease,
                log,
                records,
            }),
            Err(error) => {
                let _ = stored.remove_run().await;
                Err(error)
            }
        }
    }
}

/// Takes the lease of a new run, opens its log and appends its first records.
async fn append_first_records(
    stored: &dyn StoredRun,
    durability: Durability,
    records: &[Record],
) -> Result<(Box<dyn RunLease>, Box<dyn RunLog>), RunError> {
    let lease = stored.acquire_lease().await?;
    let mut log = stored.open_log(LogEnd::NEW, durability).await?;
    for record in records {
        log.append(record).await.map_err(|error| match error {
            CommitError::Write { place, source } => RunError::Store(StoreError::Unavailable {
                action: "write the journal",
                place,
                source,
            }),
            other => other.into(),
        })?;
    }
    Ok((lease, log))
}

/// Returns the record with its sequence number, and the first event with the id of its run.
fn with_run_position(mut record: Record, seq: u64, id: &RunId) -> Record {
    record.seq = seq;
    if let Event::RunStarted(started) = &mut record.event {
        started.run_id = id.shared_text();
    }
    record
}

/// Creates a run with an id from the current time and a random number that no other run has.
async fn create_run_with_free_id(
    store: &dyn RunStore,
    host: &RunHost,
    ensemble: &str,
) -> Result<Arc<dyn StoredRun>, StoreError> {
    let mut number = random_id_number(host);
    loop {
        match store
            .create_run(&RunId::from_time_and_number(host.now(), number), ensemble)
            .await
        {
            Err(StoreError::Exists(_)) => number = number.wrapping_add(1),
            created => return created,
        }
    }
}

/// Returns a random number for an id, below the number of ids per time.
fn random_id_number(host: &RunHost) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number from 0 to the number of ids"
    )]
    let number = (host.random_number() * f64::from(RunId::IDS_PER_TIME)) as u32;
    number
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Duration, Utc};
    use ensemble_core::log::SyncPoint;
    use ensemble_core::store::{MemoryStore, contract};

    use super::*;

    #[tokio::test]
    async fn runs_of_one_instant_do_not_collide_and_sort_by_their_time() {
        let store = MemoryStore::new();
        let mut expected = Vec::new();
        for millisecond in [0, 1, 999, 1000] {
            // The clock and the random numbers stand still.
            let now = DateTime::<Utc>::UNIX_EPOCH + Duration::milliseconds(millisecond);
            let host = RunHost::from_system()
                .with_clock(move || now)
                .with_randomness(|| 0.999_999_9);
            let mut ids = Vec::new();
            for _ in 0..3 {
                let run = create_run_with_free_id(&store, &host, "").await.expect("an id is free");
                let mut log = run
                    .open_log(LogEnd::NEW, Durability::None)
                    .await
                    .expect("the log opens");
                log.append(&contract::sample_record(0)).await.expect("a record");
                log.sync(SyncPoint::Turn).await.expect("the log syncs");
                ids.push(run.id().clone());
            }
            ids.sort();
            expected.extend(ids);
        }
        let listed = store.list_runs().await.expect("runs are listed");
        let listed: Vec<&RunId> = listed.iter().map(|run| run.id()).collect();
        assert_eq!(listed, expected.iter().collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_clock_before_1970_gives_a_run() {
        let now = DateTime::<Utc>::UNIX_EPOCH - Duration::milliseconds(1);
        let host = RunHost::from_system().with_clock(move || now);
        let run = create_run_with_free_id(&MemoryStore::new(), &host, "")
            .await
            .expect("an id is free");
        assert!(run.id().as_str().ends_with("-19691231-235959999"), "{}", run.id());
    }
}
