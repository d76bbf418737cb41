//! The inputs of `validate`: files, folders, patterns, names of ensembles, standard input.

use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use ignore::gitignore::Gitignore;

use super::exclusions::{Everywhere, base_of, globally, patterns_of};
use super::folders::{Found, Kind, Met, Walk, Wanted};
use crate::command::check::ValidateArgs;
use crate::command::check::settings::Settings;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::Surroundings;
use ensemble_language::source::Source;
use ensemble_project::ProjectError;
use ensemble_project::project::{read_source, read_stream};

/// An input: a file that is read later, or a text that was already read.
pub(crate) enum Input {
    /// A file, with its path as given.
    File(PathBuf),
    /// A file that was found in a folder or by a pattern. It need not be an ensemble.
    Found(PathBuf),
    /// A folder that cannot be read, and why.
    Unreadable(PathBuf, String),
    /// Standard input.
    Stdin(Source),
}

impl Input {
    /// The path of the input.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Found(path) | Self::Unreadable(path, _) => path,
            Self::Stdin(_) => Path::new("<stdin>"),
        }
    }

    /// The text of the input.
    pub(crate) fn read(&self) -> Result<Source, CliError> {
        match self {
            Self::File(path) | Self::Found(path) => Ok(read_source(path)?),
            Self::Unreadable(path, reason) => Err(CliError::from(ProjectError::Unreadable {
                path: path.clone(),
                reason: reason.clone(),
            })),
            Self::Stdin(source) => Ok(source.clone()),
        }
    }
}

/// The inputs of a call.
pub(crate) struct Inputs {
    /// All inputs in order.
    pub(crate) list: Vec<Input>,
    /// How many files and folders configurations exclude.
    pub(crate) excluded: usize,
    /// The files and folders that were left out, each with the reason.
    pub(crate) left_out: Vec<(PathBuf, &'static str)>,
}

/// All inputs in order, with the files of folders. Without a path: `ensembles`, or else the current folder.
pub(crate) fn inputs(
    args: &ValidateArgs,
    settings: &Settings<'_>,
    surroundings: &Surroundings,
) -> Result<Inputs, CliError> {
    let project = &surroundings.project;
    let default = if project.folder.join("ensembles").is_dir() {
        "ensembles"
    } else {
        "."
    };
    let default = [default.to_owned()];
    let paths = if args.paths.is_empty() {
        &default[..]
    } else {
        &args.paths
    };
    let mut walk = Walk::new(project, settings, everywhere(args, surroundings)?);
    let mut given: Vec<Given<'_>> = Vec::new();
    let mut stdin = None;
    for path in paths {
        walk.begin();
        given.push(match path.as_str() {
            "-" if stdin.is_some() => Given::Nothing,
            "-" => {
                let text: Arc<str> = read_stdin()?.into();
                stdin = Some((given.len(), Source::new("<stdin>", text)));
                Given::Nothing
            }
            path => search(path, args.force_exclude, &mut walk, surroundings)?,
        });
    }
    let (found, met) = walk.end();
    for (at, (given, met)) in given.iter().zip(&met).enumerate() {
        let is_blank = met.files == 0 && !found.iter().any(|found| found.group == at);
        if let Some(message) = given.without_files().filter(|_| is_blank) {
            return Err(CliError::usage_with_help(message, given.advice(met)));
        }
    }
    Ok(Inputs {
        list: in_order(found, stdin),
        excluded: met.iter().map(|met| met.excluded).sum(),
        left_out: met.into_iter().flat_map(|met| met.left_out).collect(),
    })
}

fn in_order(found: Vec<Found>, stdin: Option<(usize, Source)>) -> Vec<Input> {
    let input = |found: Found| match found.kind {
        Kind::Given => Input::File(found.shown),
        Kind::Found => Input::Found(found.shown),
        Kind::Unreadable(reason) => Input::Unreadable(found.shown, reason),
    };
    let Some((group, source)) = stdin else {
        return found.into_iter().map(input).collect();
    };
    let at = found.partition_point(|found| found.group < group);
    let mut list: Vec<Input> = found.into_iter().map(input).collect();
    list.insert(at, Input::Stdin(source));
    list
}

fn everywhere(args: &ValidateArgs, surroundings: &Surroundings) -> Result<Everywhere, CliError> {
    let folder = &surroundings.project.folder;
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let patterns = args.exclude.iter().map(String::as_str).enumerate();
    let (exclude, faults) = patterns_of(&folder, patterns);
    if let Some((index, reason)) = faults.first() {
        let pattern = &args.exclude[*index];
        return Err(CliError::usage(format!(
            "--exclude {pattern} is not a pattern: {reason}"
        )));
    }
    Ok(Everywhere {
        exclude,
        globally: if args.no_ignore { Gitignore::empty() } else { globally() },
        with_ignore_files: !args.no_ignore,
    })
}

/// The arguments that name files.
enum Given<'g> {
    Folder(&'g str),
    Pattern(&'g str),
    /// A file, standard input, or something that is left out.
    Nothing,
}

impl Given<'_> {
    fn without_files(&self) -> Option<String> {
        match self {
            Self::Folder(folder) => Some(format!("{folder} holds no .yaml or .yml file")),
            Self::Pattern(pattern) => Some(format!("no file matches {pattern}")),
            Self::Nothing => None,
        }
    }

    fn advice(&self, met: &Met) -> String {
        let left = [
            (
                met.excluded,
                "excluded; `--no-config` checks what the configuration excludes",
            ),
            (
                met.ignored,
                "ignored by `.gitignore` or `.ignore`; `--no-ignore` checks it",
            ),
        ];
        let left: Vec<String> = left
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, how)| format!("{} {how}", files_or_folders(number)))
            .collect();
        match (left.as_slice(), self) {
            ([], Self::Pattern(_)) => {
                "`*` and `?` stand for parts of a name, `**` for any number of folders".to_owned()
            }
            ([], _) => "hidden folders, `node_modules`, `target` and virtual environments are not searched".to_owned(),
            (left, _) => left.join("; "),
        }
    }
}

