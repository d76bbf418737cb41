//! What a file would do with the user's keys and environment, for the user to look at and for a run to ask about.
//!
//! Invariant: every ensemble of a run passes it before anything starts.

use std::path::{Path, PathBuf};

use ensemble_language::data::sha256_of_text;
use ensemble_language::loader::codes::UNANSWERED;
use ensemble_language::profiles::ModelOverride;

use crate::config::{find_user_config, load_config_with_uses};
use crate::error::ProjectError;
use crate::mcp_config::McpConfig;
use crate::nested::load_with_nested;
use crate::prepare::PreparedEnsemble;
use crate::project::{Project, read_source};
use crate::trust::describe_ensemble_uses;

/// A file, and what it would do with keys and values of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustReview {
    /// The file, absolute and without links.
    pub path: PathBuf,
    /// A line for each thing. None: the file needs no trust.
    pub lines: Vec<String>,
    /// The digest to which trust is bound.
    pub digest: String,
    /// Is it trusted already?
    pub is_trusted: bool,
}

impl TrustReview {
    /// The digest of an ensemble is that of its lines: to edit a prompt changes nothing.
    fn from_lines(path: PathBuf, lines: Vec<String>, project: &Project) -> Self {
        let digest = sha256_of_text(&lines.join("\n"));
        Self {
            is_trusted: project.trust.is_trusted(&path, &digest),
            path,
            lines,
            digest,
        }
    }
}

/// What the configuration, or the ensemble and the ensembles that it names, would do. Only files are told that would do
/// something.
///
/// # Errors
/// A file cannot be read, has errors, or belongs to somebody else.
pub fn review_files(path: &Path, project: &Project) -> Result<Vec<TrustReview>, ProjectError> {
    let absolute = project.folder.join(path);
    let absolute = absolute.canonicalize().unwrap_or(absolute);
    refuse_foreign_files(&[&absolute], project)?;
    let mut reviews = Vec::new();
    if is_config_of_project_or_user(&absolute, project) {
        let config = load_config_with_uses(&absolute, project)?;
        reviews.push(TrustReview {
            is_trusted: project.trust.is_trusted(&absolute, &config.digest),
            path: absolute,
            lines: config.environment_use_lines(),
            digest: config.digest,
        });
    } else if is_mcp_config(&absolute) {
        reviews.push(load_and_review_mcp_config(&absolute, project)?.1);
    } else {
        let (outer, inner, _) = load_with_nested(path, project, false, UNANSWERED)?;
        for ensemble in std::iter::once(&outer).chain(&inner) {
            reviews.push(review_ensemble(&ensemble.prepared, project));
        }
    }
    reviews.retain(|review| !review.lines.is_empty());
    Ok(reviews)
}

fn is_config_of_project_or_user(path: &Path, project: &Project) -> bool {
    path.ends_with(".ensemble/config.yaml") || find_user_config(project).as_deref() == Some(path)
}

/// Returns whether the file is one of MCP servers, such as `.mcp.json`.
pub fn is_mcp_config(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

fn load_and_review_mcp_config(path: &Path, project: &Project) -> Result<(McpConfig, TrustReview), ProjectError> {
    let source = read_source(path)?;
    let config = McpConfig::parse(source.text()).map_err(|error| ProjectError::Unreadable {
        path: project.relative_path(path),
        reason: format!("it is not a file of MCP servers: {error}"),
    })?;
    let review = TrustReview::from_lines(path.to_owned(), config.describe_variable_uses(), project);
    Ok((config, review))
}

/// Loads a file of MCP servers, unless it belongs to somebody else or would use values of the environment without trust.
///
/// # Errors
/// The file cannot be read, or must not be used.
pub fn load_trusted_mcp_config(path: &Path, project: &Project) -> Result<McpConfig, ProjectError> {
    let absolute = project.folder.join(path);
    let absolute = absolute.canonicalize().unwrap_or(absolute);
    refuse_foreign_files(&[&absolute], project)?;
    let (config, review) = load_and_review_mcp_config(&absolute, project)?;
    match review.is_trusted || review.lines.is_empty() {
        true => Ok(config),
        false => Err(ProjectError::Untrusted {
            path: project.relative_path(&absolute),
            lines: review.lines,
        }),
    }
}

fn review_ensemble(prepared: &PreparedEnsemble, project: &Project) -> TrustReview {
    let lines = describe_ensemble_uses(prepared.plan.ensemble(), &[], &prepared.root);
    TrustReview::from_lines(prepared.file.clone(), lines, project)
}

/// Refuses an ensemble of somebody else, and one that would use keys or values of the environment without trust. What an
/// override of a model takes away needs no trust.
///
/// # Errors
/// The ensemble must not run.
pub fn refuse_untrusted_ensemble(
    prepared: &PreparedEnsemble,
    overrides: &[ModelOverride],
    project: &Project,
) -> Result<(), ProjectError> {
    let runs = prepared.root.join(".ensemble");
    let folder = prepared.file.parent().unwrap_or(&prepared.folder);
    refuse_foreign_files(&[&prepared.file, folder, &runs], project)?;
    if review_ensemble(prepared, project).is_trusted {
        return Ok(());
    }
    let lines = describe_ensemble_uses(prepared.plan.ensemble(), overrides, &prepared.root);
    if lines.is_empty() {
        return Ok(());
    }
    Err(ProjectError::Untrusted {
        path: project.relative_path(&prepared.file),
        lines,
    })
}

fn refuse_foreign_files(paths: &[&Path], project: &Project) -> Result<(), ProjectError> {
    match paths.iter().find_map(|path| project.trust.find_foreign_owner(path)) {
        Some(stranger) => Err(ProjectError::Stranger(stranger)),
        None => Ok(()),
    }
}
