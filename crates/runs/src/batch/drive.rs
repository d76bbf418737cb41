//! Working on a batch: several runs at once, until all rows have ended, the money is spent, or somebody stops it.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_agents::agent::kinds::input::RunAnswers;
use ensemble_core::conversation::{CompletionReason, ConversationState, RunCanceller};
use ensemble_core::executor::WallClock;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{ReadError, RunId, RunStore, StoredRun};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::{Batch, BatchEntry, BatchError, PlannedRow};
use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::start::ready::ReadyRun;
use crate::start::recorded_run::RecordedRun;
use crate::start::runs::{HeldRun, WhichRun};

/// The options of a batch.
#[derive(Clone)]
pub struct BatchOptions {
    /// The largest number of runs at once.
    pub jobs: NonZeroUsize,
    /// The rows that run again although their runs have ended.
    pub retry: Vec<RetriedRows>,
    /// When all rows have cost as much, no further run begins.
    pub max_cost: Option<f64>,
    /// Who holds the runs; `None`: this process.
    pub engine: Option<Arc<dyn RunEngine>>,
}

/// Rows that run again although their runs have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetriedRows {
    /// Those whose exit code is not 0.
    Failed,
    /// Those with this outcome.
    Outcome(CompletionReason),
}

impl RetriedRows {
    /// Returns whether the row with this result is one of them.
    fn contains(self, entry: &BatchEntry) -> bool {
        match self {
            Self::Failed => !entry.is_success(),
            Self::Outcome(outcome) => entry.outcome == outcome,
        }
    }
}

/// The reason why the work has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchEnd {
    /// All rows have ended.
    Done,
    /// The rows have cost what they may.
    CostLimit,
    /// Somebody has stopped it.
    StoppedBy(RunCanceller),
}

/// A row has ended.
pub struct RowResult<'a> {
    /// The number of the row in the table, from 1.
    pub number: usize,
    /// Where the row was read.
    pub place: &'a str,
    /// What has come of it.
    pub entry: &'a BatchEntry,
    /// The rows that have not ended.
    pub remaining_rows: usize,
    /// What all rows have cost, if that is known.
    pub cost: Option<f64>,
}

/// Holds the runs of a batch in the place of this process: a durable execution engine.
pub trait RunEngine: Send + Sync {
    /// Drives a new run to its end, and keeps a copy of it in the store. A run with this id that goes on already, or has
    /// ended, is taken up. When the future is dropped, the run goes on.
    fn drive_run<'a>(
        &'a self,
        ready: ReadyRun,
        id: RunId,
        given: EngineRunOptions,
        store: &'a dyn RunStore,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, RunError>>;

    /// Lets a run go on that was cancelled, of which the store has a copy, and keeps a copy of it when it has ended. When the future is
    /// dropped, the run goes on. `at`: now.
    fn resume_run<'a>(
        &'a self,
        id: RunId,
        at: DateTime<Utc>,
        store: &'a dyn RunStore,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, RunError>>;
}

/// The arguments of a run apart from its input, for an engine.
#[derive(Debug, Clone)]
pub struct EngineRunOptions {
    /// The answers of input agents.
    pub answers: RunAnswers,
    /// Tools that may be called without asking.
    pub allowed_tools: Vec<String>,
    /// Tools that may not be called.
    pub denied_tools: Vec<String>,
}

/// The work for a row.
enum RowWork {
    /// The run has ended already.
    AlreadyEnded(Box<BatchEntry>),
    /// A new run.
    Run(RunId, Box<ReadyRun>),
    /// The rest of this run.
    Resume(RunId, Box<(HeldRun, RunOptions)>),
}

impl Batch {
    /// Returns the rows to work on: those that have not ended, and those with an outcome that is tried again.
    pub fn count_rows_to_run(&self, retry: &[RetriedRows]) -> usize {
        self.rows.iter().filter(|planned| needs_run(planned, retry)).count()
    }

