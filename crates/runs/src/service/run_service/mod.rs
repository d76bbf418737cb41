//! Runs held for several clients: a page, an editor, a program that calls tools.
//!
//! A run goes on when the client that started it is gone. Any client starts, follows, answers, cancels, resumes, continues
//! and lists runs by their ids. The logs are the only state: a service that is started again finds the same runs, and what
//! a killed one drove is [interrupted](RunState::Interrupted) and can be resumed.
//!
//! Invariant: losing a client changes nothing in a run, and the logs are the only state.

mod answering;
mod follow;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ensemble_core::conversation::Canceller;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{RunId, StoreError, StoredRun};
use ensemble_history::{Driver, RunHistory, RunState, RunSummary};
use ensemble_language::data::Context;
use tokio::sync::watch;

use crate::drive::events::{LogReader, RunEvent};
use crate::drive::run::Run;
use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::start::ready::Ready;
use crate::start::recorded_run::RecordedRun;
use crate::start::runs::{EnsembleRef, Runs};

pub use follow::Follow;

/// Runs held for several clients. Clones share them.
#[derive(Clone)]
pub struct RunService(Arc<Inner>);

struct Inner {
    runs: Runs,
    held: Mutex<HashMap<RunId, Held>>,
    /// Counts the runs that began or ended here.
    changes: watch::Sender<u64>,
    /// Held while a run is resumed for an answer.
    resuming: tokio::sync::Mutex<()>,
}

/// A run that this process drives.
#[derive(Clone)]
enum Held {
    /// Its conversation goes on.
    Driven(Arc<Run>),
    /// Its conversation is over, and its lease is not given back yet.
    Closing,
}

impl RunService {
    /// Holds runs of this project.
    pub fn new(runs: Runs) -> Self {
        Self(Arc::new(Inner {
            runs,
            held: Mutex::default(),
            changes: watch::Sender::new(0),
            resuming: tokio::sync::Mutex::default(),
        }))
    }

    /// The project's runs, and where they are kept.
    pub fn runs(&self) -> &Runs {
        &self.0.runs
    }

    /// Starts a run, which goes on without its client.
    ///
    /// # Errors
    /// As [`Runs::start`].
    pub async fn start(&self, ensemble: impl Into<EnsembleRef>, options: RunOptions) -> Result<RunId, RunError> {
        self.begin(self.0.runs.ready(ensemble, options)?).await
    }

