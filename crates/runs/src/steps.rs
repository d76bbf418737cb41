//! Single executions of a run that another engine drives.
//!
//! A durable engine decides the turns of a run itself, with the same fold and the same resolver, and gives each execution
//! to a worker. The worker performs it here as a run would: with its attempts, pauses, time limits, parts and tools.
//!
//! Invariant: an execution is performed by the same executor as in a run, and no turn is finished or begun.

use std::sync::Arc;
use std::time::Duration;

use ensemble_core::conversation::{ConversationState, Event, Record};
use ensemble_core::executor::Executor;
use ensemble_core::log::{CommitError, LogFuture, RunLog, SyncPoint};
use ensemble_core::reporter::Reporter;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{MemoryStore, RunId, RunStore, StoredRun};
use tokio::sync::mpsc;

use crate::error::RunError;
use crate::options::nested_driver::InnerRunDriver;
use crate::options::run_options::RunOptions;
use crate::prepare::PreparedEnsemble;
use crate::start::ready::AgentBuildOptions;
use crate::start::runs::Runs;

/// The result of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct PerformedExecutions {
    /// Its records, numbered from the end of the records that it was given.
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
    /// Performs what is pending in the open turn of `state`, until it ends or waits for an answer. Nothing is stored, and
    /// no turn is finished or begun. Nobody is asked; answers are in `options`, which can be those of a run around this one: names of
    /// agents and tools that are not here are no errors.
    ///
    /// `elsewhere`: who drives the runs of inner ensembles; without it they are driven here. `turn_ends_in`: what is left of the turn's
    /// time, if that is not the whole.
    ///
    /// Use [`records_for_agent`] to get a state in which one execution is pending.
    ///
    /// # Errors
    /// An agent cannot run here, or an option does not fit the ensemble.
    pub fn perform_pending<'f>(
        &'f self,
        prepared: Arc<PreparedEnsemble>,
        mut state: ConversationState,
        mut options: RunOptions,
        elsewhere: Option<Arc<dyn InnerRunDriver>>,
        turn_ends_in: Option<Duration>,
    ) -> BoxFuture<'f, Result<PerformedExecutions, RunError>> {
        Box::pin(async move {
            let models = std::mem::take(&mut options.models);
            let text = prepared.source.text().clone();
            let timeout = prepared.plan.ensemble().limits.timeout;
            let making = AgentBuildOptions {
                inner_run_driver: elsewhere,
                are_checked: true,
                ..self.agent_build_options(prepared, options, &models)
            };
            let able = making.build_agents()?.into_runners();
            let id = state
                .run_start()
                .map_or_else(|| "run".into(), |started| started.run_id.clone());
            let stored = MemoryStore::new().create_run(&RunId::new(id), &text).await?;
            let _is_first = able.outermost.set(stored.clone());
            let mut log = TurnLog::default();
            // The sender lives as long as the executor: a script that dies of a signal is not taken for an interruption.
            let (_interruptions, interrupted) = mpsc::unbounded_channel();
            let drive_result = Executor {
                runners: able.runners,
                log: &mut log,
                reporter: &mut SilentReporter,
                clock: self.host(),
                interruptions: interrupted,
                timeout: Some(timeout),
                secrets: able.secrets,
                outer_stopwatch: None,
                refuses_exhausted: false,
                turn_ends_in,
            }
            .drive_conversation(&mut state)
            .await;
            able.programs.close_all().await;
            able.servers.close_all().await;
            ensemble_process::wait_for_processes().await;
            match drive_result {
                Ok(_) | Err(CommitError::EndOfRecord { .. }) => Ok(PerformedExecutions {
                    records: log.0,
                    inner_runs: read_inner_runs(&*stored).await?,
                }),
                Err(error) => Err(error.into()),
            }
        })
    }
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
#[derive(Default)]
struct TurnLog(Vec<Record>);

impl RunLog for TurnLog {
    fn append<'a>(&'a mut self, record: &'a Record) -> LogFuture<'a> {
        LogFuture::ready(match &record.event {
            Event::TurnFinished(turn) => Err(CommitError::EndOfRecord { turn: turn.turn }),
            Event::RunEnded(_) => Err(CommitError::EndOfRecord { turn: 0 }),
            _ => {
                self.0.push(record.clone());
                Ok(())
            }
        })
    }

    fn sync(&mut self, _point: SyncPoint) -> LogFuture<'_> {
        LogFuture::ready(Ok(()))
    }
}

struct SilentReporter;

impl Reporter for SilentReporter {
    fn report_event(&mut self, _record: &Record, _state: &ConversationState) {}
}
