//! Runs that begin with the records of another: forks, reruns, and resumes with an edited file.
//!
//! Invariant: the other run stays as it is.

use std::path::PathBuf;
use std::sync::Arc;

use ensemble_agents::agent::input::Answers;
use ensemble_agents::agent::process::kill_leftovers;
use ensemble_core::conversation::{ConversationState, Event, ForkedFrom, MessageAdded, Record, RunStarted, Start};
use ensemble_core::executor::Clock;
use ensemble_core::store::RunId;
use ensemble_language::data::Context;
use ensemble_language::ensemble::AgentKind;
use ensemble_language::loader::{Changes, changes};
use ensemble_language::plan::Plan;

use crate::carried::{Carried, carry_over};
use crate::error::RunError;
use crate::inputs::Given;
use crate::kept::{beginning, check_agents, finished_turns, messages, no_execution, reopened, start_of, who_ran};
use crate::options::RunOptions;
use crate::prepare::{Prepared, prepare};
use crate::ready::{Opening, Ready, replace_runners};
use crate::recorded::{RecordedRun, recorded_ensemble, reruns};
use crate::reuse::{Repeated, reusable};
use crate::reused::{Added, Reads, Reusable, Reusing};
use crate::runs::{Runs, WhichRun};

/// A fork that is ready.
pub struct ReadyFork {
    /// Begins the new run.
    pub ready: Ready,
    /// The edited text by which the fork goes on; `None`: the other run's own.
    pub edited: Option<EditedText>,
    /// What was said to the other run later on, for a rerun: it is to be said again, in this order.
    pub messages: Vec<Arc<str>>,
}

/// An edited text of an ensemble.
#[derive(Debug, Clone)]
pub struct EditedText {
    /// Its file.
    pub file: PathBuf,
    /// What it changes.
    pub changes: Changes,
    /// The run that was decided by the text before.
    pub origin: RunId,
    /// Changed agents that ran before the fork: each with its first turn. What they said stands.
    pub stands: Vec<(Arc<str>, u32)>,
}

