//! Working on a batch: several runs at once, until all rows have ended, the money is spent, or somebody stops it.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_agents::agent::kinds::input::Answers;
use ensemble_core::conversation::{Canceller, CompletionReason, ConversationState};
use ensemble_core::executor::Clock;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{ReadError, RunId, RunStore, StoredRun};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::{Batch, BatchError, Entry, Planned};
use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::start::ready::Ready;
use crate::start::recorded_run::RecordedRun;
use crate::start::runs::{HeldRun, WhichRun};

/// The options of a batch.
#[derive(Clone)]
pub struct Driving {
    /// The largest number of runs at once.
    pub jobs: NonZeroUsize,
    /// The outcomes whose rows run again.
    pub retry: Vec<CompletionReason>,
    /// When all rows have cost as much, no further run begins.
    pub max_cost: Option<f64>,
    /// Who holds the runs; `None`: this process.
    pub engine: Option<Arc<dyn Engine>>,
}

/// The reason why the work has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// All rows have ended.
    Done,
    /// The rows have cost what they may.
    Cost,
    /// Somebody has stopped it.
    By(Canceller),
}

/// A row has ended.
pub struct Ended<'a> {
    /// The number of the row in the table, from 1.
    pub number: usize,
    /// Where the row was read.
    pub place: &'a str,
    /// What has come of it.
    pub entry: &'a Entry,
    /// The rows that have not ended.
    pub left: usize,
    /// What all rows have cost, if that is known.
    pub cost: Option<f64>,
}

/// Holds the runs of a batch in the place of this process: a durable execution engine.
pub trait Engine: Send + Sync {
    /// Drives a new run to its end, and keeps a copy of it in the store. A run with this id that goes on already, or has
    /// ended, is taken up. When the future is dropped, the run goes on.
    fn drive<'a>(
        &'a self,
        ready: Ready,
        id: RunId,
        given: GivenToRun,
        store: &'a dyn RunStore,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, RunError>>;

    /// Lets a run go on that was cancelled, of which the store has a copy, and keeps a copy of it when it has ended. When the future is
    /// dropped, the run goes on. `at`: now.
    fn go_on<'a>(
        &'a self,
        id: RunId,
        at: DateTime<Utc>,
        store: &'a dyn RunStore,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, RunError>>;
}

/// The arguments of a run apart from its input, for an engine.
#[derive(Debug, Clone)]
pub struct GivenToRun {
    /// The answers of input agents.
    pub answers: Answers,
    /// Tools that may be called without asking.
    pub allowed_tools: Vec<String>,
    /// Tools that may not be called.
    pub denied_tools: Vec<String>,
}

/// The work for a row.
enum Work {
    /// The run has ended already.
    Nothing(Box<Entry>),
    /// A new run.
    Run(RunId, Box<Ready>),
    /// The rest of this run.
    GoOn(RunId, Box<(HeldRun, RunOptions)>),
}

impl Batch {
    /// The rows to work on: those that have not ended, and those with an outcome that is tried again.
    pub fn to_do(&self, retry: &[CompletionReason]) -> usize {
        self.rows.iter().filter(|planned| is_to_do(planned, retry)).count()
    }

