//! The files of ensembles, and test files: read, and replaced if they are as the page has read them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_ide::analysis::rename::in_other;
use ensemble_language::cases::is_test_file;
use ensemble_language::loader::load;
use ensemble_language::source::Source;
use ensemble_project::atomic_write::{ReplaceError, Replacement, replace_all};
use ensemble_project::project::{Project, read_source};
use hyper::StatusCode;
use serde_json::{Value, json};
use sha2::Digest as _;

use super::{ends, wanted};
use crate::app::App;
use crate::reply::Failure;

/// The largest file that is edited: with its escapes it fits into a request.
const LARGEST: usize = 4 << 20;

/// A file that may be read and written, with its text.
pub(super) struct Open {
    /// As the list has it.
    pub(super) path: PathBuf,
    /// The bytes of the file.
    pub(super) disk: Source,
}

/// `{file, text, digest}`.
pub(super) fn document(app: &App, file: &str) -> Result<Value, Failure> {
    let open = open(app, file)?;
    let mut document = state(open.disk.text());
    document["file"] = file.into();
    Ok(document)
}

/// `{text, digest}` of what the file contains.
pub(super) fn state(disk: &str) -> Value {
    json!({"text": ends::shown(disk), "digest": digest(disk)})
}

/// Returns a digest of texts.
pub(super) fn digest(text: &str) -> String {
    let digest = sha2::Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file that the list shows under this path.
pub(super) fn listed(app: &App, file: &str) -> Result<PathBuf, Failure> {
    let project = app.runs.runs().project();
    let is_it = |path: &PathBuf| path.display().to_string() == file;
    let mut paths = project.named_files().into_iter().map(|(_, path)| path);
    let path = paths.find(is_it);
    let path = path.ok_or_else(|| Failure::missing(format!("there is no ensemble `{file}` in the list")))?;
    match project.holds(&path) {
        true => Ok(path),
        false => Err(forbidden(format!(
            "`{file}` is not inside the served folder, so it is not edited here"
        ))),
    }
}

/// The file that the list shows under this path, with its text.
pub(super) fn open(app: &App, file: &str) -> Result<Open, Failure> {
    let path = listed(app, file)?;
    let disk = app.runs.runs().project().read(&path)?;
    if disk.text().len() > LARGEST {
        let told = format!(
            "`{file}` is larger than {} MiB, so it is not edited here",
            LARGEST >> 20
        );
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", told));
    }
    match is_edited(&path, &disk) {
        true => Ok(Open { path, disk }),
        false => Err(Failure::missing(format!("`{file}` is no ensemble and no test file"))),
    }
}

/// Returns whether a file with this path and this text is edited on the page.
pub(super) fn is_edited(path: &Path, text: &Source) -> bool {
    is_test_file(&path.to_string_lossy()) || load(text).is_ensemble()
}

/// A text that stands in a file of the list, or will: `{file, text}`.
pub(super) fn given_text(app: &App, given: &Value) -> Result<(PathBuf, Arc<str>), Failure> {
    let path = listed(app, wanted(given, "file")?)?;
    Ok((path, wanted(given, "text")?.into()))
}

/// Replaces the file by the text of the page, if it still has the digest: `{file, text, digest, scripts}`.
///
/// `scripts` are those in which an agent has got another name: `{file, digest, names: [[old, new, is_stored], …]}`. Either all
/// files are written or none, and none if one of them has changed. The answer is `{digest, scripts: {file: digest}}`.
pub(super) fn save(app: &App, given: &Value) -> Result<Value, Failure> {
    let (file, page) = (wanted(given, "file")?, wanted(given, "text")?);
    let _one_at_a_time = app.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let open = open(app, file)?;
    let disk = open.disk.text();
    if digest(disk) != wanted(given, "digest")? {
        return Err(changed(file));
    }
    let text = ends::written(disk, page);
    if page.len() > LARGEST {
        let told = format!("the text is larger than {} MiB", LARGEST >> 20);
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", told));
    }
    let source = Source::new(open.disk.name(), text.as_str());
    if !is_edited(&open.path, &source) {
        let told = "this is no ensemble any more: it has no list `agents`, and the page would not find it again";
        return Err(Failure::wrong(told));
    }
    let project = app.runs.runs().project();
    let scripts = given["scripts"].as_array().into_iter().flatten();
    let scripts = scripts.map(|script| renamed(project, script));
    let scripts = scripts.collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<(PathBuf, &str, &str)> = Vec::new();
    for (path, before, after) in &scripts {
        files.push((path.clone(), before, after));
    }
    if *text != **disk {
        files.push((open.path, disk, &text));
    }
    put(project, &files)?;
    let digests = scripts
        .iter()
        .map(|(path, _, after)| (path.display().to_string(), digest(after).into()));
    let digests: serde_json::Map<_, _> = digests.collect();
    Ok(json!({"digest": digest(&text), "scripts": digests}))
}

/// A script or a test file in which agents have other names: its path, its text, and its new text.
fn renamed(project: &Project, given: &Value) -> Result<(PathBuf, String, String), Failure> {
    let file = wanted(given, "file")?;
    let path = PathBuf::from(file);
    let is_script = path.extension().is_some_and(|end| end == "rhai");
    if !(is_script || is_test_file(file)) || !project.holds(&path) {
        let message = format!("`{file}` is no script and no test file inside the served folder");
        return Err(forbidden(message));
    }
    let before = read_source(&project.folder.join(&path))?.text().to_string();
    if digest(&before) != wanted(given, "digest")? {
        return Err(changed(file));
    }
    let mut after = before.clone();
    for name in given["names"].as_array().into_iter().flatten() {
        let (Some(old), Some(new)) = (name[0].as_str(), name[1].as_str()) else {
            return Err(Failure::wrong("`names` is a list of `[old, new, is_stored]`"));
        };
        let is_stored = name[2].as_bool().unwrap_or_default();
        after = in_other(&path, &after, old, new, is_stored).map_err(Failure::wrong)?;
    }
    Ok((path, before, after))
}

/// Replaces all files, or none: each with its path, its text, and its new text.
fn put(project: &Project, files: &[(PathBuf, &str, &str)]) -> Result<(), Failure> {
    let paths: Vec<PathBuf> = files.iter().map(|(path, ..)| project.folder.join(path)).collect();
    let replacements: Vec<Replacement<'_>> = files
        .iter()
        .zip(&paths)
        .map(|((_, before, after), path)| Replacement { path, before, after })
        .collect();
    replace_all(&replacements).map_err(|none| {
        let shown = |at: usize| files[at].0.display().to_string();
        let file = shown(none.at);
        let mut failure = match none.why {
            ReplaceError::Changed => changed(&file),
            ReplaceError::ReadOnly => forbidden(format!("`{file}` is read-only")),
            ReplaceError::Refused(why) => Failure::gone(format!("`{file}` cannot be written: {why}")),
        };
        if !none.left.is_empty() {
            let left: Vec<String> = none.left.into_iter().map(shown).collect();
            failure.message += &format!("; these files have their new texts already: {}", left.join(", "));
        }
        failure
    })
}

fn changed(file: &str) -> Failure {
    Failure::new(
        StatusCode::CONFLICT,
        "changed",
        format!("`{file}` was changed on disk since it was read"),
    )
}

pub(super) fn forbidden(message: String) -> Failure {
    Failure::new(StatusCode::FORBIDDEN, "forbidden", message)
}
