//! Failures and gaps as GitHub workflow commands, which become annotations at the lines of a pull request.

use std::path::Path;

use super::{TestedFile, in_one_line};
use crate::report::github::{data, property};
use crate::report::place::relative;

/// One command for each failure, and one warning for each gap. File names are relative to `folder`.
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
        let Some(covered) = &file.coverage else { continue };
        let name = property(&relative(&covered.ensemble, folder));
        for gap in &covered.gaps {
            let (line, column) = gap.place.unwrap_or((1, 1));
            let message = data(&gap.what);
            text.push_str(&format!(
                "::warning file={name},line={line},col={column},title=not tested::{message}\n"
            ));
        }
    }
    text
}
