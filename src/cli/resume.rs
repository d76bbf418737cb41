//! `ensemble resume` and `ensemble continue`: a run goes on from its journal.

use std::path::Path;
use std::sync::Arc;

use super::args::{AnsweringArgs, ContinueArgs, DrivingArgs, Output, ResumeArgs, ShowingArgs};
use super::error::CliError;
use super::fork::{Fork, Origin, asks_another_model, check_agents, reruns};
use super::prepare::{Prepared, prepare_text};
use super::project::{Surroundings, read_source};
use super::reuse::reusable;
use super::run::{
    Driven, Messages, Showing, Then, complain_of_condition, drive, original_folder, print_result, showing,
};
use super::wiring::{Shared, wire};
use super::{exit, given};
use ensemble_agents::agent::process::kill_leftovers;
use ensemble_core::conversation::{
    ConversationState, Event, MessageAdded, OpenExecution, Record, RunResumed, RunStarted,
};
use ensemble_language::data::{Context, digest};
use ensemble_language::loader;
use ensemble_language::source::Source;
use ensemble_reports::report::Reporter;
use ensemble_runs::journal::{Journal, JournalWriter, LedgerError, Lock, RunFolder, Store, read};

/// `ensemble resume`.
pub(super) fn resume(args: &ResumeArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let store = Store::of(&surroundings.project_root(&surroundings.folder));
    let folder = match &args.run {
        Some(id) => store.find(id)?,
        None => store.last()?,
    };
    let recorded = Recorded::open(folder, surroundings)?;
    if let Some(file) = &args.ensemble {
        return edited(recorded, file, args, surroundings);
    }
    if recorded.has_ended() {
        return Ok(tell_again(&recorded, args, surroundings));
    }
    if !args.showing.quiet {
        note_changes(&recorded, surroundings)?;
    }
    let first = Event::RunResumed(RunResumed {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        again: recorded.again(),
    });
    let showing = showing(&args.showing, surroundings);
    recorded.go_on(
        first,
        showing,
        Box::new(Then::default()),
        &args.answering,
        &args.driving,
        &args.showing,
        surroundings,
    )
}

/// `ensemble resume --ensemble`: a new run, since the old one has been decided by its own text. Finished turns stand; what
/// had finished of the open one is taken over where the edit does not concern it.
fn edited(recorded: Recorded, file: &str, args: &ResumeArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    if recorded.has_ended() {
        return Err(has_ended(&recorded, file));
    }
    let origin = Origin {
        folder: recorded.folder,
        journal: recorded.journal,
        prepared: recorded.prepared,
    };
    let text = origin.text(Some(file), surroundings)?;
    let kept = finished_turns(&origin.journal.records);
    let turn = recorded.state.turn_count();
    check_agents(kept, &text.prepared, turn)?;
    text.tell(kept, &origin, &args.showing, surroundings);
    let changes = text.changes().cloned().unwrap_or_default();
    let is_out = |agent: &str| {
        changes.concern(agent)
            || reruns(&text.prepared, agent)
            || asks_another_model(&text.prepared, agent, &args.answering)
    };
    let reuse = reusable(&origin, turn + 1, is_out, None)?;
    kill_leftovers(&started(&origin.journal)?.run_id);
    let fork = Fork {
        kept: kept.to_vec(),
        turn,
        repeats: None,
        origin: &origin,
        text,
        reuse,
        set: Context::default(),
        then: Then::default(),
    };
    fork.start(&args.answering, &args.driving, &args.showing, surroundings)
}

fn has_ended(recorded: &Recorded, file: &str) -> CliError {
    let id = &recorded.folder.id;
    let failed = recorded.state.first_failed().map(|id| recorded.prepared.plan.name(id));
    let history = recorded.state.history();
    let last_failure = history.filter(|entry| Some(&entry.agent_name) == failed).last();
    let turn = recorded.state.turn_count();
    CliError::usage_with_help(
        format!("run {id} has ended, so there is nothing to resume"),
        match last_failure {
            Some(entry) => format!(
                "`ensemble rerun {id} --from {}@{} --ensemble {file}` repeats what failed and what followed from it",
                entry.agent_name, entry.turn_number
            ),
            None => format!(
                "`ensemble fork {id} --at-turn N --ensemble {file}` goes on from a turn, the last is {turn}; `ensemble rerun {id} --from AGENT@TURN --ensemble {file}` repeats an execution"
            ),
        },
    )
}

