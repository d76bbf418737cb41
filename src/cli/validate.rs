//! `ensemble validate`: every problem of every file, in one go.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{ValidateArgs, ValidateFormat};
use super::error::CliError;
use super::exit;
use super::policy::Policy;
use super::prepare::{config_profiles, examine, folder_of};
use super::project::{Surroundings, read_source, read_stdin};
use crate::agent::script::{Places, Resolved, Unavailable, resolve, resolve_words};
use crate::check;
use crate::diagnostic::{Code, Diagnostic, Finding, Severity};
use crate::ensemble::{Agent, AgentKind, CommandLine, Ensemble, McpServer, Tool, ToolKind};
use crate::loader::codes;
use crate::loader::explain::explanation;
use crate::report::{self, CheckedFile, Rule, diagnostics};
use crate::source::{At, Source};

/// `ensemble validate`.
pub fn validate(args: &ValidateArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let policy = Policy::of(args)?;
    let mut files = check_all(inputs(&args.paths, surroundings)?, surroundings)?;
    for file in &mut files {
        file.findings = policy.apply(std::mem::take(&mut file.findings));
    }
    let fails = |finding: &Diagnostic| policy.fails(finding);
    show(&files, &fails, args, surroundings);
    Ok(if files.iter().flat_map(|file| &file.findings).any(fails) {
        exit::USAGE
    } else {
        exit::SUCCESS
    })
}

/// Something to check: a file that is read when its turn comes, or a text that is there already.
enum Input {
    File(PathBuf),
    Stdin(Source),
}

