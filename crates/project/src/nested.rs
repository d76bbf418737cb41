//! An ensemble with all ensembles that it names, directly or through others: their plans and their findings.
//!
//! Invariant: no ensemble has an error, and each file is loaded once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_language::diagnostic::{Diagnostic, FindingCode, FindingSeverity};
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, ToolKind};
use ensemble_language::loader::load_ensemble;

use crate::check::EnsembleFolder;
use crate::error::ProjectError;
use crate::prepare::{PreparedEnsemble, can_be_quoted, check_loaded_ensemble, ensemble_folder, prepare_file};
use crate::project::Project;

/// Outer or nested ensemble, with the files of the ensembles that its agents run.
#[derive(Debug)]
pub struct LoadedNestedEnsemble {
    /// File of the ensemble, as a path for output.
    pub path: PathBuf,
    /// Ensemble with its plan.
    pub prepared: PreparedEnsemble,
    /// Agents that run ensembles, with the absolute files of these ensembles.
    pub inner_files: Vec<(Arc<str>, PathBuf)>,
}

/// Loads the ensemble and all ensembles that it names, each file once. Returns the ensemble, its nested ensembles, and the
/// warnings with the code `wanted`. Skips missing files.
///
/// # Errors
/// A file cannot be read or has errors. The error contains the errors of all files.
pub fn load_with_nested(
    path: &Path,
    project: &Project,
    in_ci: bool,
    wanted: FindingCode,
) -> Result<(LoadedNestedEnsemble, Vec<LoadedNestedEnsemble>, Vec<Diagnostic>), ProjectError> {
    let mut files = vec![path.to_owned()];
    let mut seen_paths = vec![absolute_ensemble_path(path, project)];
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let mut next = 0;
    while let Some(path) = files.get(next).cloned() {
        next += 1;
        let loaded = load_ensemble(&project.read_file(&path)?);
        if next > 1 && !can_be_quoted(&loaded) {
            // The ensemble that names the file has the error.
            continue;
        }
        let mut folder = EnsembleFolder::for_file(&path, project)
            .with_ci(in_ci)
            .with_missing_scripts();
        if let Some(fault) = folder.take_config_error() {
            return Err(fault);
        }
        for finding in check_loaded_ensemble(&loaded, &folder) {
            match finding.severity {
                FindingSeverity::Error => errors.push(finding),
                _ if finding.code == wanted => warnings.push(finding),
                _ => {}
            }
        }
        for inner in loaded
            .ensemble
            .iter()
            .flat_map(|ensemble| list_nested_files(ensemble, &path, project))
        {
            let inner_path = absolute_ensemble_path(&inner, project);
            if !seen_paths.contains(&inner_path) {
                seen_paths.push(inner_path);
                files.push(inner);
            }
        }
    }
    if !errors.is_empty() {
        return Err(ProjectError::Invalid(errors));
    }
    let prepare_nested = |path: PathBuf| {
        let prepared = prepare_file(&path, project)?;
        let inside = list_ensemble_agents(prepared.plan.ensemble(), &path, project);
        Ok(LoadedNestedEnsemble {
            path,
            prepared,
            inner_files: inside,
        })
    };
    let inner = files.split_off(1).into_iter().map(prepare_nested);
    let inner = inner.collect::<Result<_, ProjectError>>()?;
    Ok((prepare_nested(path.to_owned())?, inner, warnings))
}

/// Loads the ensembles that the ensemble names, directly or through others, with their files. Skips files that cannot be loaded.
pub fn load_nested_unchecked(ensemble: &Ensemble, path: &Path, project: &Project) -> Vec<(PathBuf, Ensemble)> {
    let mut seen_paths = vec![absolute_ensemble_path(path, project)];
    let mut files = list_nested_files(ensemble, path, project);
    let mut named = Vec::new();
    while let Some(file) = files.pop() {
        let file_path = absolute_ensemble_path(&file, project);
        if seen_paths.contains(&file_path) {
            continue;
        }
        seen_paths.push(file_path);
        let loaded = project.read_file(&file).ok().map(|source| load_ensemble(&source));
        if let Some(inner) = loaded.and_then(|loaded| loaded.ensemble) {
            files.extend(list_nested_files(&inner, &file, project));
            named.push((file, inner));
        }
    }
    named
}

/// Returns the absolute path of the ensemble file, with the folder resolved and the name of a link kept.
pub fn absolute_ensemble_path(path: &Path, project: &Project) -> PathBuf {
    let absolute = project.folder.join(path);
    ensemble_folder(path, project).join(absolute.file_name().unwrap_or_default())
}

/// Returns the agents that run ensembles, with the absolute files of these ensembles. Skips missing files.
fn list_ensemble_agents(ensemble: &Ensemble, path: &Path, project: &Project) -> Vec<(Arc<str>, PathBuf)> {
    let folder = ensemble_folder(path, project);
    let root = project.project_root(&folder);
    let file = |agent: &Agent| match &agent.kind {
        AgentKind::Ensemble { ensemble, .. } => {
            let ensemble_path = project.resolve_ensemble_file_from(ensemble, &folder, &root).ok()?;
            Some((
                agent.name.clone(),
                absolute_ensemble_path(&project.relative_path(&ensemble_path), project),
            ))
        }
        _ => None,
    };
    ensemble.agents.iter().filter_map(file).collect()
}

/// Returns the existing files of the ensembles that agents and tools name.
fn list_nested_files(ensemble: &Ensemble, path: &Path, project: &Project) -> Vec<PathBuf> {
    let folder = ensemble_folder(path, project);
    let root = project.project_root(&folder);
    let agents = ensemble.agents.iter().filter_map(|agent| match &agent.kind {
        AgentKind::Ensemble { ensemble, .. } => Some(ensemble),
        _ => None,
    });
    let tools = ensemble.tools.iter().filter_map(|(_, tool)| match &tool.kind {
        ToolKind::Ensemble { ensemble, .. } => Some(ensemble),
        _ => None,
    });
    let inner_paths = agents
        .chain(tools)
        .map(|named| project.resolve_ensemble_file_from(named, &folder, &root));
    inner_paths
        .filter_map(Result::ok)
        .map(|path| project.relative_path(&path))
        .collect()
}
