//! Single executions of a run that another engine drives.
//!
//! A durable engine decides the turns of a run itself, with the same state and the same resolver, and passes each execution to a worker.
//! The worker performs the execution as a run would: with its attempts, pauses, time limits, parts and tools.
//!
//! Invariant: an execution is performed by the same executor as in a run, and no turn is finished or started.

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

/// The pending executions of an open turn, with everything that is needed to perform them.
pub struct PendingExecutions {
    /// The ensemble.
    pub prepared: Arc<PreparedEnsemble>,
    /// The state with the open turn. [`filter_records_for_agent`] returns the records for a state in which one execution is pending.
    pub state: ConversationState,
    /// The options. They can be those of an outer run, so unknown names of agents and tools are not errors.
    pub options: RunOptions,
    /// The driver of nested runs. Without a driver, this process drives the nested runs.
    pub inner_run_driver: Option<Arc<dyn NestedRunDriver>>,
    /// The remaining time of the turn. `None` means the whole time limit.
    pub turn_ends_in: Option<Duration>,
    /// Records that `state` contains and that no sink has received.
    pub earlier_records: Vec<Record>,
    /// The receiver of records of executions that have not ended. Without a receiver, all records are returned at the end.
    pub record_sink: Option<Box<dyn RecordSink>>,
    /// Interruptions that end the executions.
    pub interruptions: mpsc::UnboundedReceiver<RunInterruption>,
}

/// A receiver that stores the records of executions that have not ended.
pub trait RecordSink: Send {
    /// Stores the records. The future completes when the records are durable, because the executions continue only then.
    fn store_records(&mut self, records: Vec<Record>) -> BoxFuture<'_, ()>;
}

/// The records of performed executions, and their nested runs.
#[derive(Debug, Clone, PartialEq)]
pub struct PerformedExecutions {
    /// The records that no sink has received, numbered after the earlier records.
    pub records: Vec<Record>,
    /// The nested runs.
    pub inner_runs: Vec<RecordedNestedRun>,
}

/// A recorded nested run, with the text of its ensemble, its records and its own nested runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedNestedRun {
    /// The name of the nested run.
    pub name: String,
    /// The text of the ensemble.
    pub ensemble: String,
    /// The records of the nested run.
    pub records: Vec<Record>,
    /// The nested runs of this nested run.
    pub inner_runs: Vec<RecordedNestedRun>,
}

impl Runs {
    /// Performs the pending executions of the open turn until they end, are interrupted, or wait for an answer. Stores nothing, and neither
    /// finishes the turn nor starts a new one. Answers come only from the options, not from an operator. The sink does not receive a first
    /// record that only starts an attempt.
    ///
    /// # Errors
    ///
    /// An agent cannot run here, or an option does not match the ensemble.
    pub fn perform_pending_executions(
        &self,
        pending: PendingExecutions,
    ) -> BoxFuture<'_, Result<PerformedExecutions, RunError>> {
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
            let mut log = UntilTurnEndLog {
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
                inner_runs: load_nested_runs(&*stored).await?,
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
        let able = making.build_agents()?.into_execution_runners();
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

/// Parts of a run that drive its executions, without the state and the log.
pub(crate) struct ExecutionDrive {
    pub(crate) prepared: Arc<PreparedEnsemble>,
    pub(crate) options: RunOptions,
    pub(crate) inner_run_driver: Option<Arc<dyn NestedRunDriver>>,
    /// The rest of the time of the open turn, if that is not the whole.
    pub(crate) turn_ends_in: Option<Duration>,
    pub(crate) interruptions: mpsc::UnboundedReceiver<RunInterruption>,
}

/// Creates the start records of attempts that began at these times and left no record. The attempts belong to the agent's pending
/// execution. Returns an empty list if the agent has no open execution.
pub fn rebuild_unrecorded_starts(state: &ConversationState, agent: &Arc<str>, times: &[DateTime<Utc>]) -> Vec<Record> {
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

/// Returns the records that the execution of one agent needs: all records before the open turn, and from the open turn only records of the
/// run and of this agent.
pub fn filter_records_for_agent(records: &[Record], agent: &str) -> Vec<Record> {
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

/// Loads the nested runs of a run with their records, and recursively their own nested runs.
fn load_nested_runs(run: &dyn StoredRun) -> BoxFuture<'_, Result<Vec<RecordedNestedRun>, RunError>> {
    Box::pin(async move {
        let mut inner_runs = Vec::new();
        for name in run.list_nested_run_names().await? {
            let Some(inner) = run.find_nested_run(&name).await? else {
                continue;
            };
            inner_runs.push(RecordedNestedRun {
                ensemble: inner.load_ensemble_text().await?,
                records: inner.read_journal().await?.records,
                inner_runs: load_nested_runs(&*inner).await?,
                name,
            });
        }
        Ok(inner_runs)
    })
}

/// A log that collects or forwards records, and ends the execution at the end of the turn or of the conversation.
struct UntilTurnEndLog {
    /// The records that the sink has not received.
    records: Vec<Record>,
    sink: Option<Box<dyn RecordSink>>,
    has_kept: bool,
}

impl UntilTurnEndLog {
    /// Returns whether the sink must store records before the executions continue. Before the first transfer, records that only start
    /// attempts do not count.
    fn needs_storing(&self) -> bool {
        let is_start = |record: &Record| matches!(record.event, Event::ExecutionStarted(_));
        match self.has_kept {
            true => !self.records.is_empty(),
            false => !self.records.iter().all(is_start),
        }
    }
}

impl RunLog for UntilTurnEndLog {
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
        if !self.needs_storing() {
            return LogFuture::ready(Ok(()));
        }
        let Some(sink) = &mut self.sink else {
            return LogFuture::ready(Ok(()));
        };
        self.has_kept = true;
        let records = std::mem::take(&mut self.records);
        LogFuture::boxed(async move {
            sink.store_records(records).await;
            Ok(())
        })
    }
}

/// A reporter that ignores all events.
struct SilentReporter;

impl Reporter for SilentReporter {
    fn report_event(&mut self, _record: &Record, _state: &ConversationState) {}
}
