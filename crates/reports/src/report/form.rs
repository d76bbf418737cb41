//! A report of findings that is written file by file, so that nothing of a file is kept once it has been shown.

use serde::Serialize;

use ensemble_language::diagnostic::Diagnostic;

/// What was found in one file, which may be nothing.
#[derive(Debug)]
pub struct CheckedFile {
    /// The name under which it was read.
    pub name: String,
    /// In the order of the text.
    pub findings: Vec<Diagnostic>,
    /// Does one of them make the command fail?
    pub fails: bool,
}

/// What came together.
#[derive(Debug, Default)]
pub struct Totals {
    /// Files that were checked.
    pub files: usize,
    /// Files that fail.
    pub failed: usize,
    /// Has no file added anything?
    pub is_blank: bool,
}

/// How a report is spelled.
pub trait Form: Sync {
    /// What stands before everything else.
    fn begin(&self) -> String {
        String::new()
    }
    /// What a file adds; blank where that is nothing.
    fn file(&self, file: &CheckedFile) -> String;
    /// What stands between the parts of two files.
    fn between(&self) -> &'static str {
        ""
    }
    /// Does the report begin with totals, so that the parts must be held back until the end?
    fn is_held(&self) -> bool {
        false
    }
    /// What stands after everything else, after the parts that were held back.
    fn end(&self, _totals: &Totals, _held: &str) -> String {
        String::new()
    }
}

/// A report of one text.
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

/// Items of a JSON list, each on lines of its own that begin with `indent`; the brackets are left to others.
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
