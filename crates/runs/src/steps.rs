//! Single executions of a run that another engine drives.
//!
//! A durable engine decides the turns of a run itself, with the same fold and the same resolver, and gives each execution
//! to a worker. The worker performs it here as a run would: with its attempts, pauses, time limits, parts and tools.
//!
//! Invariant: an execution is performed by the same executor as in a run, and no turn is finished or begun.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{ConversationState, Event, ExecutionStarted, Record, RunInterruption};
use ensemble_core::executor::Executor;
use ensemble_core::log::{CommitError, LogFuture, RunLog, SyncPoint};
use ensemble_core::reporter::Reporter;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{MemoryStore, RunId, RunStore, StoredRun};
use tokio::sync::mpsc;

use crate::error::RunError;
use crate::options::nested_driver::NestedRunDriver;
use crate::options::run_options::RunOptions;
use crate::prepare::PreparedEnsemble;
use crate::start::ready::AgentBuildOptions;
use crate::start::runs::Runs;

/// Executions to be performed.
pub struct PendingExecutions {
    /// The ensemble.
    pub prepared: Arc<PreparedEnsemble>,
    /// The state with the open turn. [`records_for_agent`] returns the records for a state in which one execution is pending.
    pub state: ConversationState,
    /// The options. They can be those of a run around this one: names of agents and tools that are not here are no errors.
    pub options: RunOptions,
    /// Drives the runs of inner ensembles; without it they are driven here.
    pub inner_run_driver: Option<Arc<dyn NestedRunDriver>>,
    /// The rest of the turn's time, if that is not the whole.
    pub turn_ends_in: Option<Duration>,
    /// Records that `state` contains and that no sink has.
    pub earlier_records: Vec<Record>,
    /// Keeps the records of executions that have not ended; without it they are returned with the end.
    pub record_sink: Option<Box<dyn RecordSink>>,
    /// Interruptions that end the executions.
    pub interruptions: mpsc::UnboundedReceiver<RunInterruption>,
}

/// Keeps records of executions that have not ended.
pub trait RecordSink: Send {
    /// Keeps the records, and returns when they are safe: only then the executions continue from them.
    fn keep_records(&mut self, records: Vec<Record>) -> BoxFuture<'_, ()>;
}

/// The result of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct PerformedExecutions {
    /// The records that no sink has, numbered from the end of the records before them.
    pub records: Vec<Record>,
    /// The runs of its inner ensembles.
    pub inner_runs: Vec<InnerRun>,
}

/// A run inside a run, with the runs inside it.
#[derive(Debug, Clone, PartialEq)]
pub struct InnerRun {
    /// Its name.
    pub name: String,
    /// The text of its ensemble.
    pub ensemble: String,
    /// Its records.
    pub records: Vec<Record>,
    /// The runs inside it.
    pub inner_runs: Vec<InnerRun>,
}

impl Runs {
    /// Performs what is pending in the open turn, until it ends, is interrupted, or waits for an answer. Nothing is stored, and
    /// no turn is finished or begun. Nobody is asked; the options contain the answers.
    ///
    /// The sink is not given the start of the first attempt alone: whoever calls this knows that it begins.
    ///
    /// # Errors
    /// An agent cannot run here, or an option does not fit the ensemble.
    pub fn perform_pending(&self, pending: PendingExecutions) -> BoxFuture<'_, Result<PerformedExecutions, RunError>> {
        let PendingExecutions {
            prepared,
            mut state,
            options,
            inner_run_driver,
            turn_ends_in,
            earlier_records,
            record_sink,
            interruptions,
        } = pending;
        Box::pin(async move {
            let mut log = TurnLog {
                records: earlier_records,
                sink: record_sink,
                has_kept: false,
            };
            let drive = ExecutionDrive {
                prepared,
                options,
                inner_run_driver,
                turn_ends_in,
                interruptions,
            };
            let stored = self.drive_executions(drive, &mut state, &mut log).await?;
            ensemble_process::wait_and_kill_strays().await;
            Ok(PerformedExecutions {
                records: log.records,
                inner_runs: read_inner_runs(&*stored).await?,
            })
        })
    }

    /// Drives a run from its state until the log accepts no further record, and returns the store of the runs inside the run.
    pub(crate) async fn drive_executions(
        &self,
        drive: ExecutionDrive,
        state: &mut ConversationState,
        log: &mut dyn RunLog,
    ) -> Result<Arc<dyn StoredRun>, RunError> {
        let mut options = drive.options;
        let models = std::mem::take(&mut options.models);
        let text = drive.prepared.source.text().clone();
        let timeout = drive.prepared.plan.ensemble().limits.timeout;
        let making = AgentBuildOptions {
            inner_run_driver: drive.inner_run_driver,
            are_checked: true,
            ..self.agent_build_options(drive.prepared, options, &models)
        };
        let able = making.build_agents()?.into_runners();
        let id = state
            .run_start()
            .map_or_else(|| "run".into(), |started| started.run_id.clone());
        let stored = MemoryStore::new().create_run(&RunId::new(id), &text).await?;
        let _is_first = able.outermost.set(stored.clone());
        let drive_result = Executor {
            runners: able.runners,
            log,
            reporter: &mut SilentReporter,
            clock: self.host(),
            interruptions: drive.interruptions,
            timeout: Some(timeout),
            secrets: able.secrets,
            outer_stopwatch: None,
            refuses_exhausted: false,
            turn_ends_in: drive.turn_ends_in,
        }
        .drive_conversation(state)
        .await;
        able.programs.shut_down_all().await;
        able.servers.close_all_connections().await;
        match drive_result {
            Ok(_) | Err(CommitError::EndOfRecord { .. }) => Ok(stored),
            Err(error) => Err(error.into()),
        }
    }
}

