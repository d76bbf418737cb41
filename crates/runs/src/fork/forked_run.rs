//! Runs that begin with the records of another: forks, reruns, and resumes with an edited file.
//!
//! Invariant: the other run stays as it is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ensemble_agents::agent::kinds::input::Answers;
use ensemble_core::conversation::{ConversationState, Event, ForkedFrom, MessageAdded, Record, RunStarted, Start};
use ensemble_core::executor::Clock;
use ensemble_core::request::RequestAddress;
use ensemble_core::store::RunId;
use ensemble_language::data::Context;
use ensemble_language::definition::ExternalDefinitions;
use ensemble_language::ensemble::AgentKind;
use ensemble_language::loader::{Changes, Side, changes};
use ensemble_language::plan::Plan;
use ensemble_process::kill_leftovers;

use crate::error::RunError;
use crate::fork::reuse::{Repeated, reusable};
use crate::fork::reused_results::{Added, Reads, Reusable, Reusing};
use crate::fork::shared_records::{
    beginning, check_agents, finished_turns, messages, no_execution, reopened, start_of, starts, who_ran,
};
use crate::inputs::Given;
use crate::options::arguments::overrides;
use crate::options::run_options::RunOptions;
use crate::prepare::{Prepared, prepare};
use crate::start::carried_inputs::{Carried, carry_over};
use crate::start::definitions::{DefinitionOptions, RecordedDefinitions, read_definitions};
use crate::start::ready::{Opening, Ready, replace_runners};
use crate::start::recorded_run::{RecordedRun, recorded_ensemble, reruns};
use crate::start::runs::{Runs, WhichRun};

/// A fork that is ready.
pub struct ReadyFork {
    /// Begins the new run.
    pub ready: Ready,
    /// The changes since the other run.
    pub changes: ForkChanges,
    /// What was said to the other run later on, for a rerun: it is to be said again, in this order.
    pub messages: Vec<Arc<str>>,
}

/// The changes between a run and a run that continues from it.
#[derive(Debug, Clone)]
pub struct ForkChanges {
    /// The file of the edited text; `None`: the text of the other run.
    pub file: Option<PathBuf>,
    /// The differences between the agents.
    pub changes: Changes,
    /// The other run.
    pub origin: RunId,
    /// Changed agents that ran before the fork, each with its first turn. Their results are kept.
    pub stands: Vec<(Arc<str>, u32)>,
}

/// The text by which a fork is decided.
struct Text {
    prepared: Arc<Prepared>,
    /// The file, if the text is edited.
    file: Option<PathBuf>,
    /// The differences from the other run, in the text and in everything behind the agents.
    changes: Changes,
    recorded: RecordedDefinitions,
    definitions: ExternalDefinitions,
}

impl Text {
    /// Returns whether the agent must be executed again, whatever the record contains.
    fn is_out(&self, agent: &str, execution: u32) -> bool {
        self.changes.concern(agent) || !self.recorded.is_latest(agent, execution) || reruns(&self.prepared, agent)
    }

    /// Returns the agents whose shared executions were performed with another definition, each with the last of them.
    fn outdated(&self, kept: &[Record]) -> BTreeMap<Arc<str>, u32> {
        let mut outdated = BTreeMap::new();
        for (_, start) in starts(kept) {
            if self.changes.concern(&start.agent) || !self.recorded.is_latest(&start.agent, start.execution) {
                outdated.insert(start.agent.clone(), start.execution);
            }
        }
        outdated
    }
}

/// A fork, before its agents are ready.
struct Fork {
    origin: RecordedRun,
    /// The records that both have, the first included.
    kept: Vec<Record>,
    /// The last turn that both have.
    turn: u32,
    /// The execution that is repeated, as `agent@turn`, or `agent[key]@turn`.
    repeats: Option<Arc<str>>,
    text: Text,
    reuse: Reusable,
    set: Given,
    messages: Vec<Arc<str>>,
    /// The message with which the fork goes on.
    says: Option<Arc<str>>,
}