    /// Begins a run that was made ready, and holds it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn begin<'f>(&'f self, ready: Ready) -> BoxFuture<'f, Result<RunId, RunError>> {
        Box::pin(async move { Ok(self.hold(ready.begin().await?)) })
    }

    /// Goes on with a run that was cut short, or that waits for an answer.
    ///
    /// # Errors
    /// As [`Runs::resume`]. A run whose conversation goes on here is [`StoreError::Leased`].
    pub async fn resume(&self, id: &RunId, options: RunOptions) -> Result<(), RunError> {
        self.until_closed(id).await;
        self.hold(self.0.runs.resume(id, options).await?);
        Ok(())
    }

    /// Adds a message, and values in the place of inputs and context, to a run that has ended, and goes on.
    ///
    /// # Errors
    /// As [`Runs::continue_with`]. A run whose conversation goes on here is [`StoreError::Leased`].
    pub async fn continue_with(
        &self,
        id: &RunId,
        message: impl Into<Arc<str>>,
        set: Context,
        options: RunOptions,
    ) -> Result<(), RunError> {
        self.until_closed(id).await;
        let held = self.0.runs.hold(id).await?;
        self.begin(held.continue_with(message, set, options)?).await?;
        Ok(())
    }

    /// All events of a run from the record `from` on, whoever drives it.
    ///
    /// # Errors
    /// There is no such run.
    pub fn follow<'f>(&'f self, id: &'f RunId, from: u64) -> BoxFuture<'f, Result<Follow, StoreError>> {
        Box::pin(async move {
            match self.driven(id) {
                Some(run) => Ok(Follow::driven(run.events_from(from))),
                None => Ok(Follow::recorded(self.find(id).await?, from)),
            }
        })
    }

    /// Stops a run that goes on here; it can be resumed. What it did until then is kept.
    ///
    /// # Errors
    /// Somebody else drives the run, or nobody does.
    pub async fn cancel(&self, id: &RunId, by: impl Into<Arc<str>>) -> Result<(), RunError> {
        if let Some(run) = self.driven(id) {
            run.cancel(Canceller::Client(by.into()));
            return Ok(());
        }
        self.until_closed(id).await;
        let lease = self.find(id).await?.lease().await?;
        drop(lease);
        Err(RunError::NotAsked(format!(
            "run {id} does not go on, so there is nothing to cancel"
        )))
    }

    /// Does the conversation of the run go on here?
    pub fn is_driven_here(&self, id: &RunId) -> bool {
        self.driven(id).is_some()
    }

    /// Waits until the conversation of a run that goes on here is over and the run is closed. Returns at once for others.
    pub fn ended<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, ()> {
        Box::pin(async move {
            if let Some(run) = self.driven(id) {
                let _ = run.outcome().await;
            }
            self.until_closed(id).await;
        })
    }

    /// What a run did until now.
    ///
    /// # Errors
    /// There is no such run, or its log cannot be read.
    pub fn summary<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, Result<RunSummary, RunError>> {
        Box::pin(async move { self.read_summary(&*self.find(id).await?).await })
    }

    /// What the latest runs did until now, the latest first, at most `limit`. A run whose log cannot be read is an error.
    ///
    /// # Errors
    /// The store cannot be listed.
    pub fn list<'f>(&'f self, limit: usize) -> BoxFuture<'f, Result<Vec<Result<RunSummary, RunError>>, RunError>> {
        Box::pin(async move {
            let mut summaries = Vec::new();
            for run in self.0.runs.store().list().await?.iter().rev().take(limit) {
                summaries.push(self.read_summary(&**run).await);
            }
            Ok(summaries)
        })
    }

    /// The run as it is recorded, with its state and its ensemble.
    ///
    /// # Errors
    /// There is no such run, or it cannot be read.
    pub fn recorded<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, Result<RecordedRun, RunError>> {
        Box::pin(async move { RecordedRun::read(self.find(id).await?, self.0.runs.project()).await })
    }

    /// All records of a run until now, and those of the runs inside it, in the order in which a client that follows the run is
    /// told them.
    ///
    /// # Errors
    /// There is no such run, or a log cannot be read.
    pub fn recorded_events<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, Result<Vec<RunEvent>, RunError>> {
        Box::pin(async move { Ok(LogReader::new(self.find(id).await?, 0).rest().await?) })
    }

    /// Changes when a run begins or ends here.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    async fn read_summary(&self, run: &dyn StoredRun) -> Result<RunSummary, RunError> {
        // Found before the log is read: everything that another process wrote before its end is read.
        let driver = self.driver(run);
        let history = RunHistory::from_records(&run.read_all().await?.records);
        self.summarize(run.id(), &history, driver).ok_or(RunError::NotBegun)
    }

    /// Returns the process that drives the run.
    pub fn driver(&self, run: &dyn StoredRun) -> Driver {
        match self.is_driven_here(run.id()) {
            true => Driver::Process(std::process::id()),
            false => run.driver().into(),
        }
    }

    /// Returns the summary of a run with this history; `None` if the run has no records.
    pub fn summarize(&self, id: &RunId, history: &RunHistory, driver: Driver) -> Option<RunSummary> {
        let summary = history.summary(id.clone(), driver)?;
        Some(RunSummary {
            state: self.state(id, history, driver),
            ..summary
        })
    }

    /// Returns the state of a run with this history. This process knows more than the records of a run that goes on
    /// here: a run that ended is about to continue, and a question can be open that no record contains.
    pub fn state(&self, id: &RunId, history: &RunHistory, driver: Driver) -> RunState {
        if !self.is_driven_here(id) {
            return history.state(driver);
        }
        match self.open_requests(id).is_empty() {
            true if history.ended().is_some() => RunState::Running,
            true => history.state(driver),
            false => RunState::Waiting,
        }
    }

    async fn find(&self, id: &RunId) -> Result<Arc<dyn StoredRun>, StoreError> {
        match self.driven(id) {
            Some(run) => Ok(run.stored().clone()),
            None => self.0.runs.find(id).await,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Held>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handle of a run whose conversation goes on here.
    fn driven(&self, id: &RunId) -> Option<Arc<Run>> {
        match self.lock().get(id) {
            Some(Held::Driven(run)) if !run.is_over() => Some(run.clone()),
            _ => None,
        }
    }

    /// Holds a run until its conversation is over.
    fn hold(&self, run: Run) -> RunId {
        let id = run.id().clone();
        let run = Arc::new(run);
        self.lock().insert(id.clone(), Held::Driven(run.clone()));
        self.change();
        tokio::spawn({
            let (service, id) = (self.clone(), id.clone());
            async move {
                let _ = run.outcome().await;
                let closed = run.closed();
                service.lock().insert(id.clone(), Held::Closing);
                // The run is closed when the last handle is dropped.
                drop(run);
                closed.await;
                service.lock().remove(&id);
                service.change();
            }
        });
        id
    }

    fn change(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Waits until a run whose conversation is over has given its lease back.
    fn until_closed<'f>(&'f self, id: &'f RunId) -> BoxFuture<'f, ()> {
        Box::pin(async move {
            let mut changes = self.changes();
            loop {
                let is_closing = match self.lock().get(id) {
                    Some(Held::Driven(run)) => run.is_over(),
                    Some(Held::Closing) => true,
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
