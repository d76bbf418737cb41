//! `ensemble fork`: a new run that shares its beginning with another.

use chrono::Utc;

use super::args::ForkArgs;
use super::error::CliError;
use super::prepare::{Prepared, prepare};
use super::project::Surroundings;
use super::resume::{recorded_ensemble, started};
use super::run::{Driven, Then, drive, new_journal, showing};
use super::wiring::{Shared, wire};
use crate::conversation::{ConversationState, Event, ForkedFrom, Record, RunStarted};
use crate::data::digest;
use crate::journal::{FORMAT, Journal, Ledger, RunFolder, Store, read};

/// `ensemble fork`.
pub fn fork(args: &ForkArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let store = Store::of(&surroundings.project_root(&surroundings.folder));
    let origin = store.find(&args.run)?;
    let journal = read(&origin.journal())?;
    let kept = beginning(&journal, &origin, args.at_turn)?;
    let edited = match &args.ensemble {
        Some(given) => Some(surroundings.ensemble_file(given)?),
        None => None,
    };
    let prepared = match &edited {
        Some(path) => prepare(path, surroundings)?,
        None => recorded_ensemble(&origin, started(&journal)?, surroundings)?,
    };
    check_agents(kept, &prepared, args.at_turn)?;
    let showing = showing(&args.showing, surroundings);
    let before = started(&journal)?;
    let models = if args.answering.model.is_empty() {
        &before.models
    } else {
        &args.answering.model
    };
    let shared = Shared::given(
        &args.answering,
        models,
        args.driving.durability,
        &showing,
        &prepared,
        surroundings,
    )?;
    let wired = wire(&prepared, &shared)?;
    let folder = store.create(Utc::now())?;
    let _lock = folder.lock()?;
    folder.keep_ensemble(prepared.source.text())?;
    let first = RunStarted {
        format: FORMAT,
        run_id: folder.id.as_str().into(),
        ensemble: prepared.plan.ensemble().name.clone(),
        ensemble_file: edited.map_or_else(
            || before.ensemble_file.clone(),
            |path| surroundings.folder.join(path).display().to_string(),
        ),
        ensemble_digest: digest(prepared.source.text()),
        models: models.clone(),
        simulated: wired.simulated.clone(),
        forked_from: Some(ForkedFrom {
            run_id: before.run_id.clone(),
            turn: args.at_turn,
        }),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        ..before.clone()
    };
    let mut writer = new_journal(&folder, args.driving.durability)?;
    let mut reporter = showing.reporter;
    let mut state = ConversationState::new(prepared.plan.clone());
    let first = Record {
        event: Event::RunStarted(first),
        ..kept[0].clone()
    };
    for record in std::iter::once(&first).chain(&kept[1..]) {
        writer.append(record)?;
        state.apply(record);
    }
    reporter.report(&first, &state);
    let driven = Driven {
        prepared: &prepared,
        wired,
        first: None,
        messages: Box::new(Then::default()),
        state,
        writer,
        reporter,
        fail_on_limit: args.driving.fail_on_limit,
    };
    drive(driven, &folder.id, &args.showing, surroundings)
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
        format!("it has finished {turns} turns; 0 keeps only the input"),
    ))
}

/// Everybody who has run must be in the ensemble that goes on.
fn check_agents(kept: &[Record], prepared: &Prepared, turn: u32) -> Result<(), CliError> {
    let started = kept.iter().filter_map(|record| match &record.event {
        Event::TurnStarted(turn) => Some(turn),
        _ => None,
    });
    let mut agents = started.flat_map(|turn| &turn.starts).map(|start| &start.agent);
    match agents.find(|agent| prepared.plan.id(agent).is_none()) {
        None => Ok(()),
        Some(agent) => {
            let message = format!("the ensemble has no agent `{agent}`, which has run by turn {turn}");
            Err(CliError::usage_with_help(
                message,
                "fork at an earlier turn, or keep the agent",
            ))
        }
    }
}
