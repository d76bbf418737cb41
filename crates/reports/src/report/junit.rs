//! Findings as JUnit XML, which CI servers show as a table of tests: each file is a test case.

use std::path::Path;

use super::diagnostics::fix_title;
use super::file_names::relative_path;
use super::form::{FileFindings, FindingsReportFormat, FindingsReportTotals};
use super::xml::escape_xml;
use ensemble_language::diagnostic::{Diagnostic, FindingSeverity};

/// A JUnit report with one suite. A file fails if one of its findings fails the command.
pub struct JunitFindingsFormat<'f> {
    /// True if a finding makes its file fail.
    pub fails: &'f (dyn Fn(&Diagnostic) -> bool + Sync),
    /// The folder to which file names are relative.
    pub folder: &'f Path,
}

impl FindingsReportFormat for JunitFindingsFormat<'_> {
    fn render_file(&self, file: &FileFindings) -> String {
        let (failing, others): (Vec<_>, Vec<_>) = file.findings.iter().partition(|finding| (self.fails)(finding));
        render_file_case(&file.name, self.folder, &failing, &others)
    }

    /// The suite begins with the number of its cases.
    fn needs_totals_first(&self) -> bool {
        true
    }

    fn render_footer(&self, totals: &FindingsReportTotals, cases: &str) -> String {
        let (tests, failures) = (totals.files, totals.failed);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <testsuites tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">\n  \
             <testsuite name=\"ensemble validate\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"0\">\n\
             {cases}  </testsuite>\n</testsuites>\n"
        )
    }
}

/// Renders the test case of a file with its findings.
fn render_file_case(file: &str, folder: &Path, failing: &[&Diagnostic], others: &[&Diagnostic]) -> String {
    let name = escape_xml(&relative_path(file, folder));
    let lines = |findings: &[&Diagnostic]| render_findings(file, folder, findings);
    let open = format!("    <testcase name=\"{name}\" classname=\"ensemble\"");
    if failing.is_empty() && others.is_empty() {
        return format!("{open}/>\n");
    }
    let mut text = format!("{open}>\n");
    if let [first, ..] = failing {
        // Many programs read only the first failure of a case, so one failure contains all findings.
        let message = match failing.len() {
            1 => first.message.clone(),
            count => format!("{count} findings, the first: {}", first.message),
        };
        text.push_str(&format!(
            "      <failure type=\"{}\" message=\"{}\">{}</failure>\n",
            first.code.0,
            escape_xml(&message),
            escape_xml(&lines(failing))
        ));
    }
    if !others.is_empty() {
        text.push_str(&format!(
            "      <system-out>{}</system-out>\n",
            escape_xml(&lines(others))
        ));
    }
    text + "    </testcase>\n"
}

/// Renders one line for each finding, `3:5 error[E021]: message`, followed by its help.
fn render_findings(file: &str, folder: &Path, findings: &[&Diagnostic]) -> String {
    let line = |finding: &&Diagnostic| {
        let place = finding.source.line_column(finding.span.start);
        let severity = match finding.severity {
            FindingSeverity::Error => "error",
            FindingSeverity::Warning => "warning",
            FindingSeverity::Hint => "hint",
        };
        let help = finding
            .help
            .as_ref()
            .map(|help| format!("\n  help: {help}"))
            .unwrap_or_default();
        let fix = finding.fix.as_ref();
        let fix = fix
            .map(|fix| format!("\n  fix: {}", fix_title(fix)))
            .unwrap_or_default();
        let (line, column) = (place.line, place.column);
        let file_prefix = match finding.source.name() {
            name if name == file => String::new(),
            name => format!("{}:", relative_path(name, folder)),
        };
        format!(
            "{file_prefix}{line}:{column} {severity}[{}]: {}{help}{fix}",
            finding.code.0, finding.message
        )
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}
