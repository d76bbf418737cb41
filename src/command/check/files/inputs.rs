//! Inputs of `ensemble validate`: files, folders, patterns, names of ensembles, standard input.

use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use ignore::gitignore::Gitignore;

use super::exclusions::{GlobalSearchRules, load_global_git_excludes, parse_patterns, split_pattern_base};
use super::folders::{ArgumentSearchTotals, FileSearch, FoundPath, FoundPathKind, WantedFiles};
use crate::command::check::ValidateArgs;
use crate::command::check::settings::ValidateConfigCache;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_language::source::SourceText;
use ensemble_project::ProjectError;
use ensemble_project::project::{read_source, read_text_stream};

/// Input: a file that is read later, or a text that was already read.
pub(crate) enum ValidateInput {
    /// A file, with the path of the argument.
    File(PathBuf),
    /// A file that was found in a folder or by a pattern, and might not be an ensemble.
    Found(PathBuf),
    /// A folder that cannot be read, with the reason.
    Unreadable(PathBuf, String),
    /// Standard input.
    Stdin(SourceText),
}

impl ValidateInput {
    /// Returns the path of the input, or `<stdin>`.
    pub(crate) fn input_path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Found(path) | Self::Unreadable(path, _) => path,
            Self::Stdin(_) => Path::new("<stdin>"),
        }
    }

    /// Returns the text of the input, and reads the file if necessary.
    pub(crate) fn read_source(&self) -> Result<SourceText, CliError> {
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

/// Inputs of one call of `ensemble validate`.
pub(crate) struct ValidateInputs {
    /// All inputs in order.
    pub(crate) list: Vec<ValidateInput>,
    /// Number of files and folders that configurations exclude.
    pub(crate) excluded_count: usize,
    /// Skipped files and folders, each with the reason.
    pub(crate) skipped: Vec<(PathBuf, &'static str)>,
}

/// Collects all inputs of the arguments in order, with the files of folders. Without a path, searches `ensembles` or the current folder.
///
/// # Errors
/// An argument selects no file, or a pattern is not valid.
pub(crate) fn collect_inputs(
    args: &ValidateArgs,
    settings: &ValidateConfigCache<'_>,
    surroundings: &CliEnvironment,
) -> Result<ValidateInputs, CliError> {
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
    let mut walk = FileSearch::new(project, settings, build_global_rules(args, surroundings)?);
    let mut path_arguments: Vec<PathArgumentKind<'_>> = Vec::new();
    let mut stdin = None;
    for path in paths {
        walk.start_argument();
        path_arguments.push(match path.as_str() {
            "-" if stdin.is_some() => PathArgumentKind::Nothing,
            "-" => {
                let text: Arc<str> = read_stdin()?.into();
                stdin = Some((path_arguments.len(), SourceText::new("<stdin>", text)));
                PathArgumentKind::Nothing
            }
            path => search_path_argument(path, args.force_exclude, &mut walk, surroundings)?,
        });
    }
    let (found, met) = walk.finish_search();
    for (at, (given, met)) in path_arguments.iter().zip(&met).enumerate() {
        let is_blank = met.files == 0 && !found.iter().any(|found| found.group == at);
        if let Some(message) = given.no_files_message().filter(|_| is_blank) {
            return Err(CliError::usage_error_with_help(message, given.no_files_help(met)));
        }
    }
    Ok(ValidateInputs {
        list: merge_stdin_into_order(found, stdin),
        excluded_count: met.iter().map(|met| met.excluded).sum(),
        skipped: met.into_iter().flat_map(|met| met.skipped).collect(),
    })
}

/// Converts the found paths to inputs, and inserts standard input at the place of its argument.
fn merge_stdin_into_order(found: Vec<FoundPath>, stdin: Option<(usize, SourceText)>) -> Vec<ValidateInput> {
    let input = |found: FoundPath| match found.kind {
        FoundPathKind::Given => ValidateInput::File(found.shown_path),
        FoundPathKind::Found => ValidateInput::Found(found.shown_path),
        FoundPathKind::Unreadable(reason) => ValidateInput::Unreadable(found.shown_path, reason),
    };
    let Some((group, source)) = stdin else {
        return found.into_iter().map(input).collect();
    };
    let at = found.partition_point(|found| found.group < group);
    let mut list: Vec<ValidateInput> = found.into_iter().map(input).collect();
    list.insert(at, ValidateInput::Stdin(source));
    list
}

/// Builds the rules for all folders from `--exclude` and `--no-ignore`.
fn build_global_rules(args: &ValidateArgs, surroundings: &CliEnvironment) -> Result<GlobalSearchRules, CliError> {
    let folder = &surroundings.project.folder;
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let patterns = args.exclude.iter().map(String::as_str).enumerate();
    let (exclude, faults) = parse_patterns(&folder, patterns);
    if let Some((index, reason)) = faults.first() {
        let pattern = &args.exclude[*index];
        return Err(CliError::usage_error(format!(
            "--exclude {pattern} is not a valid pattern: {reason}"
        )));
    }
    Ok(GlobalSearchRules {
        exclude,
        user_ignored: if args.no_ignore {
            Gitignore::empty()
        } else {
            load_global_git_excludes()
        },
        with_ignore_files: !args.no_ignore,
    })
}

/// Kind of an argument that names files.
enum PathArgumentKind<'g> {
    Folder(&'g str),
    Pattern(&'g str),
    /// A file, standard input, or a skipped path.
    Nothing,
}

impl PathArgumentKind<'_> {
    /// Returns the message that the argument selects no file. Returns `None` for a single file.
    fn no_files_message(&self) -> Option<String> {
        match self {
            Self::Folder(folder) => Some(format!("{folder} contains no .yaml or .yml file")),
            Self::Pattern(pattern) => Some(format!("no file matches {pattern}")),
            Self::Nothing => None,
        }
    }

    /// Returns the help text for an argument that selects no file, from the numbers of skipped paths.
    fn no_files_help(&self, met: &ArgumentSearchTotals) -> String {
        let skipped_totals = [
            (
                met.excluded,
                "excluded; `--no-config` ignores the exclusions of the configuration",
            ),
            (
                met.ignored,
                "ignored by `.gitignore` or `.ignore`; `--no-ignore` checks ignored files, too",
            ),
        ];
        let skipped_texts: Vec<String> = skipped_totals
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, how)| format!("{} {how}", format_skipped_count(number)))
            .collect();
        match (skipped_texts.as_slice(), self) {
            ([], Self::Pattern(_)) => {
                "`*` and `?` match parts of a name, `**` matches any number of folders".to_owned()
            }
            ([], _) => "hidden folders, `node_modules`, `target` and virtual environments are not searched".to_owned(),
            (left, _) => left.join("; "),
        }
    }
}

