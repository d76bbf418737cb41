//! `ensemble runs`: lists and examines recorded runs.

mod diff;
mod export;
mod file;
mod messages;
mod otlp;
mod prune;
mod remote;
mod show;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Local, Utc};
use serde_json::json;

use super::args::RunsCommand;
use super::error::CliError;
use super::exit;
use super::runtime::block_on;
use super::short::short_names;
use super::surroundings::Surroundings;
use ensemble_core::conversation::{ConversationState, Event};
use ensemble_core::store::{Journal, RunId, RunStore, StoredRun};
use ensemble_language::data::Context;
use ensemble_reports::report::door::{Ink, Spelling};
use ensemble_reports::story::Story;
use ensemble_runs::Prepared;
use ensemble_runs::files::{FileStore, read_journal};
use ensemble_runs::recorded::{recorded_ensemble, started, unchanged_ensemble};
use ensemble_runs::replay::{RunRecord, saved_records};

pub(super) use file::write_private;

/// `ensemble runs …`.
pub(super) fn runs(command: &RunsCommand, surroundings: &Surroundings) -> Result<u8, CliError> {
    let store = surroundings.runs().store();
    let store = &*store;
    block_on(async {
        match command {
            RunsCommand::List(args) => match &args.on {
                Some(url) => remote::list(url, args.form.is_json(), surroundings).await,
                None => list(store, args.form.is_json(), surroundings).await,
            },
            RunsCommand::Fetch(args) => remote::fetch(args, store, surroundings).await,
            RunsCommand::Show(args) => show::show(args, store, surroundings).await,
            RunsCommand::Diff(args) => diff::diff(args, surroundings).await,
            RunsCommand::Export(args) => export::export(args, store, surroundings).await,
            RunsCommand::Prune(args) => prune::prune(args, store, surroundings).await,
            RunsCommand::Rm { runs, last } => remove(store, runs, *last, surroundings).await,
        }
    })
}

/// The part of an id that is enough to name the run.
const ENOUGH: Ink = Ink::of(anstyle::Style::new().bold());

/// The summary of a run.
struct Brief {
    id: RunId,
    ensemble: String,
    started_at: DateTime<Utc>,
    outcome: String,
    turns: u32,
    executions: usize,
    failed: u32,
}

async fn list(store: &dyn RunStore, as_json: bool, surroundings: &Surroundings) -> Result<u8, CliError> {
    let mut briefs = Vec::new();
    for run in store.list().await? {
        match run.read_all().await {
            Ok(journal) => briefs.push(brief(&*run, &journal)?),
            Err(error) => surroundings.print_err(&format!("warning: {error}\n")),
        }
    }
    Ok(listed(&briefs, &store.place(), as_json, surroundings))
}

/// Prints a list of runs that are kept in this place.
fn listed(briefs: &[Brief], place: &str, as_json: bool, surroundings: &Surroundings) -> u8 {
    if as_json {
        let document = json!({"version": 1, "runs": briefs.iter().map(Brief::json).collect::<Vec<_>>()});
        surroundings.print_as(Spelling::Json, &format!("{document:#}\n"));
        return exit::SUCCESS;
    }
    if briefs.is_empty() {
        surroundings.print_err(&format!(
            "there is no run in {}\n",
            surroundings.project.relative(place.as_ref()).display()
        ));
    }
    let widest = briefs
        .iter()
        .map(|brief| brief.ensemble.chars().count())
        .max()
        .unwrap_or(0);
    let ids: Vec<RunId> = briefs.iter().map(|brief| brief.id.clone()).collect();
    let longest = ids.iter().map(|id| id.as_str().chars().count()).max().unwrap_or(0);
    let named = briefs.iter().zip(short_names(&ids));
    let lines: String = named.map(|(brief, short)| brief.line(short, longest, widest)).collect();
    surroundings.print(&lines);
    exit::SUCCESS
}

