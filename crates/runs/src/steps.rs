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
    fn store_records(&mut self, records: Vec<Record>) -> BoxFuture<'_, ()>;
}

/// The result of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct PerformedExecutions {
    /// The records that no sink has, numbered from the end of the records before them.
    pub records: Vec<Record>,
    /// The runs of its inner ensembles.
    pub inner_runs: Vec<RecordedNestedRun>,
}

/// A run inside a run, with the runs inside it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedNestedRun {
    /// Its name.
    pub name: String,
    /// The text of its ensemble.
    pub ensemble: String,
    /// Its records.
    pub records: Vec<Record>,
    /// The runs inside it.
    pub inner_runs: Vec<RecordedNestedRun>,
}

impl Runs {
    /// Performs what is pending in the open turn, until it ends, is interrupted, or waits for an answer. Nothing is stored, and
    /// no turn is finished or begun. Nobody is asked; the options contain the answers.
    ///
    /// The sink is not given the start of the first attempt alone: whoever calls this knows that it begins.
    ///
    /// # Errors
    /// An agent cannot run here, or an option does not fit the ensemble.
    pub fn perform_pending_executions(
        &self,
        pending: PendingExecutions,
    ) -> BoxFuture<'_, Result<PerformedExecutions, RunError>> {
        let PendingExecutions {
            prepared,
            mut state,
            mut options,
            inner_run_driver,
            turn_ends_in,
            earlier_records,
            record_sink,
            interruptions,
        } = pending;
        Box::pin(async move {
            let models = std::mem::take(&mut options.models);
            let text = prepared.source.text().clone();
            let timeout = prepared.plan.ensemble().limits.timeout;
            let making = AgentBuildOptions {
                inner_run_driver,
                are_checked: true,
                ..self.agent_build_options(prepared, options, &models)
            };
            let able = making.build_agents()?.into_execution_runners();
            let id = state
                .run_start()
                .map_or_else(|| "run".into(), |started| started.run_id.clone());
            let stored = MemoryStore::new().create_run(&RunId::new(id), &text).await?;
            let _is_first = able.outermost.set(stored.clone());
            let mut log = UntilTurnEndLog {
                records: earlier_records,
                sink: record_sink,
                has_kept: false,
            };
            let drive_result = Executor {
                runners: able.runners,
                log: &mut log,
                reporter: &mut SilentReporter,
                clock: self.host(),
                interruptions,
                timeout: Some(timeout),
                secrets: able.secrets,
                outer_stopwatch: None,
                refuses_exhausted: false,
                turn_ends_in,
            }
            .drive_conversation(&mut state)
            .await;
            able.programs.shut_down_all().await;
            able.servers.close_all_connections().await;
            ensemble_process::wait_and_kill_strays().await;
            match drive_result {
                Ok(_) | Err(CommitError::EndOfRecord { .. }) => Ok(PerformedExecutions {
                    records: log.records,
                    inner_runs: load_nested_runs(&*stored).await?,
                }),
                Err(error) => Err(error.into()),
            }
        })
    }
}

/// Returns the starts of attempts of this agent's pending execution that began at these times and left no record, as the next records.
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

/// Returns the records of a run until now as one agent of the open turn needs them: in the open turn, only what
/// concerns the agent.
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

/// Returns the runs inside a run, with their records.
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

/// Takes records until the turn or the conversation would end.
struct UntilTurnEndLog {
    /// The records that the sink does not have.
    records: Vec<Record>,
    sink: Option<Box<dyn RecordSink>>,
    has_kept: bool,
}

impl UntilTurnEndLog {
    /// Returns whether the sink needs the records before the executions continue.
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

struct SilentReporter;

impl Reporter for SilentReporter {
    fn report_event(&mut self, _record: &Record, _state: &ConversationState) {}
}
