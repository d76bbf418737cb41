//! Failures and gaps as GitHub workflow commands, which become annotations at the lines of a pull request.

use std::path::Path;

use super::{FileCoverage, FileMutants, Standing, TestedFile, in_one_line};
use crate::report::github::{data, property};
use crate::report::place::relative;

/// Renders one command for each failure, and one warning for each gap. File names are relative to `folder`.
pub fn github(files: &[TestedFile], folder: &Path) -> String {
    let mut text = String::new();
    for file in files {
        let name = property(&relative(&file.name, folder));
        for case in &file.cases {
            let title = property(&case.name);
            for unmet in &case.failures {
                let mut message = data(&in_one_line(unmet));
                if let Some(help) = &unmet.help {
                    message.push_str(&format!("%0A{}", data(&format!("help: {help}"))));
                }
                let (line, column) = (unmet.line, unmet.column);
                text.push_str(&format!(
                    "::error file={name},line={line},col={column},title={title}::{message}\n"
                ));
            }
        }
        if let Some(covered) = &file.coverage {
            text.push_str(&gaps(covered, folder));
        }
        if let Some(changed) = &file.mutants {
            text.push_str(&survivors(changed, folder));
        }
    }
    text
}

fn gaps(covered: &FileCoverage, folder: &Path) -> String {
    let name = property(&relative(&covered.ensemble, folder));
    let mut text = String::new();
    for gap in &covered.gaps {
        let (line, column) = gap.place.unwrap_or((1, 1));
        let message = data(&gap.what);
        text.push_str(&format!(
            "::warning file={name},line={line},col={column},title=not tested::{message}\n"
        ));
    }
    text
}

fn survivors(changed: &FileMutants, folder: &Path) -> String {
    let name = property(&relative(&changed.ensemble, folder));
    let survived = changed.mutants.iter().filter(|one| one.standing == Standing::Survived);
    survived
        .map(|mutant| {
            let (line, column) = mutant.place;
            let message = data(&mutant.told());
            format!("::warning file={name},line={line},col={column},title=no case notices::{message}\n")
        })
        .collect()
}
