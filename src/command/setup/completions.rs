//! Completion in a shell: names of ensembles, runs, agents and codes.
//!
//! The script of `ensemble completions` calls the program with the words of the line in an environment variable's name, and
//! the program prints what can follow. It reads folders and at most one ensemble or journal, so that it answers at once.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{CompleteEnv, Shells};

use crate::command::shared::error::CliError;
use crate::command::shared::runtime::block_on;
use ensemble_core::conversation::Event;
use ensemble_core::store::StoredRun;
use ensemble_language::ensemble::{AgentKind, Ensemble};
use ensemble_language::loader::{codes, load};
use ensemble_language::shown::is_hidden;
use ensemble_language::source::Source;
use ensemble_runs::{Host, Project, Runs};

/// Set by the script of a shell when it asks what can follow.
const ASKED: &str = "ENSEMBLE_COMPLETE";

/// Answers a shell that asks what can follow in this command line; `false` if none asks.
pub(crate) fn answer(program: fn() -> Command) -> Result<bool, CliError> {
    let here = std::env::current_dir().ok();
    CompleteEnv::with_factory(program)
        .var(ASKED)
        .try_complete(std::env::args_os(), here.as_deref())
        .map_err(|error| match error.kind() {
            clap::error::ErrorKind::Io => CliError::Internal(error.to_string()),
            _ => CliError::usage(error.to_string()),
        })
}

/// The script for this shell.
pub(crate) fn script(shell: clap_complete::Shell) -> Result<String, CliError> {
    let unknown = || CliError::usage(format!("there is no script for {shell}"));
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string()).ok_or_else(unknown)?;
    let mut script = Vec::new();
    shell
        .write_registration(ASKED, "ensemble", "ensemble", "ensemble", &mut script)
        .map_err(|error| CliError::Internal(error.to_string()))?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// An ensemble: a name or a file.
pub(crate) fn ensembles() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| ensembles_for(typed))
}

/// A run of the project, or the path of another.
pub(crate) fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let is_path = typed.to_string_lossy().contains('/');
        if is_path {
            paths_for(typed, |_| true)
        } else {
            runs_for(typed)
        }
    })
}

/// The code of a finding.
pub(crate) fn codes() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| codes_for(typed))
}

/// The code of a finding, or an ensemble.
pub(crate) fn codes_and_ensembles() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| both(codes_for(typed), ensembles_for(typed)))
}

/// An agent of the ensemble or run of the line.
pub(crate) fn agents() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let agents = ensemble_of_line().map(|ensemble| ensemble.agents).unwrap_or_default();
        beginning_with(typed, agents.iter().map(|agent| agent.name.to_string()))
    })
}

/// `AGENT=` for the input agents of the ensemble or run of the line.
pub(crate) fn answers() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let agents = ensemble_of_line().map(|ensemble| ensemble.agents).unwrap_or_default();
        let asking = agents.iter().filter(|agent| matches!(agent.kind, AgentKind::Input(_)));
        beginning_with(typed, asking.map(|agent| format!("{}=", agent.name)))
    })
}

/// `AGENT=` for the agents of the line that ask nobody.
pub(crate) fn stubs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let agents = ensemble_of_line().map(|ensemble| ensemble.agents).unwrap_or_default();
        let running = agents.iter().filter(|agent| !matches!(agent.kind, AgentKind::Input(_)));
        beginning_with(typed, running.map(|agent| format!("{}=", agent.name)))
    })
}

/// `AGENT@TURN` for the executions of the run of the line.
pub(crate) fn executions() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| beginning_with(typed, executions_of_line().unwrap_or_default()))
}

fn ensembles_for(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = project().named_files().into_iter().map(|(name, _)| name);
    let is_yaml = |path: &Path| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    both(beginning_with(typed, names), paths_for(typed, is_yaml))
}

/// The ids of runs that begin with the text, the latest first.
fn runs_for(typed: &OsStr) -> Vec<CompletionCandidate> {
    let store = runs_here().store();
    let Ok(mut runs) = block_on(async { Ok(store.list().await?) }) else {
        return Vec::new();
    };
    runs.reverse();
    let typed = typed.to_string_lossy();
    let ids = runs.iter().map(|run| run.id().as_str());
    ids.filter(|id| id.starts_with(&*typed))
        .enumerate()
        .map(|(at, id)| CompletionCandidate::new(id).display_order(Some(at)))
        .collect()
}

fn codes_for(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy().to_uppercase();
    let fitting = codes::ALL.iter().filter(|(code, _)| code.0.starts_with(&*typed));
    fitting
        .map(|(code, title)| CompletionCandidate::new(code.0).help(Some((*title).into())))
        .collect()
}

fn paths_for(typed: &OsStr, is_wanted: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Vec<CompletionCandidate> {
    PathCompleter::any()
        .filter(is_wanted)
        .current_dir(project().folder)
        .complete(typed)
        .into_iter()
        .filter(is_shown)
        .collect()
}

fn beginning_with(typed: &OsStr, texts: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let fitting = texts.into_iter().filter(|text| text.starts_with(&*typed));
    fitting.map(CompletionCandidate::new).filter(is_shown).collect()
}

fn both(mut some: Vec<CompletionCandidate>, more: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    some.extend(more);
    some
}

/// The shell shows what it is given, and a name that steers a terminal is not given to it.
fn is_shown(candidate: &CompletionCandidate) -> bool {
    !candidate.get_value().to_string_lossy().contains(is_hidden)
}

/// The words of the line behind the name of the program.
fn words() -> Vec<OsString> {
    let words = std::env::args_os().skip_while(|word| word != "--");
    words.skip(2).collect()
}

/// The project in which the line would be executed.
fn project() -> Project {
    let words = words();
    let folder = words.windows(2).find(|pair| pair[0] == "-C").map(|pair| &pair[1]);
    let here = Project::of_process();
    match folder {
        Some(folder) => Project {
            folder: here.folder.join(folder),
            ..here
        },
        None => here,
    }
}

fn runs_here() -> Runs {
    Runs::open(project(), Host::system().unattended())
}

/// The run of the line: named before the word that is being typed, or the latest.
fn run_of_line() -> Option<Arc<dyn StoredRun>> {
    let words = words();
    let store = runs_here().store();
    let (_, before) = words.split_last()?;
    let named = before.iter().filter_map(|word| word.to_str()).skip(1);
    let found = async {
        for word in named.filter(|word| !word.starts_with('-') && !word.is_empty()) {
            if let Ok(run) = store.find(word).await {
                return Ok(run);
            }
        }
        Ok(store.latest().await?)
    };
    block_on(found).ok()
}

/// The ensemble of the line, or of its run.
fn ensemble_of_line() -> Option<Ensemble> {
    let project = project();
    let words = words();
    let mut named = words.iter().skip(1).filter_map(|word| word.to_str());
    let file = named.find_map(|word| project.ensemble_file(word).ok());
    let source = match file {
        Some(file) => project.read(&file).ok()?,
        None => {
            let run = run_of_line()?;
            let text = block_on(async { Ok(run.ensemble().await?) }).ok()?;
            Source::new("ensemble.yaml", text)
        }
    };
    load(&source).ensemble
}

/// The executions of the run of the line, the latest first.
fn executions_of_line() -> Option<Vec<String>> {
    let run = run_of_line()?;
    let journal = block_on(async { Ok(run.read_all().await?) }).ok()?;
    let finished = journal.records.iter().rev().filter_map(|record| match &record.event {
        Event::ExecutionFinished(finished) => Some(format!("{}@{}", finished.agent, finished.turn)),
        _ => None,
    });
    Some(finished.collect())
}
