//! The inputs of `validate`: files, folders, patterns, names of ensembles, standard input.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::CliError;
use super::surroundings::Surroundings;
use ensemble_language::source::Source;
use ensemble_runs::RunError;
use ensemble_runs::project::{read_source, read_stream};

/// One input: a file, which is read later, or a text that was already read.
pub(super) enum Input {
    /// A file, with its path as given.
    File(PathBuf),
    /// A file that was found in a folder or by a pattern. It need not be an ensemble.
    Found(PathBuf),
    /// Standard input.
    Stdin(Source),
}

impl Input {
    /// The path of the input.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Found(path) => path,
            Self::Stdin(_) => Path::new("<stdin>"),
        }
    }

    /// The text of the input.
    pub(super) fn read(&self) -> Result<Source, CliError> {
        match self {
            Self::File(path) | Self::Found(path) => Ok(read_source(path)?),
            Self::Stdin(source) => Ok(source.clone()),
        }
    }
}

/// All inputs in order, with the files of folders. Without a path: `ensembles`, or else the current folder.
pub(super) fn inputs(paths: &[String], surroundings: &Surroundings) -> Result<Vec<Input>, CliError> {
    let default = if surroundings.project.folder.join("ensembles").is_dir() {
        "ensembles"
    } else {
        "."
    };
    let default = [default.to_owned()];
    let paths = if paths.is_empty() { &default[..] } else { paths };
    let mut inputs = Vec::new();
    for given in paths {
        if given == "-" {
            let text: Arc<str> = read_stdin()?.into();
            inputs.push(Input::Stdin(Source::new("<stdin>", text)));
            continue;
        }
        let path = PathBuf::from(given);
        let absolute = surroundings.project.folder.join(&path);
        if absolute.is_dir() {
            let files = files_in(&path, &absolute)?;
            if files.is_empty() {
                return Err(CliError::usage(format!("{given} holds no .yaml or .yml file")));
            }
            inputs.extend(files.into_iter().map(Input::Found));
        } else if absolute.is_file() {
            inputs.push(Input::File(path));
        } else if given.contains(['*', '?', '[']) {
            inputs.extend(matching(given, surroundings)?.into_iter().map(Input::Found));
        } else {
            inputs.push(Input::File(surroundings.project.ensemble_file(given)?));
        }
    }
    Ok(inputs)
}

/// The files that match a pattern, in the order of their names. A matching folder is searched.
fn matching(pattern: &str, surroundings: &Surroundings) -> Result<Vec<PathBuf>, CliError> {
    let not_hidden = glob::MatchOptions {
        require_literal_leading_dot: true,
        require_literal_separator: true,
        ..glob::MatchOptions::default()
    };
    // Characters of the folder's own name that are special in a pattern are escaped.
    let folder = glob::Pattern::escape(&surroundings.project.folder.display().to_string());
    let whole = Path::new(&folder).join(pattern);
    let found = glob::glob_with(&whole.display().to_string(), not_hidden)
        .map_err(|error| CliError::usage(format!("{pattern} is not a pattern: {}", error.msg)))?;
    let mut files = Vec::new();
    for path in found.filter_map(Result::ok) {
        let shown = surroundings.project.relative(&path);
        if path.is_dir() {
            files.extend(files_in(&shown, &path)?);
        } else if path.is_file() {
            files.push(shown);
        }
    }
    // A file may match the pattern, and also be in a folder that matches.
    files.sort();
    files.dedup();
    if files.is_empty() {
        return Err(CliError::usage_with_help(
            format!("no file matches {pattern}"),
            "`*` and `?` stand for parts of a name, `**` for any number of folders",
        ));
    }
    Ok(files)
}

/// The YAML files below a folder in the order of their names; folders whose names begin with a dot are skipped.
fn files_in(shown: &Path, folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    search(shown, folder, &mut Vec::new(), &mut files)?;
    Ok(files)
}

/// `links`: the folders to which the links on the way to this folder lead.
fn search(shown: &Path, folder: &Path, links: &mut Vec<PathBuf>, files: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let unreadable = |error: std::io::Error| RunError::Unreadable {
        path: shown.to_owned(),
        reason: error.to_string(),
    };
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .map_err(unreadable)?
        .filter_map(Result::ok)
        .collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let name = Path::new(&name);
        // The folder entry contains the type of the file; only a link must be followed.
        let Ok(mut kind) = entry.file_type() else {
            continue;
        };
        let is_link = kind.is_symlink();
        if is_link {
            match std::fs::metadata(entry.path()) {
                Ok(data) => kind = data.file_type(),
                Err(_) => continue,
            }
        }
        let is_hidden = name.to_string_lossy().starts_with('.');
        if kind.is_dir() && !is_hidden && is_link {
            let Some(target) = new_target(&entry.path(), folder, links) else {
                continue;
            };
            links.push(target);
            search(&shown.join(name), &entry.path(), links, files)?;
            links.pop();
        } else if kind.is_dir() && !is_hidden {
            search(&shown.join(name), &entry.path(), links, files)?;
        } else if kind.is_file() && name.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            files.push(shown.join(name));
        }
    }
    Ok(())
}

/// The folder to which a link in `folder` leads; `None` if that folder is being searched already.
fn new_target(link: &Path, folder: &Path, links: &[PathBuf]) -> Option<PathBuf> {
    let target = link.canonicalize().ok()?;
    let is_around = folder.canonicalize().is_ok_and(|folder| folder.starts_with(&target));
    (!is_around && !links.contains(&target)).then_some(target)
}

/// Reads standard input as text.
pub(super) fn read_stdin() -> Result<String, CliError> {
    Ok(read_stream(std::io::stdin().lock(), "standard input")?)
}
