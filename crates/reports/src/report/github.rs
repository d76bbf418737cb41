//! Findings as GitHub workflow commands, which become annotations at the lines of a pull request.
//!
//! A command is one line, so line breaks are escaped. In a property, separators are escaped too.

use std::path::Path;

use super::diagnostics::fix_title;
use super::form::{CheckedFile, Form};
use super::place::relative;
use ensemble_language::diagnostic::{Diagnostic, Severity};

/// A report with one command for each finding: `::error file=…,line=…,…,title=E021::message`.
#[derive(Debug)]
pub struct Github<'f> {
    /// The folder to which file names are relative.
    pub folder: &'f Path,
}

impl Form for Github<'_> {
    fn file(&self, file: &CheckedFile) -> String {
        let commands = file.findings.iter();
        commands.map(|diagnostic| command(diagnostic, self.folder)).collect()
    }
}

fn command(diagnostic: &Diagnostic, folder: &Path) -> String {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "notice",
    };
    let file = property(&relative(diagnostic.source.name(), folder));
    let start = diagnostic.source.place(diagnostic.span.start);
    let end = diagnostic.source.place(diagnostic.span.end);
    // GitHub does not accept columns of different lines.
    let place = if start.line == end.line {
        format!(
            "line={},col={},endLine={},endColumn={}",
            start.line, start.column, end.line, end.column
        )
    } else {
        format!("line={},endLine={}", start.line, end.line)
    };
    let mut message = data(&diagnostic.message);
    if let Some(help) = &diagnostic.help {
        message.push_str("%0A");
        message.push_str(&data(&format!("help: {help}")));
    }
    if let Some(fix) = &diagnostic.fix {
        message.push_str("%0A");
        message.push_str(&data(&format!("fix: {}", fix_title(fix))));
    }
    for place in diagnostic
        .related
        .iter()
        .filter(|place| place.source.name() != diagnostic.source.name())
    {
        let at = place.source.place(place.span.start);
        let file = relative(place.source.name(), folder);
        message.push_str("%0A");
        message.push_str(&data(&format!("{}: {file}:{}:{}", place.message, at.line, at.column)));
    }
    let title = property(diagnostic.code.0);
    format!("::{level} file={file},{place},title={title}::{message}\n")
}

pub(super) fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

pub(super) fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