/// The records up to the end of the last finished turn, or to the message after it.
fn finished_turns(records: &[Record]) -> &[Record] {
    let stands = |record: &Record| {
        matches!(
            record.event,
            Event::RunStarted(_) | Event::TurnFinished(_) | Event::MessageAdded(_) | Event::ContextSet(_)
        )
    };
    let end = records.iter().rposition(stands).map_or(0, |at| at + 1);
    &records[..end]
}

/// Says so when the file has other agents than the copy by which the run goes on.
fn note_changes(recorded: &Recorded, surroundings: &Surroundings) -> Result<(), CliError> {
    let started = started(&recorded.journal)?;
    let path = surroundings.relative(Path::new(&started.ensemble_file));
    let Ok(file) = read_source(&path) else {
        return Ok(());
    };
    if digest(file.text()) == started.ensemble_digest {
        return Ok(());
    }
    let loaded = loader::load(&file);
    let (Some(old), Some(new)) = (&recorded.prepared.loaded.document, &loaded.document) else {
        return Ok(());
    };
    let changes = loader::changes(old, new);
    if !changes.is_empty() {
        let (file, id) = (path.display(), &recorded.folder.id);
        surroundings.complain(&format!(
            "note: {file} has changed since the run began ({changes}); the run goes on with its own copy\n  to go on with the file: ensemble resume {id} --ensemble {file}\n"
        ));
    }
    Ok(())
}

/// `ensemble continue`.
pub(super) fn go_on(args: &ContinueArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let store = Store::of(&surroundings.project_root(&surroundings.folder));
    let recorded = Recorded::open(store.find(&args.run)?, surroundings)?;
    recorded.must_have_ended()?;
    let text = given::text(&args.message, surroundings)?;
    let first = Event::MessageAdded(MessageAdded { text });
    let then = Box::new(Then::new(&args.then));
    let showing = showing(&args.showing, surroundings);
    recorded.go_on(
        first,
        showing,
        then,
        &args.answering,
        &args.driving,
        &args.showing,
        surroundings,
    )
}

/// A run as its folder has it, with the right to drive it.
pub(super) struct Recorded {
    /// Where it stands.
    pub folder: RunFolder,
    /// Its journal.
    pub journal: Journal,
    /// Its ensemble, as it was.
    pub prepared: Prepared,
    /// The fold of its journal.
    pub state: ConversationState,
    _lock: Lock,
}

impl Recorded {
    /// Takes the right to drive the run, and reads it.
    pub(super) fn open(folder: RunFolder, surroundings: &Surroundings) -> Result<Self, CliError> {
        let lock = folder.lock()?;
        let journal = read(&folder.journal())?;
        if journal.torn {
            surroundings.complain(&format!(
                "warning: the last line of {} was torn and has been dropped\n",
                surroundings.relative(&folder.journal()).display()
            ));
        }
        let prepared = recorded_ensemble(&folder, started(&journal)?, surroundings)?;
        let mut state = ConversationState::new(prepared.plan.clone());
        journal.records.iter().for_each(|record| state.apply(record));
        Ok(Self {
            folder,
            journal,
            prepared,
            state,
            _lock: lock,
        })
    }

    /// Is there nothing to resume?
    pub(super) fn has_ended(&self) -> bool {
        let ended = self.state.ended();
        ended.is_some_and(|ended| !ended.completion_reason.is_resumable())
    }

    /// Agents of the open turn whose success does not prove that what they said still holds.
    fn again(&self) -> Vec<Arc<str>> {
        let slots = self.state.open_turn().into_iter().flat_map(|turn| &turn.slots);
        let finished = slots.filter(|slot| matches!(slot.progress, OpenExecution::Finished(_)));
        finished
            .map(|slot| slot.start.agent.clone())
            .filter(|agent| reruns(&self.prepared, agent))
            .collect()
    }

