//! `ensemble import`: converts ensembles of llm-orc and workflows of Conductor.

use std::path::{Path, PathBuf};

use crate::command::check::files::inputs::read_stdin;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::{Args, ValueEnum};
use ensemble_import::import::{self, ImportContext, ImportOrigin, ImportResult};
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::loader;
use ensemble_language::loader::document::YamlDocument;
use ensemble_language::source::SourceText;
use ensemble_project::ProjectError;
use ensemble_project::project::read_source;
use ensemble_reports::report::diagnostics;
use ensemble_reports::report::sanitized_writer::EscapeStyle;

/// `ensemble import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file to convert, a folder of such files, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: String,
    /// Convert from the format of this program; default: detected from the file
    #[arg(long, value_name = "PROGRAM")]
    pub from: Option<ImportFrom>,
    /// Write to this file, or into this folder; default: standard output
    #[arg(short = 'o', long, alias = "output", value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "to")]
    pub force: bool,
}

/// The programs whose files can be imported.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ImportFrom {
    /// Ensembles of llm-orc
    LlmOrc,
    /// Workflows of Microsoft's Conductor
    Conductor,
}

/// Folder of llm-orc in a project.
const LLM_ORC_FOLDER: &str = ".llm-orc";

/// Executes `ensemble import` for one file or standard input. Returns the exit code.
///
/// # Errors
/// The file is invalid, or the output exists already.
pub(crate) fn import_file(args: &ImportArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let (source, stem) = if args.file == "-" {
        (SourceText::new("<stdin>", read_stdin()?), "imported".to_owned())
    } else {
        let path = Path::new(&args.file);
        (read_source(path)?, file_stem(path))
    };
    let output = args
        .to
        .as_deref()
        .map(|output| output_path(output, &stem, surroundings));
    if let Some(output) = output
        .as_deref()
        .filter(|output| surroundings.project.folder.join(output).exists() && !args.force)
    {
        let message = format!("{} already exists", output.display());
        return Err(CliError::usage_error_with_help(
            message,
            "name another file, or overwrite it with `--force`",
        ));
    }
    let file_import = ImportSource {
        file: &args.file,
        stem: &stem,
        output: output.as_deref(),
        origin: import_origin_option(args),
    };
    let imported = file_import
        .convert_text(&source, surroundings)?
        .map_err(ProjectError::Invalid)?;
    match &output {
        Some(output) => {
            write_file_with_folders(output, &imported.text, surroundings)?;
            surroundings.print_out(&format!("wrote {}\n", output.display()));
        }
        // The text is written so that nothing in it steers a terminal.
        None => surroundings.print_out_in_format(EscapeStyle::Exact, &imported.text),
    }
    Ok(print_unconverted_parts(&imported, surroundings))
}

/// File to import, with its origin and its output.
pub(crate) struct ImportSource<'a> {
    pub(crate) file: &'a str,
    /// Name for an ensemble without a name.
    pub(crate) stem: &'a str,
    pub(crate) output: Option<&'a Path>,
    pub(crate) origin: Option<ImportOrigin>,
}

impl ImportSource<'_> {
    /// Converts the text of the file. The inner error contains the findings about the old text.
    pub(crate) fn convert_text(
        &self,
        source: &SourceText,
        surroundings: &CliEnvironment,
    ) -> Result<Result<ImportResult, Vec<Diagnostic>>, CliError> {
        let project = ImportFolders::for_file(self.file, self.output, surroundings);
        let configurations = project.load_llm_orc_configurations(surroundings)?;
        let beside = ImportContext {
            stem: self.stem,
            configurations: &configurations,
            script: &|script| project.resolve_script_for_new_file(script),
            script_text: &|script| {
                let script_path = project.resolve_script_for_new_file(script)?;
                read_source(&surroundings.project.relative_path(&project.new.join(script_path))).ok()
            },
            ensemble: &|name| {
                surroundings
                    .project
                    .resolve_ensemble_file_from(name, &project.new, &project.root)
                    .is_ok()
            },
            schema: project.schema_file_name(),
        };
        Ok(import::import_ensemble(source, &beside, self.origin))
    }
}

/// Returns the program whose format `--from` names.
pub(crate) fn import_origin_option(args: &ImportArgs) -> Option<ImportOrigin> {
    args.from.map(|from| match from {
        ImportFrom::LlmOrc => ImportOrigin::LlmOrc,
        ImportFrom::Conductor => ImportOrigin::Conductor,
    })
}

