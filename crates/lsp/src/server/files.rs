//! The files of a folder.

#![expect(clippy::disallowed_methods, reason = "it lists the files beside an ensemble")]

use std::path::{Path, PathBuf};

/// The YAML files of a folder, at most so many.
pub(super) fn yaml_in(folder: &Path, most: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    entries.map(|entry| entry.path()).filter(is_yaml).take(most).collect()
}
