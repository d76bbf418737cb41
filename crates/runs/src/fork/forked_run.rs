//! Runs that start with the records of another run: forks, reruns, and resumes with an edited file.
//!
//! Invariant: the other run is not changed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ensemble_agents::agent::kinds::input::PreparedAnswers;
use ensemble_core::conversation::{AgentStart, ConversationState, Event, ForkedFrom, MessageAdded, Record, RunStarted};
use ensemble_core::executor::WallClock;
use ensemble_core::request::RequestAddress;
use ensemble_core::store::RunId;
use ensemble_language::data::RunContext;
use ensemble_language::definition::ExternalDefinitionDigests;
use ensemble_language::ensemble::AgentKind;
use ensemble_language::loader::{ComparedEnsemble, EnsembleChanges, compare_ensembles};
use ensemble_language::plan::Plan;
use ensemble_process::kill_processes_of_run;

use crate::error::RunError;
use crate::fork::reuse::{ExecutionToRepeat, collect_reusable_results};
use crate::fork::reused_results::{AddedInputNames, OptionalReads, ReusableResults, ReusingRunner};
use crate::fork::shared_records::{
    check_agents_exist, find_execution_start, list_executed_agents, list_execution_starts, list_later_messages,
    missing_execution_error, records_until_finished_turn, records_until_turn, reopen_turn_for_reruns,
};
use crate::inputs::InputValues;
use crate::options::arguments::parse_model_overrides;
use crate::options::run_options::RunOptions;
use crate::prepare::{PreparedEnsemble, prepare_file};
use crate::start::carried_inputs::{CarriedInputs, carry_inputs_over};
use crate::start::definitions::{DefinitionOptions, RecordedDefinitions, compute_definitions};
use crate::start::ready::{ReadyRun, RunOpening, replace_agent_runners};
use crate::start::recorded_run::{RecordedRun, has_rerun_on_resume, load_recorded_ensemble};
use crate::start::runs::{RunSelector, Runs};

/// A fork that is ready to start, with its changes and its further user messages.
pub struct PreparedFork {
    /// Begins the new run.
    pub ready: ReadyRun,
    /// The changes since the other run.
    pub changes: ForkChanges,
    /// The later user messages of the other run, which a rerun adds again in this order.
    pub messages: Vec<Arc<str>>,
}

/// The changes between a run and a run that continues from it.
#[derive(Debug, Clone)]
pub struct ForkChanges {
    /// The file of the edited text. `None` means the text of the other run.
    pub file: Option<PathBuf>,
    /// The differences between the agents.
    pub changes: EnsembleChanges,
    /// The other run.
    pub origin: RunId,
    /// The changed agents that ran before the fork, each with its first turn. Their results are kept.
    pub changed_agents: Vec<(Arc<str>, u32)>,
}

/// The ensemble of a fork, with its changes and its external definitions.
pub(crate) struct ForkEnsemble {
    pub(crate) prepared: Arc<PreparedEnsemble>,
    /// The file, if the text is edited.
    file: Option<PathBuf>,
    /// The differences from the other run, in the text and in everything behind the agents.
    changes: EnsembleChanges,
    recorded_definitions: RecordedDefinitions,
    pub(crate) definitions: ExternalDefinitionDigests,
}

impl ForkEnsemble {
    /// Returns whether the agent must be executed again, even if its reads are unchanged.
    fn must_execute_again(&self, agent: &str, execution: u32) -> bool {
        self.changes.invalidates_agent(agent)
            || !self.recorded_definitions.has_latest_definition(agent, execution)
            || has_rerun_on_resume(&self.prepared, agent)
    }

    /// Returns the agents whose kept executions were performed with another definition, each with the last such execution.
    pub(crate) fn list_outdated_executions(&self, kept: &[Record]) -> BTreeMap<Arc<str>, u32> {
        let mut outdated = BTreeMap::new();
        for (_, start) in list_execution_starts(kept) {
            if self.changes.invalidates_agent(&start.agent)
                || !self
                    .recorded_definitions
                    .has_latest_definition(&start.agent, start.execution)
            {
                outdated.insert(start.agent.clone(), start.execution);
            }
        }
        outdated
    }
}