    /// Refuses to continue what has not ended.
    ///
    /// # Errors
    /// It has not ended.
    pub(super) fn must_have_ended(&self) -> Result<(), CliError> {
        if self.has_ended() {
            return Ok(());
        }
        let id = &self.folder.id;
        let message = format!("run {id} has not ended, and only an ended run can be continued");
        let help = format!("`ensemble resume {id}` goes on with it");
        Err(CliError::usage_with_help(message, help))
    }

    /// Drives it on, beginning with `first`.
    ///
    /// # Errors
    /// What the command line gives cannot be read, an agent cannot run, or the journal cannot be written.
    #[expect(
        clippy::too_many_arguments,
        reason = "three groups of arguments, as clap has them, and what differs"
    )]
    pub(super) fn go_on(
        self,
        first: Event,
        showing: Showing,
        messages: Box<dyn Messages>,
        answering: &AnsweringArgs,
        driving: &DrivingArgs,
        shown: &ShowingArgs,
        surroundings: &Surroundings,
    ) -> Result<u8, CliError> {
        let started = started(&self.journal)?;
        let models = if answering.model.is_empty() {
            &started.models
        } else {
            &answering.model
        };
        let shared = Shared::given(
            answering,
            models,
            driving.durability(),
            &showing,
            &self.prepared,
            surroundings,
        )?;
        let wired = wire(&self.prepared, &shared)?;
        kill_leftovers(&started.run_id);
        let path = self.folder.journal();
        let writer = JournalWriter::resume(&path, self.journal.length, self.journal.format, driving.durability())
            .map_err(|source| CliError::Ledger(LedgerError::Write { path, source }))?;
        let driven = Driven {
            prepared: &self.prepared,
            wired,
            first: Some(first),
            messages,
            state: self.state,
            writer,
            reporter: showing.reporter,
            fail_on_limit: driving.fail_on_limit,
        };
        drive(driven, &self.folder.id, shown, surroundings)
    }
}

/// The run is over: its story and its result once more.
fn tell_again(recorded: &Recorded, args: &ResumeArgs, surroundings: &Surroundings) -> u8 {
    let mut showing = showing(&args.showing, surroundings);
    tell(&recorded.journal, &recorded.prepared, &mut *showing.reporter);
    if args.showing.output == Output::Json {
        print_result(&recorded.state, surroundings);
    }
    let Some(ended) = recorded.state.ended() else {
        return exit::SUCCESS;
    };
    complain_of_condition(ended, &recorded.prepared, surroundings);
    exit::of_run(
        ended.completion_reason,
        recorded.state.interrupted(),
        args.driving.fail_on_limit,
    )
}

/// Tells a recorded story to a reporter.
pub(super) fn tell(journal: &Journal, prepared: &Prepared, reporter: &mut dyn Reporter) {
    let mut state = ConversationState::new(prepared.plan.clone());
    for record in &journal.records {
        state.apply(record);
        reporter.report(record, &state);
    }
}

/// The event with which the journal begins.
pub(super) fn started(journal: &Journal) -> Result<&RunStarted, CliError> {
    match journal.records.first().map(|record| &record.event) {
        Some(Event::RunStarted(started)) => Ok(started),
        _ => Err(CliError::Internal("the journal does not begin with a run".to_owned())),
    }
}

/// The ensemble as it was when the run started.
pub(super) fn recorded_ensemble(
    folder: &RunFolder,
    started: &RunStarted,
    surroundings: &Surroundings,
) -> Result<Prepared, CliError> {
    let copy = read_source(&surroundings.relative(&folder.ensemble()))?;
    let source = Source::new(copy.name(), copy.text().clone());
    let stands_in = original_folder(started).unwrap_or(Path::new(".")).to_owned();
    let stands_in = stands_in.canonicalize().unwrap_or(stands_in);
    prepare_text(source, stands_in, started.project_root.as_str().into())
}
