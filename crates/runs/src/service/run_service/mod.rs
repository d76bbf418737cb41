//! A service that drives runs for several clients: a web page, an editor, a program that calls tools.
//!
//! A run continues when the client that started the run disconnects. Any client starts, follows, answers, cancels, resumes, continues and
//! lists runs by their ids. The logs are the only state: a restarted service finds the same runs, and runs of a killed service are
//! [interrupted](RunState::Interrupted) and can be resumed.
//!
//! Invariant: a disconnected client does not affect a run, and the logs are the only state.

mod answering;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ensemble_core::conversation::RunCanceller;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{RunId, StoreError, StoredRun};
use ensemble_history::{DriverProcess, RunHistory, RunState, RunSummary};
use ensemble_language::data::RunContext;
use tokio::sync::watch;

use crate::drive::events::{RunEvent, RunTreeReader};
use crate::drive::run::RunHandle;
use crate::drive::run_events::RunEventStream;
use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::start::ready::ReadyRun;
use crate::start::recorded_run::RecordedRun;
use crate::start::runs::{EnsembleRef, Runs};

/// A service that drives runs for several clients. Clones share the runs.
#[derive(Clone)]
pub struct RunService(Arc<RunServiceShared>);

/// The shared state of a run service.
struct RunServiceShared {
    runs: Runs,
    held: Mutex<HashMap<RunId, ServiceRunState>>,
    /// Counts the runs that began or ended here.
    changes: watch::Sender<u64>,
    /// Held while a run is resumed for an answer.
    resuming: tokio::sync::Mutex<()>,
}

/// The state of a run that this process drives: driven, or closing.
#[derive(Clone)]
enum ServiceRunState {
    /// The conversation of the run continues.
    Driven(Arc<RunHandle>),
    /// The conversation has ended, and the lease of the run is not released yet.
    Closing,
}

