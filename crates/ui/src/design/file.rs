//! The files of ensembles, and test files: read, and replaced if they are as the page has read them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_ide::analysis::name_occurrences::{NamedItemKind, RenameTarget};
use ensemble_ide::analysis::rename::rename_in_other_file;
use ensemble_language::cases::is_test_file;
use ensemble_language::loader::load_ensemble;
use ensemble_language::source::SourceText;
use ensemble_project::atomic_write::{FileReplaceError, FileReplacement, replace_files_if_unchanged};
use ensemble_project::project::{Project, read_source};
use hyper::StatusCode;
use serde_json::{Value, json};
use sha2::Digest as _;

use super::{line_ends, required_text};
use crate::app::UiServerState;
use crate::reply::ApiFailure;

/// Maximum size of an edited file: with escapes it fits into a request.
const MAX_EDITABLE_BYTES: usize = 4 << 20;

/// Editable file with its text.
pub(super) struct LoadedEditableFile {
    /// As the list has it.
    pub(super) path: PathBuf,
    /// The bytes of the file.
    pub(super) disk: SourceText,
}

/// Loads a file for the page: `{file, text, digest}`.
pub(super) fn load_file_json(app: &UiServerState, file: &str) -> Result<Value, ApiFailure> {
    let open = load_editable_file(app, file)?;
    let mut document = text_with_digest_json(open.disk.text());
    document["file"] = file.into();
    Ok(document)
}

/// Returns `{text, digest}` of the content of a file.
pub(super) fn text_with_digest_json(disk: &str) -> Value {
    json!({"text": line_ends::to_page_text(disk), "digest": sha256_hex_digest(disk)})
}

/// Returns the SHA-256 digest of a text.
pub(super) fn sha256_hex_digest(text: &str) -> String {
    let digest = sha2::Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Resolves a file that the list of the page shows under this path.
pub(super) fn resolve_listed_file(app: &UiServerState, file: &str) -> Result<PathBuf, ApiFailure> {
    let project = app.runs.runs().project();
    let is_it = |path: &PathBuf| path.display().to_string() == file;
    let mut paths = project.list_named_files().into_iter().map(|(_, path)| path);
    let path = paths.find(is_it);
    let path = path.ok_or_else(|| ApiFailure::not_found(format!("there is no ensemble `{file}` in the list")))?;
    match project.contains_file(&path) {
        true => Ok(path),
        false => Err(forbidden_failure(format!(
            "`{file}` is not inside the served folder, so it is not edited here"
        ))),
    }
}

/// Loads a listed file for the editor. Fails if it is not listed, outside of the folder, too large or not editable.
pub(super) fn load_editable_file(app: &UiServerState, file: &str) -> Result<LoadedEditableFile, ApiFailure> {
    let path = resolve_listed_file(app, file)?;
    let disk = app.runs.runs().project().read_file(&path)?;
    if disk.text().len() > MAX_EDITABLE_BYTES {
        let message = format!(
            "`{file}` is larger than {} MiB, so it is not edited here",
            MAX_EDITABLE_BYTES >> 20
        );
        return Err(ApiFailure::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message));
    }
    match is_ensemble_or_test_file(&path, &disk) {
        true => Ok(LoadedEditableFile { path, disk }),
        false => Err(ApiFailure::not_found(format!(
            "`{file}` is neither an ensemble nor a test file"
        ))),
    }
}

/// Returns whether the page can edit a file with this path and text.
pub(super) fn is_ensemble_or_test_file(path: &Path, text: &SourceText) -> bool {
    is_test_file(&path.to_string_lossy()) || load_ensemble(text).looks_like_ensemble()
}

/// Parses `{file, text}` and resolves the listed file.
pub(super) fn resolve_file_and_text(app: &UiServerState, given: &Value) -> Result<(PathBuf, Arc<str>), ApiFailure> {
    let path = resolve_listed_file(app, required_text(given, "file")?)?;
    Ok((path, required_text(given, "text")?.into()))
}

