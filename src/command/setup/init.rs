//! `ensemble init`: creates a small ensemble that can be run immediately.

mod templates;

use std::path::Path;

use clap::ValueEnum;

use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use ensemble_language::loader::schema::ENSEMBLE_SCHEMA;
use ensemble_language::names;
use ensemble_project::atomic_write;
use ensemble_scripts::regular_files::read_text;
use ensemble_ui::NewEnsembleFile;

/// Maximum size of an existing schema that is compared with the current schema, in bytes.
const MAX_SCHEMA_BYTES: u64 = 16 << 20;

/// `ensemble init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The name of the ensemble, with or without .yaml; default: the folder's name
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Create the ensemble from this template
    #[arg(short, long, value_enum, default_value_t = StarterTemplate::Loop, value_name = "TEMPLATE")]
    pub template: StarterTemplate,
    /// List the templates, and write nothing
    #[arg(long, conflicts_with = "name")]
    pub list_templates: bool,
}

/// The pattern that a new ensemble shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StarterTemplate {
    /// A writer and a reviewer repeat until the text is approved
    Loop,
    /// A person approves a text before it is published
    Approval,
    /// Detect, ask, fix and validate, until all tests pass
    Debugging,
    /// A model that calls tools before it answers
    Research,
    /// A game in which a storyteller and a player take turns
    Game,
    /// Two speakers argue until a judge decides
    Debate,
    /// One agent for each file of a folder, and a vote
    MapFiles,
    /// A chat with a model that remembers the conversation
    Chat,
    /// A chat with a model that calls tools, with a context window
    Assistant,
}

/// Path of the schema next to the ensembles. The line that names the schema stays valid when the folder moves, without a network.
const SCHEMA_FILE: &str = "ensembles/ensemble.schema.json";
/// Text of the created `.gitignore` file.
const GITIGNORE_TEXT: &str = "# The records of runs.\n.ensemble/runs/\n";

/// Executes `ensemble init`: writes the files of a template, or lists the templates. Returns the exit code.
pub(crate) fn create_starter_ensemble(args: &InitArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    if args.list_templates {
        surroundings.print_out(&render_templates());
        return Ok(exit::SUCCESS);
    }
    let name = choose_ensemble_name(args, surroundings)?;
    let folder = &surroundings.project.folder;
    let mut files = args.template.project_files(&name);
    files.push(args.template.test_file(&name));
    // All files are checked before the first one is written.
    for (file, _) in &files {
        if folder.join(file).exists() {
            let help = "give the new ensemble another name: `ensemble init NAME`";
            return Err(CliError::usage_error_with_help(format!("{file} already exists"), help));
        }
    }
    let mut notes = String::new();
    let schema = folder.join(SCHEMA_FILE);
    if !schema.exists() {
        files.push((SCHEMA_FILE.to_owned(), ENSEMBLE_SCHEMA.to_owned()));
    } else if read_text(&schema, MAX_SCHEMA_BYTES).is_ok_and(|text| text != ENSEMBLE_SCHEMA) {
        notes = format!(
            "\ndid not overwrite {SCHEMA_FILE}, which differs; `ensemble schema > {SCHEMA_FILE}` updates the file\n"
        );
    }
    if is_project_root_here(surroundings) && !folder.join(".gitignore").exists() {
        files.push((".gitignore".to_owned(), GITIGNORE_TEXT.to_owned()));
    }
    let mut report = String::new();
    for (file, text) in &files {
        create_file(&folder.join(file), text)?;
        report.push_str(&format!("wrote {file}\n"));
    }
    surroundings.print_out(&report);
    let command = args.template.first_command_name();
    surroundings.print_err(&format!("{notes}\nnext: ensemble {command} {name}\n"));
    Ok(exit::SUCCESS)
}

/// Renders one line with the description for each template.
fn render_templates() -> String {
    let mut text = String::new();
    for template in StarterTemplate::value_variants() {
        let Some(value) = template.to_possible_value() else {
            continue;
        };
        let about = value.get_help().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!("{:12} {about}\n", value.get_name()));
    }
    text
}

/// Returns whether the project root of the new ensemble is this folder, and not a folder around.
fn is_project_root_here(surroundings: &CliEnvironment) -> bool {
    let folder = &surroundings.project.folder;
    let root = surroundings.project.project_root(folder);
    root == *folder || folder.canonicalize().is_ok_and(|folder| folder == root)
}

/// Returns the name in the arguments, or a name made from the folder.
///
/// # Errors
/// The name in the arguments is not valid.
fn choose_ensemble_name(args: &InitArgs, surroundings: &CliEnvironment) -> Result<String, CliError> {
    match args.name.as_deref().map(strip_yaml_ending) {
        Some(name) if is_ensemble_name(name) => Ok(name.to_owned()),
        Some(name) => {
            let help = "a name starts with a letter or a digit, contains only letters, digits, `_`, `.` and `-`, and does not end with `.test`";
            Err(CliError::usage_error_with_help(
                format!("`{name}` is not a valid name"),
                help,
            ))
        }
        None => Ok(ensemble_name_from_folder(&surroundings.project.folder)),
    }
}

/// Writes a file that must not exist yet.
fn create_file(path: &Path, text: &str) -> Result<(), CliError> {
    atomic_write::create_file(path, text).map_err(|error| CliError::Usage {
        message: format!("cannot write {}: {error}", path.display()),
        help: None,
    })
}

/// Returns the files of the smallest ensemble with this name, the ensemble first. Returns `None` if the name is not valid.
pub(crate) fn smallest_ensemble_files(given: &str) -> Option<Vec<NewEnsembleFile>> {
    let name = strip_yaml_ending(given);
    if !is_ensemble_name(name) {
        return None;
    }
    let template = StarterTemplate::Chat;
    let mut files: Vec<NewEnsembleFile> = template
        .project_files(name)
        .into_iter()
        .chain([template.test_file(name)])
        .map(|(path, text)| NewEnsembleFile {
            path: path.into(),
            text,
            is_shared: false,
        })
        .collect();
    files.push(NewEnsembleFile {
        path: SCHEMA_FILE.into(),
        text: ENSEMBLE_SCHEMA.to_owned(),
        is_shared: true,
    });
    Some(files)
}

/// Returns the file name without the extension `.yaml` or `.yml`.
fn strip_yaml_ending(given: &str) -> &str {
    let ending = [".yaml", ".yml"]
        .into_iter()
        .find_map(|ending| given.strip_suffix(ending));
    ending.unwrap_or(given)
}

/// Returns whether the text is a valid name for an ensemble. A name with the ending `.test` belongs to a test file.
fn is_ensemble_name(name: &str) -> bool {
    // A file with that ending contains tests.
    names::is_name(name) && !name.ends_with(".test")
}

/// Returns the name of the folder, with each invalid character replaced by a dash. Returns `team` if no character remains.
fn ensemble_name_from_folder(folder: &Path) -> String {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let name: String = name
        .unwrap_or_default()
        .chars()
        .map(|c| if names::is_name_char(c) { c } else { '-' })
        .collect();
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() {
        "team".to_owned()
    } else {
        name.to_owned()
    }
}