/// A fork whose agents are not built yet.
struct UnbuiltFork {
    origin: RecordedRun,
    /// The records that both have, the first included.
    kept_records: Vec<Record>,
    /// The last turn that both have.
    turn: u32,
    /// The execution that is repeated, as `agent@turn`, or `agent[key]@turn`.
    repeated_execution: Option<Arc<str>>,
    text: ForkEnsemble,
    reuse: ReusableResults,
    context_changes: InputValues,
    messages: Vec<Arc<str>>,
    /// The message with which the fork continues.
    next_message: Option<Arc<str>>,
}

impl UnbuiltFork {
    /// Returns the inputs and context of the new run. Changes can also set values of the context, except inputs that the new ensemble does
    /// not declare.
    fn carry_run_inputs(&self, before: &RunStarted) -> Result<CarriedInputs, RunError> {
        let mut state = ConversationState::new(self.origin.prepared.plan.clone());
        if !self.context_changes.values.is_empty() {
            state = ConversationState::from_records(state.plan().clone(), &self.kept_records)?;
        }
        let is_context_only = |name: &str| state.context().get(name).is_some() && before.inputs.get(name).is_none();
        carry_inputs_over(
            self.text.prepared.plan.ensemble(),
            before,
            &self.kept_records,
            &self.context_changes,
            is_context_only,
        )
        .map_err(RunError::Inputs)
    }
}

impl Runs {
    /// Prepares a new run that starts with the records of another run up to the end of turn `at_turn` (0: only the input). The values of
    /// `set` replace inputs and values of the context. The ensemble `edited`, if any, decides the new run.
    ///
    /// # Errors
    /// There is no such run or turn, or an ensemble or an agent cannot run.
    pub async fn prepare_fork(
        &self,
        which: impl Into<RunSelector>,
        at_turn: u32,
        set: RunContext,
        edited: Option<&str>,
        mut options: RunOptions,
    ) -> Result<PreparedFork, RunError> {
        let origin = RecordedRun::load(self.resolve_run(which).await?, self.project()).await?;
        let kept_records = records_until_turn(&origin, at_turn)?.to_vec();
        let text = self.load_fork_ensemble(&origin, edited, &mut options).await?;
        check_agents_exist(&kept_records, &text.prepared, at_turn)?;
        // Later results replace executions only if the text is edited. Otherwise everything is executed.
        let reuse = match text.file.is_some() && set.is_empty() {
            true => collect_reusable_results(
                &origin,
                at_turn + 1,
                |agent, number| text.must_execute_again(agent, number),
                None,
            )?,
            false => ReusableResults::default(),
        };
        let fork = UnbuiltFork {
            kept_records: reopen_turn_for_reruns(&kept_records, at_turn, &text.prepared),
            turn: at_turn,
            repeated_execution: None,
            text,
            reuse,
            context_changes: InputValues {
                values: set,
                texts: std::mem::take(&mut options.texts),
            },
            messages: Vec::new(),
            next_message: None,
            origin,
        };
        self.build_fork(fork, options)
    }

    /// Prepares a new run that repeats one execution of another run, and everything that followed from the execution. With `part`, only the
    /// part with this key is repeated.
    ///
    /// # Errors
    /// There is no such run or execution, or an ensemble or an agent cannot run.
    pub async fn prepare_rerun(
        &self,
        which: impl Into<RunSelector>,
        agent: &str,
        part: Option<&str>,
        turn: u32,
        edited: Option<&str>,
        mut options: RunOptions,
    ) -> Result<PreparedFork, RunError> {
        let origin = RecordedRun::load(self.resolve_run(which).await?, self.project()).await?;
        let records = &origin.journal.records;
        let execution_start = find_execution_start(records, agent, turn);
        let (at, start) = execution_start.ok_or_else(|| missing_execution_error(&origin, agent, turn))?;
        let part = part.map(|key| resolve_part_key(&origin, start, key)).transpose()?;
        let kept_records = records[..at].to_vec();
        let text = self.load_fork_ensemble(&origin, edited, &mut options).await?;
        check_agents_exist(&kept_records, &text.prepared, turn - 1)?;
        let repeats = match &part {
            Some(key) => format!("{agent}[{key}]@{turn}"),
            None => format!("{agent}@{turn}"),
        };
        let repeated = ExecutionToRepeat {
            execution_key: (start.agent.clone(), start.execution),
            part,
        };
        let reuse = collect_reusable_results(
            &origin,
            turn,
            |agent, number| text.must_execute_again(agent, number),
            Some(repeated),
        )?;
        let fork = UnbuiltFork {
            messages: list_later_messages(&records[at..]),
            next_message: None,
            kept_records,
            turn: turn - 1,
            repeated_execution: Some(repeats.into()),
            text,
            reuse,
            context_changes: InputValues::default(),
            origin,
        };
        self.build_fork(fork, options)
    }

