//! `ensemble resume`: a run goes on from its journal.

use std::path::Path;
use std::sync::Arc;

use super::args::{Output, ResumeArgs};
use super::error::CliError;
use super::prepare::{Prepared, prepare_text};
use super::project::{Surroundings, read_source};
use super::run::{Driven, complain_of_condition, drive, original_folder, print_result, showing};
use super::wiring::{Shared, wire};
use super::{exit, given, watchdog};
use crate::agent::process::kill_leftovers;
use crate::conversation::{ConversationState, Event, RunResumed, RunStarted};
use crate::journal::{Journal, JournalWriter, LedgerError, RunFolder, Store, read};
use crate::report::Reporter;
use crate::source::Source;

/// `ensemble resume`.
pub fn resume(args: &ResumeArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let store = Store::of(&surroundings.project_root(&surroundings.folder));
    let folder = match &args.run {
        Some(id) => store.find(id)?,
        None => store.last()?,
    };
    let _lock = folder.lock()?;
    let journal = read(&folder.journal())?;
    if journal.torn {
        surroundings.complain(&format!(
            "warning: the last line of {} was torn and has been dropped\n",
            surroundings.relative(&folder.journal()).display()
        ));
    }
    let started = started(&journal)?;
    let prepared = recorded_ensemble(&folder, started, surroundings)?;
    let mut state = ConversationState::new(prepared.plan.clone());
    journal.records.iter().for_each(|record| state.apply(record));
    let has_ended = state
        .ended()
        .is_some_and(|ended| !ended.completion_reason.is_resumable());
    let mut showing = showing(&args.showing, surroundings);
    if has_ended {
        return Ok(tell_again(
            &journal,
            &state,
            &prepared,
            args,
            &mut *showing.reporter,
            surroundings,
        ));
    }
    let answers = given::answers(&args.answering, surroundings)?;
    given::check_answers(&answers, prepared.plan.ensemble())?;
    let models = if args.answering.model.is_empty() {
        &started.models
    } else {
        &args.answering.model
    };
    let shared = Shared {
        answers: Arc::new(answers),
        person: showing.person,
        overrides: given::overrides(models)?,
        surroundings: Arc::new(surroundings.clone()),
        outer: Vec::new(),
        durability: args.durability,
        watchdog: watchdog::of_this_run(),
    };
    let wired = wire(&prepared, &shared)?;
    kill_leftovers(&started.run_id);
    let path = folder.journal();
    let writer = JournalWriter::resume(&path, journal.length, args.durability)
        .map_err(|source| CliError::Ledger(LedgerError::Write { path, source }))?;
    let driven = Driven {
        prepared: &prepared,
        wired,
        first: Event::RunResumed(RunResumed {
            program: env!("CARGO_PKG_VERSION").to_owned(),
        }),
        state,
        writer,
        reporter: showing.reporter,
        fail_on_limit: args.fail_on_limit,
    };
    drive(driven, &folder.id, &args.showing, surroundings)
}

/// The run is over: its story and its result once more.
fn tell_again(
    journal: &Journal,
    state: &ConversationState,
    prepared: &Prepared,
    args: &ResumeArgs,
    reporter: &mut dyn Reporter,
    surroundings: &Surroundings,
) -> u8 {
    tell(journal, prepared, reporter);
    if args.showing.output == Output::Json {
        print_result(state, surroundings);
    }
    let Some(ended) = state.ended() else {
        return exit::SUCCESS;
    };
    complain_of_condition(ended, prepared, surroundings);
    exit::of_run(ended.completion_reason, state.interrupted(), args.fail_on_limit)
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
