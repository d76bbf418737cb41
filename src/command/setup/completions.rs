//! Completions in a shell: names of ensembles, runs, agents and codes.
//!
//! The script of `ensemble completions` calls the program with the words of the line and with an environment variable, and
//! the program prints the candidates. It reads folders and at most one ensemble or journal, so that it answers at once.
//!
//! Invariant: no candidate changes the meaning of the line or of the terminal that it is inserted into
//! (`completion_safety.rs`).

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{CompleteEnv, Shells};

use super::completion_safety::filter_unsafe_completions;
use crate::command::shared::error::CliError;
use crate::command::shared::runtime::block_on;
use ensemble_core::conversation::Event;
use ensemble_core::store::StoredRun;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble};
use ensemble_language::loader::{codes, load_ensemble};
use ensemble_language::source::SourceText;
use ensemble_runs::{Project, RunHost, Runs};

/// Environment variable that the script of a shell sets to ask for candidates.
const COMPLETION_VARIABLE: &str = "ENSEMBLE_COMPLETE";

/// Prints the candidates if a shell asks for completions of this command line. Returns `false` if no shell asks.
pub(crate) fn answer_completion_request(program: fn() -> Command) -> Result<bool, CliError> {
    let current_dir = std::env::current_dir().ok();
    let shell = std::env::var_os(COMPLETION_VARIABLE).unwrap_or_default();
    CompleteEnv::with_factory(|| filter_unsafe_completions(program(), &shell))
        .var(COMPLETION_VARIABLE)
        .try_complete(std::env::args_os(), current_dir.as_deref())
        .map_err(|error| match error.kind() {
            clap::error::ErrorKind::Io => CliError::Internal(error.to_string()),
            _ => CliError::usage_error(error.to_string()),
        })
}

/// Renders the completion script for this shell.
///
/// # Errors
/// There is no script for the shell.
pub(crate) fn completion_script(shell: clap_complete::Shell) -> Result<String, CliError> {
    let unknown = || CliError::usage_error(format!("there is no completion script for {shell}"));
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string()).ok_or_else(unknown)?;
    let mut script = Vec::new();
    shell
        .write_registration(COMPLETION_VARIABLE, "ensemble", "ensemble", "ensemble", &mut script)
        .map_err(|error| CliError::Internal(error.to_string()))?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Returns a completer for ensembles: names and files.
pub(crate) fn complete_ensembles() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| ensemble_candidates(typed))
}

/// Returns a completer for runs: ids of the project, and paths.
pub(crate) fn complete_runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let is_path = typed.to_string_lossy().contains('/');
        if is_path {
            path_candidates(typed, |_| true)
        } else {
            run_candidates(typed)
        }
    })
}

/// Returns a completer for finding codes.
pub(crate) fn complete_codes() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| code_candidates(typed))
}

/// Returns a completer for finding codes and ensembles.
pub(crate) fn complete_codes_and_ensembles() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| join_candidates(code_candidates(typed), ensemble_candidates(typed)))
}

/// Returns a completer for the agents of the ensemble or run in the command line.
pub(crate) fn complete_agents() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let agents = load_completed_line_ensemble()
            .map(|ensemble| ensemble.agents)
            .unwrap_or_default();
        candidates_with_prefix(typed, agents.iter().map(|agent| agent.name.to_string()))
    })
}

/// Returns a completer for `AGENT=` with the input agents of the ensemble or run in the command line.
pub(crate) fn complete_answer_addresses() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let agents = load_completed_line_ensemble()
            .map(|ensemble| ensemble.agents)
            .unwrap_or_default();
        let asking = agents.iter().filter(|agent| matches!(agent.kind, AgentKind::Input(_)));
        candidates_with_prefix(typed, asking.map(|agent| format!("{}=", agent.name)))
    })
}

/// Returns a completer for `AGENT=` with all agents of the ensemble or run in the command line.
pub(crate) fn complete_stub_agents() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let agents = load_completed_line_ensemble()
            .map(|ensemble| ensemble.agents)
            .unwrap_or_default();
        candidates_with_prefix(typed, agents.iter().map(|agent| format!("{}=", agent.name)))
    })
}

/// Returns a completer for `AGENT=` with the agents for which a model can answer.
pub(crate) fn complete_responder_agents() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let agents = load_completed_line_ensemble()
            .map(|ensemble| ensemble.agents)
            .unwrap_or_default();
        let is_possible = |agent: &&Agent| matches!(agent.kind, AgentKind::Input(_) | AgentKind::Script { .. });
        candidates_with_prefix(
            typed,
            agents
                .iter()
                .filter(is_possible)
                .map(|agent| format!("{}=", agent.name)),
        )
    })
}

