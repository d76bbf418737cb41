//! The rows of a batch from a file, a folder or standard input.

use std::path::Path;

use crate::command::check::files::inputs::read_stdin;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_runs::batch::{RowError, TableRow, parse_csv, parse_json_lines, row_from_file};
use ensemble_scripts::regular_files;

/// The largest table that is read, in bytes.
pub(super) const LARGEST_TABLE: u64 = 1 << 30;

/// The number of wrong rows that an error names.
const MOST_NAMED: usize = 20;

/// Returns the rows of the data.
pub(crate) fn load_rows(data: &Path, surroundings: &CliEnvironment) -> Result<Vec<TableRow>, CliError> {
    if data == Path::new("-") {
        return parse_json_lines("standard input", &read_stdin()?).map_err(wrong_rows_error);
    }
    let path = surroundings.project.folder.join(data);
    let name = data.display().to_string();
    if path.is_dir() {
        return load_folder(&path, data);
    }
    let kind = data.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
    let kind = kind.to_lowercase();
    if !["jsonl", "ndjson", "csv", "tsv"].contains(&kind.as_str()) {
        let message = format!("cannot determine the format of {name}");
        let help =
            "use a file whose name ends with .jsonl, .csv or .tsv, a folder, or - for JSON Lines on standard input";
        return Err(CliError::usage_error_with_help(message, help));
    }
    let text = read_text(&path, &name)?;
    let rows = match kind.as_str() {
        "csv" => parse_csv(&name, &text, b','),
        "tsv" => parse_csv(&name, &text, b'\t'),
        _ => parse_json_lines(&name, &text),
    };
    rows.map_err(wrong_rows_error)
}

/// Returns a row for each file of the folder, in the order of their names. Hidden files and folders are left out.
fn load_folder(path: &Path, data: &Path) -> Result<Vec<TableRow>, CliError> {
    let unreadable = |error: std::io::Error| CliError::usage_error(format!("cannot read {}: {error}", data.display()));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.path().is_file() {
            names.push((name, entry.path()));
        }
    }
    names.sort();
    let rows = names.into_iter().map(|(name, path)| {
        let place = data.join(&name).display().to_string();
        Ok(row_from_file(&place, &name, read_text(&path, &place)?))
    });
    rows.collect()
}

fn read_text(path: &Path, name: &str) -> Result<String, CliError> {
    regular_files::read_text(path, LARGEST_TABLE).map_err(|error| {
        CliError::usage_error(match error.kind() {
            std::io::ErrorKind::InvalidData => format!("cannot read {name}: the file is not valid UTF-8"),
            _ => format!("cannot read {name}: {error}"),
        })
    })
}

/// Returns the error that names what is wrong with rows.
pub(crate) fn wrong_rows_error(wrong: Vec<RowError>) -> CliError {
    let mut lines: Vec<String> = wrong.iter().take(MOST_NAMED).map(RowError::to_string).collect();
    if wrong.len() > MOST_NAMED {
        lines.push(format!("and {} more", wrong.len() - MOST_NAMED));
    }
    CliError::usage_error(lines.join("\n       "))
}
