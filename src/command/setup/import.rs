//! `ensemble import`: converts ensembles of llm-orc and workflows of Conductor.

use std::path::{Path, PathBuf};

use crate::command::check::files::inputs::read_stdin;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use clap::{Args, ValueEnum};
use ensemble_import::import::{self, Beside, Imported, Origin};
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::loader;
use ensemble_language::loader::document::Document;
use ensemble_language::source::Source;
use ensemble_project::ProjectError;
use ensemble_project::project::read_source;
use ensemble_reports::report::diagnostics;
use ensemble_reports::report::door::Spelling;

/// `ensemble import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The ensemble of llm-orc or the workflow of Conductor, a folder of them, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: String,
    /// The program that the file was written for; default: what the file looks like
    #[arg(long, value_name = "PROGRAM")]
    pub from: Option<ImportFrom>,
    /// Write to this file, or to a file with the same name in this folder; default: standard output
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

/// The folder of llm-orc in a project.
const LLM_ORC: &str = ".llm-orc";

/// `ensemble import` of one file.
pub(crate) fn import(args: &ImportArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let (source, stem) = if args.file == "-" {
        (Source::new("<stdin>", read_stdin()?), "imported".to_owned())
    } else {
        let path = Path::new(&args.file);
        (read_source(path)?, stem_of(path))
    };
    let output = args.to.as_deref().map(|output| place(output, &stem, surroundings));
    if let Some(output) = output
        .as_deref()
        .filter(|output| surroundings.project.folder.join(output).exists() && !args.force)
    {
        let message = format!("{} already exists", output.display());
        return Err(CliError::usage_with_help(
            message,
            "name another file, or overwrite it with `--force`",
        ));
    }
    let one = One {
        file: &args.file,
        stem: &stem,
        output: output.as_deref(),
        origin: origin(args),
    };
    let imported = one.convert(&source, surroundings)?.map_err(ProjectError::Invalid)?;
    match &output {
        Some(output) => {
            write(output, &imported.text, surroundings)?;
            surroundings.print(&format!("wrote {}\n", output.display()));
        }
        // The text is written so that nothing in it steers a terminal.
        None => surroundings.print_as(Spelling::Exact, &imported.text),
    }
    Ok(report(&imported, surroundings))
}

/// A file to import.
pub(crate) struct One<'a> {
    pub(crate) file: &'a str,
    /// The name for an ensemble without a name.
    pub(crate) stem: &'a str,
    pub(crate) output: Option<&'a Path>,
    pub(crate) origin: Option<Origin>,
}

impl One<'_> {
    /// The new text; the inner error is what is wrong with the old one.
    pub(crate) fn convert(
        &self,
        source: &Source,
        surroundings: &Surroundings,
    ) -> Result<Result<Imported, Vec<Diagnostic>>, CliError> {
        let project = Project::around(self.file, self.output, surroundings);
        let configurations = project.configurations(surroundings)?;
        let beside = Beside {
            stem: self.stem,
            configurations: &configurations,
            script: &|script| project.script(script),
            script_text: &|script| {
                let found = project.script(script)?;
                read_source(&surroundings.project.relative(&project.new.join(found))).ok()
            },
            ensemble: &|name| {
                surroundings
                    .project
                    .ensemble_file_from(name, &project.new, &project.root)
                    .is_ok()
            },
            schema: project.schema(),
        };
        Ok(import::import(source, &beside, self.origin))
    }
}

pub(crate) fn origin(args: &ImportArgs) -> Option<Origin> {
    args.from.map(|from| match from {
        ImportFrom::LlmOrc => Origin::LlmOrc,
        ImportFrom::Conductor => Origin::Conductor,
    })
}

