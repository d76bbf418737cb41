//! `ensemble batch merge`, and the output of result tables.

use std::path::Path;

use crate::command::run::batch::progress::format_rows;
use crate::command::run::batch::rows::{MAX_TABLE_BYTES, row_errors_to_cli_error};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use ensemble_reports::report::sanitized_writer::EscapeStyle;
use ensemble_runs::batch::{self, MergedResults};
use ensemble_scripts::regular_files;
use std::path::PathBuf;

/// `ensemble batch merge`.
#[derive(Debug, Args)]
pub(crate) struct BatchMergeArgs {
    /// The `results.jsonl` files of the parts
    #[arg(value_name = "RESULTS", required = true)]
    pub parts: Vec<PathBuf>,
    /// Write to this file; default: standard output. The format is CSV if the name ends with .csv, otherwise JSON Lines
    #[arg(short = 'o', long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// Maximum number of missing rows that the summary names.
const MAX_NAMED_ROWS: usize = 10;

/// Executes `ensemble batch merge`: merges the result files into one table. Returns exit code 1 if rows are missing.
pub(crate) fn merge_result_files(args: &BatchMergeArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let read = |path: &std::path::PathBuf| {
        let text = regular_files::read_text(&surroundings.project.folder.join(path), MAX_TABLE_BYTES);
        let text = text.map_err(|error| CliError::usage_error(format!("cannot read {}: {error}", path.display())))?;
        Ok((path.display().to_string(), text))
    };
    let parts: Result<Vec<(String, String)>, CliError> = args.parts.iter().map(read).collect();
    let merged = batch::merge_results(&parts?).map_err(row_errors_to_cli_error)?;
    match &args.to {
        Some(path) => write_result_table(path, &merged.text, surroundings)?,
        None => surroundings.print_out_in_format(EscapeStyle::Json, &merged.text),
    }
    surroundings.print_err(&render_summary(&merged));
    Ok(match merged.missing_rows.is_empty() {
        true => exit::SUCCESS,
        false => exit::FAILURE,
    })
}

/// Renders the number of rows by outcome, and the numbers of missing rows.
fn render_summary(merged: &MergedResults) -> String {
    let all = merged.outcomes.values().sum();
    let mut text = format_rows(all);
    for (outcome, count) in &merged.outcomes {
        text.push_str(&format!(", {count} {}", outcome.as_deref().unwrap_or("not ended")));
    }
    text.push('\n');
    if !merged.missing_rows.is_empty() {
        let row_numbers: Vec<String> = merged
            .missing_rows
            .iter()
            .take(MAX_NAMED_ROWS)
            .map(u64::to_string)
            .collect();
        let more = match merged.missing_rows.len().saturating_sub(MAX_NAMED_ROWS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&format!(
            "no part contains {} {}{more}\n",
            "row",
            row_numbers.join(", ")
        ));
    }
    text
}

/// Writes a result table as CSV if the path ends with `.csv`, otherwise as JSON Lines. A new file is readable for the user only.
pub(crate) fn write_result_table(path: &Path, json_lines: &str, surroundings: &CliEnvironment) -> Result<(), CliError> {
    let failed = |error: std::io::Error| CliError::usage_error(format!("cannot write {}: {error}", path.display()));
    let is_csv = path.extension().is_some_and(|kind| kind.eq_ignore_ascii_case("csv"));
    let table;
    let text = match is_csv {
        true => {
            table = batch::json_lines_to_csv(json_lines).map_err(failed)?;
            &table
        }
        false => json_lines,
    };
    crate::command::runs::write_private_text(&surroundings.project.folder.join(path), text).map_err(failed)
}