    /// Runs the ensemble for all rows that have not ended. `options` gives the options of one run; input and values come from the
    /// row. `told` is called with each row that ends. When `stop` is ready, the runs are cancelled and can go on later.
    ///
    /// # Errors
    /// A run cannot begin, or a file cannot be written; the other runs are cancelled then, and can go on later.
    pub async fn run_rows(
        &mut self,
        driving: &BatchOptions,
        options: impl Fn() -> Result<RunOptions, RunError>,
        mut told: impl FnMut(&RowResult<'_>),
        stop: impl Future<Output = RunCanceller>,
    ) -> Result<BatchEnd, BatchError> {
        let mut rows = std::mem::take(&mut self.rows);
        let result = self
            .run_planned_rows(&mut rows, driving, options, &mut told, stop)
            .await;
        self.rows = rows;
        result
    }

    async fn run_planned_rows(
        &self,
        rows: &mut [PlannedRow],
        driving: &BatchOptions,
        options: impl Fn() -> Result<RunOptions, RunError>,
        told: &mut impl FnMut(&RowResult<'_>),
        stop: impl Future<Output = RunCanceller>,
    ) -> Result<BatchEnd, BatchError> {
        let mut queue: VecDeque<usize> = (0..rows.len())
            .filter(|at| needs_run(&rows[*at], &driving.retry))
            .collect();
        let mut remaining = queue.len();
        let mut cost = self::total_cost(rows);
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
                under_way.push(async move { (at, self.run_row(input, options, engine, cancelled).await) });
            }
            let (at, result) = tokio::select! {
                ended = under_way.next() => match ended {
                    Some(ended_row) => ended_row,
                    None => break,
                },
                by = &mut stop, if stopped.is_none() => {
                    let _nobody_runs = cancel.send(Some(by.clone()));
                    stopped = Some(by);
                    continue;
                }
            };
            match result.and_then(|entry| entry.map(|entry| self.append_entry(entry)).transpose()) {
                // The engine goes on with the run.
                Ok(None) => {}
                Ok(Some(entry)) => {
                    remaining -= usize::from(!entry.is_resumable());
                    cost += entry.cost().unwrap_or(0.0);
                    let before = rows[at].entry.replace(entry);
                    cost -= before.as_ref().and_then(BatchEntry::cost).unwrap_or(0.0);
                    report_row(told, &rows[at], remaining, cost);
                }
                Err(error) => {
                    failed.get_or_insert(error.into());
                    let _nobody_runs = cancel.send(Some(RunCanceller::Client("the batch".into())));
                }
            }
        }
        match (failed, stopped) {
            (Some(error), _) => Err(error),
            (None, Some(by)) => Ok(BatchEnd::StoppedBy(by)),
            (None, None) if queue.is_empty() => Ok(BatchEnd::Done),
            (None, None) => Ok(BatchEnd::CostLimit),
        }
    }

    /// Runs the ensemble for one row, to its end or until it is cancelled. `None`: an engine goes on with it.
    async fn run_row(
        &self,
        (id, row, entry): (RunId, super::BatchRow, Option<BatchEntry>),
        options: Result<RunOptions, RunError>,
        engine: Option<&dyn RunEngine>,
        mut cancelled: watch::Receiver<Option<RunCanceller>>,
    ) -> Result<Option<BatchEntry>, RunError> {
        let mut options = options?;
        options.input = row.input;
        options.context = row.values;
        options.texts = row.texts;
        let engine_options = EngineRunOptions {
            answers: options.answers.clone(),
            allowed_tools: options.allowed_tools.clone(),
            denied_tools: options.denied_tools.clone(),
        };
        let store = self.runs.store();
        let (run_id, driven) = match (self.decide_row_work(&id, entry.as_ref(), options).await?, engine) {
            (RowWork::AlreadyEnded(entry), _) => return Ok(Some(*entry)),
            (RowWork::Run(run, ready), None) => return run_in_process(&id, &run, *ready, cancelled).await.map(Some),
            (RowWork::Resume(run, cut), None) => {
                let (held, options) = *cut;
                return run_in_process(&id, &run, held.prepare_resume(options)?, cancelled)
                    .await
                    .map(Some);
            }
            (RowWork::Run(run, ready), Some(engine)) => {
                (run.clone(), engine.drive_run(*ready, run, engine_options, &*store))
            }
            (RowWork::Resume(run, cut), Some(engine)) => {
                drop(cut);
                (run.clone(), engine.resume_run(run, self.runs.host().now(), &*store))
            }
        };
        let run = tokio::select! {
            run = driven => run?,
            _ = cancelled.wait_for(Option::is_some) => return Ok(None),
        };
        let recorded = RecordedRun::load(run, self.runs.project()).await?;
        entry_for_state(&id, &run_id, &recorded.state).map(Some)
    }