/// Returns a completer for `AGENT@TURN` with the executions of the run in the command line.
pub(crate) fn complete_executions() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        candidates_with_prefix(typed, list_completed_line_executions().unwrap_or_default())
    })
}

/// Returns the names and YAML files of ensembles that begin with the text.
fn ensemble_candidates(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = completed_line_project()
        .list_named_files()
        .into_iter()
        .map(|(name, _)| name);
    let is_yaml = |path: &Path| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    join_candidates(candidates_with_prefix(typed, names), path_candidates(typed, is_yaml))
}

/// Returns the ids of runs that begin with the text, the latest first.
fn run_candidates(typed: &OsStr) -> Vec<CompletionCandidate> {
    let store = completed_line_runs().store();
    let Ok(mut runs) = block_on(async { Ok(store.list_runs().await?) }) else {
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

/// Returns the finding codes that begin with the text, ignoring case, with their titles.
fn code_candidates(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy().to_uppercase();
    let fitting = codes::ALL.iter().filter(|(code, _)| code.0.starts_with(&*typed));
    fitting
        .map(|(code, title)| CompletionCandidate::new(code.0).help(Some((*title).into())))
        .collect()
}

/// Returns the wanted paths that begin with the text, relative to the project folder.
fn path_candidates(
    typed: &OsStr,
    is_wanted: impl Fn(&Path) -> bool + Send + Sync + 'static,
) -> Vec<CompletionCandidate> {
    PathCompleter::any()
        .filter(is_wanted)
        .current_dir(completed_line_project().folder)
        .complete(typed)
}

/// Returns the candidates that begin with the text.
fn candidates_with_prefix(typed: &OsStr, texts: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let fitting = texts.into_iter().filter(|text| text.starts_with(&*typed));
    fitting.map(CompletionCandidate::new).collect()
}

/// Returns the candidates of both lists, in order.
fn join_candidates(mut some: Vec<CompletionCandidate>, more: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    some.extend(more);
    some
}

/// Returns the words of the completed command line, from the name of the program on.
fn completed_line_words() -> Vec<OsString> {
    let words = std::env::args_os().skip_while(|word| word != "--");
    words.skip(2).collect()
}

/// Returns the project in which the completed command line would run.
fn completed_line_project() -> Project {
    let words = completed_line_words();
    let folder = words.windows(2).find(|pair| pair[0] == "-C").map(|pair| &pair[1]);
    let process_project = Project::from_process();
    match folder {
        Some(folder) => Project {
            folder: process_project.folder.join(folder),
            ..process_project
        },
        None => process_project,
    }
}

/// Opens the runs of the project of the completed command line.
fn completed_line_runs() -> Runs {
    Runs::for_project(completed_line_project(), RunHost::from_system().without_operator())
}

/// Finds the run that a word of the completed command line names, or the latest run.
fn find_completed_line_run() -> Option<Arc<dyn StoredRun>> {
    let words = completed_line_words();
    let store = completed_line_runs().store();
    let (_, before) = words.split_last()?;
    let arguments = before.iter().filter_map(|word| word.to_str()).skip(1);
    let run_lookup = async {
        for word in arguments.filter(|word| !word.starts_with('-') && !word.is_empty()) {
            if let Ok(run) = store.find_run_by_prefix(word).await {
                return Ok(run);
            }
        }
        Ok(store.find_latest_run().await?)
    };
    block_on(run_lookup).ok()
}

/// Loads the ensemble that the completed command line names, or the ensemble of its run.
fn load_completed_line_ensemble() -> Option<Ensemble> {
    let project = completed_line_project();
    let words = completed_line_words();
    let mut arguments = words.iter().skip(1).filter_map(|word| word.to_str());
    let file = arguments.find_map(|word| project.resolve_ensemble_file(word).ok());
    let source = match file {
        Some(file) => project.read_file(&file).ok()?,
        None => {
            let run = find_completed_line_run()?;
            let text = block_on(async { Ok(run.load_ensemble_text().await?) }).ok()?;
            SourceText::new("ensemble.yaml", text)
        }
    };
    load_ensemble(&source).ensemble
}

/// Lists the executions of the run of the completed command line as `AGENT@TURN`, the latest first.
fn list_completed_line_executions() -> Option<Vec<String>> {
    let run = find_completed_line_run()?;
    let journal = block_on(async { Ok(run.read_journal().await?) }).ok()?;
    let finished = journal.records.iter().rev().filter_map(|record| match &record.event {
        Event::ExecutionFinished(finished) => Some(format!("{}@{}", finished.agent, finished.turn)),
        _ => None,
    });
    Some(finished.collect())
}
