//! `ensemble trust`: shows how files use keys and values of the environment, and records the trust of the user.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use crate::command::shared::untrusted_files::escape_path;
use clap::Args;
use ensemble_core::operator::escape_hidden;
use ensemble_project::review::{TrustReview, is_mcp_config, review_files};
use ensemble_project::trust::TrustedFile;

/// `ensemble trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// A configuration, an ensemble or a file of servers; default: the project's own
    #[arg(value_name = "PATH", add = completions::complete_ensembles())]
    pub path: Option<String>,
    /// Trust the file without asking
    #[arg(long, short)]
    pub yes: bool,
    /// List the trusted files
    #[arg(long, conflicts_with_all = ["path", "yes", "remove"])]
    pub list: bool,
    /// Remove the trust in this file
    #[arg(long, value_name = "PATH", conflicts_with_all = ["path", "yes"])]
    pub remove: Option<PathBuf>,
}

/// Executes `ensemble trust`: shows the uses of the environment, asks for trust and records the trust. Returns the exit code.
pub(crate) fn review_and_trust_file(args: &TrustArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    if args.list {
        return Ok(print_trusted_files(surroundings));
    }
    if let Some(path) = &args.remove {
        return remove_trust(path, surroundings);
    }
    let path = resolve_file_to_trust(args.path.as_deref(), surroundings)?;
    let project = &surroundings.project;
    let display_path = escape_path(&project.relative_path(&path));
    let reviews = review_files(&path, project)?;
    if reviews.is_empty() {
        surroundings.print_out(&format!(
            "{display_path} needs no trust: the file sends no keys and no values of the environment\n"
        ));
        return Ok(exit::SUCCESS);
    }
    surroundings.print_out(&render_reviews(&reviews, surroundings));
    if reviews.iter().all(|review| review.is_trusted) && !project.trust.trusts_everything() {
        surroundings.print_out("already trusted\n");
        return Ok(exit::SUCCESS);
    }
    if !args.yes && !ask_for_consent(surroundings)? {
        surroundings.print_out("not trusted\n");
        return Ok(exit::FAILURE);
    }
    let trusted = reviews.iter().map(to_trusted).collect::<Result<_, _>>()?;
    let store_result = project.trust.trust_files(trusted);
    store_result.map_err(|error| CliError::Internal(format!("cannot record the trust: {error}")))?;
    surroundings.print_out("trusted until a file changes\n");
    Ok(exit::SUCCESS)
}

/// Returns the file that the argument names, or the configuration of the project.
fn resolve_file_to_trust(given: Option<&str>, surroundings: &CliEnvironment) -> Result<PathBuf, CliError> {
    let project = &surroundings.project;
    let Some(path_argument) = given else {
        return project.project_config(&project.folder).ok_or_else(|| {
            CliError::usage_error_with_help(
                "there is no `.ensemble/config.yaml` in this project",
                "name an ensemble: `ensemble trust FILE`",
            )
        });
    };
    let path = project.folder.join(path_argument);
    if path.is_dir() {
        return Ok(path.join(".ensemble").join("config.yaml"));
    }
    if is_mcp_config(&path) {
        return Ok(path);
    }
    Ok(project.resolve_ensemble_file(path_argument)?)
}

/// Renders the uses of the environment, file by file.
fn render_reviews(reviews: &[TrustReview], surroundings: &CliEnvironment) -> String {
    let mut text = String::new();
    for review in reviews {
        let path = escape_path(&surroundings.project.relative_path(&review.path));
        text.push_str(&format!("{path} does this:\n"));
        review
            .lines
            .iter()
            .for_each(|line| text.push_str(&format!("    {line}\n")));
    }
    text
}

/// Asks the user at the terminal for trust. Returns whether the answer is `y` or `yes`.
///
/// # Errors
/// Standard input is no terminal.
fn ask_for_consent(surroundings: &CliEnvironment) -> Result<bool, CliError> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(CliError::usage_error_with_help(
            "cannot ask for trust: there is no terminal",
            "`--yes` trusts the file without asking",
        ));
    }
    let mut err = surroundings.streams.human_err();
    let _it_is_read_anyway = err.write_all(b"allow this? [y/N] ").and_then(|()| err.flush());
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    read.map_err(|error| CliError::Internal(format!("cannot read the answer: {error}")))?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Converts a review to an entry for the list of trusted files.
///
/// # Errors
/// The path is not valid UTF-8.
fn to_trusted(review: &TrustReview) -> Result<TrustedFile, CliError> {
    let path = review
        .path
        .to_str()
        .ok_or_else(|| CliError::usage_error(format!("the path {} is not valid UTF-8", escape_path(&review.path))))?;
    Ok(TrustedFile {
        path: path.to_owned(),
        digest: review.digest.clone(),
    })
}

/// Prints the trusted files. Returns the exit code.
fn print_trusted_files(surroundings: &CliEnvironment) -> u8 {
    let trusted = surroundings.project.trust.list_trusted();
    let lines: String = trusted
        .iter()
        .map(|file| format!("{}\n", escape_hidden(&file.path)))
        .collect();
    surroundings.print_out(&lines);
    exit::SUCCESS
}

/// Removes the trust in the file, or in the configuration of a folder. Returns the exit code.
///
/// # Errors
/// The file is not trusted.
fn remove_trust(path: &Path, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let project = &surroundings.project;
    let mut path = project.folder.join(path);
    if path.is_dir() {
        path = path.join(".ensemble").join("config.yaml");
    }
    let path = path.canonicalize().unwrap_or(path);
    let removed = project.trust.untrust_file(&path);
    let removed =
        removed.map_err(|error| CliError::Internal(format!("cannot change the list of trusted files: {error}")))?;
    if !removed {
        return Err(CliError::usage_error_with_help(
            format!("{} is not trusted", escape_path(&path)),
            "`ensemble trust --list` shows the trusted files",
        ));
    }
    surroundings.print_out(&format!(
        "{} is no longer trusted\n",
        escape_path(&project.relative_path(&path))
    ));
    Ok(exit::SUCCESS)
}