    /// Prepares a new run that continues an interrupted run from its last finished turn, decided by an edited ensemble. Keeps the finished
    /// results of the open turn that the edit does not affect.
    ///
    /// # Errors
    ///
    /// There is no such run, the run has ended, another process drives the run, or the ensemble or an agent cannot run.
    pub async fn prepare_edited_resume(
        &self,
        which: impl Into<RunSelector>,
        edited: &str,
        mut options: RunOptions,
    ) -> Result<PreparedFork, RunError> {
        let run = self.resolve_run(which).await?;
        let lease = run.acquire_lease().await?;
        let origin = RecordedRun::load(run, self.project()).await?;
        if origin.has_final_end() {
            return Err(already_ended_error(&origin, edited));
        }
        let text = self.load_fork_ensemble(&origin, Some(edited), &mut options).await?;
        let kept_records = records_until_finished_turn(&origin.journal.records).to_vec();
        let turn = origin.state.turn_count();
        check_agents_exist(&kept_records, &text.prepared, turn)?;
        let reuse = collect_reusable_results(
            &origin,
            turn + 1,
            |agent, number| text.must_execute_again(agent, number),
            None,
        )?;
        kill_processes_of_run(&origin.start_event()?.run_id);
        let fork = UnbuiltFork {
            kept_records,
            turn,
            repeated_execution: None,
            text,
            reuse,
            context_changes: InputValues::default(),
            messages: Vec::new(),
            next_message: None,
            origin,
        };
        let mut forked = self.build_fork(fork, options)?;
        forked.ready.source_lease = Some(lease);
        Ok(forked)
    }

    /// Prepares a new run that continues an ended run with a user message, decided by an edited ensemble. The values of `set` replace
    /// inputs and values of the context.
    ///
    /// # Errors
    ///
    /// There is no such run, the run has not ended or waits for input, or the ensemble or an agent cannot run.
    pub async fn prepare_edited_continuation(
        &self,
        which: impl Into<RunSelector>,
        edited: &str,
        message: impl Into<Arc<str>>,
        set: RunContext,
        mut options: RunOptions,
    ) -> Result<PreparedFork, RunError> {
        let run = self.resolve_run(which).await?;
        let lease = run.acquire_lease().await?;
        let origin = RecordedRun::load(run, self.project()).await?;
        if !origin.can_continue_with_message() {
            return Err(RunError::NotEnded(origin.run.id().clone()));
        }
        let text = self.load_fork_ensemble(&origin, Some(edited), &mut options).await?;
        let kept_records = origin.journal.records.clone();
        let turn = origin
            .state
            .open_turn()
            .map_or(origin.state.turn_count(), |open| open.turn);
        check_agents_exist(&kept_records, &text.prepared, turn)?;
        let fork = UnbuiltFork {
            kept_records,
            turn,
            repeated_execution: None,
            text,
            reuse: ReusableResults::default(),
            context_changes: InputValues {
                values: set,
                texts: std::mem::take(&mut options.texts),
            },
            messages: Vec::new(),
            next_message: Some(message.into()),
            origin,
        };
        let mut forked = self.build_fork(fork, options)?;
        forked.ready.source_lease = Some(lease);
        Ok(forked)
    }

