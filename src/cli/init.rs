//! `ensemble init`: creates a small ensemble that can be run immediately, as a starting point.

use std::io::Write;
use std::path::Path;

use super::args::InitArgs;
use super::error::CliError;
use super::exit;
use super::surroundings::Surroundings;
use ensemble_language::loader::schema::SCHEMA;

const ENSEMBLE: &str = include_str!("starter/ensemble.yaml");
const SCRIPT: &str = include_str!("starter/reviewer.rhai");
/// The schema is stored beside the ensembles. So the line that names it stays valid when the folder is moved, and
/// without a network.
const SCHEMA_FILE: &str = "ensembles/ensemble.schema.json";

/// `ensemble init`.
pub(super) fn init(args: &InitArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let name = match &args.name {
        Some(name) if is_name(name) => name.clone(),
        Some(name) => {
            let help = "a name starts with a letter or a digit, and contains only letters, digits, `_`, `.` and `-`";
            return Err(CliError::usage_with_help(format!("`{name}` is not a valid name"), help));
        }
        None => name_of(&surroundings.project.folder),
    };
    let files = [
        (format!("ensembles/{name}.yaml"), ENSEMBLE.replace("NAME", &name)),
        (format!("ensembles/{name}/reviewer.rhai"), SCRIPT.to_owned()),
    ];
    // Both files are checked before the first one is written.
    for (file, _) in &files {
        if surroundings.project.folder.join(file).exists() {
            let help = "give the new ensemble another name: `ensemble init NAME`";
            return Err(CliError::usage_with_help(format!("{file} already exists"), help));
        }
    }
    let mut told = String::new();
    for (file, text) in &files {
        create(&surroundings.project.folder.join(file), text)?;
        told.push_str(&format!("wrote {file}\n"));
    }
    let schema = surroundings.project.folder.join(SCHEMA_FILE);
    let mut kept = String::new();
    if !schema.exists() {
        create(&schema, SCHEMA)?;
        told.push_str(&format!("wrote {SCHEMA_FILE}\n"));
    } else if std::fs::read_to_string(&schema).is_ok_and(|text| text != SCHEMA) {
        kept = format!("\nkept {SCHEMA_FILE}, which differs; `ensemble schema > {SCHEMA_FILE}` renews it\n");
    }
    surroundings.print(&told);
    surroundings.print_err(&format!("{kept}\nnext: ensemble run {name}\n"));
    Ok(exit::SUCCESS)
}

/// Writes a file that must not exist yet.
fn create(path: &Path, text: &str) -> Result<(), CliError> {
    let write = || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(text.as_bytes())
    };
    write().map_err(|error| CliError::Usage {
        message: format!("cannot write {}: {error}", path.display()),
        help: None,
    })
}

fn is_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(word)
}

/// The name of the folder, with every character that is not allowed in a name replaced by a dash.
fn name_of(folder: &Path) -> String {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let name: String = name
        .unwrap_or_default()
        .chars()
        .map(|c| if is_name(&format!("a{c}")) { c } else { '-' })
        .collect();
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() {
        "team".to_owned()
    } else {
        name.to_owned()
    }
}
