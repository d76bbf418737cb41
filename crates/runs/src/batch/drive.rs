//! The work on a batch: several runs in parallel, until all rows have ended, the cost limit is reached, or the work is stopped.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_agents::agent::kinds::input::PreparedAnswers;
use ensemble_core::conversation::{CompletionReason, RunCanceller};
use ensemble_core::executor::WallClock;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{LogReadError, RunId, RunStore, StoreError, StoredRun};
use ensemble_language::data::{Cost, sha256_of_text};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::forecast::CostForecast;
use super::identity::format_row_run_id;
use super::{Batch, BatchEntry, BatchError, BatchRow, PlannedRow, RowPlace, RowTask};
use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::start::ready::ReadyRun;
use crate::start::recorded_run::RecordedRun;
use crate::start::runs::{LeasedRun, RunSelector};

/// The options for the work on a batch: the number of parallel runs, a cost limit and a durable engine.
#[derive(Clone)]
pub struct BatchOptions {
    /// The maximum number of parallel runs.
    pub jobs: NonZeroUsize,
    /// The cost limit. No further run starts when all tries of all rows have reached this cost.
    pub max_cost: Option<Cost>,
    /// The engine that drives the runs. `None` means this process.
    pub engine: Option<Arc<dyn BatchRunEngine>>,
}

/// The reason why the work on a batch ended.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchWorkEnd {
    /// All rows have ended.
    Done,
    /// The rows have cost what they may, and this number of rows did not run.
    CostLimit(usize),
    /// Somebody has stopped it.
    StoppedBy(RunCanceller),
}

/// The report of a row that has ended, with the progress and cost of the whole batch.
pub struct RowReport<'a> {
    /// The number of the row in the table, from 1.
    pub number: usize,
    /// The place of the row in its table.
    pub place: &'a RowPlace,
    /// The result of the row.
    pub entry: &'a BatchEntry,
    /// The rows that have not ended.
    pub remaining_rows: usize,
    /// The cost of all tries of all rows, if known.
    pub cost: Option<Cost>,
}

/// A durable execution engine that drives the runs of a batch instead of this process.
pub trait BatchRunEngine: Send + Sync {
    /// Drives a run to its end and stores a copy. If the engine has a run with this id, waits for that run. Dropping the future does not
    /// stop the run.
    fn drive_or_attach_run<'a>(
        &'a self,
        ready: ReadyRun,
        id: RunId,
        given: EngineRunOptions,
        store: &'a dyn RunStore,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, RunError>>;

    /// Resumes a cancelled run of the engine, waits for its end and stores a copy. Dropping the future does not stop the run. `at` is the
    /// current time. With `refuses_exhausted`, the run records a success with exhausted agents as no success.
    fn resume_cancelled_run<'a>(
        &'a self,
        id: RunId,
        at: DateTime<Utc>,
        refuses_exhausted: bool,
        store: &'a dyn RunStore,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, RunError>>;
}

/// The arguments of a run, apart from its input, for an engine.
#[derive(Debug, Clone)]
pub struct EngineRunOptions {
    /// The answers of input agents.
    pub answers: PreparedAnswers,
    /// Tools that may be called without asking.
    pub allowed_tools: Vec<String>,
    /// Tools that may not be called.
    pub denied_tools: Vec<String>,
}

/// The work that a row needs: none, a new run, or the rest of a run.
enum RowWork {
    /// The run has ended already.
    AlreadyEnded(Box<BatchEntry>),
    /// A new run, with the number of its try.
    Run(u32, Box<ReadyRun>),
    /// The rest of this run.
    Resume(RunId, Box<(LeasedRun, RunOptions)>),
}

/// The data of a row that is needed to decide about its run and to start the run.
struct RowRunInput {
    key: String,
    row: BatchRow,
    task: RowTask,
    answers: PreparedAnswers,
    /// The number of the latest try.
    latest: u32,
    entry: Option<BatchEntry>,
}

/// The result of working on a row.
enum RowWorkResult {
    /// A try has ended.
    Ended(u32, Box<BatchEntry>),
    /// An engine continues the run.
    LeftToEngine,
    /// Another process executes the run. Contains the error with the process.
    Busy(String),
}

