//! Rows of a batch from a file, a folder or standard input.

use std::io::Read;
use std::path::Path;

use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_runs::batch::{ParsedTable, RowError, decode_table, parse_csv, parse_json_lines, table_row_from_file};
use ensemble_scripts::regular_files::{self, describe_irregular_type};

/// Maximum size of a table, in bytes.
pub(super) const MAX_TABLE_BYTES: u64 = 1 << 30;

/// Maximum number of row errors that a message contains.
const MOST_NAMED: usize = 1000;

/// Loads the table from a file, a folder or standard input (`-`), with the errors of rows that cannot be read.
pub(crate) fn load_rows(data: &Path, surroundings: &CliEnvironment) -> Result<ParsedTable, CliError> {
    if data == Path::new("-") {
        let name = "standard input";
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|error| CliError::usage_error(format!("cannot read {name}: {error}")))?;
        return Ok(parse_table(name, &bytes, parse_json_lines));
    }
    let path = surroundings.project.folder.join(data);
    let name = data.display().to_string();
    if path.is_dir() {
        return load_folder_rows(&path, data);
    }
    if let Some(file_type) = path
        .metadata()
        .ok()
        .and_then(|known| describe_irregular_type(known.file_type()))
    {
        let help = "use --data - and write JSON Lines to standard input, or write the rows into a file";
        return Err(CliError::usage_error_with_help(
            format!("{name} is {file_type}, not a file"),
            help,
        ));
    }
    let kind = data.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
    let parse: ParseTable = match kind.to_lowercase().as_str() {
        "csv" => |name, text| parse_csv(name, text, b','),
        "tsv" => |name, text| parse_csv(name, text, b'\t'),
        "jsonl" | "ndjson" => parse_json_lines,
        _ => {
            let message = format!("cannot determine the format of {name}");
            let help =
                "use a file whose name ends with .jsonl, .csv or .tsv, a folder, or - for JSON Lines on standard input";
            return Err(CliError::usage_error_with_help(message, help));
        }
    };
    Ok(parse_table(&name, &read_regular_file(&path, &name)?, parse))
}

/// Function that parses a table, from its name and its text.
type ParseTable = fn(&str, &str) -> ParsedTable;

/// Decodes the bytes of the table `name` and parses the text. Adds the errors of the encoding to those of the rows.
fn parse_table(name: &str, bytes: &[u8], parse: ParseTable) -> ParsedTable {
    let decoded = decode_table(name, bytes);
    parse(name, &decoded.text).with_errors(decoded.errors)
}

/// Loads one row from each file of the folder, sorted by name. Skips hidden files and folders.
/// `data` is the folder as the user wrote it.
fn load_folder_rows(path: &Path, data: &Path) -> Result<ParsedTable, CliError> {
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
    let mut table = ParsedTable::default();
    for (name, path) in names {
        let place = data.join(&name).display().to_string();
        match decode_table(&place, &read_regular_file(&path, &place)?).into_text() {
            Ok(text) => table.rows.push(table_row_from_file(&place, &name, text)),
            Err(errors) => table.errors.extend(errors),
        }
    }
    Ok(table)
}

/// Reads a regular file of at most the size of a table. `name` is the file name for errors.
/// Refuses devices, which might have no end.
pub(crate) fn read_regular_file(path: &Path, name: &str) -> Result<Vec<u8>, CliError> {
    regular_files::read_bytes_with_limit(path, MAX_TABLE_BYTES)
        .map_err(|error| CliError::usage_error(format!("cannot read {name}: {error}")))
}

/// Joins the errors of rows into one usage error.
pub(crate) fn row_errors_to_cli_error(wrong: Vec<RowError>) -> CliError {
    let mut lines: Vec<String> = wrong.iter().take(MOST_NAMED).map(RowError::to_string).collect();
    if wrong.len() > MOST_NAMED {
        lines.push(format!("and {} more", wrong.len() - MOST_NAMED));
    }
    CliError::usage_error(lines.join("\n       "))
}
