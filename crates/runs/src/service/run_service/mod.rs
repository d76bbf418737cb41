//! Runs held for several clients: a page, an editor, a program that calls tools.
//!
//! A run goes on when the client that started it is gone. Any client starts, follows, answers, cancels, resumes, continues
//! and lists runs by their ids. The logs are the only state: a service that is started again finds the same runs, and what
//! a killed one drove is [interrupted](RunState::Interrupted) and can be resumed.
//!
//! Invariant: losing a client changes nothing in a run, and the logs are the only state.

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

/// Runs held for several clients. Clones share them.
#[derive(Clone)]
pub struct RunService(Arc<RunServiceShared>);

struct RunServiceShared {
    runs: Runs,
    held: Mutex<HashMap<RunId, ServiceRunState>>,
    /// Counts the runs that began or ended here.
    changes: watch::Sender<u64>,
    /// Held while a run is resumed for an answer.
    resuming: tokio::sync::Mutex<()>,
}

/// A run that this process drives.
#[derive(Clone)]
enum ServiceRunState {
    /// Its conversation goes on.
    Driven(Arc<RunHandle>),
    /// Its conversation is over, and its lease is not given back yet.
    Closing,
}

impl RunService {
    /// Holds runs of this project.
    pub fn new(runs: Runs) -> Self {
        Self(Arc::new(RunServiceShared {
            runs,
            held: Mutex::default(),
            changes: watch::Sender::new(0),
            resuming: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns the project's runs, and where they are kept.
    pub fn runs(&self) -> &Runs {
        &self.0.runs
    }

    /// Starts a run, which goes on without its client.
    ///
    /// # Errors
    /// As [`Runs::start_run`].
    pub async fn start_run(&self, ensemble: impl Into<EnsembleRef>, options: RunOptions) -> Result<RunId, RunError> {
        self.start_prepared_run(self.0.runs.prepare_run(ensemble, options)?)
            .await
    }

    /// Begins a run that was made ready, and holds it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn start_prepared_run<'f>(&'f self, ready: ReadyRun) -> BoxFuture<'f, Result<RunId, RunError>> {
        Box::pin(async move { Ok(self.register_until_closed(ready.start_and_spawn().await?)) })
    }

    /// Goes on with a run that was cut short, or that waits for an answer.
    ///
    /// # Errors
    /// As [`Runs::resume_run`]. A run whose conversation goes on here is [`StoreError::Leased`].
    pub async fn resume_run(&self, id: &RunId, options: RunOptions) -> Result<(), RunError> {
        self.wait_for_released_lease(id).await;
        self.register_until_closed(self.0.runs.resume_run(id, options).await?);
        Ok(())
    }

    /// Adds a message, and values in the place of inputs and context, to a run that has ended, and goes on.
    ///
    /// # Errors
    /// As [`Runs::continue_run`]. A run whose conversation goes on here is [`StoreError::Leased`].
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

    /// Returns all events of a run from the record `from` on, whoever drives it.
    ///
    /// # Errors
    /// There is no such run.
    pub fn follow_run<'f>(&'f self, id: &'f RunId, from: u64) -> BoxFuture<'f, Result<RunEventStream, StoreError>> {
        Box::pin(async move {
            match self.find_driven_run(id) {
                Some(run) => Ok(run.events_from(from)),
                None => Ok(RunEventStream::from_stored_run(self.resolve_run(id).await?, from)),
            }
        })
    }

    /// Stops a run that goes on here; it can be resumed. What it did until then is kept.
    ///
    /// # Errors
    /// Somebody else drives the run, or nobody does.
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

    /// Does the conversation of the run go on here?
    pub fn is_driven_here(&self, id: &RunId) -> bool {
        self.find_driven_run(id).is_some()
    }

    /// Waits until the conversation of a run that goes on here is over and the run is closed. Returns at once for others.
    pub fn wait_until_closed<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, ()> {
        Box::pin(async move {
            if let Some(run) = self.find_driven_run(id) {
                let _ = run.wait_for_end().await;
            }
            self.wait_for_released_lease(id).await;
        })
    }

    /// What a run did until now.
    ///
    /// # Errors
    /// There is no such run, or its log cannot be read.
    pub fn load_summary<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, Result<RunSummary, RunError>> {
        Box::pin(async move { self.load_run_summary(&*self.resolve_run(id).await?).await })
    }

    /// What the latest runs did until now, the latest first, at most `limit`. A run whose log cannot be read is an error.
    ///
    /// # Errors
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

    /// Returns the run as it is recorded, with its state and its ensemble.
    ///
    /// # Errors
    /// There is no such run, or it cannot be read.
    pub fn load_recorded_run<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, Result<RecordedRun, RunError>> {
        Box::pin(async move { RecordedRun::load(self.resolve_run(id).await?, self.0.runs.project()).await })
    }

    /// Returns all records of a run until now, and those of the runs inside it, in the order in which a client that
    /// follows the run is told them.
    ///
    /// # Errors
    /// There is no such run, or a log cannot be read.
    pub fn read_records_with_nested<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, Result<Vec<RunEvent>, RunError>> {
        Box::pin(async move {
            Ok(RunTreeReader::new(self.resolve_run(id).await?, 0)
                .read_unread_records()
                .await?)
        })
    }

    /// Changes when a run begins or ends here.
    pub fn subscribe_changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

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

    /// Returns the summary of a run with this history; `None` if the run has no records.
    pub fn summarize_current_run(&self, id: &RunId, history: &RunHistory, driver: DriverProcess) -> Option<RunSummary> {
        let summary = history.summarize_run(id.clone(), driver)?;
        Some(RunSummary {
            state: self.current_run_state(id, history, driver),
            ..summary
        })
    }

    /// Returns the state of a run with this history. This process knows more than the records of a run that goes on
    /// here: a run that ended is about to continue, and a question can be open that no record contains.
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

    async fn resolve_run(&self, id: &RunId) -> Result<Arc<dyn StoredRun>, StoreError> {
        match self.find_driven_run(id) {
            Some(run) => Ok(run.stored_run().clone()),
            None => self.0.runs.resolve_run(id).await,
        }
    }

    fn lock_runs(&self) -> MutexGuard<'_, HashMap<RunId, ServiceRunState>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the handle of a run whose conversation goes on here.
    fn find_driven_run(&self, id: &RunId) -> Option<Arc<RunHandle>> {
        match self.lock_runs().get(id) {
            Some(ServiceRunState::Driven(run)) if !run.has_segment_ended() => Some(run.clone()),
            _ => None,
        }
    }

    /// Holds a run until its conversation is over.
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

    fn notify_subscribers(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Waits until a run whose conversation is over has given its lease back.
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