    /// Loads the ensemble of a fork: the edited file, if any, or the recorded ensemble. Adds the stubs and responders of the other run to
    /// the options.
    pub(crate) async fn load_fork_ensemble(
        &self,
        origin: &RecordedRun,
        edited: Option<&str>,
        options: &mut RunOptions,
    ) -> Result<ForkEnsemble, RunError> {
        let before = origin.start_event()?;
        let file = edited.map(|file| self.resolve_ensemble_file(file)).transpose()?;
        let prepared = match &file {
            Some(path) => prepare_file(path, self.project())?,
            None => load_recorded_ensemble(&*origin.run, before, self.project()).await?,
        };
        options.inherit_replacements(before, |name| prepared.plan.find_agent_id(name).is_some());
        let overrides = parse_model_overrides(effective_model_overrides(options, before))?;
        let responders = options.recorded_responders();
        let definition_options = DefinitionOptions::for_records(&overrides, &options.stubs, &responders);
        let definitions = compute_definitions(&prepared, definition_options, self.project());
        let recorded = RecordedDefinitions::from_records(&origin.journal.records);
        let changes = match (&origin.prepared.loaded.document, &prepared.loaded.document) {
            (Some(old), Some(new)) => compare_ensembles(
                ComparedEnsemble {
                    document: old,
                    external: recorded.latest.as_ref(),
                },
                ComparedEnsemble {
                    document: new,
                    external: Some(&definitions),
                },
            ),
            _ => EnsembleChanges::default(),
        };
        Ok(ForkEnsemble {
            prepared: Arc::new(prepared),
            file,
            changes,
            recorded_definitions: recorded,
            definitions,
        })
    }

    /// Builds the agents of the fork, and assembles the first records of the new run.
    fn build_fork(&self, fork: UnbuiltFork, options: RunOptions) -> Result<PreparedFork, RunError> {
        let before = fork.origin.start_event()?.clone();
        let models = effective_model_overrides(&options, &before).to_vec();
        let prepared = fork.text.prepared.clone();
        let CarriedInputs {
            run_arguments: starts_with,
            context_changes: set,
        } = fork.carry_run_inputs(&before)?;
        let mut built_agents = self
            .agent_build_options(prepared.clone(), options, &models)
            .build_agents()?;
        if !fork.reuse.is_empty() {
            let added = AddedInputNames::from_previous_run(&before, &starts_with.inputs);
            let reuse = Arc::new(fork.reuse.with_added_inputs(added));
            let answers = built_agents.shared.answers.clone();
            replace_agent_runners(&mut built_agents, |at, agent, runner| {
                if answers
                    .read_answers(|answers| has_replacing_answer(&prepared.plan, &agent.kind, &agent.name, answers))
                {
                    return runner;
                }
                match prepared.plan.agent_ids().nth(at) {
                    Some(id) => Arc::new(ReusingRunner::new(
                        runner,
                        reuse.clone(),
                        OptionalReads::for_agent(&prepared.plan, id),
                    )),
                    None => runner,
                }
            });
        }
        let set = match fork.next_message {
            Some(text) => Some(Event::MessageAdded(MessageAdded {
                text,
                set,
                ..MessageAdded::default()
            })),
            None => (!set.is_empty()).then_some(Event::ContextSet(set)),
        };
        let shared = fork.kept_records.len() as u64 - 1;
        // What the run before did not decide by its own text and inputs, this one does not, either.
        let given_records = match fork.text.file.is_some() || set.is_some() {
            true => Some(shared + u64::from(set.is_some())),
            false => before
                .forked_from
                .as_ref()
                .and_then(|from| from.given)
                .map(|given| given.min(shared))
                .filter(|given| *given > 0),
        };
        let file = match &fork.text.file {
            Some(path) => self.project().folder.join(path).display().to_string(),
            None => before.ensemble_file.clone(),
        };
        let first = RunStarted {
            forked_from: Some(ForkedFrom {
                run_id: before.run_id.clone(),
                merged_with: None,
                turn: fork.turn,
                repeats: fork.repeated_execution,
                given: given_records,
                outdated: fork.text.list_outdated_executions(&fork.kept_records),
            }),
            definitions: Some(fork.text.definitions),
            project_root: before.project_root.clone(),
            ..built_agents.build_start_event(file, starts_with, &models)
        };
        let mut records = fork.kept_records;
        records.iter_mut().for_each(remove_definition_digests);
        let changes = ForkChanges {
            changed_agents: list_changed_executed_agents(&records, &fork.text.changes),
            file: fork.text.file,
            changes: fork.text.changes,
            origin: fork.origin.run.id().clone(),
        };
        // The new run begins now; the records that both runs have keep their times, which are earlier.
        records[0].at = self.host().now();
        records[0].event = Event::RunStarted(Box::new(first));
        let opening = RunOpening::New {
            store: self.store_for_root(&prepared.root),
            id: None,
            records,
            then: set,
        };
        Ok(PreparedFork {
            ready: built_agents.into_ready_run(opening),
            changes,
            messages: fork.messages,
        })
    }
}

