//! Runs that begin with the records of another: what `fork`, `rerun` and `resume --ensemble` have in common, and
//! `ensemble fork` itself.

use std::path::PathBuf;
use std::sync::Arc;

use chrono::Utc;

use super::args::{AnsweringArgs, DrivingArgs, ForkArgs, ShowingArgs};
use super::error::CliError;
use super::given;
use super::prepare::{Prepared, prepare};
use super::project::Surroundings;
use super::resume::{recorded_ensemble, started};
use super::reuse::reusable;
use super::run::{Driven, Then, drive, new_journal, showing};
use super::wiring::{Shared, wire};
use ensemble_agents::agent::input::Answers;
use ensemble_agents::agent::{Reusable, Reusing};
use ensemble_core::conversation::{ConversationState, Event, ForkedFrom, Record, RunStarted};
use ensemble_language::data::{Context, digest};
use ensemble_language::ensemble::{AgentKind, OnResume};
use ensemble_language::loader::{Changes, changes};
use ensemble_language::plan::{AgentId, Plan};
use ensemble_reports::report::count;
use ensemble_runs::journal::{FORMAT, Journal, Ledger, RunFolder, Store, read};

/// `ensemble fork`.
pub(super) fn fork(args: &ForkArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let store = Store::of(&surroundings.project_root(&surroundings.folder));
    let origin = Origin::open(store.find(&args.run)?, surroundings)?;
    let kept = beginning(&origin.journal, &origin.folder, args.at_turn)?;
    let text = origin.text(args.ensemble.as_deref(), surroundings)?;
    let set = given::set(&args.set)?;
    check_agents(kept, &text.prepared, args.at_turn)?;
    text.tell(kept, &origin, &args.showing, surroundings);
    // What was recorded later stands in for agents that an edited text left alone. Otherwise everything is for real.
    let reuse = match text.changes() {
        Some(changes) if set.is_empty() => {
            let is_out = |agent: &str| {
                changes.concern(agent)
                    || reruns(&text.prepared, agent)
                    || asks_another_model(&text.prepared, agent, &args.answering)
            };
            reusable(&origin, args.at_turn + 1, is_out, None)?
        }
        _ => Reusable::default(),
    };
    let fork = Fork {
        kept: reopened(kept, args.at_turn, &text.prepared),
        turn: args.at_turn,
        repeats: None,
        origin: &origin,
        text,
        reuse,
        set,
        then: Then::default(),
    };
    fork.start(&args.answering, &args.driving, &args.showing, surroundings)
}

/// The run that another begins with.
pub(super) struct Origin {
    /// Where it stands.
    pub folder: RunFolder,
    /// Its journal.
    pub journal: Journal,
    /// Its ensemble, as it was.
    pub prepared: Prepared,
}

impl Origin {
    /// Reads the run.
    pub(super) fn open(folder: RunFolder, surroundings: &Surroundings) -> Result<Self, CliError> {
        let journal = read(&folder.journal())?;
        let prepared = recorded_ensemble(&folder, started(&journal)?, surroundings)?;
        Ok(Self {
            folder,
            journal,
            prepared,
        })
    }

    /// The text by which its fork goes on: the file, if one is given, else its own.
    pub(super) fn text(&self, file: Option<&str>, surroundings: &Surroundings) -> Result<Text, CliError> {
        match file {
            None => Ok(Text {
                prepared: recorded_ensemble(&self.folder, started(&self.journal)?, surroundings)?,
                edited: None,
            }),
            Some(file) => {
                let path = surroundings.ensemble_file(file)?;
                let prepared = prepare(&path, surroundings)?;
                let changes = compared(&self.prepared, &prepared);
                Ok(Text {
                    prepared,
                    edited: Some((path, changes)),
                })
            }
        }
    }
}

/// What differs between two texts that are both sound.
pub(super) fn compared(old: &Prepared, new: &Prepared) -> Changes {
    match (&old.loaded.document, &new.loaded.document) {
        (Some(old), Some(new)) => changes(old, new),
        _ => Changes::default(),
    }
}

/// The text by which a fork goes on.
pub(super) struct Text {
    /// Ready to run.
    pub prepared: Prepared,
    /// The file it comes from and what it changes, unless it is the origin's own.
    edited: Option<(PathBuf, Changes)>,
}

