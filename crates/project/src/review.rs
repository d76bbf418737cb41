//! Review of the ways in which a file uses the user's keys and environment, for the user and for a run.
//!
//! Invariant: every ensemble of a run passes the review before anything starts.

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

/// Uses of keys and values of the environment in a file, for the decision of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustReview {
    /// Absolute path of the file without links.
    pub path: PathBuf,
    /// Uses, a line for each. An empty list needs no trust.
    pub lines: Vec<String>,
    /// Digest that the trust is bound to.
    pub digest: String,
    /// Set if the user trusts the file.
    pub is_trusted: bool,
}

impl TrustReview {
    /// Creates the review of an ensemble. Its digest covers the lines only, so that an edited prompt keeps the trust.
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

/// Reviews a configuration, a file of MCP servers, or an ensemble with its nested ensembles. Returns only files that need trust.
///
/// # Errors
/// A file cannot be read, has errors, or belongs to another user.
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

/// Returns whether the path is a configuration of a project or of the user.
fn is_config_of_project_or_user(path: &Path, project: &Project) -> bool {
    path.ends_with(".ensemble/config.yaml") || find_user_config(project).as_deref() == Some(path)
}

/// Returns whether the file is a file of MCP servers, such as `.mcp.json`, by its extension.
pub fn is_mcp_config(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// Loads a file of MCP servers and reviews its uses of the environment.
fn load_and_review_mcp_config(path: &Path, project: &Project) -> Result<(McpConfig, TrustReview), ProjectError> {
    let source = read_source(path)?;
    let config = McpConfig::parse(source.text()).map_err(|error| ProjectError::Unreadable {
        path: project.relative_path(path),
        reason: format!("it is not a file of MCP servers: {error}"),
    })?;
    let review = TrustReview::from_lines(path.to_owned(), config.describe_variable_uses(), project);
    Ok((config, review))
}

/// Loads a file of MCP servers.
///
/// # Errors
/// The file cannot be read, belongs to another user, or uses values of the environment without trust.
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

/// Reviews the uses of the environment in a prepared ensemble.
fn review_ensemble(prepared: &PreparedEnsemble, project: &Project) -> TrustReview {
    let lines = describe_ensemble_uses(prepared.plan.ensemble(), &[], &prepared.root);
    TrustReview::from_lines(prepared.file.clone(), lines, project)
}

/// Checks that the ensemble may run: it belongs to the user, and its uses of the environment are trusted. Uses that an override
/// of a model removes need no trust.
///
/// # Errors
/// The ensemble belongs to another user, or is not trusted.
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

/// Returns an error if one of the paths belongs to another user.
fn refuse_foreign_files(paths: &[&Path], project: &Project) -> Result<(), ProjectError> {
    match paths.iter().find_map(|path| project.trust.find_foreign_owner(path)) {
        Some(stranger) => Err(ProjectError::Stranger(stranger)),
        None => Ok(()),
    }
}
