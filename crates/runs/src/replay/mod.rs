//! Replay: the record supplies the result of every execution, every turn is decided again, and the first difference ends the replay.
//!
//! Invariant: a replay of an unchanged ensemble makes the recorded decisions.

mod compare;
mod record;
mod recorded;
mod saved;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_core::conversation::{
    AgentSkipReason, ConversationState, Event, IllegalRecord, MessageAdded, Record, RunInterruption, RunStarted,
};
use ensemble_core::executor::{Executor, WallClock};
use ensemble_core::log::{CommitError, ReplayDivergence};
use ensemble_core::reporter::{NoReporter, Reporter};
use ensemble_core::resolver::{AgentReadiness, decide_readiness};
use ensemble_core::runner::BoxFuture;
use ensemble_core::runner::Runner;
use ensemble_core::secrets::Secrets;
use ensemble_core::store::{MemoryStore, RunId, RunRecordReader, RunStore, StoredRun};
use ensemble_language::data::ExecutionFailure;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::prepare::{PreparedEnsemble, prepare_file};
use crate::start::ready::BuiltRunAgents;
use crate::start::recorded_run::load_recorded_ensemble;
use crate::start::runs::{RunSelector, Runs};
use crate::store::files::{FileRunStore, open_journal};
use compare::DecisionComparisonLog;
use record::RunRecording;
use recorded::{ReplayRunner, SharedTurnRecording};

pub use record::LogPositionCallback;
pub use saved::SavedRecords;

/// A recorded run that can be replayed: a stored run, a journal or a saved result.
pub enum ReplaySource {
    /// A run in a store.
    Run(Arc<dyn StoredRun>),
    /// A journal without its run.
    Journal(PathBuf),
    /// A saved result.
    Result(PathBuf),
}

/// The options of a replay.
#[derive(Default)]
pub struct ReplayOptions {
    /// The ensemble that decides the replay instead of the recorded one: a file or a name.
    pub ensemble: Option<String>,
    /// The agents that are executed instead of read from the record.
    pub live: Vec<String>,
    /// The options of live agents, with the reporters of all events.
    pub run: RunOptions,
    /// True if the history and the context are kept, so that the result can be shown. Otherwise memory does not grow.
    pub keeps_history: bool,
    /// The callback that receives the position in the record.
    pub progress: Option<Box<LogPositionCallback>>,
    /// The receiver of interruptions, which cancel the replay.
    pub interruptions: Option<UnboundedReceiver<RunInterruption>>,
}

/// The result of a replay, with the state of the replayed conversation.
pub struct ReplayResult {
    /// The outcome of the replay.
    pub outcome: ReplayOutcome,
    /// Decisions that were the same.
    pub equal_decisions: u64,
    /// The state at the end, or at the first difference.
    pub state: ConversationState,
    /// The agents that were executed instead of read from the record.
    pub live_agents: Vec<String>,
}

/// The outcome of a replay: same decisions, an incomplete record, or a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// Every decision was the same.
    Same,
    /// Every decision was the same as far as the record goes.
    CutShort {
        /// The first turn that the record does not hold.
        turn: u32,
    },
    /// A decision was not the same.
    Diverged(Box<ReplayDivergence>),
}

impl ReplayResult {
    /// Returns the failures of live agents in the last turn, each with its agent.
    pub fn list_live_failures(&self) -> Vec<(String, ExecutionFailure)> {
        let latest_turn = self.state.turn_count();
        let is_live = |agent: &str| self.live_agents.iter().any(|live| live == agent);
        let history = self.state.list_executions();
        let failed = history
            .filter(|entry| entry.turn_number == latest_turn && is_live(&entry.agent_name))
            .filter_map(|entry| Some((entry.agent_name.to_string(), entry.into_owned().failure?)));
        failed.collect()
    }

    /// Lists the agents that were executed in the record but not in the diverging decision, each with the reason.
    pub fn list_missing_agent_reasons(&self) -> Vec<(String, AgentSkipReason)> {
        let ReplayOutcome::Diverged(divergence) = &self.outcome else {
            return Vec::new();
        };
        let plan = self.state.plan();
        let decided: Vec<_> = divergence.decided.list_started_agents().collect();
        let missing = divergence
            .recorded
            .list_started_agents()
            .filter(|agent| !decided.contains(agent));
        let reason = |agent: &str| match decide_readiness(plan, &self.state, plan.find_agent_id(agent)?) {
            Ok(AgentReadiness::NotReady(reason)) => Some((agent.to_owned(), reason)),
            _ => None,
        };
        missing.filter_map(|agent| reason(agent)).collect()
    }
}

