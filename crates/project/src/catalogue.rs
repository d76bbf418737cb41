//! Catalogue of the ensembles of a project that can be run by name, with their errors.
//!
//! Invariant: a file that is meant as an ensemble is listed, with or without errors. No fix is computed.

use std::path::PathBuf;

use ensemble_language::diagnostic::{Diagnostic, FindingSeverity};
use ensemble_language::loader::{EnsembleLoadResult, load_ensemble};

use crate::check::EnsembleFolder;
use crate::prepare::check_loaded_ensemble;
use crate::project::Project;

/// Ensemble that can be run by name.
#[derive(Debug)]
pub struct NamedEnsemble {
    /// Name of the ensemble.
    pub name: String,
    /// File, as a user in the caller's folder writes the path.
    pub file: PathBuf,
    /// Content of the file.
    pub loaded: EnsembleLoadResult,
    /// Errors of the ensemble and of the files around the ensemble.
    pub errors: Vec<Diagnostic>,
}

/// Lists the ensembles that can be run by name, sorted by name. Skips files that cannot be read.
pub fn list_named_ensembles(project: &Project) -> impl Iterator<Item = NamedEnsemble> + '_ {
    let files = project.list_named_files().into_iter();
    files.filter_map(|(name, file)| load_catalogue_entry(project, name, file))
}

/// Lists the named ensembles, and the ensembles whose name selects another file, sorted by name and file.
pub fn list_ensembles_with_shadowed(project: &Project) -> impl Iterator<Item = NamedEnsemble> + '_ {
    let files = project.list_named_and_shadowed_files().into_iter();
    files.filter_map(|(name, file)| load_catalogue_entry(project, name, file))
}

/// Loads and checks the file. Returns `None` if the file cannot be read or is not meant as an ensemble.
fn load_catalogue_entry(project: &Project, name: String, file: PathBuf) -> Option<NamedEnsemble> {
    let loaded = load_ensemble(&project.read_file(&file).ok()?);
    if !loaded.looks_like_ensemble() {
        return None;
    }
    let mut errors = check_loaded_ensemble(&loaded, &EnsembleFolder::for_file(&file, project).without_fixes());
    errors.retain(|finding| finding.severity == FindingSeverity::Error);
    Some(NamedEnsemble {
        name,
        file,
        loaded,
        errors,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test prepares files")]
mod tests {
    use super::*;

    #[test]
    fn ensembles_are_listed_with_their_errors_and_without_fixes() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write("inner.yaml", "name: inner\nagents:\n- {name: a, scrpt: echo x}\n");
        write("outer.yml", "name: outer\nagents:\n- {name: a, ensemble: inner.yaml}\n");
        write("sound.yaml", "name: sound\nagents:\n- {name: a, script: echo x}\n");
        write("other.yaml", "jobs: {build: {}}\n");
        let project = Project::from_folder(folder.path());
        let listed: Vec<NamedEnsemble> = list_named_ensembles(&project).collect();
        let found: Vec<(&str, usize)> = listed.iter().map(|one| (one.name.as_str(), one.errors.len())).collect();
        let expected = listed[0].errors.len();
        assert!(expected > 0);
        assert_eq!(found, [("inner", expected), ("outer", 1), ("sound", 0)]);
        assert!(
            listed
                .iter()
                .flat_map(|one| &one.errors)
                .all(|error| error.fix.is_none())
        );
        let shown = check_loaded_ensemble(&listed[0].loaded, &EnsembleFolder::for_file(&listed[0].file, &project));
        assert!(shown.iter().any(|finding| finding.fix.is_some()));
    }
}