/// Formats a number with its verb: `1 file or folder is`, `2 files or folders are`.
fn format_skipped_count(number: usize) -> String {
    match number {
        1 => "1 file or folder is".to_owned(),
        number => format!("{number} files or folders are"),
    }
}

/// Adds the files of an argument to the search: a folder, a pattern, a file or the name of an ensemble.
/// With `forces`, rules skip arguments as well.
fn search_path_argument<'g>(
    given: &'g str,
    forces: bool,
    walk: &mut FileSearch<'_>,
    surroundings: &CliEnvironment,
) -> Result<PathArgumentKind<'g>, CliError> {
    let path = PathBuf::from(given);
    let absolute = surroundings.project.folder.join(&path);
    if absolute.is_dir() {
        if forces && walk.is_skipped_by_rules(&path) {
            return Ok(PathArgumentKind::Nothing);
        }
        walk.search_folder(&path, WantedFiles::Yaml);
        return Ok(PathArgumentKind::Folder(given));
    }
    if !absolute.is_file() && given.contains(['*', '?', '[']) {
        search_pattern(given, walk, surroundings)?;
        return Ok(PathArgumentKind::Pattern(given));
    }
    let file = match absolute.is_file() {
        true => path,
        false => surroundings.project.resolve_ensemble_file(given)?,
    };
    if !(forces && walk.is_skipped_by_rules(&file)) {
        walk.add_argument_file(&file);
    }
    Ok(PathArgumentKind::Nothing)
}

/// Searches for the files that match the pattern. Searches matching folders as well.
fn search_pattern(pattern: &str, walk: &mut FileSearch<'_>, surroundings: &CliEnvironment) -> Result<(), CliError> {
    let plain = Path::new(pattern)
        .components()
        .filter(|part| *part != Component::CurDir);
    let plain: PathBuf = plain.collect();
    let (base, depth) = split_pattern_base(&plain);
    // Characters of the folder's own name that are special in a pattern are escaped.
    let folder = glob::Pattern::escape(&surroundings.project.folder.display().to_string());
    let absolute_pattern = Path::new(&folder).join(&plain);
    let pattern = glob::Pattern::new(&absolute_pattern.display().to_string())
        .map_err(|error| CliError::usage_error(format!("{pattern} is not a valid pattern: {}", error.msg)))?;
    if surroundings.project.folder.join(&base).is_dir() {
        let base = surroundings.project.relative_path(&base);
        walk.search_folder(&base, WantedFiles::Matching(Rc::new(pattern), depth));
    }
    Ok(())
}

/// Reads standard input as text.
pub(crate) fn read_stdin() -> Result<String, CliError> {
    Ok(read_text_stream(std::io::stdin().lock(), "standard input")?)
}