impl Runs {
    /// Resolves the record that a replay reads: a run by id, name or folder, a journal file, or a saved result.
    ///
    /// # Errors
    ///
    /// There is no such run, or the folder is not a run.
    pub async fn resolve_record(&self, which: impl Into<RunSelector>) -> Result<ReplaySource, RunError> {
        let which = which.into();
        let RunSelector::Named(given) = &which else {
            return Ok(ReplaySource::Run(self.resolve_run(which).await?));
        };
        let path = self.project().folder.join(given);
        if path.is_dir() {
            let run = FileRunStore::find_run_in_folder(&path).map(ReplaySource::Run);
            return run.ok_or_else(|| RunError::NotARun(given.clone()));
        }
        if path.is_file() {
            let run = path.parent().and_then(FileRunStore::find_run_in_folder);
            let is_own = |run: &Arc<dyn StoredRun>| {
                let folder = run.run_folder();
                folder.is_some_and(|folder| {
                    folder.join("journal.jsonl") == path && folder.join("ensemble.yaml").is_file()
                })
            };
            return Ok(match (path.extension().and_then(|end| end.to_str()), run) {
                (Some("jsonl"), Some(run)) if is_own(&run) => ReplaySource::Run(run),
                (Some("jsonl"), _) => ReplaySource::Journal(path),
                _ => ReplaySource::Result(path),
            });
        }
        Ok(ReplaySource::Run(self.resolve_run(which).await?))
    }

    /// Replays a record: decides every turn again and compares the decisions, with live agents executed again.
    ///
    /// # Errors
    ///
    /// The record cannot be read, or the ensemble or a live agent cannot run.
    pub fn replay_record<'f>(
        &'f self,
        record: ReplaySource,
        mut options: ReplayOptions,
    ) -> BoxFuture<'f, Result<ReplayResult, RunError>> {
        Box::pin(async move {
            let (mut recordings, prepared) = self.open_record_with_ensemble(record, &mut options).await?;
            let mut reporters = std::mem::take(&mut options.run.reporters);
            let keeps_history = options.keeps_history || !options.live.is_empty() || prepared.plan.reads_history();
            let mut runners = build_replay_runners(&prepared, &recordings.recording);
            let mut live = None;
            if !options.live.is_empty() {
                let outermost = create_run_in_memory(&prepared, &mut recordings.start_event).await?;
                let models = options.run.models.clone();
                let built_agents = self
                    .agent_build_options(prepared.clone(), options.run, &models)
                    .build_agents()?;
                replace_with_live_runners(&mut runners, &built_agents, &options.live)?;
                built_agents.set_outermost_run(outermost);
                live = Some(built_agents);
            }
            let mut state = ConversationState::new(prepared.plan.clone());
            if !keeps_history {
                state = state.without_history_and_warnings();
            }
            let mut silent = NoReporter;
            let mut all = BorrowedReporterFanout(&mut reporters);
            let reporter: &mut (dyn Reporter + Send) = if all.0.is_empty() { &mut silent } else { &mut all };
            let interruptions = options.interruptions.unwrap_or_else(|| unbounded_channel().1);
            let deciding = ReplayDecider {
                host: self.host(),
                runners: &runners,
                reporter,
            };
            let (outcome, compared) = deciding
                .replay_and_compare_decisions(&mut state, &mut recordings, interruptions)
                .await?;
            if let Some(built_agents) = live {
                built_agents.agents.servers.close_all_connections().await;
                built_agents.agents.programs.shut_down_all().await;
            }
            Ok(ReplayResult {
                outcome,
                equal_decisions: compared,
                state,
                live_agents: options.live,
            })
        })
    }

    /// Opens the record for reading, and loads the ensemble that decides the replay.
    async fn open_record_with_ensemble(
        &self,
        record: ReplaySource,
        options: &mut ReplayOptions,
    ) -> Result<(RunRecording, Arc<PreparedEnsemble>), RunError> {
        let project = self.project();
        let edited = match &options.ensemble {
            Some(ensemble_name) => Some(prepare_file(&self.resolve_ensemble_file(ensemble_name)?, project)?),
            None => None,
        };
        let for_models = !options.live.is_empty();
        let by_own_text = edited.is_none() && matches!(record, ReplaySource::Run(_));
        let (mut recordings, prepared) = match record {
            ReplaySource::Run(run) => {
                let reader = run.open_reader().await?;
                let recordings = RunRecording::from_log(reader, for_models, options.progress.take()).await?;
                let prepared = match edited {
                    Some(prepared) => prepared,
                    None => load_recorded_ensemble(&*run, &recordings.start_event, project).await?,
                };
                (recordings, prepared)
            }
            ReplaySource::Journal(path) => {
                let reader: Box<dyn RunRecordReader> = Box::new(open_journal(&path)?);
                let recordings = RunRecording::from_log(reader, for_models, options.progress.take()).await?;
                let prepared = match edited {
                    Some(prepared) => prepared,
                    None => prepare_file(
                        &project.relative_path(Path::new(&recordings.start_event.ensemble_file)),
                        project,
                    )?,
                };
                (recordings, prepared)
            }
            ReplaySource::Result(path) => {
                let saved = SavedRecords::load(&path)?;
                let prepared = match (edited, saved.ensemble.clone()) {
                    (Some(prepared), _) => prepared,
                    (None, Some(name)) => prepare_file(&self.resolve_ensemble_file(&name)?, project)?,
                    (None, None) => return Err(RunError::NoEnsemble),
                };
                (RunRecording::from_saved_records(saved).await?, prepared)
            }
        };
        if !by_own_text {
            recordings.set_declared_inputs(prepared.plan.ensemble())?;
        }
        Ok((recordings, Arc::new(prepared)))
    }
}