    /// Runs the ensemble for all rows that have not ended. `options` gives the options of one run; input and values come from the
    /// row. `told` is called with each row that ends. When `stop` is ready, the runs are cancelled and can go on later.
    ///
    /// # Errors
    /// A run cannot begin, or a file cannot be written; the other runs are cancelled then, and can go on later.
    pub async fn drive(
        &mut self,
        driving: &Driving,
        options: impl Fn() -> Result<RunOptions, RunError>,
        mut told: impl FnMut(&Ended<'_>),
        stop: impl Future<Output = Canceller>,
    ) -> Result<Stop, BatchError> {
        let mut rows = std::mem::take(&mut self.rows);
        let result = self.drive_rows(&mut rows, driving, options, &mut told, stop).await;
        self.rows = rows;
        result
    }

    async fn drive_rows(
        &self,
        rows: &mut [Planned],
        driving: &Driving,
        options: impl Fn() -> Result<RunOptions, RunError>,
        told: &mut impl FnMut(&Ended<'_>),
        stop: impl Future<Output = Canceller>,
    ) -> Result<Stop, BatchError> {
        let mut queue: VecDeque<usize> = (0..rows.len())
            .filter(|at| is_to_do(&rows[*at], &driving.retry))
            .collect();
        let mut left = queue.len();
        let mut cost = self::cost(rows);
        let mut stopped = None;
        let mut failed: Option<BatchError> = None;
        let (cancel, cancelled) = watch::channel(None);
        let mut under_way = FuturesUnordered::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let may_begin = stopped.is_none() && failed.is_none() && driving.max_cost.is_none_or(|most| cost < most);
            while may_begin && under_way.len() < driving.jobs.get() {
                let Some(at) = queue.pop_front() else { break };
                let planned = &rows[at];
                let input = (planned.id.clone(), planned.row.clone(), planned.entry.clone());
                let options = options();
                let cancelled = cancelled.clone();
                let engine = driving.engine.as_deref();
                under_way.push(async move { (at, self.row(input, options, engine, cancelled).await) });
            }
            let (at, result) = tokio::select! {
                ended = under_way.next() => match ended {
                    Some(ended) => ended,
                    None => break,
                },
                by = &mut stop, if stopped.is_none() => {
                    let _nobody_runs = cancel.send(Some(by.clone()));
                    stopped = Some(by);
                    continue;
                }
            };
            match result.and_then(|entry| entry.map(|entry| self.noted(entry)).transpose()) {
                // The engine goes on with the run.
                Ok(None) => {}
                Ok(Some(entry)) => {
                    left -= usize::from(!entry.is_cut());
                    cost += entry.cost().unwrap_or(0.0);
                    let before = rows[at].entry.replace(entry);
                    cost -= before.as_ref().and_then(Entry::cost).unwrap_or(0.0);
                    tell(told, &rows[at], left, cost);
                }
                Err(error) => {
                    failed.get_or_insert(error.into());
                    let _nobody_runs = cancel.send(Some(Canceller::Client("the batch".into())));
                }
            }
        }
        match (failed, stopped) {
            (Some(error), _) => Err(error),
            (None, Some(by)) => Ok(Stop::By(by)),
            (None, None) if queue.is_empty() => Ok(Stop::Done),
            (None, None) => Ok(Stop::Cost),
        }
    }

    /// Runs the ensemble for one row, to its end or until it is cancelled. `None`: an engine goes on with it.
    async fn row(
        &self,
        (id, row, entry): (RunId, super::Row, Option<Entry>),
        options: Result<RunOptions, RunError>,
        engine: Option<&dyn Engine>,
        mut cancelled: watch::Receiver<Option<Canceller>>,
    ) -> Result<Option<Entry>, RunError> {
        let mut options = options?;
        options.input = row.input;
        options.context = row.values;
        options.texts = row.texts;
        let given = GivenToRun {
            answers: options.answers.clone(),
            allowed_tools: options.allowed_tools.clone(),
            denied_tools: options.denied_tools.clone(),
        };
        let store = self.runs.store();
        let (run_id, driven) = match (self.work(&id, entry.as_ref(), options).await?, engine) {
            (Work::Nothing(entry), _) => return Ok(Some(*entry)),
            (Work::Run(run, ready), None) => return driven_here(&id, &run, *ready, cancelled).await.map(Some),
            (Work::GoOn(run, cut), None) => {
                let (held, options) = *cut;
                return driven_here(&id, &run, held.resume(options)?, cancelled).await.map(Some);
            }
            (Work::Run(run, ready), Some(engine)) => (run.clone(), engine.drive(*ready, run, given, &*store)),
            (Work::GoOn(run, cut), Some(engine)) => {
                drop(cut);
                (run.clone(), engine.go_on(run, self.runs.host().now(), &*store))
            }
        };
        let run = tokio::select! {
            run = driven => run?,
            _ = cancelled.wait_for(Option::is_some) => return Ok(None),
        };
        let recorded = RecordedRun::read(run, self.runs.project()).await?;
        entry_of(&id, &run_id, &recorded.state).map(Some)
    }

    /// Finds out what the row needs: a new run, the rest of a run, or nothing.
    async fn work(&self, id: &RunId, entry: Option<&Entry>, options: RunOptions) -> Result<Work, RunError> {
        let latest = self.latest(id);
        let Some(stored) = self.files.run(&latest) else {
            return self.anew(latest, options);
        };
        let folder = stored.folder().map(|folder| folder.display().to_string());
        let which = WhichRun::Named(folder.unwrap_or_else(|| latest.to_string()));
        let held = match self.runs.hold(which).await {
            Err(RunError::NotBegun | RunError::Read(ReadError::Empty { .. })) => return self.anew(latest, options),
            held => held?,
        };
        if held.recorded().has_ended() {
            let outcome = held.recorded().state.ended().map(|ended| ended.completion_reason);
            let is_known = |entry: &&Entry| entry.run == latest.as_str() && Some(entry.outcome) == outcome;
            return match entry.filter(is_known) {
                // The index has this end, so its row is tried again.
                Some(_) => {
                    drop(held);
                    self.anew(next(id, &latest), options)
                }
                None => ended(id, &latest, held.recorded()),
            };
        }
        let outcome = held.recorded().state.ended().map(|ended| ended.completion_reason);
        let is_known = entry.is_some_and(|entry| entry.run == latest.as_str());
        if !is_known && outcome.is_some_and(|outcome| outcome != CompletionReason::Cancelled) {
            return ended(id, &latest, held.recorded());
        }
        Ok(Work::GoOn(latest, Box::new((held, options))))
    }

    fn anew(&self, id: RunId, mut options: RunOptions) -> Result<Work, RunError> {
        self.files.discard(&id)?;
        options.id = Some(id.clone());
        let ready = self.runs.ready_with(self.prepared.clone(), options)?;
        Ok(Work::Run(id, Box::new(ready)))
    }

    /// The run of the row's last try.
    fn latest(&self, id: &RunId) -> RunId {
        let mut latest = id.clone();
        loop {
            let following = next(id, &latest);
            if self.files.run(&following).is_none() {
                return latest;
            }
            latest = following;
        }
    }

    /// The entry, after it was added to the index.
    fn noted(&self, entry: Entry) -> Result<Entry, RunError> {
        self.files.add(&serde_json::to_string(&entry).unwrap_or_default())?;
        Ok(entry)
    }
}

/// Drives a run in this process, to its end or until it is cancelled.
async fn driven_here(
    id: &RunId,
    run_id: &RunId,
    ready: Ready,
    mut cancelled: watch::Receiver<Option<Canceller>>,
) -> Result<Entry, RunError> {
    let run = ready.begin().await?;
    tokio::select! {
        _ended = run.outcome() => {}
        by = cancelled.wait_for(Option::is_some) => {
            if let Ok(Some(by)) = by.map(|by| by.clone()) {
                run.cancel(by);
            }
        }
    }
    let finished = run.finish().await?;
    entry_of(id, run_id, &finished.state)
}

fn entry_of(id: &RunId, run: &RunId, state: &ConversationState) -> Result<Entry, RunError> {
    Entry::of(id, run, state).ok_or(RunError::NotBegun)
}

fn ended(id: &RunId, run: &RunId, recorded: &RecordedRun) -> Result<Work, RunError> {
    Ok(Work::Nothing(Box::new(entry_of(id, run, &recorded.state)?)))
}

/// The id of the try after this one.
fn next(id: &RunId, latest: &RunId) -> RunId {
    let tried = latest
        .as_str()
        .rsplit_once("-try")
        .and_then(|(_, number)| number.parse().ok());
    RunId::new(format!("{id}-try{}", tried.unwrap_or(1_u32) + 1))
}

fn is_to_do(planned: &Planned, retry: &[CompletionReason]) -> bool {
    let ended = planned.entry.as_ref().filter(|entry| !entry.is_cut());
    ended.is_none_or(|entry| retry.contains(&entry.outcome))
}

/// Returns the cost of all rows, as far as it is known.
fn cost(rows: &[Planned]) -> f64 {
    let entries = rows.iter().filter_map(|planned| planned.entry.as_ref());
    entries.filter_map(Entry::cost).sum()
}

fn tell(told: &mut impl FnMut(&Ended<'_>), planned: &Planned, left: usize, cost: f64) {
    if let Some(entry) = &planned.entry {
        told(&Ended {
            number: planned.number,
            place: &planned.row.place,
            entry,
            left,
            cost: (cost > 0.0).then_some(cost),
        });
    }
}
