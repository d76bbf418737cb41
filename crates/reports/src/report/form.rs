//! Reports of findings that are written file by file, so that no file stays in memory after its report.

use serde::Serialize;

use ensemble_language::diagnostic::Diagnostic;

/// The findings about one file; possibly none.
#[derive(Debug)]
pub struct CheckedFile {
    /// The name of the file.
    pub name: String,
    /// The findings, in the order of the text.
    pub findings: Vec<Diagnostic>,
    /// Whether one of them makes the command fail.
    pub fails: bool,
}

/// The totals of a report.
#[derive(Debug, Default)]
pub struct Totals {
    /// The number of checked files.
    pub files: usize,
    /// The number of files that fail.
    pub failed: usize,
    /// Whether no file has added anything.
    pub is_blank: bool,
}

/// The format of a report.
pub trait Form: Sync {
    /// The text before everything else.
    fn begin(&self) -> String {
        String::new()
    }
    /// The text for a file; empty if there is none.
    fn file(&self, file: &CheckedFile) -> String;
    /// The text between two files.
    fn between(&self) -> &'static str {
        ""
    }
    /// Returns whether the report begins with totals. Then the texts of all files must be kept until the end.
    fn is_held(&self) -> bool {
        false
    }
    /// The text after everything else, including the texts that were kept.
    fn end(&self, _totals: &Totals, _held: &str) -> String {
        String::new()
    }
}

/// A report about one text.
pub(super) fn whole(form: &dyn Form, diagnostics: &[Diagnostic]) -> String {
    let part = form.file(&CheckedFile {
        name: String::new(),
        findings: diagnostics.to_vec(),
        fails: false,
    });
    let totals = Totals {
        files: 1,
        failed: 0,
        is_blank: part.is_empty(),
    };
    format!("{}{part}{}", form.begin(), form.end(&totals, ""))
}

/// The items of a JSON list, each on its own lines with this indent; without the brackets.
pub(super) fn listed<T: Serialize>(items: impl Iterator<Item = T>, indent: &str) -> String {
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