impl Fork {
    /// With what the new run goes on. Beside inputs, what stands in the context can be set, save inputs of the run
    /// before that the text does not take any more.
    fn carried(&self, before: &RunStarted) -> Result<Carried, RunError> {
        let mut state = ConversationState::new(self.origin.prepared.plan.clone());
        if !self.set.values.is_empty() {
            state = ConversationState::from_records(state.plan().clone(), &self.kept)?;
        }
        let known = |name: &str| state.context().get(name).is_some() && before.inputs.get(name).is_none();
        carry_over(self.text.prepared.plan.ensemble(), before, &self.kept, &self.set, known).map_err(RunError::Inputs)
    }
}

impl Runs {
    /// Makes a new run ready that begins with the records of another up to the end of a turn (0: only the input), with
    /// the values of `set` in its context and in place of its inputs, and decided by the ensemble `edited` if one is given.
    ///
    /// # Errors
    /// There is no such run or turn, or an ensemble or an agent cannot run.
    pub async fn fork(
        &self,
        which: impl Into<WhichRun>,
        at_turn: u32,
        set: Context,
        edited: Option<&str>,
        mut options: RunOptions,
    ) -> Result<ReadyFork, RunError> {
        let origin = RecordedRun::read(self.find(which).await?, self.project()).await?;
        let kept = beginning(&origin, at_turn)?.to_vec();
        let text = self.text(&origin, edited, &mut options).await?;
        check_agents(&kept, &text.prepared, at_turn)?;
        // Later results replace executions only if the text is edited. Otherwise everything is executed.
        let reuse = match text.file.is_some() && set.is_empty() {
            true => reusable(&origin, at_turn + 1, |agent, number| text.is_out(agent, number), None)?,
            false => Reusable::default(),
        };
        let fork = Fork {
            kept: reopened(&kept, at_turn, &text.prepared),
            turn: at_turn,
            repeats: None,
            text,
            reuse,
            set: Given {
                values: set,
                texts: std::mem::take(&mut options.texts),
            },
            messages: Vec::new(),
            says: None,
            origin,
        };
        self.forked(fork, options)
    }

    /// Makes a new run ready that repeats one execution of another, with all that followed from it. With `part` only the
    /// part of this key is repeated of the execution.
    ///
    /// # Errors
    /// There is no such run or execution, or an ensemble or an agent cannot run.
    pub async fn rerun(
        &self,
        which: impl Into<WhichRun>,
        agent: &str,
        part: Option<&str>,
        turn: u32,
        edited: Option<&str>,
        mut options: RunOptions,
    ) -> Result<ReadyFork, RunError> {
        let origin = RecordedRun::read(self.find(which).await?, self.project()).await?;
        let records = &origin.journal.records;
        let found = start_of(records, agent, turn);
        let (at, start) = found.ok_or_else(|| no_execution(&origin, agent, turn))?;
        let part = part.map(|key| known_part(&origin, start, key)).transpose()?;
        let kept = records[..at].to_vec();
        let text = self.text(&origin, edited, &mut options).await?;
        check_agents(&kept, &text.prepared, turn - 1)?;
        let repeats = match &part {
            Some(key) => format!("{agent}[{key}]@{turn}"),
            None => format!("{agent}@{turn}"),
        };
        let repeated = Repeated {
            executed: (start.agent.clone(), start.execution),
            part,
        };
        let reuse = reusable(
            &origin,
            turn,
            |agent, number| text.is_out(agent, number),
            Some(repeated),
        )?;
        let fork = Fork {
            messages: messages(&records[at..]),
            says: None,
            kept,
            turn: turn - 1,
            repeats: Some(repeats.into()),
            text,
            reuse,
            set: Given::default(),
            origin,
        };
        self.forked(fork, options)
    }