fn brief(run: &dyn StoredRun, journal: &Journal) -> Result<Brief, CliError> {
    let started = started(&journal.records)?;
    let mut outcome = "unfinished".to_owned();
    let mut turns = 0;
    let (mut executions, mut failed) = (0, 0);
    for record in &journal.records {
        match &record.event {
            Event::TurnFinished(turn) => turns = turn.turn,
            Event::ExecutionFinished(finished) => {
                executions += 1;
                failed += u32::from(finished.failure().is_some());
            }
            Event::RunEnded(ended) => outcome = ended.completion_reason.to_string(),
            Event::RunResumed(_) => "unfinished".clone_into(&mut outcome),
            _ => {}
        }
    }
    Ok(Brief {
        id: run.id().clone(),
        ensemble: started.ensemble.to_string(),
        started_at: journal.records[0].at,
        outcome,
        turns,
        executions,
        failed,
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
            "failed": self.failed,
        })
    }

    /// `short`: the part of the id that is enough to name the run. `longest` and `widest`: the widths of the columns of ids
    /// and ensembles.
    fn line(&self, short: &str, longest: usize, widest: usize) -> String {
        let when = self.started_at.with_timezone(&Local).format("%Y-%m-%d %H:%M");
        let Self {
            id,
            ensemble,
            outcome,
            turns,
            executions,
            failed,
            ..
        } = self;
        let failed = match failed {
            0 => String::new(),
            failed => format!(" ({failed} failed)"),
        };
        let pad = " ".repeat(longest.saturating_sub(id.as_str().chars().count()));
        let id = marked(id, short);
        format!("{id}{pad}  {when}  {ensemble:widest$}  {outcome}, turns {turns}, executions {executions}{failed}\n")
    }
}

/// The id with its beginning `short` marked.
fn marked(id: &RunId, short: &str) -> String {
    let after = &id.as_str()[short.len()..];
    format!("{ENOUGH}{short}{ENOUGH:#}{after}")
}

/// The run with this id, beginning of an id, or folder; without an argument, the latest run.
async fn find(
    given: Option<&str>,
    store: &dyn RunStore,
    surroundings: &Surroundings,
) -> Result<Arc<dyn StoredRun>, CliError> {
    let Some(given) = given else {
        return Ok(store.latest().await?);
    };
    let path = surroundings.project.folder.join(given);
    match FileStore::run_in(&path).filter(|_| path.is_dir()) {
        Some(run) => Ok(run),
        None => Ok(store.find(given).await?),
    }
}

/// A record of any form, read as a story.
pub(super) struct Opened {
    /// The events.
    pub(super) story: Story,
    /// The ensemble, if it is available.
    pub(super) prepared: Option<Prepared>,
    /// The context at the end, if the ensemble is available or the result contains the context.
    context: Option<Context>,
}

/// Opens the record with this name, or the latest run.
pub(super) async fn opened(given: Option<&str>, surroundings: &Surroundings) -> Result<Opened, CliError> {
    let project = &surroundings.project;
    let (journal, prepared) = match surroundings.runs().record(given).await? {
        RunRecord::Run(run) => {
            let journal = run.read_all().await?;
            let prepared = recorded_ensemble(&*run, started(&journal.records)?, project).await;
            (journal, prepared.ok())
        }
        RunRecord::Journal(path) => {
            let journal = read_journal(&path)?;
            // The file may have been edited since.
            let prepared = unchanged_ensemble(started(&journal.records)?, project);
            (journal, prepared)
        }
        RunRecord::Result(path) => {
            let (records, context) = saved_records(&path)?;
            return Ok(Opened {
                story: Story::of(&records),
                prepared: None,
                context,
            });
        }
    };
    let context = prepared.as_ref().map(|prepared| {
        let mut state = ConversationState::new(prepared.plan.clone());
        journal.records.iter().for_each(|record| state.apply(record));
        Context::clone(state.context())
    });
    Ok(Opened {
        story: Story::of(&journal.records),
        prepared,
        context,
    })
}

/// Deletes these runs, or the latest.
async fn remove(
    store: &dyn RunStore,
    runs: &[String],
    last: bool,
    surroundings: &Surroundings,
) -> Result<u8, CliError> {
    let mut found = Vec::new();
    if last {
        found.push(store.latest().await?);
    }
    let project = &surroundings.project;
    let files = FileStore::of(&project.project_root(&project.folder));
    for run in runs {
        // A slash at its end would follow the link.
        let given: PathBuf = Path::new(run).components().collect();
        let given = match given.components().count() {
            1 if project.folder.join(&given).is_symlink() => project.folder.join(given),
            1 => given,
            _ => project.folder.join(given),
        };
        if files.remove_link(&given)? {
            surroundings.print_err(&format!("deleted {run}, which was a symbolic link\n"));
            continue;
        }
        found.push(store.find(run).await?);
    }
    for run in found {
        // A run that another process executes is not deleted.
        let _lease = run.lease().await?;
        run.remove().await?;
        surroundings.print_err(&format!("deleted {}\n", run.id()));
    }
    Ok(exit::SUCCESS)
}