    /// Finds out what the row needs: a new run, the rest of a run, or nothing.
    async fn decide_row_work(
        &self,
        id: &RunId,
        entry: Option<&BatchEntry>,
        options: RunOptions,
    ) -> Result<RowWork, RunError> {
        let latest = self.latest_try_id(id);
        let Some(stored) = self.files.find_run(&latest) else {
            return self.prepare_new_run(latest, options);
        };
        let folder = stored.folder().map(|folder| folder.display().to_string());
        let which = WhichRun::Named(folder.unwrap_or_else(|| latest.to_string()));
        let leased_run = match self.runs.lease_run(which).await {
            Err(RunError::NotBegun | RunError::Read(ReadError::Empty { .. })) => {
                return self.prepare_new_run(latest, options);
            }
            held => held?,
        };
        if leased_run.recorded_run().has_ended() {
            let outcome = leased_run
                .recorded_run()
                .state
                .run_end()
                .map(|ended| ended.completion_reason);
            let is_known = |entry: &&BatchEntry| entry.run == latest.as_str() && Some(entry.outcome) == outcome;
            return match entry.filter(is_known) {
                // The index has this end, so its row is tried again.
                Some(_) => {
                    drop(leased_run);
                    self.prepare_new_run(next_try_id(id, &latest), options)
                }
                None => ended_row_work(id, &latest, leased_run.recorded_run()),
            };
        }
        let outcome = leased_run
            .recorded_run()
            .state
            .run_end()
            .map(|ended| ended.completion_reason);
        let is_known = entry.is_some_and(|entry| entry.run == latest.as_str());
        if !is_known && outcome.is_some_and(|outcome| outcome != CompletionReason::Cancelled) {
            return ended_row_work(id, &latest, leased_run.recorded_run());
        }
        Ok(RowWork::Resume(latest, Box::new((leased_run, options))))
    }

    fn prepare_new_run(&self, id: RunId, mut options: RunOptions) -> Result<RowWork, RunError> {
        self.files.discard_run(&id)?;
        options.id = Some(id.clone());
        let ready = self.runs.prepare_run_with(self.prepared.clone(), options)?;
        Ok(RowWork::Run(id, Box::new(ready)))
    }

    /// Returns the run of the row's last try.
    fn latest_try_id(&self, id: &RunId) -> RunId {
        let mut latest = id.clone();
        loop {
            let following = next_try_id(id, &latest);
            if self.files.find_run(&following).is_none() {
                return latest;
            }
            latest = following;
        }
    }

    /// Returns the entry, after it was added to the index.
    fn append_entry(&self, entry: BatchEntry) -> Result<BatchEntry, RunError> {
        self.files
            .add_line(&serde_json::to_string(&entry).unwrap_or_default())?;
        Ok(entry)
    }
}

/// Drives a run in this process, to its end or until it is cancelled.
async fn run_in_process(
    id: &RunId,
    run_id: &RunId,
    ready: ReadyRun,
    mut cancelled: watch::Receiver<Option<RunCanceller>>,
) -> Result<BatchEntry, RunError> {
    let run = ready.start().await?;
    tokio::select! {
        _ended = run.wait() => {}
        by = cancelled.wait_for(Option::is_some) => {
            if let Ok(Some(by)) = by.map(|by| by.clone()) {
                run.cancel(by);
            }
        }
    }
    let finished = run.wait_and_close().await?;
    entry_for_state(id, run_id, &finished.state)
}

fn entry_for_state(id: &RunId, run: &RunId, state: &ConversationState) -> Result<BatchEntry, RunError> {
    BatchEntry::from_state(id, run, state).ok_or(RunError::NotBegun)
}

fn ended_row_work(id: &RunId, run: &RunId, recorded: &RecordedRun) -> Result<RowWork, RunError> {
    Ok(RowWork::AlreadyEnded(Box::new(entry_for_state(
        id,
        run,
        &recorded.state,
    )?)))
}

/// Returns the id of the try after this one.
fn next_try_id(id: &RunId, latest: &RunId) -> RunId {
    let try_number = latest
        .as_str()
        .rsplit_once("-try")
        .and_then(|(_, number)| number.parse().ok());
    RunId::new(format!("{id}-try{}", try_number.unwrap_or(1_u32) + 1))
}

fn needs_run(planned: &PlannedRow, retry: &[RetriedRows]) -> bool {
    let ended_entry = planned.entry.as_ref().filter(|entry| !entry.is_resumable());
    ended_entry.is_none_or(|entry| retry.iter().any(|rows| rows.contains(entry)))
}

/// Returns the cost of all rows, as far as it is known.
fn total_cost(rows: &[PlannedRow]) -> f64 {
    let entries = rows.iter().filter_map(|planned| planned.entry.as_ref());
    entries.filter_map(BatchEntry::cost).sum()
}

fn report_row(told: &mut impl FnMut(&RowResult<'_>), planned: &PlannedRow, left: usize, cost: f64) {
    if let Some(entry) = &planned.entry {
        told(&RowResult {
            number: planned.number,
            place: &planned.row.place,
            entry,
            remaining_rows: left,
            cost: (cost > 0.0).then_some(cost),
        });
    }
}
