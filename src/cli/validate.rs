//! `ensemble validate`: every problem of every file, in one go.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{ValidateArgs, ValidateFormat};
use super::error::CliError;
use super::exit;
use super::prepare::{config_profiles, examine, folder_of};
use super::project::{Surroundings, read_source, read_stdin};
use crate::agent::script::{Places, resolve};
use crate::check;
use crate::diagnostic::{Diagnostic, Finding, Severity};
use crate::ensemble::{Agent, AgentKind, Ensemble};
use crate::loader::codes;
use crate::report::diagnostics;
use crate::source::Source;

/// `ensemble validate`.
pub fn validate(args: &ValidateArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let mut findings = Vec::new();
    let sources = sources(&args.paths, surroundings)?;
    let count = sources.len();
    for (path, source) in sources {
        findings.extend(check(&path, source, surroundings)?);
    }
    show(&findings, count, args, surroundings);
    let fails = |finding: &Diagnostic| match finding.severity {
        Severity::Error => true,
        Severity::Warning => args.deny_warnings,
        Severity::Hint => false,
    };
    Ok(if findings.iter().any(fails) {
        exit::USAGE
    } else {
        exit::SUCCESS
    })
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

/// Scripts and ensembles that agents name and that are not there, or not usable.
fn missing_files(ensemble: &Ensemble, places: &Places, surroundings: &Surroundings) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, agent) in ensemble.agents.iter().enumerate() {
        let route = Agent::route(at);
        match &agent.kind {
            AgentKind::Script { script } => {
                if let Err(unavailable) = resolve(script, places) {
                    let at = route.key("script").value();
                    findings.push(Finding::warning(codes::NO_SCRIPT, at, unavailable.message).help(unavailable.help));
                }
            }
            AgentKind::Ensemble { ensemble } => {
                let found = surroundings.ensemble_file_from(ensemble, &places.ensemble_dir, &places.project_root);
                if let Err(error) = found {
                    let at = route.key("ensemble").value();
                    let (message, help) = match error {
                        CliError::Usage { message, help } => (message, help),
                        other => (other.to_string(), None),
                    };
                    let mut finding = Finding::warning(codes::NO_SCRIPT, at, message);
                    finding.help = help;
                    findings.push(finding);
                }
            }
            AgentKind::Llm(_) | AgentKind::Input(_) => {}
        }
    }
    findings
}

fn show(findings: &[Diagnostic], files: usize, args: &ValidateArgs, surroundings: &Surroundings) {
    match args.format {
        ValidateFormat::Json => surroundings.print(&diagnostics::json(findings)),
        ValidateFormat::Human => {
            if !findings.is_empty() {
                surroundings.print(&diagnostics::human(findings, surroundings.streams.colors_on_stdout()));
            }
            if !args.quiet {
                surroundings.complain(&summary(findings, files));
            }
        }
    }
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

/// All texts that were asked for, in order, folders searched.
fn sources(paths: &[String], surroundings: &Surroundings) -> Result<Vec<(PathBuf, Source)>, CliError> {
    let default = if surroundings.folder.join("ensembles").is_dir() {
        "ensembles"
    } else {
        "."
    };
    let default = [default.to_owned()];
    let paths = if paths.is_empty() { &default[..] } else { paths };
    let mut sources = Vec::new();
    for given in paths {
        if given == "-" {
            let text: Arc<str> = read_stdin()?.into();
            sources.push((PathBuf::from("<stdin>"), Source::new("<stdin>", text)));
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
            for file in files {
                sources.push((file.clone(), read_source(&file)?));
            }
        } else if absolute.is_file() {
            sources.push((path.clone(), read_source(&path)?));
        } else {
            let file = surroundings.ensemble_file(given)?;
            sources.push((file.clone(), read_source(&file)?));
        }
    }
    Ok(sources)
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
