//! Reports of findings that are written file by file, so that no file stays in memory after its report.

use serde::Serialize;

use ensemble_language::diagnostic::Diagnostic;

/// The findings about one file; possibly none.
#[derive(Debug)]
pub struct FileFindings {
    /// The name of the file.
    pub name: String,
    /// The findings, in the order of the text.
    pub findings: Vec<Diagnostic>,
    /// Whether one of them makes the command fail.
    pub fails: bool,
}

/// The totals of a report.
#[derive(Debug, Default)]
pub struct ReportTotals {
    /// The number of checked files.
    pub files: usize,
    /// The number of files that fail.
    pub failed: usize,
    /// Whether no file has added anything.
    pub is_blank: bool,
}

/// The format of a report.
pub trait FindingsReportFormat: Sync {
    /// Returns the text before everything else.
    fn render_header(&self) -> String {
        String::new()
    }
    /// Returns the text for a file; empty if there is none.
    fn render_file(&self, file: &FileFindings) -> String;
    /// Returns the text between two files.
    fn file_separator(&self) -> &'static str {
        ""
    }
    /// Returns whether the report begins with totals. Then the texts of all files must be kept until the end.
    fn needs_totals_first(&self) -> bool {
        false
    }
    /// Returns the text after everything else, including the texts that were kept.
    fn render_footer(&self, _totals: &ReportTotals, _held: &str) -> String {
        String::new()
    }
}

/// Returns a report about one text.
pub(super) fn render_one_text(form: &dyn FindingsReportFormat, diagnostics: &[Diagnostic]) -> String {
    let part = form.render_file(&FileFindings {
        name: String::new(),
        findings: diagnostics.to_vec(),
        fails: false,
    });
    let totals = ReportTotals {
        files: 1,
        failed: 0,
        is_blank: part.is_empty(),
    };
    format!("{}{part}{}", form.render_header(), form.render_footer(&totals, ""))
}

/// Returns the items of a JSON list, each on its own lines with this indent; without the brackets.
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