impl Text {
    /// What it changes; `None`: it is the origin's own.
    pub(super) fn changes(&self) -> Option<&Changes> {
        self.edited.as_ref().map(|(_, changes)| changes)
    }

    /// Says what an edited text changes, and which changed agents have already had their say.
    pub(super) fn tell(&self, kept: &[Record], origin: &Origin, showing: &ShowingArgs, surroundings: &Surroundings) {
        let Some((path, changes)) = self.edited.as_ref().filter(|_| !showing.quiet) else {
            return;
        };
        let file = path.display();
        let mut text = format!("{file}: {changes}\n");
        let mut told: Vec<Arc<str>> = Vec::new();
        for (turn, agent) in who_ran(kept) {
            if changes.concern(agent) && !told.contains(agent) {
                told.push(agent.clone());
                text.push_str(&format!(
                    "  {agent} ran in turn {turn} as it was, and that stands; to repeat it: ensemble rerun {} --from {agent}@{turn} --ensemble {file}\n",
                    origin.folder.id
                ));
            }
        }
        surroundings.complain(&text);
    }
}

/// Who ran in which turn.
fn who_ran(records: &[Record]) -> impl Iterator<Item = (u32, &Arc<str>)> {
    let turns = records.iter().filter_map(|record| match &record.event {
        Event::TurnStarted(turn) => Some(turn),
        _ => None,
    });
    turns.flat_map(|turn| turn.starts.iter().map(|start| (turn.turn, &start.agent)))
}

/// A run that begins with the records of another, before it is there.
pub(super) struct Fork<'a> {
    /// The other run.
    pub origin: &'a Origin,
    /// The records that both have, the first included.
    pub kept: Vec<Record>,
    /// The last turn that both have.
    pub turn: u32,
    /// The execution that is repeated, as `agent@turn`.
    pub repeats: Option<Arc<str>>,
    /// Its text.
    pub text: Text,
    /// What need not be executed again.
    pub reuse: Reusable,
    /// What is put into the context before it goes on.
    pub set: Context,
    /// What is said each time the conversation has ended.
    pub then: Then,
}

impl Fork<'_> {
    /// Makes the run and drives it to its end.
    pub(super) fn start(
        self,
        answering: &AnsweringArgs,
        driving: &DrivingArgs,
        shown: &ShowingArgs,
        surroundings: &Surroundings,
    ) -> Result<u8, CliError> {
        let before = started(&self.origin.journal)?;
        let models = if answering.model.is_empty() {
            before.models.clone()
        } else {
            answering.model.clone()
        };
        let prepared = &self.text.prepared;
        let showing = showing(shown, surroundings);
        let durability = driving.durability();
        let shared = Shared::given(answering, &models, durability, &showing, prepared, surroundings)?;
        let mut wired = wire(prepared, &shared)?;
        if !self.reuse.is_empty() {
            let reuse = Arc::new(self.reuse);
            let answered = |id| is_answered(&prepared.plan, id, &shared.answers);
            let agents = prepared.plan.ids().zip(&mut wired.runners);
            for (id, runner) in agents.filter(|(id, _)| !answered(*id)) {
                let reads_all = prepared.plan.incoming(id).next().is_none();
                *runner = Arc::new(Reusing::new(runner.clone(), reuse.clone(), reads_all));
            }
        }
        let folder = Store::of(&prepared.root).create(Utc::now())?;
        let _lock = folder.lock()?;
        folder.keep_ensemble(prepared.source.text())?;
        let set = (!self.set.is_empty()).then_some(Event::ContextSet(self.set));
        let is_given = self.text.edited.is_some() || set.is_some();
        let shared_records = self.kept.len() as u64 - 1 + u64::from(set.is_some());
        let first = RunStarted {
            format: FORMAT,
            run_id: folder.id.as_str().into(),
            ensemble: prepared.plan.ensemble().name.clone(),
            ensemble_file: match &self.text.edited {
                Some((path, _)) => surroundings.folder.join(path).display().to_string(),
                None => before.ensemble_file.clone(),
            },
            ensemble_digest: digest(prepared.source.text()),
            models,
            simulated: wired.simulated.clone(),
            forked_from: Some(ForkedFrom {
                run_id: before.run_id.clone(),
                turn: self.turn,
                repeats: self.repeats,
                given: is_given.then_some(shared_records),
            }),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            ..before.clone()
        };
        let mut writer = new_journal(&folder, durability)?;
        let mut reporter = showing.reporter;
        let mut state = ConversationState::new(prepared.plan.clone());
        let mut kept = self.kept;
        kept[0].event = Event::RunStarted(first);
        for (seq, record) in (0..).zip(&mut kept) {
            record.seq = seq;
            writer.append(record)?;
            state.apply(record);
        }
        reporter.report(&kept[0], &state);
        let driven = Driven {
            prepared,
            wired,
            first: set,
            messages: Box::new(self.then),
            state,
            writer,
            reporter,
            fail_on_limit: driving.fail_on_limit,
        };
        drive(driven, &folder.id, shown, surroundings)
    }
}