impl RunService {
    /// Creates a service for the runs of this project.
    pub fn new(runs: Runs) -> Self {
        Self(Arc::new(RunServiceShared {
            runs,
            held: Mutex::default(),
            changes: watch::Sender::new(0),
            resuming: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns the runs of the project, with their store.
    pub fn runs(&self) -> &Runs {
        &self.0.runs
    }

    /// Starts a run, which continues when its client disconnects.
    ///
    /// # Errors
    ///
    /// As [`Runs::start_run`].
    pub async fn start_run(&self, ensemble: impl Into<EnsembleRef>, options: RunOptions) -> Result<RunId, RunError> {
        self.start_prepared_run(self.0.runs.prepare_run(ensemble, options)?)
            .await
    }

    /// Starts a prepared run and drives it in the service.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn start_prepared_run<'f>(&'f self, ready: ReadyRun) -> BoxFuture<'f, Result<RunId, RunError>> {
        Box::pin(async move { Ok(self.register_until_closed(ready.start_and_spawn().await?)) })
    }

    /// Resumes a run that was interrupted, or that waits for an answer.
    ///
    /// # Errors
    ///
    /// As [`Runs::resume_run`]. A run that is running here is [`StoreError::Leased`].
    pub async fn resume_run(&self, id: &RunId, options: RunOptions) -> Result<(), RunError> {
        self.wait_for_released_lease(id).await;
        self.register_until_closed(self.0.runs.resume_run(id, options).await?);
        Ok(())
    }

    /// Continues an ended run with a user message. The values of `set` replace inputs and values of the context.
    ///
    /// # Errors
    ///
    /// As [`Runs::continue_with_message`]. A run that is running here is [`StoreError::Leased`].
    pub async fn continue_with_message(
        &self,
        id: &RunId,
        message: impl Into<Arc<str>>,
        set: RunContext,
        options: RunOptions,
    ) -> Result<(), RunError> {
        self.wait_for_released_lease(id).await;
        let leased_run = self.0.runs.lease_and_load_run(id).await?;
        self.start_prepared_run(leased_run.prepare_continuation(message, set, options)?)
            .await?;
        Ok(())
    }

    /// Returns all events of a run from the record `from` on, independent of the process that drives the run.
    ///
    /// # Errors
    ///
    /// The run does not exist.
    pub fn follow_run<'f>(&'f self, id: &'f RunId, from: u64) -> BoxFuture<'f, Result<RunEventStream, StoreError>> {
        Box::pin(async move {
            match self.find_driven_run(id) {
                Some(run) => Ok(run.events_from(from)),
                None => Ok(RunEventStream::from_stored_run(self.resolve_run(id).await?, from)),
            }
        })
    }

    /// Cancels a run that is running here. The run keeps its results and can be resumed.
    ///
    /// # Errors
    ///
    /// Another process or no process drives the run.
    pub async fn cancel_run(&self, id: &RunId, by: impl Into<Arc<str>>) -> Result<(), RunError> {
        if let Some(run) = self.find_driven_run(id) {
            run.cancel(RunCanceller::Client(by.into()));
            return Ok(());
        }
        self.wait_for_released_lease(id).await;
        let lease = self.resolve_run(id).await?.acquire_lease().await?;
        drop(lease);
        Err(RunError::NotAsked(format!(
            "run {id} is not running, so there is nothing to cancel"
        )))
    }

    /// Returns whether this process drives the conversation of the run.
    pub fn is_driven_here(&self, id: &RunId) -> bool {
        self.find_driven_run(id).is_some()
    }

    /// Waits until a run of this process has ended and is closed. Returns at once for other runs.
    pub fn wait_until_closed<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, ()> {
        Box::pin(async move {
            if let Some(run) = self.find_driven_run(id) {
                let _ = run.wait_for_end().await;
            }
            self.wait_for_released_lease(id).await;
        })
    }

    /// Loads the summary of a run.
    ///
    /// # Errors
    ///
    /// The run does not exist, or its log cannot be read.
    pub fn load_summary<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, Result<RunSummary, RunError>> {
        Box::pin(async move { self.load_run_summary(&*self.resolve_run(id).await?).await })
    }

    /// Loads the summaries of the latest runs, the latest first, at most `limit`. A run whose log cannot be read is an error in the list.
    ///
    /// # Errors
    ///
    /// The store cannot be listed.
    pub fn load_latest_summaries<'f>(
        &'f self,
        limit: usize,
    ) -> BoxFuture<'f, Result<Vec<Result<RunSummary, RunError>>, RunError>> {
        Box::pin(async move {
            let mut summaries = Vec::new();
            for run in self.0.runs.store().list_runs().await?.iter().rev().take(limit) {
                summaries.push(self.load_run_summary(&**run).await);
            }
            Ok(summaries)
        })
    }

    /// Loads a recorded run, with its state and its ensemble.
    ///
    /// # Errors
    ///
    /// The run does not exist or cannot be read.
    pub fn load_recorded_run<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, Result<RecordedRun, RunError>> {
        Box::pin(async move { RecordedRun::load(self.resolve_run(id).await?, self.0.runs.project()).await })
    }

    /// Reads all records of the run and of its nested runs, in the order in which a client that follows the run receives them.
    ///
    /// # Errors
    ///
    /// The run does not exist, or a log cannot be read.
    pub fn read_records_with_nested<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, Result<Vec<RunEvent>, RunError>> {
        Box::pin(async move {
            Ok(RunTreeReader::new(self.resolve_run(id).await?, 0)
                .read_unread_records()
                .await?)
        })
    }

    /// Returns a receiver that changes when a run starts or ends here.
    pub fn subscribe_changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Loads the summary of a stored run from its journal.
    ///
    /// # Errors
    ///
    /// The journal cannot be read or is empty.
    async fn load_run_summary(&self, run: &dyn StoredRun) -> Result<RunSummary, RunError> {
        // Found before the log is read: everything that another process wrote before its end is read.
        let driver = self.find_run_driver(run);
        let history = RunHistory::from_records(&run.read_journal().await?.records);
        self.summarize_current_run(run.id(), &history, driver)
            .ok_or(RunError::NotBegun)
    }

    /// Returns the process that drives the run.
    pub fn find_run_driver(&self, run: &dyn StoredRun) -> DriverProcess {
        match self.is_driven_here(run.id()) {
            true => DriverProcess::Process(std::process::id()),
            false => run.lease_holder_pid().into(),
        }
    }

    /// Returns the summary of a run with this history and its current state. Returns `None` if the run has no records.
    pub fn summarize_current_run(&self, id: &RunId, history: &RunHistory, driver: DriverProcess) -> Option<RunSummary> {
        let summary = history.summarize_run(id.clone(), driver)?;
        Some(RunSummary {
            state: self.current_run_state(id, history, driver),
            ..summary
        })
    }

    /// Returns the current state of a run. For a run that is running here, open questions that are not recorded yet count as well.
    pub fn current_run_state(&self, id: &RunId, history: &RunHistory, driver: DriverProcess) -> RunState {
        if !self.is_driven_here(id) {
            return history.run_state(driver);
        }
        match self.live_open_requests(id).is_empty() {
            true if history.end_event().is_some() => RunState::Running,
            true => history.run_state(driver),
            false => RunState::Waiting,
        }
    }

    /// Returns the stored run with this id, also while this process drives the run.
    async fn resolve_run(&self, id: &RunId) -> Result<Arc<dyn StoredRun>, StoreError> {
        match self.find_driven_run(id) {
            Some(run) => Ok(run.stored_run().clone()),
            None => self.0.runs.resolve_run(id).await,
        }
    }

    /// Locks the runs of this process, also after a panic of another thread.
    fn lock_runs(&self) -> MutexGuard<'_, HashMap<RunId, ServiceRunState>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the handle of a run that this process drives and that has not ended.
    fn find_driven_run(&self, id: &RunId) -> Option<Arc<RunHandle>> {
        match self.lock_runs().get(id) {
            Some(ServiceRunState::Driven(run)) if !run.has_segment_ended() => Some(run.clone()),
            _ => None,
        }
    }

    /// Adds the run to the service, and spawns a task that removes the run after its end. Returns its id.
    fn register_until_closed(&self, run: RunHandle) -> RunId {
        let id = run.id().clone();
        let run = Arc::new(run);
        self.lock_runs()
            .insert(id.clone(), ServiceRunState::Driven(run.clone()));
        self.notify_subscribers();
        tokio::spawn({
            let (service, id) = (self.clone(), id.clone());
            async move {
                let _ = run.wait_for_end().await;
                let closed = run.wait_until_closed();
                service.lock_runs().insert(id.clone(), ServiceRunState::Closing);
                // The run is closed when the last handle is dropped.
                drop(run);
                closed.await;
                service.lock_runs().remove(&id);
                service.notify_subscribers();
            }
        });
        id
    }

    /// Notifies the subscribers that a run has started or ended.
    fn notify_subscribers(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Waits until an ended run of this process has released its lease. Returns at once for other runs.
    fn wait_for_released_lease<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, ()> {
        Box::pin(async move {
            let mut changes = self.subscribe_changes();
            loop {
                let is_closing = match self.lock_runs().get(id) {
                    Some(ServiceRunState::Driven(run)) => run.has_segment_ended(),
                    Some(ServiceRunState::Closing) => true,
                    None => false,
                };
                if !is_closing || changes.changed().await.is_err() {
                    return;
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
