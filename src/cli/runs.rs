//! `ensemble runs`: the runs that were recorded.

mod diff;
mod export;
mod prune;
mod show;

use chrono::{DateTime, Local, Utc};
use serde_json::json;

use super::args::RunsCommand;
use super::error::CliError;
use super::exit;
use super::project::Surroundings;
use super::resume::started;
use ensemble_core::conversation::Event;
use ensemble_runs::journal::{Journal, RunFolder, Store, read};

/// `ensemble runs …`.
pub(super) fn runs(command: &RunsCommand, surroundings: &Surroundings) -> Result<u8, CliError> {
    let store = Store::of(&surroundings.project_root(&surroundings.folder));
    match command {
        RunsCommand::List { json } => list(&store, *json, surroundings),
        RunsCommand::Show(args) => show::show(args, &store, surroundings),
        RunsCommand::Diff(args) => diff::diff(args, surroundings),
        RunsCommand::Export(args) => export::export(args, &store, surroundings),
        RunsCommand::Prune(args) => prune::prune(args, &store, surroundings),
        RunsCommand::Rm { runs } => remove(&store, runs, surroundings),
    }
}

/// A run in a few words.
struct Brief {
    id: String,
    ensemble: String,
    started_at: DateTime<Utc>,
    outcome: String,
    turns: u32,
    executions: usize,
}

fn list(store: &Store, as_json: bool, surroundings: &Surroundings) -> Result<u8, CliError> {
    let mut briefs = Vec::new();
    for folder in store.list()? {
        match read(&folder.journal()) {
            Ok(journal) => briefs.push(brief(&folder, &journal)?),
            Err(error) => surroundings.complain(&format!("warning: {error}\n")),
        }
    }
    if as_json {
        let document = json!({"version": 1, "runs": briefs.iter().map(Brief::json).collect::<Vec<_>>()});
        surroundings.print(&format!("{document:#}\n"));
        return Ok(exit::SUCCESS);
    }
    if briefs.is_empty() {
        surroundings.complain(&format!(
            "there is no run in {}\n",
            surroundings.relative(store.folder()).display()
        ));
    }
    let widest = briefs
        .iter()
        .map(|brief| brief.ensemble.chars().count())
        .max()
        .unwrap_or(0);
    let lines: String = briefs.iter().map(|brief| brief.line(widest)).collect();
    surroundings.print(&lines);
    Ok(exit::SUCCESS)
}

fn brief(folder: &RunFolder, journal: &Journal) -> Result<Brief, CliError> {
    let started = started(journal)?;
    let mut outcome = "unfinished".to_owned();
    let mut turns = 0;
    let mut executions = 0;
    for record in &journal.records {
        match &record.event {
            Event::TurnFinished(turn) => turns = turn.turn,
            Event::ExecutionFinished(_) => executions += 1,
            Event::RunEnded(ended) => outcome = ended.completion_reason.to_string(),
            Event::RunResumed(_) => "unfinished".clone_into(&mut outcome),
            _ => {}
        }
    }
    Ok(Brief {
        id: folder.id.clone(),
        ensemble: started.ensemble.to_string(),
        started_at: journal.records[0].at,
        outcome,
        turns,
        executions,
    })
}

impl Brief {
    fn json(&self) -> serde_json::Value {
        json!({
            "run_id": self.id,
            "ensemble": self.ensemble,
            "started_at": self.started_at,
            "completion_reason": self.outcome,
            "turn_count": self.turns,
            "executions": self.executions,
        })
    }

    fn line(&self, widest: usize) -> String {
        let when = self.started_at.with_timezone(&Local).format("%Y-%m-%d %H:%M");
        let Self {
            id,
            ensemble,
            outcome,
            turns,
            executions,
            ..
        } = self;
        format!("{id}  {when}  {ensemble:widest$}  {outcome}, turns {turns}, executions {executions}\n")
    }
}

/// The run that was given by its id, the beginning of it, or its folder; the latest if none was.
fn find(given: Option<&str>, store: &Store, surroundings: &Surroundings) -> Result<RunFolder, CliError> {
    let Some(given) = given else {
        return Ok(store.last()?);
    };
    let path = surroundings.folder.join(given);
    match RunFolder::at(&path).filter(|_| path.is_dir()) {
        Some(folder) => Ok(folder),
        None => Ok(store.find(given)?),
    }
}

fn remove(store: &Store, runs: &[String], surroundings: &Surroundings) -> Result<u8, CliError> {
    let folders = runs.iter().map(|run| store.find(run)).collect::<Result<Vec<_>, _>>()?;
    for folder in folders {
        // A run that is being driven is not pulled away from under its driver.
        let _lock = folder.lock()?;
        folder.remove()?;
        surroundings.complain(&format!("deleted {}\n", folder.id));
    }
    Ok(exit::SUCCESS)
}