impl Batch {
    /// Runs the ensemble for all rows that have a task. `options` creates the options of one run. `told` receives the report of each row
    /// that ends. When `stop` is ready, the runs are cancelled and can be resumed.
    ///
    /// # Errors
    ///
    /// A run cannot start, or a file cannot be written. The other runs are cancelled then, and can be resumed.
    pub async fn run_rows(
        &mut self,
        driving: &BatchOptions,
        options: impl Fn() -> Result<RunOptions, RunError>,
        mut told: impl FnMut(&RowReport<'_>),
        stop: impl Future<Output = RunCanceller>,
    ) -> Result<BatchWorkEnd, BatchError> {
        let tasks: Vec<RowTask> = self.rows.iter().map(|planned| self.decide_row_task(planned)).collect();
        let mut rows = std::mem::take(&mut self.rows);
        let mut busy = Vec::new();
        let result = self
            .run_planned_rows((&mut rows, &tasks, &mut busy), driving, options, &mut told, stop)
            .await;
        self.rows = rows;
        self.busy = busy;
        result
    }

    /// Runs the rows of the queue, several at once, until all rows have ended, the cost limit is reached, or `stop` is ready.
    async fn run_planned_rows(
        &self,
        (rows, tasks, busy): (&mut [PlannedRow], &[RowTask], &mut Vec<(usize, String)>),
        driving: &BatchOptions,
        options: impl Fn() -> Result<RunOptions, RunError>,
        told: &mut impl FnMut(&RowReport<'_>),
        stop: impl Future<Output = RunCanceller>,
    ) -> Result<BatchWorkEnd, BatchError> {
        let mut queue: VecDeque<usize> = (0..rows.len()).filter(|at| tasks[*at].is_executed()).collect();
        let mut remaining = queue.len();
        let mut total = BatchCostTotal::from_rows(rows);
        let mut forecast = CostForecast::from_rows(rows);
        let mut stopped = None;
        let mut failed: Option<BatchError> = None;
        let (cancel, cancelled) = watch::channel(None);
        let mut under_way = FuturesUnordered::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let can_start = stopped.is_none() && failed.is_none();
            while can_start && forecast.has_room(total.spent, driving.max_cost) && under_way.len() < driving.jobs.get()
            {
                let Some(at) = queue.pop_front() else { break };
                forecast.start_row(at, rows[at].tries.unfinished_cost());
                let input = self.row_input(&rows[at], tasks[at].clone());
                let (options, cancelled) = (options(), cancelled.clone());
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
            forecast.end_row(at);
            match result.and_then(|outcome| self.append_outcome_to_index(outcome)) {
                Ok(RowWorkResult::LeftToEngine) => {}
                Ok(RowWorkResult::Busy(error)) => busy.push((rows[at].number, error)),
                Ok(RowWorkResult::Ended(number, entry)) => {
                    remaining -= usize::from(!entry.is_cancelled());
                    forecast.add_ended_try(&entry);
                    total.record_try_result(&mut rows[at], number, *entry);
                    report_ended_row(told, &rows[at], remaining, &total);
                }
                Err(error) => {
                    failed.get_or_insert(error.into());
                    let _nobody_runs = cancel.send(Some(RunCanceller::Client("the batch".into())));
                }
            }
        }
        match (failed, stopped) {
            (Some(error), _) => Err(error),
            (None, Some(by)) => Ok(BatchWorkEnd::StoppedBy(by)),
            (None, None) if queue.is_empty() => Ok(BatchWorkEnd::Done),
            (None, None) => Ok(BatchWorkEnd::CostLimit(queue.len())),
        }
    }

    /// Collects the data of the row for its run. The answers of the row replace the common answers.
    fn row_input(&self, planned: &PlannedRow, task: RowTask) -> RowRunInput {
        RowRunInput {
            key: planned.key.clone(),
            row: planned.row.clone(),
            task,
            answers: planned.answers.with_common_answers(&self.answers),
            latest: planned.tries.latest,
            entry: planned.tries.entry.clone(),
        }
    }

    /// Appends the result of an ended row to the index. Returns the outcome unchanged.
    fn append_outcome_to_index(&self, outcome: RowWorkResult) -> Result<RowWorkResult, RunError> {
        if let RowWorkResult::Ended(_, entry) = &outcome {
            self.append_entry(entry)?;
        }
        Ok(outcome)
    }

    /// Runs the ensemble for one row until the run ends or is cancelled, in this process or in the engine.
    async fn run_row(
        &self,
        input: RowRunInput,
        options: Result<RunOptions, RunError>,
        engine: Option<&dyn BatchRunEngine>,
        mut cancelled: watch::Receiver<Option<RunCanceller>>,
    ) -> Result<RowWorkResult, RunError> {
        let mut options = options?;
        options.input = input.row.input.clone();
        options.context = input.row.values.clone();
        options.texts = input.row.texts.clone();
        options.answers = input.answers.clone();
        let engine_options = EngineRunOptions {
            answers: options.answers.clone(),
            allowed_tools: options.allowed_tools.clone(),
            denied_tools: options.denied_tools.clone(),
        };
        let work = match self.decide_row_work(&input, options).await {
            Err(RunError::Store(error @ StoreError::Leased { .. })) => {
                return Ok(RowWorkResult::Busy(error.to_string()));
            }
            work => work?,
        };
        let latest = input.latest.max(1);
        let store = self.runs.store();
        let key = &*input.key;
        let (number, run, driven) = match (work, engine) {
            (RowWork::AlreadyEnded(entry), _) => return Ok(RowWorkResult::Ended(latest, entry)),
            (RowWork::Run(number, ready), None) => {
                let run = format_row_run_id(key, &self.version.digest, number);
                let entry = drive_in_process(key, &run, *ready, cancelled).await?;
                return Ok(RowWorkResult::Ended(number, Box::new(entry)));
            }
            (RowWork::Resume(run, cut), None) => {
                let (held, options) = *cut;
                let entry = drive_in_process(key, &run, held.prepare_resume(options)?, cancelled).await?;
                return Ok(RowWorkResult::Ended(latest, Box::new(entry)));
            }
            (RowWork::Run(number, ready), Some(engine)) => {
                let run = format_row_run_id(key, &self.version.digest, number);
                let driven = engine.drive_or_attach_run(*ready, run.clone(), engine_options, &*store);
                (number, run, driven)
            }
            (RowWork::Resume(run, cut), Some(engine)) => {
                let refuses_exhausted = cut.1.refuses_exhausted;
                drop(cut);
                let now = self.runs.host().now();
                let driven = engine.resume_cancelled_run(run.clone(), now, refuses_exhausted, &*store);
                (latest, run, driven)
            }
        };
        let stored = tokio::select! {
            run = driven => run?,
            _ = cancelled.wait_for(Option::is_some) => return Ok(RowWorkResult::LeftToEngine),
        };
        let recorded = RecordedRun::load(stored, self.runs.project()).await?;
        let entry = BatchEntry::from_ended_run(key, run.as_str(), &recorded.state).ok_or(RunError::NotBegun)?;
        Ok(RowWorkResult::Ended(number, Box::new(entry)))
    }

    /// Decides the work for a row: a new run, the rest of a run, or none. Takes the lease of a run that is to be resumed.
    async fn decide_row_work(&self, input: &RowRunInput, options: RunOptions) -> Result<RowWork, RunError> {
        let is_resumed = match input.task {
            RowTask::Resume | RowTask::Answer => true,
            RowTask::Retry => input.entry.as_ref().is_some_and(|entry| entry.outcome.is_resumable()),
            _ => false,
        };
        if !is_resumed {
            let number = if input.task == RowTask::Retry {
                input.latest + 1
            } else {
                1
            };
            return self.prepare_new_try(input, number, options);
        }
        let latest = format_row_run_id(&input.key, &self.version.digest, input.latest);
        let Some(stored) = self.files.find_run(latest.as_str()) else {
            // The run was deleted; its result is in the index.
            return self.prepare_new_try(input, input.latest + 1, options);
        };
        let folder = stored.run_folder().map(|folder| folder.display().to_string());
        let which = RunSelector::Named(folder.unwrap_or_else(|| latest.to_string()));
        let leased_run = match self.runs.lease_and_load_run(which).await {
            Err(RunError::NotBegun | RunError::Read(LogReadError::Empty { .. })) => {
                return self.prepare_new_try(input, input.latest, options);
            }
            held => held?,
        };
        self.resume_or_start_try(input, latest, leased_run, options).await
    }

    /// Resumes a run. Returns the entry of a run that ended meanwhile, and starts a new try after a timeout with outdated limits.
    async fn resume_or_start_try(
        &self,
        input: &RowRunInput,
        latest: RunId,
        leased_run: LeasedRun,
        mut options: RunOptions,
    ) -> Result<RowWork, RunError> {
        let recorded = leased_run.recorded_run();
        if recorded.has_final_end() {
            let entry = BatchEntry::from_ended_run(&input.key, latest.as_str(), &recorded.state);
            return Ok(RowWork::AlreadyEnded(Box::new(entry.ok_or(RunError::NotBegun)?)));
        }
        let has_timed_out = recorded
            .state
            .run_end()
            .is_some_and(|end| end.completion_reason == CompletionReason::Timeout);
        // A run continues with its own copy of the ensemble, and so with the limit that it has reached.
        if has_timed_out && recorded.start_event()?.ensemble_digest != sha256_of_text(self.prepared.source.text()) {
            drop(leased_run);
            return self.prepare_new_try(input, input.latest + 1, options);
        }
        leased_run.check_resume_options(&mut options).await?;
        Ok(RowWork::Resume(latest, Box::new((leased_run, options))))
    }

    /// Deletes the folder of an earlier run with the id of this try, and prepares the run of the try.
    fn prepare_new_try(&self, input: &RowRunInput, number: u32, mut options: RunOptions) -> Result<RowWork, RunError> {
        let id = format_row_run_id(&input.key, &self.version.digest, number);
        self.files.discard_unstarted_run(&id)?;
        options.id = Some(id);
        let ready = self.runs.prepare_run_from_prepared(self.prepared.clone(), options)?;
        Ok(RowWork::Run(number, Box::new(ready)))
    }
}

/// The cost of all tries of all rows.
struct BatchCostTotal {
    spent: Cost,
    is_known: bool,
}

impl BatchCostTotal {
    /// Sums the known costs of the tries of these rows.
    fn from_rows(rows: &[PlannedRow]) -> Self {
        let spent = super::sum_costs(rows.iter().filter_map(|planned| planned.tries.known_cost()));
        Self {
            spent: spent.unwrap_or_default(),
            is_known: spent.is_some(),
        }
    }

    /// Sets the result of a try of the row, and adds the difference to the total cost. `number` is the number of the try.
    fn record_try_result(&mut self, planned: &mut PlannedRow, number: u32, entry: BatchEntry) {
        let before = planned.tries.known_cost();
        if number != planned.tries.latest {
            planned.tries.start_next_try(number);
        }
        planned.tries.open = None;
        planned.tries.entry = Some(entry);
        let after = planned.tries.known_cost();
        self.is_known |= after.is_some();
        let added = after.unwrap_or_default().amount() - before.unwrap_or_default().amount();
        self.spent = self.spent + Cost::from_amount(added);
    }
}

/// Drives a run in this process until the run ends or is cancelled. Returns the entry of the row.
async fn drive_in_process(
    key: &str,
    run_id: &RunId,
    ready: ReadyRun,
    mut cancelled: watch::Receiver<Option<RunCanceller>>,
) -> Result<BatchEntry, RunError> {
    let run = ready.start_and_spawn().await?;
    tokio::select! {
        _ended = run.wait_for_end() => {}
        by = cancelled.wait_for(Option::is_some) => {
            if let Ok(Some(by)) = by.map(|by| by.clone()) {
                run.cancel(by);
            }
        }
    }
    let finished = run.wait_and_close().await?;
    BatchEntry::from_ended_run(key, run_id.as_str(), &finished.state).ok_or(RunError::NotBegun)
}

/// Reports the row if it has a result. `left` is the number of rows that have not ended.
fn report_ended_row(told: &mut impl FnMut(&RowReport<'_>), planned: &PlannedRow, left: usize, total: &BatchCostTotal) {
    if let Some(entry) = &planned.tries.entry {
        told(&RowReport {
            number: planned.number,
            place: &planned.row.place,
            entry,
            remaining_rows: left,
            cost: total.is_known.then_some(total.spent),
        });
    }
}
