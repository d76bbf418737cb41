//! `ensemble trust`: what files do with keys and values of the environment, for the user to allow.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use crate::command::shared::untrusted_files::shown;
use clap::Args;
use ensemble_core::operator::visible;
use ensemble_project::review::{Review, review};
use ensemble_project::trust::Trusted;

/// `ensemble trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// A configuration, a folder with one, or an ensemble; default: the configuration of the project
    #[arg(value_name = "PATH", add = completions::ensembles())]
    pub path: Option<String>,
    /// Allow it without asking
    #[arg(long, short)]
    pub yes: bool,
    /// List the files that are trusted
    #[arg(long, conflicts_with_all = ["path", "yes", "remove"])]
    pub list: bool,
    /// Trust this file no longer
    #[arg(long, value_name = "PATH", conflicts_with_all = ["path", "yes"])]
    pub remove: Option<PathBuf>,
}

/// `ensemble trust`.
pub(crate) fn trust(args: &TrustArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    if args.list {
        return Ok(list(surroundings));
    }
    if let Some(path) = &args.remove {
        return remove(path, surroundings);
    }
    let path = chosen(args.path.as_deref(), surroundings)?;
    let project = &surroundings.project;
    let shown = shown(&project.relative(&path));
    let reviews = review(&path, project)?;
    if reviews.is_empty() {
        surroundings.print(&format!(
            "{shown} needs no trust: it sends no key and no value of the environment anywhere\n"
        ));
        return Ok(exit::SUCCESS);
    }
    surroundings.print(&told(&reviews, surroundings));
    if reviews.iter().all(|review| review.is_trusted) && !project.trust.is_everything() {
        surroundings.print("it is trusted\n");
        return Ok(exit::SUCCESS);
    }
    if !args.yes && !agreed(surroundings)? {
        surroundings.print("it is not trusted\n");
        return Ok(exit::FAILURE);
    }
    let trusted = reviews.iter().map(trusted).collect::<Result<_, _>>()?;
    let kept = project.trust.add(trusted);
    kept.map_err(|error| CliError::Internal(format!("cannot keep the trust: {error}")))?;
    surroundings.print("it is trusted until it changes\n");
    Ok(exit::SUCCESS)
}

/// The file that is meant.
fn chosen(given: Option<&str>, surroundings: &Surroundings) -> Result<PathBuf, CliError> {
    let project = &surroundings.project;
    let Some(given) = given else {
        return project.project_config(&project.folder).ok_or_else(|| {
            CliError::usage_with_help(
                "there is no `.ensemble/config.yaml` in this project",
                "name an ensemble: `ensemble trust FILE`",
            )
        });
    };
    let path = project.folder.join(given);
    if path.is_dir() {
        return Ok(path.join(".ensemble").join("config.yaml"));
    }
    Ok(project.ensemble_file(given)?)
}

fn told(reviews: &[Review], surroundings: &Surroundings) -> String {
    let mut text = String::new();
    for review in reviews {
        let path = shown(&surroundings.project.relative(&review.path));
        text.push_str(&format!("{path} does this:\n"));
        review
            .lines
            .iter()
            .for_each(|line| text.push_str(&format!("    {line}\n")));
    }
    text
}

/// Asks at the terminal. Only a plain yes is one.
fn agreed(surroundings: &Surroundings) -> Result<bool, CliError> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(CliError::usage_with_help(
            "there is no terminal to ask at",
            "`--yes` allows it without asking",
        ));
    }
    let mut err = surroundings.streams.err();
    let _it_is_read_anyway = err.write_all(b"allow this? [y/N] ").and_then(|()| err.flush());
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    read.map_err(|error| CliError::Internal(format!("cannot read the answer: {error}")))?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn trusted(review: &Review) -> Result<Trusted, CliError> {
    let path = review
        .path
        .to_str()
        .ok_or_else(|| CliError::usage(format!("the path {} is no text in UTF-8", shown(&review.path))))?;
    Ok(Trusted {
        path: path.to_owned(),
        digest: review.digest.clone(),
    })
}

fn list(surroundings: &Surroundings) -> u8 {
    let trusted = surroundings.project.trust.trusted();
    let lines: String = trusted
        .iter()
        .map(|file| format!("{}\n", visible(&file.path)))
        .collect();
    surroundings.print(&lines);
    exit::SUCCESS
}

fn remove(path: &Path, surroundings: &Surroundings) -> Result<u8, CliError> {
    let project = &surroundings.project;
    let mut path = project.folder.join(path);
    if path.is_dir() {
        path = path.join(".ensemble").join("config.yaml");
    }
    let path = path.canonicalize().unwrap_or(path);
    let removed = project.trust.remove(&path);
    let removed = removed.map_err(|error| CliError::Internal(format!("cannot change what is trusted: {error}")))?;
    if !removed {
        return Err(CliError::usage_with_help(
            format!("{} is not trusted", shown(&path)),
            "`ensemble trust --list` shows what is",
        ));
    }
    surroundings.print(&format!("{} is no longer trusted\n", shown(&project.relative(&path))));
    Ok(exit::SUCCESS)
}