    /// Makes a new run ready that goes on from the last finished turn of a run that was cut short, decided by an
    /// edited ensemble. What had finished of the open turn is taken over where the edit does not concern it.
    ///
    /// # Errors
    /// There is no such run, it has ended, somebody drives it, or the ensemble or an agent cannot run.
    pub async fn resume_edited(
        &self,
        which: impl Into<WhichRun>,
        edited: &str,
        mut options: RunOptions,
    ) -> Result<ReadyFork, RunError> {
        let run = self.find(which).await?;
        let lease = run.lease().await?;
        let origin = RecordedRun::read(run, self.project()).await?;
        if origin.has_ended() {
            return Err(has_ended(&origin, edited));
        }
        let text = self.text(&origin, Some(edited), &mut options).await?;
        let kept = finished_turns(&origin.journal.records).to_vec();
        let turn = origin.state.turn_count();
        check_agents(&kept, &text.prepared, turn)?;
        let reuse = reusable(&origin, turn + 1, |agent, number| text.is_out(agent, number), None)?;
        kill_leftovers(&origin.started()?.run_id);
        let fork = Fork {
            kept,
            turn,
            repeats: None,
            text,
            reuse,
            set: Given::default(),
            messages: Vec::new(),
            says: None,
            origin,
        };
        let mut forked = self.forked(fork, options)?;
        forked.ready.held = Some(lease);
        Ok(forked)
    }

    /// Makes a new run ready that goes on from the end of another with a user message, decided by an edited ensemble, and
    /// with the values of `set` in its context and in place of its inputs.
    ///
    /// # Errors
    /// There is no such run, it has not ended or waits for input, or the ensemble or an agent cannot run.
    pub async fn continue_edited(
        &self,
        which: impl Into<WhichRun>,
        edited: &str,
        message: impl Into<Arc<str>>,
        set: Context,
        mut options: RunOptions,
    ) -> Result<ReadyFork, RunError> {
        let run = self.find(which).await?;
        let lease = run.lease().await?;
        let origin = RecordedRun::read(run, self.project()).await?;
        if !origin.can_continue() {
            return Err(RunError::NotEnded(origin.run.id().clone()));
        }
        let text = self.text(&origin, Some(edited), &mut options).await?;
        let kept = origin.journal.records.clone();
        let turn = origin
            .state
            .open_turn()
            .map_or(origin.state.turn_count(), |open| open.turn);
        check_agents(&kept, &text.prepared, turn)?;
        let fork = Fork {
            kept,
            turn,
            repeats: None,
            text,
            reuse: Reusable::default(),
            set: Given {
                values: set,
                texts: std::mem::take(&mut options.texts),
            },
            messages: Vec::new(),
            says: Some(message.into()),
            origin,
        };
        let mut forked = self.forked(fork, options)?;
        forked.ready.held = Some(lease);
        Ok(forked)
    }

    /// Loads the text by which a fork is decided: the file, if one is given, else the text of the other run. Adds to the
    /// options what replaced agents in the other run.
    async fn text(
        &self,
        origin: &RecordedRun,
        edited: Option<&str>,
        options: &mut RunOptions,
    ) -> Result<Text, RunError> {
        let before = origin.started()?;
        let file = edited.map(|file| self.file(file)).transpose()?;
        let prepared = match &file {
            Some(path) => prepare(path, self.project())?,
            None => recorded_ensemble(&*origin.run, before, self.project()).await?,
        };
        options.keep_substitutes(before, |name| prepared.plan.id(name).is_some());
        let definition_options = DefinitionOptions {
            overrides: &overrides(models_of(options, before))?,
            stubs: &options.stubs,
            responders: &options.responders,
        };
        let definitions = read_definitions(&prepared, definition_options, self.project());
        let recorded = RecordedDefinitions::of(&origin.journal.records);
        let changes = match (&origin.prepared.loaded.document, &prepared.loaded.document) {
            (Some(old), Some(new)) => changes(
                Side {
                    document: old,
                    external: recorded.latest.as_ref(),
                },
                Side {
                    document: new,
                    external: Some(&definitions),
                },
            ),
            _ => Changes::default(),
        };
        Ok(Text {
            prepared: Arc::new(prepared),
            file,
            changes,
            recorded,
            definitions,
        })
    }