/// Replaces the file by the text of the page, if its digest is unchanged: `{file, text, digest, scripts}`.
///
/// `scripts` are those in which an agent or an input has got another name:
/// `{file, digest, names: [{subject, old, new, is_stored}, …]}`. Either all files are written or none, and none if one of them has changed. The answer is `{digest, scripts: {file: digest}}`.
pub(super) fn save_file_and_scripts(app: &UiServerState, given: &Value) -> Result<Value, ApiFailure> {
    let (file, page) = (required_text(given, "file")?, required_text(given, "text")?);
    let _one_at_a_time = app.write_lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let open = load_editable_file(app, file)?;
    let disk = open.disk.text();
    if sha256_hex_digest(disk) != required_text(given, "digest")? {
        return Err(changed_on_disk_failure(file));
    }
    let text = line_ends::to_disk_text(disk, page);
    if page.len() > MAX_EDITABLE_BYTES {
        let message = format!("the text is larger than {} MiB", MAX_EDITABLE_BYTES >> 20);
        return Err(ApiFailure::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message));
    }
    let source = SourceText::new(open.disk.name(), text.as_str());
    if !is_ensemble_or_test_file(&open.path, &source) {
        let message = "the text is not an ensemble any more: the list `agents` is missing";
        return Err(ApiFailure::bad_request(message));
    }
    let project = app.runs.runs().project();
    let scripts = given["scripts"].as_array().into_iter().flatten();
    let scripts = scripts.map(|script| rename_agents_in_file(project, script));
    let scripts = scripts.collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<(PathBuf, &str, &str)> = Vec::new();
    for (path, before, after) in &scripts {
        files.push((path.clone(), before, after));
    }
    if *text != **disk {
        files.push((open.path, disk, &text));
    }
    replace_all_or_no_files(project, &files)?;
    let digests = scripts
        .iter()
        .map(|(path, _, after)| (path.display().to_string(), sha256_hex_digest(after).into()));
    let digests: serde_json::Map<_, _> = digests.collect();
    Ok(json!({"digest": sha256_hex_digest(&text), "scripts": digests}))
}

/// Renames agents and inputs in a script or test file. Returns its path, its text, and its new text without writing.
fn rename_agents_in_file(project: &Project, given: &Value) -> Result<(PathBuf, String, String), ApiFailure> {
    let file = required_text(given, "file")?;
    let path = PathBuf::from(file);
    let is_script = path.extension().is_some_and(|end| end == "rhai");
    if !(is_script || is_test_file(file)) || !project.contains_file(&path) {
        let message = format!("`{file}` is neither a script nor a test file inside the served folder");
        return Err(forbidden_failure(message));
    }
    let before = read_source(&project.folder.join(&path))?.text().to_string();
    if sha256_hex_digest(&before) != required_text(given, "digest")? {
        return Err(changed_on_disk_failure(file));
    }
    let mut after = before.clone();
    for name in given["names"].as_array().into_iter().flatten() {
        let subject = match name["subject"].as_str() {
            Some("agent") => NamedItemKind::Agent,
            Some("input") => NamedItemKind::Input,
            _ => return Err(ApiFailure::bad_request("`subject` must be `agent` or `input`")),
        };
        let target = RenameTarget {
            subject,
            name: required_text(name, "old")?,
            is_stored: name["is_stored"].as_bool().unwrap_or_default(),
        };
        let new = required_text(name, "new")?;
        after = rename_in_other_file(&path, &after, &target, new).map_err(ApiFailure::bad_request)?;
    }
    Ok((path, before, after))
}

/// Replaces all files or none, each given with its path, its text, and its new text.
fn replace_all_or_no_files(project: &Project, files: &[(PathBuf, &str, &str)]) -> Result<(), ApiFailure> {
    let paths: Vec<PathBuf> = files.iter().map(|(path, ..)| project.folder.join(path)).collect();
    let replacements: Vec<FileReplacement<'_>> = files
        .iter()
        .zip(&paths)
        .map(|((_, before, after), path)| FileReplacement {
            path,
            old_text: before,
            new_text: after,
        })
        .collect();
    replace_files_if_unchanged(&project.folder, &replacements).map_err(|none| {
        let format_path = |at: usize| files[at].0.display().to_string();
        let file = format_path(none.at);
        let mut failure = match none.error {
            FileReplaceError::Changed => changed_on_disk_failure(&file),
            FileReplaceError::ReadOnly => forbidden_failure(format!("`{file}` is read-only")),
            FileReplaceError::Refused(why) => ApiFailure::unavailable(format!("`{file}` cannot be written: {why}")),
        };
        if !none.replaced_files.is_empty() {
            let replaced_paths: Vec<String> = none.replaced_files.into_iter().map(format_path).collect();
            failure.message += &format!("; these files were already changed: {}", replaced_paths.join(", "));
        }
        failure
    })
}

/// Creates the failure of a file that was changed on disk.
fn changed_on_disk_failure(file: &str) -> ApiFailure {
    ApiFailure::new(
        StatusCode::CONFLICT,
        "changed",
        format!("`{file}` was changed on disk since it was read"),
    )
}

/// Creates the failure of a forbidden request.
pub(super) fn forbidden_failure(message: String) -> ApiFailure {
    ApiFailure::new(StatusCode::FORBIDDEN, "forbidden", message)
}
