//! Runs that are kept in memory, for tests and for programs that do not need the records afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    Durability, LogEnd, LogReadError, RunId, RunLease, RunLogFollower, RunRecordReader, RunStore, StoreError, StoredRun,
};
use crate::conversation::Record;
use crate::log::{LogFuture, RunLog, SyncPoint};
use crate::runner::BoxFuture;

/// Store of runs in memory. Clones share the runs.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Mutex<BTreeMap<RunId, Arc<SharedMemoryRun>>>>);

/// The data that all handles of a run share.
#[derive(Debug)]
struct SharedMemoryRun {
    ensemble: String,
    records: Mutex<Vec<Record>>,
    is_leased: AtomicBool,
}

/// Handle of a run in memory.
#[derive(Debug)]
struct MemoryRun {
    id: RunId,
    run: Arc<SharedMemoryRun>,
    store: MemoryStore,
}

/// Lease of a run in memory.
struct MemoryLease(Arc<SharedMemoryRun>);

/// Log of a run in memory.
struct MemoryLog(Arc<SharedMemoryRun>);

/// Reader of a log in memory, also for followers.
struct MemoryReader {
    place: String,
    run: Arc<SharedMemoryRun>,
    next: usize,
}

/// Locks the mutex, also after a panic of another holder.
fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a run without records.
    ///
    /// # Errors
    /// The id is invalid, or a run with this id exists. A nested run without records is replaced.
    fn insert_run(&self, id: RunId, ensemble: &str) -> Result<Arc<dyn StoredRun>, StoreError> {
        id.check_validity()?;
        let mut runs = lock_mutex(&self.0);
        if runs.get(&id).is_some_and(|run| !run.is_nested_and_empty(&id)) {
            return Err(StoreError::Exists(id));
        }
        let shared = Arc::new(SharedMemoryRun {
            ensemble: ensemble.to_owned(),
            records: Mutex::default(),
            is_leased: AtomicBool::new(false),
        });
        runs.insert(id.clone(), Arc::clone(&shared));
        drop(runs);
        Ok(self.open_handle(id, shared))
    }

    /// Creates a handle for the run.
    fn open_handle(&self, id: RunId, shared: Arc<SharedMemoryRun>) -> Arc<dyn StoredRun> {
        Arc::new(MemoryRun {
            id,
            run: shared,
            store: self.clone(),
        })
    }
}

impl SharedMemoryRun {
    /// Returns whether the run has no records.
    fn has_no_records(&self) -> bool {
        lock_mutex(&self.records).is_empty()
    }

    /// Returns whether the run is nested and has no records.
    fn is_nested_and_empty(&self, id: &RunId) -> bool {
        id.nested_names().next().is_some() && self.has_no_records()
    }
}

impl RunStore for MemoryStore {
    fn describe_location(&self) -> String {
        "memory".to_owned()
    }

    fn create_run<'a>(
        &'a self,
        id: &'a RunId,
        ensemble: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move { self.insert_run(id.clone(), ensemble) })
    }

    fn list_runs(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn StoredRun>>, StoreError>> {
        Box::pin(async move {
            let runs = lock_mutex(&self.0).clone();
            let outermost = runs
                .into_iter()
                .filter(|(id, run)| id.nested_names().next().is_none() && !run.has_no_records());
            Ok(outermost.map(|(id, shared)| self.open_handle(id, shared)).collect())
        })
    }
}

impl StoredRun for MemoryRun {
    fn id(&self) -> &RunId {
        &self.id
    }

