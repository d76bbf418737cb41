//! `ensemble resume` and `ensemble continue`: a run goes on from its journal.

use std::path::Path;

use super::args::{AnsweringArgs, ContinueArgs, DrivingArgs, Output, ResumeArgs, ShowingArgs};
use super::error::CliError;
use super::prepare::{Prepared, prepare_text};
use super::project::{Surroundings, read_source};
use super::run::{
    Driven, Messages, Showing, Then, complain_of_condition, drive, original_folder, print_result, showing,
};
use super::wiring::{Shared, wire};
use super::{exit, given};
use crate::agent::process::kill_leftovers;
use crate::conversation::{ConversationState, Event, MessageAdded, RunResumed, RunStarted};
use crate::journal::{Journal, JournalWriter, LedgerError, Lock, RunFolder, Store, read};
use crate::report::Reporter;
use crate::source::Source;

/// `ensemble resume`.
pub fn resume(args: &ResumeArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let store = Store::of(&surroundings.project_root(&surroundings.folder));
    let folder = match &args.run {
        Some(id) => store.find(id)?,
        None => store.last()?,
    };
    let recorded = Recorded::open(folder, surroundings)?;
    let showing = showing(&args.showing, surroundings);
    if recorded.has_ended() {
        return Ok(tell_again(&recorded, args, showing, surroundings));
    }
    let first = Event::RunResumed(RunResumed {
        program: env!("CARGO_PKG_VERSION").to_owned(),
    });
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

/// `ensemble continue`.
pub fn go_on(args: &ContinueArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
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
pub struct Recorded {
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
    pub fn open(folder: RunFolder, surroundings: &Surroundings) -> Result<Self, CliError> {
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
    pub fn has_ended(&self) -> bool {
        let ended = self.state.ended();
        ended.is_some_and(|ended| !ended.completion_reason.is_resumable())
    }

    /// Refuses to continue what has not ended.
    ///
    /// # Errors
    /// It has not ended.
    pub fn must_have_ended(&self) -> Result<(), CliError> {
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
    pub fn go_on(
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
            driving.durability,
            &showing,
            &self.prepared,
            surroundings,
        )?;
        let wired = wire(&self.prepared, &shared)?;
        kill_leftovers(&started.run_id);
        let path = self.folder.journal();
        let writer = JournalWriter::resume(&path, self.journal.length, driving.durability)
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
fn tell_again(recorded: &Recorded, args: &ResumeArgs, mut showing: Showing, surroundings: &Surroundings) -> u8 {
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
pub fn tell(journal: &Journal, prepared: &Prepared, reporter: &mut dyn Reporter) {
    let mut state = ConversationState::new(prepared.plan.clone());
    for record in &journal.records {
        state.apply(record);
        reporter.report(record, &state);
    }
}

/// The event with which the journal begins.
pub fn started(journal: &Journal) -> Result<&RunStarted, CliError> {
    match journal.records.first().map(|record| &record.event) {
        Some(Event::RunStarted(started)) => Ok(started),
        _ => Err(CliError::Internal("the journal does not begin with a run".to_owned())),
    }
}

/// The ensemble as it was when the run started.
pub fn recorded_ensemble(
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
