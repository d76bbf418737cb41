//! Check of the ensembles that a worker runs.
//!
//! **Invariant:** unless the operator allows more, a text runs only if a file of the served folder has the text. Any client of the
//! engine can send any text, and a text names the commands that are started.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of the served folder are listed here"
)]

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ensemble_language::data::sha256_of_text;
use ensemble_project::Project;

/// Maximum number of files next to an ensemble that are compared with a text.
const MAX_COMPARED_FILES: usize = 1_000;

/// Check of the ensemble texts in requests.
#[derive(Debug)]
pub struct ServedEnsembleCheck {
    allows_any_text: bool,
    /// Digests of texts that files of the folder had since the start of the worker. A run continues with its text even if the file
    /// has changed.
    known_digests: Mutex<HashSet<String>>,
}

impl ServedEnsembleCheck {
    /// Creates the check for a worker that runs only the ensembles of its folder.
    pub fn for_folder_ensembles() -> Self {
        Self {
            allows_any_text: false,
            known_digests: Mutex::default(),
        }
    }

    /// Creates the check for a worker that runs every text. The paths of scripts still start in the folder.
    pub fn for_any_text() -> Self {
        Self {
            allows_any_text: true,
            ..Self::for_folder_ensembles()
        }
    }

    /// Checks that the worker may run the text, and returns the absolute path of its file. Remembers the text.
    ///
    /// # Errors
    /// The path is not inside the served folder, or no file there has the text.
    pub fn check_served_text(&self, project: &Project, file: &str, text: &str) -> Result<PathBuf, String> {
        let mut parts = Path::new(file).components();
        let is_inside = !file.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || !project.contains_file(Path::new(file)) {
            return Err(format!("`{file}` is not inside the folder that this worker serves"));
        }
        let path = project.folder.join(file);
        if self.allows_any_text {
            return Ok(path);
        }
        let digest = sha256_of_text(text);
        // Files are read without the lock: other requests do not wait for them.
        if self.lock_digests().contains(&digest) {
            return Ok(path);
        }
        if is_text_of_file_or_sibling(project, Path::new(file), text) {
            self.lock_digests().insert(digest);
            return Ok(path);
        }
        Err(format!(
            "the text of `{file}` is not that of a file in the folder that this worker serves; copy the file to all workers, also that of \
             an older version, or start them with --unsafe-any-ensemble"
        ))
    }

    /// Locks the digests of known texts.
    fn lock_digests(&self) -> MutexGuard<'_, HashSet<String>> {
        self.known_digests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the file, or another YAML file in its folder, has this text.
fn is_text_of_file_or_sibling(project: &Project, file: &Path, text: &str) -> bool {
    let has_text = |path: &Path| {
        project.contains_file(path) && project.read_file(path).is_ok_and(|source| **source.text() == *text)
    };
    if has_text(file) {
        return true;
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let entries = std::fs::read_dir(project.folder.join(folder))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries
        .take(MAX_COMPARED_FILES)
        .map(|entry| folder.join(entry.file_name()));
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    names.filter(is_yaml).any(|path| has_text(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: e\nagents: [{name: a, script: echo}]\n";

    #[test]
    fn only_texts_of_the_folder_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let served = folder.path().join("served");
        std::fs::create_dir_all(served.join("in")).expect("a folder");
        std::fs::write(served.join("in/e.yaml"), TEXT).expect("written");
        std::fs::write(folder.path().join("outside.yaml"), "name: outside\n").expect("written");
        std::os::unix::fs::symlink("../outside.yaml", served.join("link.yaml")).expect("a link");
        let (project, check) = (
            Project::from_folder(&served),
            ServedEnsembleCheck::for_folder_ensembles(),
        );
        let is_run = |file: &str, text: &str| check.check_served_text(&project, file, text).is_ok();
        assert!(is_run("in/e.yaml", TEXT));
        for (file, text) in [
            ("in/e.yaml", "name: e\nagents: [{name: a, script: 'touch pwned'}]\n"),
            ("new.yaml", TEXT.trim_end()),
            ("link.yaml", "name: outside\n"),
        ] {
            assert!(!is_run(file, text), "{file}");
        }
        let any = ServedEnsembleCheck::for_any_text();
        any.check_served_text(&project, "new.yaml", "name: any\n")
            .expect("it is run");
        for file in [
            "../outside.yaml",
            "/etc/x.yaml",
            "in/../../outside.yaml",
            "link.yaml",
            ".",
            "",
        ] {
            let error = any
                .check_served_text(&project, file, "name: outside\n")
                .expect_err(file);
            assert!(error.contains("is not inside the folder"), "{error}");
        }
    }

    #[test]
    fn a_run_goes_on_with_the_text_that_it_began_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("e.yaml");
        std::fs::write(&file, TEXT).expect("written");
        let (project, check) = (
            Project::from_folder(folder.path()),
            ServedEnsembleCheck::for_folder_ensembles(),
        );
        check
            .check_served_text(&project, "e.yaml", TEXT)
            .expect("it is that of the file");
        std::fs::write(&file, "name: new\n").expect("written");
        check
            .check_served_text(&project, "e.yaml", TEXT)
            .expect("it was that of the file");
        let restarted = ServedEnsembleCheck::for_folder_ensembles();
        restarted
            .check_served_text(&project, "e.yaml", TEXT)
            .expect_err("no file has it");
        std::fs::write(folder.path().join("e-1.yaml"), TEXT).expect("written");
        restarted
            .check_served_text(&project, "e.yaml", TEXT)
            .expect("the old version is kept");
    }
}
