//! What a file would do with the user's keys and environment, for the user to look at and for a run to ask about.
//!
//! Invariant: every ensemble of a run passes it before anything starts.

use std::path::{Path, PathBuf};

use ensemble_language::data::digest;
use ensemble_language::loader::codes::UNANSWERED;
use ensemble_language::profiles::Override;

use crate::config::{config_of, users};
use crate::error::ProjectError;
use crate::nested::nested;
use crate::prepare::Prepared;
use crate::project::Project;
use crate::trust::of_ensemble;

/// A file, and what it would do with keys and values of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// The file, absolute and without links.
    pub path: PathBuf,
    /// A line for each thing. None: the file needs no trust.
    pub lines: Vec<String>,
    /// The digest to which trust is bound.
    pub digest: String,
    /// Is it trusted already?
    pub is_trusted: bool,
}

impl Review {
    /// The digest of an ensemble is that of its lines: to edit a prompt changes nothing.
    fn of_lines(path: PathBuf, lines: Vec<String>, project: &Project) -> Self {
        let digest = digest(&lines.join("\n"));
        Self {
            is_trusted: project.trust.allows(&path, &digest),
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
pub fn review(path: &Path, project: &Project) -> Result<Vec<Review>, ProjectError> {
    let absolute = project.folder.join(path);
    let absolute = absolute.canonicalize().unwrap_or(absolute);
    refuse_strangers(&[&absolute], project)?;
    let mut reviews = Vec::new();
    if is_config(&absolute, project) {
        let config = config_of(&absolute, project)?;
        reviews.push(Review {
            is_trusted: project.trust.allows(&absolute, &config.digest),
            path: absolute,
            lines: config.lines(),
            digest: config.digest,
        });
    } else {
        let (outer, inner, _) = nested(path, project, false, UNANSWERED)?;
        for named in std::iter::once(&outer).chain(&inner) {
            reviews.push(of_prepared(&named.prepared, project));
        }
    }
    reviews.retain(|review| !review.lines.is_empty());
    Ok(reviews)
}

fn is_config(path: &Path, project: &Project) -> bool {
    path.ends_with(".ensemble/config.yaml") || users(project).as_deref() == Some(path)
}

fn of_prepared(prepared: &Prepared, project: &Project) -> Review {
    let lines = of_ensemble(prepared.plan.ensemble(), &[], &prepared.root);
    Review::of_lines(prepared.file.clone(), lines, project)
}

/// Refuses an ensemble of somebody else, and one that would use keys or values of the environment without trust. What an
/// override of a model takes away needs no trust.
///
/// # Errors
/// The ensemble must not run.
pub fn check_trust(prepared: &Prepared, overrides: &[Override], project: &Project) -> Result<(), ProjectError> {
    let runs = prepared.root.join(".ensemble");
    let folder = prepared.file.parent().unwrap_or(&prepared.folder);
    refuse_strangers(&[&prepared.file, folder, &runs], project)?;
    if of_prepared(prepared, project).is_trusted {
        return Ok(());
    }
    let lines = of_ensemble(prepared.plan.ensemble(), overrides, &prepared.root);
    if lines.is_empty() {
        return Ok(());
    }
    Err(ProjectError::Untrusted {
        path: project.relative(&prepared.file),
        lines,
    })
}

fn refuse_strangers(paths: &[&Path], project: &Project) -> Result<(), ProjectError> {
    match paths.iter().find_map(|path| project.trust.stranger(path)) {
        Some(stranger) => Err(ProjectError::Stranger(stranger)),
        None => Ok(()),
    }
}
