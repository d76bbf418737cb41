//! The files of a folder.

#![expect(clippy::disallowed_methods, reason = "it lists the files beside an ensemble")]

use std::path::{Path, PathBuf};

use ensemble_language::source::Source;
use ensemble_runs::error::RunError;
use ensemble_runs::project::read_source;

/// The text of a file. Nobody waits for a pipe or a device.
pub(super) fn read(path: &Path) -> Result<Source, RunError> {
    match path.metadata() {
        Ok(known) if !known.is_file() => Err(RunError::Unreadable {
            path: path.to_owned(),
            reason: "it is not a regular file".to_owned(),
        }),
        _ => read_source(path),
    }
}

/// The YAML files of a folder, at most so many.
pub(super) fn yaml_in(folder: &Path, most: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    entries.map(|entry| entry.path()).filter(is_yaml).take(most).collect()
}