/// The text by which a fork goes on.
struct Text {
    prepared: Arc<Prepared>,
    edited: Option<(PathBuf, Changes)>,
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
            self.kept.iter().for_each(|record| state.apply(record));
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
        let text = self.text(&origin, edited).await?;
        check_agents(&kept, &text.prepared, at_turn)?;
        // What was recorded later stands in for agents that an edited text left alone. Otherwise everything is executed.
        let reuse = match &text.edited {
            Some((_, changes)) if set.is_empty() => {
                let is_out = |agent: &str| is_out(agent, changes, &text.prepared, &options);
                reusable(&origin, at_turn + 1, is_out, None)?
            }
            _ => Reusable::default(),
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
        options: RunOptions,
    ) -> Result<ReadyFork, RunError> {
        let origin = RecordedRun::read(self.find(which).await?, self.project()).await?;
        let records = &origin.journal.records;
        let found = start_of(records, agent, turn);
        let (at, start) = found.ok_or_else(|| no_execution(&origin, agent, turn))?;
        let part = part.map(|key| known_part(&origin, start, key)).transpose()?;
        let kept = records[..at].to_vec();
        let text = self.text(&origin, edited).await?;
        check_agents(&kept, &text.prepared, turn - 1)?;
        let changes = text
            .edited
            .as_ref()
            .map(|(_, changes)| changes.clone())
            .unwrap_or_default();
        let is_out = |agent: &str| changes.concern(agent) || reruns(&text.prepared, agent);
        let repeats = match &part {
            Some(key) => format!("{agent}[{key}]@{turn}"),
            None => format!("{agent}@{turn}"),
        };
        let repeated = Repeated {
            executed: (start.agent.clone(), start.execution),
            part,
        };
        let reuse = reusable(&origin, turn, is_out, Some(repeated))?;
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
        options: RunOptions,
    ) -> Result<ReadyFork, RunError> {
        let run = self.find(which).await?;
        let lease = run.lease().await?;
        let origin = RecordedRun::read(run, self.project()).await?;
        if origin.has_ended() {
            return Err(has_ended(&origin, edited));
        }
        let text = self.text(&origin, Some(edited)).await?;
        let kept = finished_turns(&origin.journal.records).to_vec();
        let turn = origin.state.turn_count();
        check_agents(&kept, &text.prepared, turn)?;
        let changes = text
            .edited
            .as_ref()
            .map(|(_, changes)| changes.clone())
            .unwrap_or_default();
        let reuse = reusable(
            &origin,
            turn + 1,
            |agent| is_out(agent, &changes, &text.prepared, &options),
            None,
        )?;
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
        let text = self.text(&origin, Some(edited)).await?;
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

    /// The text by which a fork goes on: the file, if one is given, else the other run's own.
    async fn text(&self, origin: &RecordedRun, edited: Option<&str>) -> Result<Text, RunError> {
        let Some(file) = edited else {
            let prepared = recorded_ensemble(&*origin.run, origin.started()?, self.project()).await?;
            return Ok(Text {
                prepared: Arc::new(prepared),
                edited: None,
            });
        };
        let path = self.file(file)?;
        let prepared = prepare(&path, self.project())?;
        let changes = match (&origin.prepared.loaded.document, &prepared.loaded.document) {
            (Some(old), Some(new)) => changes(old, new),
            _ => Changes::default(),
        };
        Ok(Text {
            prepared: Arc::new(prepared),
            edited: Some((path, changes)),
        })
    }

    fn forked(&self, fork: Fork, mut options: RunOptions) -> Result<ReadyFork, RunError> {
        let before = fork.origin.started()?.clone();
        options.keep_substitutes(&before, |name| fork.text.prepared.plan.id(name).is_some());
        let models = match options.models.is_empty() {
            true => before.models.clone(),
            false => options.models.clone(),
        };
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
                if is_answered(&prepared.plan, &agent.kind, &agent.name, &answers) {
                    return runner;
                }
                match prepared.plan.ids().nth(at) {
                    Some(id) => Arc::new(Reusing::new(runner, reuse.clone(), Reads::of(&prepared.plan, id))),
                    None => runner,
                }
            });
        }
        let set = match fork.says {
            Some(text) => Some(Event::MessageAdded(MessageAdded { text, set, trace: None })),
            None => (!set.is_empty()).then_some(Event::ContextSet(set)),
        };
        let shared = fork.kept.len() as u64 - 1;
        // What the run before did not decide by its own text and inputs, this one does not, either.
        let given = match fork.text.edited.is_some() || set.is_some() {
            true => Some(shared + u64::from(set.is_some())),
            false => before
                .forked_from
                .as_ref()
                .and_then(|from| from.given)
                .map(|given| given.min(shared))
                .filter(|given| *given > 0),
        };
        let file = match &fork.text.edited {
            Some((path, _)) => self.project().folder.join(path).display().to_string(),
            None => before.ensemble_file.clone(),
        };
        let first = RunStarted {
            forked_from: Some(ForkedFrom {
                run_id: before.run_id.clone(),
                turn: fork.turn,
                repeats: fork.repeats,
                given,
            }),
            project_root: before.project_root.clone(),
            ..made.started(file, starts_with, &models)
        };
        let mut records = fork.kept;
        let edited = fork.text.edited.map(|(file, changes)| EditedText {
            stands: stands(&records, &changes),
            file,
            changes,
            origin: fork.origin.run.id().clone(),
        });
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
            edited,
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

/// Must the agent be executed again, whatever the record says?
fn is_out(agent: &str, changes: &Changes, prepared: &Prepared, options: &RunOptions) -> bool {
    let id = prepared.plan.id(agent);
    let is_llm = id.is_some_and(|id| matches!(prepared.plan.agent(id).kind, AgentKind::Llm(_)));
    changes.concern(agent) || reruns(prepared, agent) || (is_llm && !options.models.is_empty())
}

/// Is an answer given that this agent, or an agent inside it, may want? It comes before a recorded one.
fn is_answered(plan: &Plan, kind: &AgentKind, name: &str, answers: &Answers) -> bool {
    let is_inside = |name: &str| plan.id(name).is_none();
    match kind {
        AgentKind::Input(_) => answers.agents().any(|answered| *answered == *name),
        AgentKind::Ensemble { .. } => answers.agents().any(is_inside),
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
