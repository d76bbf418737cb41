//! Findings as SARIF 2.1.0, for code scanning services.
//!
//! Every code is a rule of the driver, with or without findings: a service shows which rules were checked.

use std::path::Path;

use serde_json::{Value, json};

use super::diagnostics::{fix_title, text_of};
use super::form::{CheckedFile, Form, Totals, listed};
use super::place::uri;
use ensemble_language::diagnostic::{Code, Diagnostic, Severity};
use ensemble_language::source::{Source, Span};
use ensemble_language::yaml::edit::Fix;

/// The description of a code.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The code.
    pub code: Code,
    /// The title, on one line.
    pub title: &'static str,
    /// The explanation, in Markdown.
    pub explanation: &'static str,
}

/// A log with one run.
#[derive(Debug)]
pub struct Sarif<'f> {
    /// Every code that a finding can have.
    pub rules: Vec<Rule>,
    /// The folder to which file names are relative.
    pub folder: &'f Path,
}

impl Form for Sarif<'_> {
    fn begin(&self) -> String {
        let run = json!({
            "tool": {"driver": {
                "name": "ensemble",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": self.rules.iter().map(described).collect::<Vec<Value>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": [],
        });
        let log = json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [run],
        });
        let text = serde_json::to_string_pretty(&log).expect("texts and numbers are always JSON");
        // The results are the last list of the document, and are written at its end.
        let end = text.rfind("[]").map_or(text.len(), |at| at + 1);
        text[..end].to_owned()
    }

    fn file(&self, file: &CheckedFile) -> String {
        let results = file.findings.iter();
        listed(
            results.map(|diagnostic| result(diagnostic, &self.rules, self.folder)),
            "        ",
        )
    }

    fn between(&self) -> &'static str {
        ","
    }

    fn end(&self, totals: &Totals, _held: &str) -> String {
        let close = if totals.is_blank { "]" } else { "\n      ]" };
        format!("{close}\n    }}\n  ]\n}}\n")
    }
}

fn described(rule: &Rule) -> Value {
    json!({
        "id": rule.code.0,
        "shortDescription": {"text": rule.title},
        "help": {"text": rule.explanation, "markdown": rule.explanation},
        "defaultConfiguration": {"level": level(rule.code.severity())},
    })
}

fn result(diagnostic: &Diagnostic, rules: &[Rule], folder: &Path) -> Value {
    let message = match &diagnostic.help {
        Some(help) => format!("{}\nhelp: {help}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    let index = rules.iter().position(|rule| rule.code == diagnostic.code);
    let mut result = json!({
        "ruleId": diagnostic.code.0,
        "ruleIndex": index,
        "level": level(diagnostic.severity),
        "message": {"text": message},
        "locations": [location(&diagnostic.source, diagnostic.span, folder)],
    });
    if !diagnostic.related.is_empty() {
        let related = diagnostic.related.iter().map(|one| {
            let mut location = location(&one.source, one.span, folder);
            location["message"] = json!({"text": one.message});
            location
        });
        result["relatedLocations"] = related.collect();
    }
    if let Some(fix) = diagnostic.fix.as_ref().and_then(|fix| change(diagnostic, fix, folder)) {
        result["fixes"] = json!([fix]);
    }
    result
}

/// A fix; `None` if one of its texts is not known.
fn change(diagnostic: &Diagnostic, fix: &Fix, folder: &Path) -> Option<Value> {
    let source = text_of(diagnostic, &fix.file)?;
    let replacements = fix.edits.iter().map(|edit| {
        json!({
            "deletedRegion": region(source, edit.span),
            "insertedContent": {"text": edit.replacement},
        })
    });
    let change = json!({
        "artifactLocation": {"uri": uri(&fix.file, folder)},
        "replacements": replacements.collect::<Vec<_>>(),
    });
    Some(json!({"description": {"text": fix_title(fix)}, "artifactChanges": [change]}))
}

fn region(source: &Source, span: Span) -> Value {
    let (start, end) = (source.place(span.start), source.place(span.end));
    json!({
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    })
}

fn location(source: &Source, span: Span, folder: &Path) -> Value {
    json!({"physicalLocation": {
        "artifactLocation": {"uri": uri(source.name(), folder)},
        "region": region(source, span),
    }})
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "note",
    }
}
