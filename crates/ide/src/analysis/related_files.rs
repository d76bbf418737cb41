//! The files next to an ensemble.

#![expect(clippy::disallowed_methods, reason = "it lists the files of a folder")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_language::cases::is_test_file;
use ensemble_language::loader::document::YamlNode;
use ensemble_project::project::read_source;

use super::{document_tree, tested_ensemble_path};

/// The maximum number of files of a folder that are searched.
const MAX_SEARCHED_FILES: usize = 500;

/// Returns whether another ensemble of the folder contains the file name of the script. Reads the files from disk.
pub fn is_script_named_elsewhere(script: &Path, ensemble: &Path) -> bool {
    let (Some(folder), Some(name)) = (ensemble.parent(), script.file_name().and_then(|name| name.to_str())) else {
        return true;
    };
    let mut ensemble_files = list_yaml_files(folder).into_iter();
    ensemble_files.any(|path| path != ensemble && read_source(&path).is_ok_and(|source| source.text().contains(name)))
}

/// Lists the test files next to an ensemble that test it, with their texts on disk.
pub fn read_test_files_beside(ensemble: &Path) -> Vec<(PathBuf, String)> {
    let files = ensemble.parent().map(list_yaml_files).unwrap_or_default();
    let is_test = |path: &PathBuf| {
        let name = path.file_name();
        name.is_some_and(|name| is_test_file(&name.to_string_lossy()))
    };
    let texts = files.into_iter().filter(is_test).filter_map(|path| {
        let text = read_source(&path).ok()?.text().to_string();
        Some((path, text))
    });
    texts
        .filter(|(path, text)| tested_ensemble_path(text, path).as_deref() == Some(ensemble))
        .collect()
}

/// Lists the other ensembles of the folder that pass an input with this name to the ensemble, relative to `root`. Reads the files from disk.
pub fn list_ensembles_passing_input(ensemble: &Path, root: &Path, input: &str) -> Vec<PathBuf> {
    let (Some(folder), Some(file)) = (ensemble.parent(), ensemble.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let stem = ensemble.file_stem().and_then(|stem| stem.to_str()).unwrap_or(file);
    let passes_input = |agent: &Arc<YamlNode>| {
        let called = agent.get("ensemble").and_then(|node| node.string_text());
        let is_called =
            called.is_some_and(|name| **name == *stem || Path::new(&**name).file_name() == Some(file.as_ref()));
        is_called && agent.get("inputs").is_some_and(|inputs| inputs.get(input).is_some())
    };
    let passes_in_file = |path: &PathBuf| {
        let source = read_source(path).ok().filter(|_| path != ensemble);
        let document = source.and_then(|source| document_tree::parse_tolerantly(source.text(), None));
        document.is_some_and(|document| document_tree::agent_nodes(&document).iter().any(passes_input))
    };
    let files = list_yaml_files(folder).into_iter().filter(passes_in_file);
    files
        .map(|path| path.strip_prefix(root).map(Path::to_owned).unwrap_or(path))
        .collect()
}

/// Lists the YAML files of a folder, at most [`MAX_SEARCHED_FILES`].
fn list_yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    entries
        .map(|entry| entry.path())
        .filter(is_yaml)
        .take(MAX_SEARCHED_FILES)
        .collect()
}