pub(crate) fn stem_of(path: &Path) -> String {
    path.file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Prints the number of parts that were not converted, and returns the exit code.
fn report(imported: &Imported, surroundings: &Surroundings) -> u8 {
    if imported.lost.is_empty() {
        return exit::SUCCESS;
    }
    surroundings.print_err(&diagnostics::human(&imported.lost, surroundings.colors_on_stderr()));
    let count = imported.lost.len();
    let things = if count == 1 { "thing" } else { "things" };
    surroundings.print_err(&format!(
        "{count} {things} to check; comments in the new file mark the places\n"
    ));
    exit::FAILURE
}

/// The path of the file to write. In a folder, the file gets the name of the old file.
fn place(output: &Path, stem: &str, surroundings: &Surroundings) -> PathBuf {
    if surroundings.project.folder.join(output).is_dir() {
        output.join(format!("{stem}.yaml"))
    } else {
        output.to_owned()
    }
}

/// Writes a new file, and the folders that lead to it.
pub(crate) fn write(output: &Path, text: &str, surroundings: &Surroundings) -> Result<(), CliError> {
    let path = surroundings.project.folder.join(output);
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| CliError::usage(format!("cannot write {}: {error}", output.display())))
}

/// The folders of the old file and the new file; all paths are absolute.
struct Project {
    /// The folder that contains `.llm-orc/`; otherwise the folder of the old file.
    old: PathBuf,
    /// The folder of the new file.
    new: PathBuf,
    /// The root of the project that will contain the new file.
    root: PathBuf,
    has_schema: bool,
}

impl Project {
    fn around(file: &str, output: Option<&Path>, surroundings: &Surroundings) -> Self {
        let here = &surroundings.project.folder;
        let parent = |path: &Path| {
            let absolute = here.join(path);
            let folder = absolute.parent().unwrap_or(here);
            folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
        };
        let from = if file == "-" {
            here.clone()
        } else {
            parent(Path::new(file))
        };
        let found = from.ancestors().find(|folder| folder.join(LLM_ORC).is_dir());
        let new = output.map_or_else(|| here.clone(), parent);
        Self {
            old: found.unwrap_or(&from).to_owned(),
            root: surroundings.project.project_root(&new),
            has_schema: output.is_some() && new.join("ensemble.schema.json").is_file(),
            new,
        }
    }

    fn schema(&self) -> Option<&'static str> {
        self.has_schema.then_some("ensemble.schema.json")
    }

    /// The configurations of llm-orc: of the project, its profiles, and of the user. Files that are not valid YAML are
    /// skipped.
    fn configurations(&self, surroundings: &Surroundings) -> Result<Vec<Document>, CliError> {
        let mut files = vec![self.old.join(LLM_ORC).join("config.yaml")];
        let mut profiles: Vec<PathBuf> = std::fs::read_dir(self.old.join(LLM_ORC).join("profiles"))
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
            let source = read_source(&surroundings.project.relative(&file))?;
            documents.extend(loader::parse(&source).ok());
        }
        Ok(documents)
    }

    /// The path of a script for the new file: the place where llm-orc finds the script, relative to the folder of the
    /// new file.
    fn script(&self, script: &str) -> Option<String> {
        let given = Path::new(script);
        let scripts = self.old.join(LLM_ORC).join("scripts");
        let mut places = vec![self.new.join(given)];
        places.extend([&scripts, &self.old.join(LLM_ORC), &self.old].map(|folder| folder.join(given)));
        if let Ok(rest) = given.strip_prefix("scripts") {
            places.push(scripts.join(rest));
        }
        let found = places.into_iter().find(|place| place.is_file())?;
        if given.is_absolute() {
            return Some(script.to_owned());
        }
        relative(&found, &self.new)
    }
}

/// The relative path from a folder to a file.
fn relative(file: &Path, folder: &Path) -> Option<String> {
    let common = folder.ancestors().find(|folder| file.starts_with(folder))?;
    let up = folder.strip_prefix(common).ok()?.components().count();
    let mut way = PathBuf::new();
    way.extend(std::iter::repeat_n("..", up));
    way.push(file.strip_prefix(common).ok()?);
    way.to_str().map(str::to_owned)
}