/// Returns the file name without its extension, as text.
pub(crate) fn file_stem(path: &Path) -> String {
    path.file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Prints the parts that were not converted, and returns the exit code.
fn print_unconverted_parts(imported: &ImportResult, surroundings: &CliEnvironment) -> u8 {
    if imported.unconverted.is_empty() {
        return exit::SUCCESS;
    }
    surroundings.print_err(&diagnostics::render_diagnostics(
        &imported.unconverted,
        surroundings.colors_on_stderr(),
    ));
    let count = imported.unconverted.len();
    let things = if count == 1 { "thing" } else { "things" };
    surroundings.print_err(&format!(
        "{count} {things} to check; comments in the new file mark the places\n"
    ));
    exit::FAILURE
}

/// Returns the path of the new file. In a folder, the new file gets the name of the old file.
fn output_path(output: &Path, stem: &str, surroundings: &CliEnvironment) -> PathBuf {
    if surroundings.project.folder.join(output).is_dir() {
        output.join(format!("{stem}.yaml"))
    } else {
        output.to_owned()
    }
}

/// Writes a file, and creates the folders that lead to the file. Overwrites an existing file.
pub(crate) fn write_file_with_folders(
    output: &Path,
    text: &str,
    surroundings: &CliEnvironment,
) -> Result<(), CliError> {
    let path = surroundings.project.folder.join(output);
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| CliError::usage_error(format!("cannot write {}: {error}", output.display())))
}

/// Folders of the old file and of the new file, as absolute paths.
struct ImportFolders {
    /// Folder that contains `.llm-orc/`; otherwise the folder of the old file.
    old: PathBuf,
    /// Folder of the new file.
    new: PathBuf,
    /// Root of the project that will contain the new file.
    root: PathBuf,
    has_schema: bool,
}

impl ImportFolders {
    /// Finds the folders for the old file `file` and the new file `output`.
    fn for_file(file: &str, output: Option<&Path>, surroundings: &CliEnvironment) -> Self {
        let project_folder = &surroundings.project.folder;
        let parent = |path: &Path| {
            let absolute = project_folder.join(path);
            let folder = absolute.parent().unwrap_or(project_folder);
            folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
        };
        let from = if file == "-" {
            project_folder.clone()
        } else {
            parent(Path::new(file))
        };
        let llm_orc_project = from.ancestors().find(|folder| folder.join(LLM_ORC_FOLDER).is_dir());
        let new = output.map_or_else(|| project_folder.clone(), parent);
        Self {
            old: llm_orc_project.unwrap_or(&from).to_owned(),
            root: surroundings.project.project_root(&new),
            has_schema: output.is_some() && new.join("ensemble.schema.json").is_file(),
            new,
        }
    }

    /// Returns the name of the schema file, if the schema is in the folder of the new file.
    fn schema_file_name(&self) -> Option<&'static str> {
        self.has_schema.then_some("ensemble.schema.json")
    }

    /// Loads the configurations of llm-orc: those of the project, of its profiles and of the user. Skips files that are not valid YAML.
    fn load_llm_orc_configurations(&self, surroundings: &CliEnvironment) -> Result<Vec<YamlDocument>, CliError> {
        let mut files = vec![self.old.join(LLM_ORC_FOLDER).join("config.yaml")];
        let mut profiles: Vec<PathBuf> = std::fs::read_dir(self.old.join(LLM_ORC_FOLDER).join("profiles"))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "yaml" || end == "yml"))
            .collect();
        profiles.sort();
        files.extend(profiles);
        let user = surroundings
            .project
            .user_config
            .as_deref()
            .and_then(Path::parent)
            .and_then(Path::parent);
        files.extend(user.map(|folder| folder.join("llm-orc").join("config.yaml")));
        let mut documents = Vec::new();
        for file in files.into_iter().filter(|file| file.is_file()) {
            let source = read_source(&surroundings.project.relative_path(&file))?;
            documents.extend(loader::parse_yaml(&source).ok());
        }
        Ok(documents)
    }

    /// Returns the path of the script relative to the folder of the new file. Searches where llm-orc searches scripts.
    fn resolve_script_for_new_file(&self, script: &str) -> Option<String> {
        let script_path = Path::new(script);
        let scripts = self.old.join(LLM_ORC_FOLDER).join("scripts");
        let mut places = vec![self.new.join(script_path)];
        places.extend([&scripts, &self.old.join(LLM_ORC_FOLDER), &self.old].map(|folder| folder.join(script_path)));
        if let Ok(path_in_scripts) = script_path.strip_prefix("scripts") {
            places.push(scripts.join(path_in_scripts));
        }
        let script_file = places.into_iter().find(|place| place.is_file())?;
        if script_path.is_absolute() {
            return Some(script.to_owned());
        }
        path_relative_to_folder(&script_file, &self.new)
    }
}

/// Returns the relative path from the folder to the file.
fn path_relative_to_folder(file: &Path, folder: &Path) -> Option<String> {
    let common = folder.ancestors().find(|folder| file.starts_with(folder))?;
    let up = folder.strip_prefix(common).ok()?.components().count();
    let mut way = PathBuf::new();
    way.extend(std::iter::repeat_n("..", up));
    way.push(file.strip_prefix(common).ok()?);
    way.to_str().map(str::to_owned)
}