/// Checks all inputs on as many threads as there are cores; the results come in the order of the inputs.
fn check_all(inputs: Vec<Input>, surroundings: &Surroundings) -> Result<Vec<CheckedFile>, CliError> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = inputs.len().div_ceil(cores).max(1);
    let checked: Vec<Result<CheckedFile, CliError>> = std::thread::scope(|scope| {
        let workers: Vec<_> = inputs
            .chunks(share)
            .map(|inputs| {
                scope.spawn(|| {
                    inputs
                        .iter()
                        .map(|input| check_one(input, surroundings))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let results = workers.into_iter().map(|worker| worker.join());
        results
            .flat_map(|checked| checked.expect("a check does not panic"))
            .collect()
    });
    checked.into_iter().collect()
}

fn check_one(input: &Input, surroundings: &Surroundings) -> Result<CheckedFile, CliError> {
    let (path, source) = match input {
        Input::File(path) => (path.as_path(), read_source(path)?),
        Input::Stdin(source) => (Path::new("<stdin>"), source.clone()),
    };
    let name = source.name().to_owned();
    let findings = check(path, source, surroundings)?;
    Ok(CheckedFile { name, findings })
}

fn check(path: &Path, source: Source, surroundings: &Surroundings) -> Result<Vec<Diagnostic>, CliError> {
    let folder = folder_of(path, surroundings);
    let configured = config_profiles(&folder, surroundings)?;
    let known = |name: &str| {
        name == "simulated"
            || configured
                .iter()
                .any(|(_, profiles)| profiles.iter().any(|(known, _)| **known == *name))
    };
    let root = surroundings.project_root(&folder);
    let places = Places {
        ensemble_dir: folder.clone(),
        project_root: root.clone(),
    };
    let around = |ensemble: &Ensemble| {
        let mut findings = check::unknown_profiles(ensemble, &known);
        findings.extend(missing_files(ensemble, &places, surroundings));
        findings
    };
    Ok(examine(source, around).diagnostics)
}

/// Scripts, ensembles and programs that agents and tools name and that are not there, or not usable.
fn missing_files(ensemble: &Ensemble, places: &Places, surroundings: &Surroundings) -> Vec<Finding> {
    let of_script = |found: Result<Resolved, Unavailable>, at: At| {
        let unavailable = found.err()?;
        Some(Finding::warning(codes::NO_SCRIPT, at, unavailable.message).help(unavailable.help))
    };
    let of_ensemble = |name: &str, at: At| {
        let found = surroundings.ensemble_file_from(name, &places.ensemble_dir, &places.project_root);
        let (message, help) = match found.err()? {
            CliError::Usage { message, help } => (message, help),
            other => (other.to_string(), None),
        };
        let mut finding = Finding::warning(codes::NO_SCRIPT, at, message);
        finding.help = help;
        Some(finding)
    };
    let of_agent = |(at, agent): (usize, &Agent)| {
        let route = Agent::route(at);
        match &agent.kind {
            AgentKind::Script { script } => of_script(resolve(script, places), route.key("script").value()),
            AgentKind::Ensemble { ensemble } => of_ensemble(ensemble, route.key("ensemble").value()),
            AgentKind::Llm(_) | AgentKind::Input(_) => None,
        }
    };
    let of_tool = |(name, tool): &(Arc<str>, Tool)| {
        let route = Tool::route(name);
        match &tool.kind {
            ToolKind::Script { script, .. } => of_script(resolve(script, places), route.key("script").value()),
            ToolKind::Ensemble { ensemble, .. } => of_ensemble(ensemble, route.key("ensemble").value()),
            ToolKind::Mcp(McpServer::Command { command, .. }) => {
                let at = route.key("mcp").key("command").value();
                match command {
                    CommandLine::Text(text) => of_script(resolve(text, places), at),
                    CommandLine::Words(words) => of_script(resolve_words(words, places), at),
                }
            }
            ToolKind::Agent { .. } | ToolKind::Mcp(McpServer::Url { .. }) => None,
        }
    };
    let agents = ensemble.agents.iter().enumerate().filter_map(of_agent);
    agents.chain(ensemble.tools.iter().filter_map(of_tool)).collect()
}

fn show(files: &[CheckedFile], fails: &dyn Fn(&Diagnostic) -> bool, args: &ValidateArgs, surroundings: &Surroundings) {
    let findings: Vec<Diagnostic> = files.iter().flat_map(|file| &file.findings).cloned().collect();
    let folder = &surroundings.folder;
    match args.format {
        ValidateFormat::Json => surroundings.print(&diagnostics::json(&findings)),
        ValidateFormat::Github => surroundings.print(&report::github(&findings, folder)),
        ValidateFormat::Sarif => surroundings.print(&report::sarif(&findings, &rules(), folder)),
        ValidateFormat::Junit => surroundings.print(&report::junit(files, fails, folder)),
        ValidateFormat::Human => {
            if !findings.is_empty() {
                surroundings.print(&diagnostics::human(&findings, surroundings.streams.colors_on_stdout()));
            }
            if !args.quiet {
                surroundings.complain(&summary(&findings, files.len()));
            }
        }
    }
}

/// Every code, as reports list them.
fn rules() -> Vec<Rule> {
    let rule = |(code, title): &(Code, &'static str)| Rule {
        code: *code,
        title,
        explanation: explanation(*code),
    };
    codes::ALL.iter().map(rule).collect()
}

fn summary(findings: &[Diagnostic], files: usize) -> String {
    let count = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let words = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    format!(
        "{} checked: {}, {}, {}\n",
        words(files, "file"),
        words(count(Severity::Error), "error"),
        words(count(Severity::Warning), "warning"),
        words(count(Severity::Hint), "hint"),
    )
}

/// All that was asked for, in order, folders searched.
fn inputs(paths: &[String], surroundings: &Surroundings) -> Result<Vec<Input>, CliError> {
    let default = if surroundings.folder.join("ensembles").is_dir() {
        "ensembles"
    } else {
        "."
    };
    let default = [default.to_owned()];
    let paths = if paths.is_empty() { &default[..] } else { paths };
    let mut inputs = Vec::new();
    for given in paths {
        if given == "-" {
            let text: Arc<str> = read_stdin()?.into();
            inputs.push(Input::Stdin(Source::new("<stdin>", text)));
            continue;
        }
        let path = PathBuf::from(given);
        let absolute = surroundings.folder.join(&path);
        if absolute.is_dir() {
            let mut files = Vec::new();
            search(&path, &absolute, &mut files)?;
            if files.is_empty() {
                return Err(CliError::usage(format!("{given} holds no .yaml or .yml file")));
            }
            inputs.extend(files.into_iter().map(Input::File));
        } else if absolute.is_file() {
            inputs.push(Input::File(path));
        } else {
            inputs.push(Input::File(surroundings.ensemble_file(given)?));
        }
    }
    Ok(inputs)
}

/// YAML files below a folder in the order of their names; folders that begin with a dot are passed over.
fn search(shown: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let unreadable = |error: std::io::Error| CliError::Unreadable {
        path: shown.to_owned(),
        reason: error.to_string(),
    };
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .map_err(unreadable)?
        .filter_map(Result::ok)
        .collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let is_hidden = name.to_string_lossy().starts_with('.');
        let path = entry.path();
        let shown = shown.join(&name);
        if path.is_dir() && !is_hidden {
            search(&shown, &path, files)?;
        } else if path.is_file() && path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            files.push(shown);
        }
    }
    Ok(())
}
