//! Findings as SARIF 2.1.0, for code scanning services.
//!
//! Every code is a rule of the driver, even without findings, so that a service shows the checked rules.

use std::path::Path;

use serde_json::{Value, json};

use super::diagnostics::{find_source_by_name, fix_title};
use super::file_names::relative_uri;
use super::form::{FileFindings, FindingsReportFormat, FindingsReportTotals, render_json_items};
use ensemble_language::diagnostic::{Diagnostic, FindingCode, FindingSeverity};
use ensemble_language::source::{SourceText, Span};
use ensemble_language::yaml::edit::TextFix;

/// A description of a finding code, as a rule of the log.
#[derive(Debug, Clone, Copy)]
pub struct SarifRule {
    /// The code.
    pub code: FindingCode,
    /// The title, on one line.
    pub title: &'static str,
    /// The explanation, in Markdown.
    pub explanation: &'static str,
}

/// A report as a SARIF log with one run.
#[derive(Debug)]
pub struct SarifFindingsFormat<'f> {
    /// Every code that a finding can have.
    pub rules: Vec<SarifRule>,
    /// The folder to which file names are relative.
    pub folder: &'f Path,
}

impl FindingsReportFormat for SarifFindingsFormat<'_> {
    fn render_header(&self) -> String {
        let run = json!({
            "tool": {"driver": {
                "name": "ensemble",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": self.rules.iter().map(rule_json).collect::<Vec<Value>>(),
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

    fn render_file(&self, file: &FileFindings) -> String {
        let results = file.findings.iter();
        render_json_items(
            results.map(|diagnostic| finding_to_json(diagnostic, &self.rules, self.folder)),
            "        ",
        )
    }

    fn file_separator(&self) -> &'static str {
        ","
    }

    fn render_footer(&self, totals: &FindingsReportTotals, _held: &str) -> String {
        let close = if totals.is_blank { "]" } else { "\n      ]" };
        format!("{close}\n    }}\n  ]\n}}\n")
    }
}

/// Converts a rule to JSON.
fn rule_json(rule: &SarifRule) -> Value {
    json!({
        "id": rule.code.0,
        "shortDescription": {"text": rule.title},
        "help": {"text": rule.explanation, "markdown": rule.explanation},
        "defaultConfiguration": {"level": level_word(rule.code.severity())},
    })
}

/// Converts a finding to a SARIF result.
fn finding_to_json(diagnostic: &Diagnostic, rules: &[SarifRule], folder: &Path) -> Value {
    let message = match &diagnostic.help {
        Some(help) => format!("{}\nhelp: {help}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    let index = rules.iter().position(|rule| rule.code == diagnostic.code);
    let mut result = json!({
        "ruleId": diagnostic.code.0,
        "ruleIndex": index,
        "level": level_word(diagnostic.severity),
        "message": {"text": message},
        "locations": [location_json(&diagnostic.source, diagnostic.span, folder)],
    });
    if !diagnostic.related.is_empty() {
        let related = diagnostic.related.iter().map(|one| {
            let mut location = location_json(&one.source, one.span, folder);
            location["message"] = json!({"text": one.message});
            location
        });
        result["relatedLocations"] = related.collect();
    }
    if let Some(fix) = diagnostic
        .fix
        .as_ref()
        .and_then(|fix| fix_json(diagnostic, fix, folder))
    {
        result["fixes"] = json!([fix]);
    }
    result
}

/// Converts a fix to JSON. Returns `None` if a source is unknown.
fn fix_json(diagnostic: &Diagnostic, fix: &TextFix, folder: &Path) -> Option<Value> {
    let source = find_source_by_name(diagnostic, &fix.file)?;
    let replacements = fix.edits.iter().map(|edit| {
        json!({
            "deletedRegion": region_json(source, edit.span),
            "insertedContent": {"text": edit.replacement},
        })
    });
    let change = json!({
        "artifactLocation": {"uri": relative_uri(&fix.file, folder)},
        "replacements": replacements.collect::<Vec<_>>(),
    });
    Some(json!({"description": {"text": fix_title(fix)}, "artifactChanges": [change]}))
}

/// Converts a span to a SARIF region.
fn region_json(source: &SourceText, span: Span) -> Value {
    let (start, end) = (source.line_column(span.start), source.line_column(span.end));
    json!({
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    })
}

/// Converts a span in a file to a SARIF location.
fn location_json(source: &SourceText, span: Span, folder: &Path) -> Value {
    json!({"physicalLocation": {
        "artifactLocation": {"uri": relative_uri(source.name(), folder)},
        "region": region_json(source, span),
    }})
}

/// Returns the SARIF level of a severity.
fn level_word(severity: FindingSeverity) -> &'static str {
    match severity {
        FindingSeverity::Error => "error",
        FindingSeverity::Warning => "warning",
        FindingSeverity::Hint => "note",
    }
}