/// `1 file or folder is`, `2 files or folders are`
fn files_or_folders(number: usize) -> String {
    match number {
        1 => "1 file or folder is".to_owned(),
        number => format!("{number} files or folders are"),
    }
}

fn search<'g>(
    given: &'g str,
    forces: bool,
    walk: &mut Walk<'_>,
    surroundings: &Surroundings,
) -> Result<Given<'g>, CliError> {
    let path = PathBuf::from(given);
    let absolute = surroundings.project.folder.join(&path);
    if absolute.is_dir() {
        if forces && walk.is_left(&path) {
            return Ok(Given::Nothing);
        }
        walk.folder(&path, Wanted::Yaml);
        return Ok(Given::Folder(given));
    }
    if !absolute.is_file() && given.contains(['*', '?', '[']) {
        matching(given, walk, surroundings)?;
        return Ok(Given::Pattern(given));
    }
    let file = match absolute.is_file() {
        true => path,
        false => surroundings.project.ensemble_file(given)?,
    };
    if !(forces && walk.is_left(&file)) {
        walk.file(&file);
    }
    Ok(Given::Nothing)
}

/// Searches the files that match a pattern. A matching folder is searched.
fn matching(pattern: &str, walk: &mut Walk<'_>, surroundings: &Surroundings) -> Result<(), CliError> {
    let plain = Path::new(pattern)
        .components()
        .filter(|part| *part != Component::CurDir);
    let plain: PathBuf = plain.collect();
    let (base, depth) = base_of(&plain);
    // Characters of the folder's own name that are special in a pattern are escaped.
    let folder = glob::Pattern::escape(&surroundings.project.folder.display().to_string());
    let whole = Path::new(&folder).join(&plain);
    let pattern = glob::Pattern::new(&whole.display().to_string())
        .map_err(|error| CliError::usage(format!("{pattern} is not a pattern: {}", error.msg)))?;
    if surroundings.project.folder.join(&base).is_dir() {
        let base = surroundings.project.relative(&base);
        walk.folder(&base, Wanted::Matching(Rc::new(pattern), depth));
    }
    Ok(())
}

/// Reads standard input as text.
pub(crate) fn read_stdin() -> Result<String, CliError> {
    Ok(read_stream(std::io::stdin().lock(), "standard input")?)
}