    fn acquire_lease(&self) -> BoxFuture<'_, Result<Box<dyn RunLease>, StoreError>> {
        Box::pin(async move {
            if self.run.is_leased.swap(true, Ordering::AcqRel) {
                return Err(StoreError::Leased {
                    id: self.id.clone(),
                    owner: "or another handle in this one".to_owned(),
                });
            }
            Ok(Box::new(MemoryLease(Arc::clone(&self.run))) as Box<dyn RunLease>)
        })
    }

    fn open_log(&self, end: LogEnd, _durability: Durability) -> BoxFuture<'_, Result<Box<dyn RunLog>, StoreError>> {
        Box::pin(async move {
            let mut records = lock_mutex(&self.run.records);
            let end = usize::try_from(end.position).unwrap_or(usize::MAX);
            if end == 0 && !records.is_empty() {
                return Err(StoreError::Exists(self.id.clone()));
            }
            records.truncate(end);
            Ok(Box::new(MemoryLog(Arc::clone(&self.run))) as Box<dyn RunLog>)
        })
    }

    fn open_reader(&self) -> BoxFuture<'_, Result<Box<dyn RunRecordReader>, LogReadError>> {
        Box::pin(async move { Ok(Box::new(self.new_reader()) as Box<dyn RunRecordReader>) })
    }

    fn open_follower(&self) -> Box<dyn RunLogFollower> {
        Box::new(self.new_reader())
    }

    fn load_ensemble_text(&self) -> BoxFuture<'_, Result<String, StoreError>> {
        Box::pin(async move { Ok(self.run.ensemble.clone()) })
    }

    fn create_nested_run<'a>(
        &'a self,
        name: &'a str,
        ensemble: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move { self.store.insert_run(self.id.parse_nested_name(name)?, ensemble) })
    }

    fn find_nested_run<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Arc<dyn StoredRun>>, StoreError>> {
        Box::pin(async move {
            let Ok(id) = self.id.parse_nested_name(name) else {
                return Ok(None);
            };
            let shared = lock_mutex(&self.store.0).get(&id).cloned();
            Ok(shared.map(|shared| self.store.open_handle(id, shared)))
        })
    }

    fn list_nested_run_names(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let inside = format!("{}/sub/", self.id);
            let runs = lock_mutex(&self.store.0);
            let names = runs.keys().filter_map(|id| id.as_str().strip_prefix(&inside));
            Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
        })
    }

    fn remove_run(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let inside = format!("{}/", self.id);
            lock_mutex(&self.store.0).retain(|id, _| *id != self.id && !id.as_str().starts_with(&inside));
            Ok(())
        })
    }
}

impl MemoryRun {
    /// Creates a reader that starts at the first record.
    fn new_reader(&self) -> MemoryReader {
        MemoryReader {
            place: format!("run {}", self.id),
            run: Arc::clone(&self.run),
            next: 0,
        }
    }
}

impl RunLease for MemoryLease {}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.0.is_leased.store(false, Ordering::Release);
    }
}

impl RunLog for MemoryLog {
    fn append<'a>(&'a mut self, record: &'a Record) -> LogFuture<'a> {
        lock_mutex(&self.0.records).push(record.clone());
        LogFuture::ready(Ok(()))
    }

    fn sync(&mut self, _point: SyncPoint) -> LogFuture<'_> {
        LogFuture::ready(Ok(()))
    }
}

impl MemoryReader {
    /// Returns the next record, if there is one, and advances.
    fn next_available_record(&mut self) -> Option<Record> {
        let record = lock_mutex(&self.run.records).get(self.next).cloned()?;
        self.next += 1;
        Some(record)
    }
}

impl RunRecordReader for MemoryReader {
    fn next_record(&mut self) -> BoxFuture<'_, Result<Option<Record>, LogReadError>> {
        Box::pin(async move {
            match self.next_available_record() {
                None if self.next == 0 => Err(LogReadError::Empty {
                    place: self.place.clone(),
                }),
                record => Ok(record),
            }
        })
    }

    fn position_after_read_records(&self) -> LogEnd {
        LogEnd {
            position: self.next as u64,
        }
    }

    fn has_dropped_incomplete_record(&self) -> bool {
        false
    }
}

impl RunLogFollower for MemoryReader {
    fn poll_records(&mut self) -> BoxFuture<'_, Result<Vec<Record>, LogReadError>> {
        Box::pin(async move { Ok(std::iter::from_fn(|| self.next_available_record()).collect()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::contract;

    #[tokio::test]
    async fn the_contract_holds() {
        contract::check_store_contract(|| Arc::new(MemoryStore::new())).await;
    }
}