/// Is an answer given that this agent, or an agent inside it, may want? It comes before a recorded one.
fn is_answered(plan: &Plan, id: AgentId, answers: &Answers) -> bool {
    let is_inside = |name: &str| plan.id(name).is_none();
    match &plan.agent(id).kind {
        AgentKind::Input(_) => answers.agents().any(|name| *name == **plan.name(id)),
        AgentKind::Ensemble { .. } => answers.agents().any(is_inside),
        AgentKind::Script { .. } | AgentKind::Llm(_) => false,
    }
}

/// The records up to the end of the turn.
fn beginning<'a>(journal: &'a Journal, origin: &RunFolder, turn: u32) -> Result<&'a [Record], CliError> {
    let records = &journal.records;
    if turn == 0 {
        return Ok(&records[..1]);
    }
    let ends = |record: &Record| matches!(&record.event, Event::TurnFinished(finished) if finished.turn == turn);
    if let Some(at) = records.iter().position(ends) {
        return Ok(&records[..=at]);
    }
    let turns = records
        .iter()
        .filter(|record| matches!(record.event, Event::TurnFinished(_)))
        .count();
    let message = format!("run {} has no finished turn {turn}", origin.id);
    Err(CliError::usage_with_help(
        message,
        format!(
            "it has finished {}; 0 keeps only the input",
            count(turns as u64, "turn")
        ),
    ))
}

/// The records, with the last turn open again where an agent with `on_resume: rerun` ran in it: without its result.
fn reopened(kept: &[Record], turn: u32, prepared: &Prepared) -> Vec<Record> {
    let again: Vec<&Arc<str>> = who_ran(kept)
        .filter(|(ran_in, agent)| *ran_in == turn && reruns(prepared, agent))
        .map(|(_, agent)| agent)
        .collect();
    if again.is_empty() {
        return kept.to_vec();
    }
    let stays = |record: &&Record| match &record.event {
        Event::ExecutionStarted(event) => event.turn != turn || !again.contains(&&event.agent),
        Event::AttemptFailed(event) => event.turn != turn || !again.contains(&&event.agent),
        Event::ExecutionFinished(event) => event.turn != turn || !again.contains(&&event.agent),
        Event::InputRequested(event) => event.turn != turn || !again.contains(&&event.agent),
        Event::TurnFinished(event) => event.turn != turn,
        _ => true,
    };
    kept.iter().filter(stays).cloned().collect()
}

/// Everybody who has run must be in the ensemble that goes on.
pub(super) fn check_agents(kept: &[Record], prepared: &Prepared, turn: u32) -> Result<(), CliError> {
    match who_ran(kept).find(|(_, agent)| prepared.plan.id(agent).is_none()) {
        None => Ok(()),
        Some((_, agent)) => {
            let message = format!("the ensemble has no agent `{agent}`, which has run by turn {turn}");
            Err(CliError::usage_with_help(
                message,
                "fork at an earlier turn, or keep the agent",
            ))
        }
    }
}

/// Is it a model that answers for this agent, and another one now?
pub(super) fn asks_another_model(prepared: &Prepared, agent: &str, answering: &AnsweringArgs) -> bool {
    let id = prepared.plan.id(agent);
    let is_llm = id.is_some_and(|id| matches!(prepared.plan.agent(id).kind, AgentKind::Llm(_)));
    is_llm && !answering.model.is_empty()
}

/// Does what this agent said never prove that it still holds?
pub(super) fn reruns(prepared: &Prepared, agent: &str) -> bool {
    let id = prepared.plan.id(agent);
    id.is_some_and(|id| prepared.plan.agent(id).conversation.on_resume == OnResume::Rerun)
}
