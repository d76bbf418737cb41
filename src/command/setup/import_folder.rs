//! `ensemble import FOLDER`: converts all ensembles of a folder into another folder.

use std::path::{Path, PathBuf};

use super::import::{ImportSource, file_stem, import_origin_option, write_file_with_folders};
use crate::command::setup::import::ImportArgs;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_import::import::ImportResult;
use ensemble_language::loader;
use ensemble_language::loader::document::YamlNode;
use ensemble_language::source::SourceText;
use ensemble_project::project::read_source;
use ensemble_reports::report::diagnostics;

/// Ensemble that was found in the imported folder.
struct FoundImportFile {
    /// Path as the user writes the path.
    file: String,
    source: SourceText,
    output: PathBuf,
}

/// Numbers of files by result of the import.
#[derive(Default)]
struct ImportCounts {
    clean: usize,
    noted: usize,
    failed: usize,
    ignored: usize,
}

/// Returns whether the argument of `ensemble import` is a folder.
pub(crate) fn imports_folder(args: &ImportArgs, surroundings: &CliEnvironment) -> bool {
    args.file != "-" && surroundings.project.folder.join(&args.file).is_dir()
}

/// Converts every ensemble of the folder and its subfolders into another folder, and prints a summary. Returns the exit code.
pub(crate) fn import_folder(args: &ImportArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let Some(to) = &args.to else {
        let message = format!("{} is a folder", args.file);
        return Err(CliError::usage_error_with_help(
            message,
            "name the folder for the new files with `-o FOLDER`",
        ));
    };
    let project_folder = &surroundings.project.folder;
    if project_folder.join(to).is_file() {
        let message = format!("{} is a file, but {} is a folder", to.display(), args.file);
        return Err(CliError::usage_error_with_help(
            message,
            "name a folder for the new files",
        ));
    }
    let mut count = ImportCounts::default();
    let ensembles = find_importable_files(args, to, surroundings, &mut count)?;
    if ensembles.is_empty() && count.failed == 0 {
        let message = format!("no ensemble in {}", args.file);
        return Err(CliError::usage_error_with_help(
            message,
            "an ensemble is a YAML file with a list of `agents`",
        ));
    }
    let existing: Vec<String> = ensembles
        .iter()
        .filter(|found| project_folder.join(&found.output).exists())
        .map(|found| found.output.display().to_string())
        .collect();
    if !existing.is_empty() && !args.force {
        let message = format!(
            "nothing was written, because these files exist: {}",
            existing.join(", ")
        );
        return Err(CliError::usage_error_with_help(
            message,
            "name another folder, or overwrite them with `--force`",
        ));
    }
    // The second time, the ensembles that these ensembles name are there.
    for ensemble in &ensembles {
        if let Ok(imported) = convert_found_file(ensemble, args, surroundings)? {
            write_file_with_folders(&ensemble.output, &imported.text, surroundings)?;
        }
    }
    for ensemble in &ensembles {
        match convert_found_file(ensemble, args, surroundings)? {
            Ok(imported) => {
                write_file_with_folders(&ensemble.output, &imported.text, surroundings)?;
                surroundings.print_out(&format!("wrote {}\n", ensemble.output.display()));
                if imported.unconverted.is_empty() {
                    count.clean += 1;
                } else {
                    count.noted += 1;
                    surroundings.print_err(&diagnostics::render_diagnostics(
                        &imported.unconverted,
                        surroundings.colors_on_stderr(),
                    ));
                }
            }
            Err(errors) => {
                count.failed += 1;
                surroundings.print_err(&diagnostics::render_diagnostics(
                    &errors,
                    surroundings.colors_on_stderr(),
                ));
            }
        }
    }
    Ok(count.print_import_summary(surroundings))
}

/// Converts the text of the file. The inner error contains the findings about the old text.
fn convert_found_file(
    found: &FoundImportFile,
    args: &ImportArgs,
    surroundings: &CliEnvironment,
) -> Result<Result<ImportResult, Vec<ensemble_language::diagnostic::Diagnostic>>, CliError> {
    let stem = file_stem(Path::new(&found.file));
    let import_file = ImportSource {
        file: &found.file,
        stem: &stem,
        output: Some(&found.output),
        origin: import_origin_option(args),
    };
    import_file.convert_text(&found.source, surroundings)
}

/// Returns the ensembles of the folder in the order of their paths. Adds the other files to `count`.
fn find_importable_files(
    args: &ImportArgs,
    to: &Path,
    surroundings: &CliEnvironment,
    count: &mut ImportCounts,
) -> Result<Vec<FoundImportFile>, CliError> {
    let project_folder = &surroundings.project.folder;
    let from = Path::new(&args.file);
    let new = project_folder.join(to).canonicalize().ok();
    let old = project_folder.join(from).canonicalize().ok();
    // A folder may be imported into itself only with other names, so its own files stay.
    let new = new.filter(|new| Some(new) != old.as_ref());
    let mut files = Vec::new();
    collect_visible_files(&project_folder.join(from), new.as_deref(), &mut files)
        .map_err(|error| CliError::usage_error(format!("cannot read {}: {error}", args.file)))?;
    files.sort();
    let mut ensembles = Vec::new();
    for path in files {
        let Ok(relative_path) = path.strip_prefix(project_folder.join(from)).map(Path::to_owned) else {
            continue;
        };
        let is_yaml = relative_path
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml");
        if !is_yaml {
            count.ignored += 1;
            continue;
        }
        let file = from.join(&relative_path);
        let source = match read_source(&file) {
            Ok(source) => source,
            Err(error) => {
                count.failed += 1;
                surroundings.print_err(&format!("error: {error}\n"));
                continue;
            }
        };
        match loader::parse_yaml(&source) {
            Ok(document)
                if document
                    .root()
                    .get("agents")
                    .and_then(YamlNode::items)
                    .is_some_and(|list| !list.is_empty()) =>
            {
                ensembles.push(FoundImportFile {
                    file: file.display().to_string(),
                    source,
                    output: to.join(relative_path),
                });
            }
            Ok(_) => count.ignored += 1,
            Err(errors) => {
                count.failed += 1;
                surroundings.print_err(&diagnostics::render_diagnostics(
                    &errors,
                    surroundings.colors_on_stderr(),
                ));
            }
        }
    }
    Ok(ensembles)
}

/// Collects all visible files of a folder and its subfolders, except the folder `without`. Does not follow links to folders.
fn collect_visible_files(folder: &Path, without: Option<&Path>, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
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

impl ImportCounts {
    /// Prints the summary and returns the exit code.
    fn print_import_summary(&self, surroundings: &CliEnvironment) -> u8 {
        let imported_count = self.clean + self.noted;
        let mut text = format!("{} imported", format_files(imported_count));
        if self.noted > 0 {
            text.push_str(&format!(", {} of them with things to check", self.noted));
        }
        if self.failed > 0 {
            text.push_str(&format!("; {} not imported", format_files(self.failed)));
        }
        if self.ignored > 0 {
            text.push_str(&format!("; {} skipped: no ensembles", format_files(self.ignored)));
        }
        surroundings.print_out(&format!("{text}\n"));
        match (imported_count, self.noted + self.failed) {
            (0, _) => exit::USAGE,
            (_, 0) => exit::SUCCESS,
            _ => exit::FAILURE,
        }
    }
}

/// Formats a number of files: `1 file`, `2 files`.
fn format_files(count: usize) -> String {
    let noun = if count == 1 { "file" } else { "files" };
    format!("{count} {noun}")
}