/// What drives the executions of a run, without the state and the log.
pub(crate) struct ExecutionDrive {
    pub(crate) prepared: Arc<PreparedEnsemble>,
    pub(crate) options: RunOptions,
    pub(crate) inner_run_driver: Option<Arc<dyn NestedRunDriver>>,
    /// The rest of the time of the open turn, if that is not the whole.
    pub(crate) turn_ends_in: Option<Duration>,
    pub(crate) interruptions: mpsc::UnboundedReceiver<RunInterruption>,
}

/// Returns the starts of attempts of this agent's pending execution that began at these times and left no record, as the next records.
pub fn unrecorded_starts(state: &ConversationState, agent: &Arc<str>, times: &[DateTime<Utc>]) -> Vec<Record> {
    let slots = state.open_turn().into_iter().flat_map(|turn| &turn.slots);
    let Some(slot) = slots.into_iter().find(|slot| *slot.start.agent == **agent) else {
        return Vec::new();
    };
    let turn = state.turn_count() + 1;
    let starts = (state.next_seq()..).zip(slot.attempt + 1..).zip(times);
    let starts = starts.map(|((seq, attempt), at)| Record {
        seq,
        at: *at,
        event: Event::ExecutionStarted(ExecutionStarted {
            turn,
            agent: agent.clone(),
            execution: slot.start.execution,
            attempt,
        }),
    });
    starts.collect()
}

/// Returns the records of a run until now as one agent of the open turn needs them: in the open turn, only what
/// concerns the agent.
pub fn records_for_agent(records: &[Record], agent: &str) -> Vec<Record> {
    let is_turn_start = |record: &Record| matches!(record.event, Event::TurnStarted(_));
    let Some(open) = records.iter().rposition(is_turn_start) else {
        return records.to_vec();
    };
    let (before, turn) = records.split_at(open);
    let concerned = turn.iter().filter_map(|record| match &record.event {
        Event::TurnStarted(turn) => {
            let mut turn = turn.clone();
            turn.starts.retain(|start| *start.agent == *agent);
            Some(Record {
                event: Event::TurnStarted(turn),
                ..record.clone()
            })
        }
        event => {
            let is_meant = event.agent_name().is_none_or(|of| of == agent);
            is_meant.then(|| record.clone())
        }
    });
    before.iter().cloned().chain(concerned).collect()
}

/// Returns the runs inside a run, with their records.
fn read_inner_runs(run: &dyn StoredRun) -> BoxFuture<'_, Result<Vec<InnerRun>, RunError>> {
    Box::pin(async move {
        let mut inner_runs = Vec::new();
        for name in run.list_nested_names().await? {
            let Some(inner) = run.find_nested(&name).await? else {
                continue;
            };
            inner_runs.push(InnerRun {
                ensemble: inner.load_ensemble().await?,
                records: inner.read_journal().await?.records,
                inner_runs: read_inner_runs(&*inner).await?,
                name,
            });
        }
        Ok(inner_runs)
    })
}

/// Takes records until the turn or the conversation would end.
struct TurnLog {
    /// The records that the sink does not have.
    records: Vec<Record>,
    sink: Option<Box<dyn RecordSink>>,
    has_kept: bool,
}

impl TurnLog {
    /// Returns whether the sink needs the records before the executions continue.
    fn has_unsafe_records(&self) -> bool {
        let is_start = |record: &Record| matches!(record.event, Event::ExecutionStarted(_));
        match self.has_kept {
            true => !self.records.is_empty(),
            false => !self.records.iter().all(is_start),
        }
    }
}

impl RunLog for TurnLog {
    fn append<'a>(&'a mut self, record: &'a Record) -> LogFuture<'a> {
        LogFuture::ready(match &record.event {
            Event::TurnFinished(turn) => Err(CommitError::EndOfRecord { turn: turn.turn }),
            Event::RunEnded(_) => Err(CommitError::EndOfRecord { turn: 0 }),
            _ => {
                self.records.push(record.clone());
                Ok(())
            }
        })
    }

    fn sync(&mut self, _point: SyncPoint) -> LogFuture<'_> {
        if !self.has_unsafe_records() {
            return LogFuture::ready(Ok(()));
        }
        let Some(sink) = &mut self.sink else {
            return LogFuture::ready(Ok(()));
        };
        self.has_kept = true;
        let records = std::mem::take(&mut self.records);
        LogFuture::boxed(async move {
            sink.keep_records(records).await;
            Ok(())
        })
    }
}

struct SilentReporter;

impl Reporter for SilentReporter {
    fn report_event(&mut self, _record: &Record, _state: &ConversationState) {}
}
