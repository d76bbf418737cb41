//! New ensembles: the files that `ensemble init` would write.

use std::path::{Path, PathBuf};

use ensemble_project::atomic_write::create_files;
use ensemble_project::project::Project;
use serde_json::{Value, json};

use super::file::forbidden_failure;
use super::required_text;
use crate::app::UiServerState;
use crate::reply::ApiFailure;

/// Creates the file of a new ensemble that can be run: `{name}`. Returns `{name, file}`. Never overwrites a file.
pub(super) fn create_ensemble_file(app: &UiServerState, given: &Value) -> Result<Value, ApiFailure> {
    let requested_name = required_text(given, "name")?.trim();
    let project = app.runs.runs().project();
    let mut files = (app.starter)(requested_name).ok_or_else(|| {
        let name_rule = "a name starts with a letter or a digit, contains only letters, digits, `_`, `.` and `-`, and does not end with `.test`";
        ApiFailure::bad_request(format!("`{requested_name}` cannot be the name of an ensemble: {name_rule}"))
    })?;
    let _one_at_a_time = app.write_lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let is_there = |path: &Path| project.folder.join(path).symlink_metadata().is_ok();
    files.retain(|file| !file.is_shared || !is_there(&file.path));
    let Some(path) = files.first().map(|file| file.path.clone()) else {
        return Err(ApiFailure::unavailable(
            "a new ensemble has no file: this is a bug in ensemble",
        ));
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut names = project.list_named_files().into_iter();
    let same = names.find(|(known, _)| *known == name).map(|(_, path)| path);
    let mut existing_paths = files.iter().map(|file| &file.path).filter(|path| is_there(path));
    if let Some(path) = same.or_else(|| existing_paths.next().cloned()) {
        let message = format!("`{}` exists already; choose another name", path.display());
        return Err(ApiFailure::conflict(message));
    }
    if let Some(file) = files
        .iter()
        .find(|file| !is_new_path_inside_project(project, &file.path))
    {
        let message = format!("`{}` is not inside the served folder", file.path.display());
        return Err(forbidden_failure(message));
    }
    // The ensemble comes last: it is not there without its scripts.
    let texts = files.iter().rev();
    let texts: Vec<(PathBuf, &str)> = texts
        .map(|file| (project.folder.join(&file.path), &*file.text))
        .collect();
    create_files(&project.folder, &texts).map_err(|(at, error)| {
        let file = project.relative_path(&texts[at].0);
        ApiFailure::unavailable(format!("`{}` cannot be written: {error}", file.display()))
    })?;
    Ok(json!({"name": name, "file": path}))
}

/// Returns whether the nearest existing parent of the path is a folder inside the project. The path itself need not exist.
fn is_new_path_inside_project(project: &Project, path: &Path) -> bool {
    let path = project.folder.join(path);
    let mut above = path.ancestors().skip(1);
    let nearest = above.find(|folder| folder.symlink_metadata().is_ok());
    nearest.is_some_and(|folder| folder.is_dir() && project.contains_file(folder))
}
