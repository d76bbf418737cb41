//! Failed tests and coverage gaps as GitHub workflow commands, which become annotations at the lines of a pull request.

use std::path::Path;

use super::{EnsembleCoverage, EnsembleMutants, MutantStatus, TestedFile, render_failure_line};
use crate::report::file_names::relative_path;
use crate::report::github::{escape_command_message, escape_command_property};

/// Renders one command for each failure, and one warning for each gap. File names are relative to `folder`.
pub fn render_github_test_report(files: &[TestedFile], folder: &Path) -> String {
    let mut text = String::new();
    for file in files {
        let name = escape_command_property(&relative_path(&file.name, folder));
        for case in &file.cases {
            let title = escape_command_property(&case.name);
            for unmet in &case.failures {
                let mut message = escape_command_message(&render_failure_line(unmet));
                if let Some(help) = &unmet.help {
                    message.push_str(&format!("%0A{}", escape_command_message(&format!("help: {help}"))));
                }
                let (line, column) = (unmet.line, unmet.column);
                text.push_str(&format!(
                    "::error file={name},line={line},col={column},title={title}::{message}\n"
                ));
            }
        }
        if let Some(covered) = &file.coverage {
            text.push_str(&render_gaps(covered, folder));
        }
        if let Some(changed) = &file.mutants {
            text.push_str(&render_survivors(changed, folder));
        }
    }
    text
}

/// Renders a warning for each coverage gap.
fn render_gaps(covered: &EnsembleCoverage, folder: &Path) -> String {
    let name = escape_command_property(&relative_path(&covered.ensemble, folder));
    let mut text = String::new();
    for gap in &covered.gaps {
        let (line, column) = gap.place.unwrap_or((1, 1));
        let message = escape_command_message(&gap.what);
        text.push_str(&format!(
            "::warning file={name},line={line},col={column},title=not tested::{message}\n"
        ));
    }
    text
}

/// Renders a warning for each surviving mutant.
fn render_survivors(changed: &EnsembleMutants, folder: &Path) -> String {
    let name = escape_command_property(&relative_path(&changed.ensemble, folder));
    let survived = changed
        .mutants
        .iter()
        .filter(|one| one.status == MutantStatus::Survived);
    survived
        .map(|mutant| {
            let (line, column) = mutant.place;
            let message = escape_command_message(&mutant.describe_change());
            format!("::warning file={name},line={line},col={column},title=no case notices::{message}\n")
        })
        .collect()
}