/// A reporter that forwards each event to several borrowed reporters.
struct BorrowedReporterFanout<'a>(&'a mut [Box<dyn Reporter + Send>]);

impl Reporter for BorrowedReporterFanout<'_> {
    fn report_event(&mut self, record: &Record, state: &ConversationState) {
        for reporter in self.0.iter_mut() {
            reporter.report_event(record, state);
        }
    }
}

/// Returns a runner for each agent that returns the recorded results.
fn build_replay_runners(prepared: &PreparedEnsemble, recording: &SharedTurnRecording) -> Vec<Arc<dyn Runner>> {
    let runner: Arc<dyn Runner> = Arc::new(ReplayRunner(recording.clone()));
    vec![runner; prepared.plan.agent_count()]
}

/// Replaces the runners of the live agents with runners that execute the agents.
///
/// # Errors
///
/// An agent does not exist.
fn replace_with_live_runners(
    runners: &mut [Arc<dyn Runner>],
    made: &BuiltRunAgents,
    live: &[String],
) -> Result<(), RunError> {
    for name in live {
        let id = made
            .prepared
            .plan
            .find_agent_id(name)
            .ok_or_else(|| RunError::NoAgent(name.clone()))?;
        runners[id.index()] = made.agents.runners[id.index()].clone();
    }
    Ok(())
}

/// The id of a replayed run whose saved result has no valid id.
const REPLAY_ID: &str = "replay";

/// Creates a run in memory that stores the nested runs of live agents, because a replay writes no files.
async fn create_run_in_memory(
    prepared: &PreparedEnsemble,
    start_event: &mut RunStarted,
) -> Result<Arc<dyn StoredRun>, RunError> {
    if RunId::new(start_event.run_id.clone()).check_validity().is_err() {
        start_event.run_id = REPLAY_ID.into();
    }
    let id = RunId::new(start_event.run_id.clone());
    Ok(MemoryStore::new().create_run(&id, prepared.source.text()).await?)
}

/// The decider of a replay, with the runners and the reporter.
struct ReplayDecider<'a> {
    host: &'a crate::drive::host::RunHost,
    runners: &'a [Arc<dyn Runner>],
    reporter: &'a mut (dyn Reporter + Send),
}

impl ReplayDecider<'_> {
    /// Decides the record again. Returns the outcome, and the number of equal decisions.
    async fn replay_and_compare_decisions(
        self,
        state: &mut ConversationState,
        recordings: &mut RunRecording,
        mut interruptions: UnboundedReceiver<RunInterruption>,
    ) -> Result<(ReplayOutcome, u64), RunError> {
        let reporter = self.reporter;
        let first = Record {
            seq: 0,
            at: self.host.now(),
            event: Event::RunStarted(Box::new(recordings.start_event.clone())),
        };
        let mut apply_and_report = |record: &Record, state: &mut ConversationState| {
            state.apply_record(record)?;
            reporter.report_event(record, state);
            Ok::<_, IllegalRecord>(())
        };
        apply_and_report(&first, state)?;
        let mut apply_result = Ok(());
        recordings
            .forward_undecided_records(|record| {
                if apply_result.is_ok() {
                    apply_result = apply_and_report(record, state);
                }
            })
            .await?;
        apply_result?;
        let mut compared = 0;
        let mut message = None;
        if state.run_end().is_some() {
            // The records that are not decided again contain the end of the run, as in a merge.
            message = recordings.read_next_message().await?;
            if message.is_none() {
                return Ok((ReplayOutcome::Same, compared));
            }
        }
        loop {
            let mut log = DecisionComparisonLog::new(recordings, state.turn_count());
            let mut executor = Executor {
                runners: self.runners.to_vec(),
                log: &mut log,
                reporter: &mut *reporter,
                clock: self.host,
                interruptions,
                timeout: None,
                secrets: Secrets::default(),
                outer_stopwatch: None,
                refuses_exhausted: false,
                turn_ends_in: None,
            };
            let added_message: Option<MessageAdded> = message.take();
            let drive_future = async {
                if let Some(added_message) = added_message {
                    executor.commit(state, Event::MessageAdded(added_message)).await?;
                }
                executor.drive_conversation(state).await
            };
            let drive_result = drive_future.await;
            interruptions = executor.interruptions;
            compared += log.equal_decisions;
            match drive_result {
                Ok(_) => {}
                Err(CommitError::EndOfRecord { turn }) => return Ok((ReplayOutcome::CutShort { turn }, compared)),
                Err(CommitError::Diverged(divergence)) => return Ok((ReplayOutcome::Diverged(divergence), compared)),
                Err(CommitError::Record(error)) => return Err(error.into()),
                Err(error) => return Err(error.into()),
            }
            message = recordings.take_next_message();
            if message.is_none() {
                return Ok((ReplayOutcome::Same, compared));
            }
        }
    }
}