/// Resolves the key of a recorded part of the execution.
///
/// # Errors
///
/// The execution has no part with this key.
fn resolve_part_key(origin: &RecordedRun, start: &AgentStart, key: &str) -> Result<Arc<str>, RunError> {
    let mut keys: Vec<Arc<str>> = Vec::new();
    for record in &origin.journal.records {
        if let Event::PartEnded(part) = &record.event
            && part.agent == start.agent
            && part.execution == start.execution
            && !keys.contains(&part.key)
        {
            keys.push(part.key.clone());
        }
    }
    keys.iter()
        .find(|known| ***known == *key)
        .cloned()
        .ok_or_else(|| RunError::NoPart {
            run: origin.run.id().to_string(),
            agent: start.agent.to_string(),
            key: key.to_owned(),
            keys: keys.iter().map(ToString::to_string).collect(),
        })
}

/// Returns the model overrides of the options, or those of the other run if the options have none.
fn effective_model_overrides<'o>(options: &'o RunOptions, before: &'o RunStarted) -> &'o [String] {
    match options.models.is_empty() {
        true => &before.models,
        false => &options.models,
    }
}

/// Removes the definitions from a shared record, because the first event of the new run names the outdated executions.
fn remove_definition_digests(record: &mut Record) {
    match &mut record.event {
        Event::RunResumed(resumed) => resumed.definitions = None,
        Event::MessageAdded(message) => message.definitions = None,
        _ => {}
    }
}

/// Returns whether the options contain an answer for this agent, or for an agent nested in it. Such an answer replaces a recorded answer.
fn has_replacing_answer(plan: &Plan, kind: &AgentKind, name: &str, answers: &PreparedAnswers) -> bool {
    let is_inside = |given: &str| match given.parse::<RequestAddress>() {
        Ok(address) if address.segments().len() > 1 => *address.segments()[0].agent == *name,
        _ => plan.find_agent_id(given).is_none(),
    };
    match kind {
        AgentKind::Input(_) => {
            let address = RequestAddress::for_agent(name);
            let mut names = answers.list_addresses();
            names.any(|given| address.match_declared_precision(given).is_some())
        }
        AgentKind::Ensemble { .. } => answers.list_addresses().any(is_inside),
        AgentKind::Script { .. } | AgentKind::Llm(_) | AgentKind::Tool { .. } => false,
    }
}

/// Lists the changed agents that were executed, each with the turn of the first execution.
fn list_changed_executed_agents(kept: &[Record], changes: &EnsembleChanges) -> Vec<(Arc<str>, u32)> {
    let mut changed_agents: Vec<(Arc<str>, u32)> = Vec::new();
    for (turn, agent) in list_executed_agents(kept) {
        if changes.invalidates_agent(agent) && !changed_agents.iter().any(|(known, _)| known == agent) {
            changed_agents.push((agent.clone(), turn));
        }
    }
    changed_agents
}

/// Returns the error for an edited resume of a run that has ended, with the agent that failed.
fn already_ended_error(origin: &RecordedRun, file: &str) -> RunError {
    let state = &origin.state;
    let failed = state
        .first_failing_agent()
        .map(|id| origin.prepared.plan.agent_name(id));
    let last_failure = state
        .list_executions()
        .filter(|entry| Some(&entry.agent_name) == failed)
        .last();
    RunError::HasEnded {
        run: origin.run.id().clone(),
        file: file.to_owned(),
        turn: state.turn_count(),
        failed: last_failure.map(|entry| (entry.agent_name.to_string(), entry.turn_number)),
    }
}
