//! `ensemble import FOLDER`: converts all ensembles of a folder into another folder.

use std::path::{Path, PathBuf};

use super::import::{One, origin, stem_of, write};
use crate::command::setup::import::ImportArgs;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use ensemble_import::import::Imported;
use ensemble_language::loader;
use ensemble_language::loader::document::Node;
use ensemble_language::source::Source;
use ensemble_project::project::read_source;
use ensemble_reports::report::diagnostics;

/// An ensemble that was found.
struct Found {
    /// The path as the user writes it.
    file: String,
    source: Source,
    output: PathBuf,
}

/// The number of files by result of the import.
#[derive(Default)]
struct Count {
    clean: usize,
    noted: usize,
    failed: usize,
    left: usize,
}

/// Returns whether the user names a folder.
pub(crate) fn is_folder(args: &ImportArgs, surroundings: &Surroundings) -> bool {
    args.file != "-" && surroundings.project.folder.join(&args.file).is_dir()
}

/// Imports every ensemble of the folder and its sub-folders.
pub(crate) fn import(args: &ImportArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let Some(to) = &args.to else {
        let message = format!("{} is a folder", args.file);
        return Err(CliError::usage_with_help(
            message,
            "name the folder for the new files with `-o FOLDER`",
        ));
    };
    let here = &surroundings.project.folder;
    if here.join(to).is_file() {
        let message = format!("{} is a file, and {} a folder", to.display(), args.file);
        return Err(CliError::usage_with_help(message, "name a folder for the new files"));
    }
    let mut count = Count::default();
    let found = find(args, to, surroundings, &mut count)?;
    if found.is_empty() && count.failed == 0 {
        let message = format!("no ensemble in {}", args.file);
        return Err(CliError::usage_with_help(
            message,
            "an ensemble is a YAML file with a list of `agents`",
        ));
    }
    let existing: Vec<String> = found
        .iter()
        .filter(|found| here.join(&found.output).exists())
        .map(|found| found.output.display().to_string())
        .collect();
    if !existing.is_empty() && !args.force {
        let message = format!("nothing is written: {} already exists", existing.join(", "));
        return Err(CliError::usage_with_help(
            message,
            "name another folder, or overwrite them with `--force`",
        ));
    }
    // The second time, the ensembles that these ensembles name are there.
    for one in &found {
        if let Ok(imported) = convert(one, args, surroundings)? {
            write(&one.output, &imported.text, surroundings)?;
        }
    }
    for one in &found {
        match convert(one, args, surroundings)? {
            Ok(imported) => {
                write(&one.output, &imported.text, surroundings)?;
                surroundings.print(&format!("wrote {}\n", one.output.display()));
                if imported.lost.is_empty() {
                    count.clean += 1;
                } else {
                    count.noted += 1;
                    surroundings.print_err(&diagnostics::human(&imported.lost, surroundings.colors_on_stderr()));
                }
            }
            Err(errors) => {
                count.failed += 1;
                surroundings.print_err(&diagnostics::human(&errors, surroundings.colors_on_stderr()));
            }
        }
    }
    Ok(count.report(surroundings))
}

fn convert(
    found: &Found,
    args: &ImportArgs,
    surroundings: &Surroundings,
) -> Result<Result<Imported, Vec<ensemble_language::diagnostic::Diagnostic>>, CliError> {
    let stem = stem_of(Path::new(&found.file));
    let one = One {
        file: &found.file,
        stem: &stem,
        output: Some(&found.output),
        origin: origin(args),
    };
    one.convert(&found.source, surroundings)
}

/// The ensembles of the folder, in the order of their paths; other files are counted.
fn find(args: &ImportArgs, to: &Path, surroundings: &Surroundings, count: &mut Count) -> Result<Vec<Found>, CliError> {
    let here = &surroundings.project.folder;
    let from = Path::new(&args.file);
    let new = here.join(to).canonicalize().ok();
    let old = here.join(from).canonicalize().ok();
    // A folder may be imported into itself only with other names, so its own files stay.
    let new = new.filter(|new| Some(new) != old.as_ref());
    let mut files = Vec::new();
    gather(&here.join(from), new.as_deref(), &mut files)
        .map_err(|error| CliError::usage(format!("cannot read {}: {error}", args.file)))?;
    files.sort();
    let mut found = Vec::new();
    for path in files {
        let Ok(rest) = path.strip_prefix(here.join(from)).map(Path::to_owned) else {
            continue;
        };
        let is_yaml = rest.extension().is_some_and(|end| end == "yaml" || end == "yml");
        if !is_yaml {
            count.left += 1;
            continue;
        }
        let file = from.join(&rest);
        let source = match read_source(&file) {
            Ok(source) => source,
            Err(error) => {
                count.failed += 1;
                surroundings.print_err(&format!("error: {error}\n"));
                continue;
            }
        };
        match loader::parse(&source) {
            Ok(document)
                if document
                    .root()
                    .get("agents")
                    .and_then(Node::items)
                    .is_some_and(|list| !list.is_empty()) =>
            {
                found.push(Found {
                    file: file.display().to_string(),
                    source,
                    output: to.join(rest),
                });
            }
            Ok(_) => count.left += 1,
            Err(errors) => {
                count.failed += 1;
                surroundings.print_err(&diagnostics::human(&errors, surroundings.colors_on_stderr()));
            }
        }
    }
    Ok(found)
}

/// All files of a folder and its sub-folders, without hidden ones; links to folders are not followed.
fn gather(folder: &Path, without: Option<&Path>, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                let is_new = without.is_some_and(|new| path.canonicalize().is_ok_and(|path| path == new));
                if !hidden && !is_new {
                    open.push(path);
                }
            } else if !hidden && path.is_file() {
                files.push(path);
            }
        }
    }
    Ok(())
}

impl Count {
    /// Prints the summary, and returns the exit code.
    fn report(&self, surroundings: &Surroundings) -> u8 {
        let written = self.clean + self.noted;
        let mut text = format!("{} imported", files(written));
        if self.noted > 0 {
            text.push_str(&format!(", {} of them with things to check", self.noted));
        }
        if self.failed > 0 {
            text.push_str(&format!("; {} not imported", files(self.failed)));
        }
        if self.left > 0 {
            text.push_str(&format!("; {} left alone: no ensembles", files(self.left)));
        }
        surroundings.print(&format!("{text}\n"));
        match (written, self.noted + self.failed) {
            (0, _) => exit::USAGE,
            (_, 0) => exit::SUCCESS,
            _ => exit::FAILURE,
        }
    }
}

fn files(count: usize) -> String {
    let noun = if count == 1 { "file" } else { "files" };
    format!("{count} {noun}")
}