    fn forked(&self, fork: Fork, options: RunOptions) -> Result<ReadyFork, RunError> {
        let before = fork.origin.started()?.clone();
        let models = models_of(&options, &before).to_vec();
        let prepared = fork.text.prepared.clone();
        let Carried {
            given: starts_with,
            set,
        } = fork.carried(&before)?;
        let mut made = self.making(prepared.clone(), options, &models).make()?;
        if !fork.reuse.is_empty() {
            let added = Added::of(&before, &starts_with.inputs);
            let reuse = Arc::new(fork.reuse.for_inputs(added));
            let answers = made.shared.answers.clone();
            replace_runners(&mut made, |at, agent, runner| {
                if answers.with_answers(|answers| is_answered(&prepared.plan, &agent.kind, &agent.name, answers)) {
                    return runner;
                }
                match prepared.plan.ids().nth(at) {
                    Some(id) => Arc::new(Reusing::new(runner, reuse.clone(), Reads::of(&prepared.plan, id))),
                    None => runner,
                }
            });
        }
        let set = match fork.says {
            Some(text) => Some(Event::MessageAdded(MessageAdded {
                text,
                set,
                ..MessageAdded::default()
            })),
            None => (!set.is_empty()).then_some(Event::ContextSet(set)),
        };
        let shared = fork.kept.len() as u64 - 1;
        // What the run before did not decide by its own text and inputs, this one does not, either.
        let given = match fork.text.file.is_some() || set.is_some() {
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
                turn: fork.turn,
                repeats: fork.repeats,
                given,
                outdated: fork.text.outdated(&fork.kept),
            }),
            definitions: Some(fork.text.definitions),
            project_root: before.project_root.clone(),
            ..made.started(file, starts_with, &models)
        };
        let mut records = fork.kept;
        records.iter_mut().for_each(forget_definitions);
        let changes = ForkChanges {
            stands: stands(&records, &fork.text.changes),
            file: fork.text.file,
            changes: fork.text.changes,
            origin: fork.origin.run.id().clone(),
        };
        // The new run begins now; the records that both runs have keep their times, which are earlier.
        records[0].at = self.host().now();
        records[0].event = Event::RunStarted(Box::new(first));
        let opening = Opening::New {
            store: self.store_of(&prepared.root),
            id: None,
            records,
            then: set,
        };
        Ok(ReadyFork {
            ready: made.into_ready(opening),
            changes,
            messages: fork.messages,
        })
    }
}

/// The key of a part of the execution.
fn known_part(origin: &RecordedRun, start: &Start, key: &str) -> Result<Arc<str>, RunError> {
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

/// Returns the overrides of models of a run that continues from another: its own, or else those of the other run.
fn models_of<'o>(options: &'o RunOptions, before: &'o RunStarted) -> &'o [String] {
    match options.models.is_empty() {
        true => &before.models,
        false => &options.models,
    }
}

/// Removes definitions from a shared record: the first event of the new run says which executions are outdated.
fn forget_definitions(record: &mut Record) {
    match &mut record.event {
        Event::RunResumed(resumed) => resumed.definitions = None,
        Event::MessageAdded(message) => message.definitions = None,
        _ => {}
    }
}

/// Returns whether there is an answer for this agent, or for an agent inside it. It precedes a recorded one.
fn is_answered(plan: &Plan, kind: &AgentKind, name: &str, answers: &Answers) -> bool {
    let is_inside = |given: &str| match given.parse::<RequestAddress>() {
        Ok(address) if address.segments().len() > 1 => *address.segments()[0].agent == *name,
        _ => plan.id(given).is_none(),
    };
    match kind {
        AgentKind::Input(_) => answers.addresses().any(|answered| *answered == *name),
        AgentKind::Ensemble { .. } => answers.addresses().any(is_inside),
        AgentKind::Script { .. } | AgentKind::Llm(_) | AgentKind::Tool { .. } => false,
    }
}

/// Changed agents that ran, each with the turn in which it first ran.
fn stands(kept: &[Record], changes: &Changes) -> Vec<(Arc<str>, u32)> {
    let mut told: Vec<(Arc<str>, u32)> = Vec::new();
    for (turn, agent) in who_ran(kept) {
        if changes.concern(agent) && !told.iter().any(|(known, _)| known == agent) {
            told.push((agent.clone(), turn));
        }
    }
    told
}

fn has_ended(origin: &RecordedRun, file: &str) -> RunError {
    let state = &origin.state;
    let failed = state.first_failed().map(|id| origin.prepared.plan.name(id));
    let last_failure = state.history().filter(|entry| Some(&entry.agent_name) == failed).last();
    RunError::HasEnded {
        run: origin.run.id().clone(),
        file: file.to_owned(),
        turn: state.turn_count(),
        failed: last_failure.map(|entry| (entry.agent_name.to_string(), entry.turn_number)),
    }
}
