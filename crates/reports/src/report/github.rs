//! Findings as GitHub workflow commands, which become annotations at the lines of a pull request.
//!
//! A command is one line, so line breaks are escaped. In a property, separators are escaped too.

use std::path::Path;

use super::diagnostics::fix_title;
use super::file_names::relative_path;
use super::form::{FileFindings, FindingsReportFormat};
use ensemble_language::diagnostic::{Diagnostic, FindingSeverity};

/// A report with one GitHub command for each finding: `::error file=…,line=…,…,title=E021::message`.
#[derive(Debug)]
pub struct GithubFindingsFormat<'f> {
    /// The folder to which file names are relative.
    pub folder: &'f Path,
}

impl FindingsReportFormat for GithubFindingsFormat<'_> {
    fn render_file(&self, file: &FileFindings) -> String {
        let commands = file.findings.iter();
        commands
            .map(|diagnostic| render_github_command(diagnostic, self.folder))
            .collect()
    }
}

/// Renders the command for a finding.
fn render_github_command(diagnostic: &Diagnostic, folder: &Path) -> String {
    let level = match diagnostic.severity {
        FindingSeverity::Error => "error",
        FindingSeverity::Warning => "warning",
        FindingSeverity::Hint => "notice",
    };
    let file = escape_command_property(&relative_path(diagnostic.source.name(), folder));
    let start = diagnostic.source.line_column(diagnostic.span.start);
    let end = diagnostic.source.line_column(diagnostic.span.end);
    // GitHub does not accept columns of different lines.
    let place = if start.line == end.line {
        format!(
            "line={},col={},endLine={},endColumn={}",
            start.line, start.column, end.line, end.column
        )
    } else {
        format!("line={},endLine={}", start.line, end.line)
    };
    let mut message = escape_command_message(&diagnostic.message);
    if let Some(help) = &diagnostic.help {
        message.push_str("%0A");
        message.push_str(&escape_command_message(&format!("help: {help}")));
    }
    if let Some(fix) = &diagnostic.fix {
        message.push_str("%0A");
        message.push_str(&escape_command_message(&format!("fix: {}", fix_title(fix))));
    }
    for place in diagnostic
        .related
        .iter()
        .filter(|place| place.source.name() != diagnostic.source.name())
    {
        let at = place.source.line_column(place.span.start);
        let file = relative_path(place.source.name(), folder);
        message.push_str("%0A");
        message.push_str(&escape_command_message(&format!(
            "{}: {file}:{}:{}",
            place.message, at.line, at.column
        )));
    }
    let title = escape_command_property(diagnostic.code.0);
    format!("::{level} file={file},{place},title={title}::{message}\n")
}

/// Escapes the message of a command.
pub(super) fn escape_command_message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a command.
pub(super) fn escape_command_property(text: &str) -> String {
    escape_command_message(text).replace(':', "%3A").replace(',', "%2C")
}
