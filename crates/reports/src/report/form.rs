//! Reports of findings that are written file by file, so that no file stays in memory after its report.

use serde::Serialize;

use ensemble_language::diagnostic::Diagnostic;

/// The findings about one file, possibly none.
#[derive(Debug)]
pub struct FileFindings {
    /// The name of the file.
    pub name: String,
    /// The findings, in the order of the text.
    pub findings: Vec<Diagnostic>,
    /// True if one of the findings makes the command fail.
    pub fails: bool,
}

/// The totals of a findings report: the number of files, and of files that fail.
#[derive(Debug, Default)]
pub struct FindingsReportTotals {
    /// The number of checked files.
    pub files: usize,
    /// The number of files that fail.
    pub failed: usize,
    /// True if no file has added a text.
    pub is_blank: bool,
}

/// A format of a findings report, which renders the header, each file and the footer.
pub trait FindingsReportFormat: Sync {
    /// Renders the text before the first file.
    fn render_header(&self) -> String {
        String::new()
    }
    /// Renders the text for a file, or an empty text.
    fn render_file(&self, file: &FileFindings) -> String;
    /// Returns the text between two files.
    fn file_separator(&self) -> &'static str {
        ""
    }
    /// Returns whether the report starts with totals. The texts of all files are then kept until the end.
    fn needs_totals_first(&self) -> bool {
        false
    }
    /// Renders the text after the last file, including the kept texts.
    fn render_footer(&self, _totals: &FindingsReportTotals, _held: &str) -> String {
        String::new()
    }
}

/// Renders a report about one text.
pub(super) fn render_findings_report(form: &dyn FindingsReportFormat, diagnostics: &[Diagnostic]) -> String {
    let part = form.render_file(&FileFindings {
        name: String::new(),
        findings: diagnostics.to_vec(),
        fails: false,
    });
    let totals = FindingsReportTotals {
        files: 1,
        failed: 0,
        is_blank: part.is_empty(),
    };
    format!("{}{part}{}", form.render_header(), form.render_footer(&totals, ""))
}

/// Renders the items of a JSON list without brackets, each on separate lines with this indent.
pub(super) fn render_json_items<T: Serialize>(items: impl Iterator<Item = T>, indent: &str) -> String {
    let mut text = String::new();
    for item in items {
        if !text.is_empty() {
            text.push(',');
        }
        let item = serde_json::to_string_pretty(&item).expect("texts and numbers are always JSON");
        for line in item.lines() {
            text.push('\n');
            text.push_str(indent);
            text.push_str(line);
        }
    }
    text
}
