//! Findings as SARIF 2.1.0, which code scanning services take in.
//!
//! Every code is a rule of the driver, so a rule's index is its place in the table of codes.

use std::path::Path;

use serde_json::{Value, json};

use super::place::uri;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::loader::codes;
use crate::loader::explain::explanation;
use crate::source::{Source, Span};

/// One log with one run.
pub fn sarif(diagnostics: &[Diagnostic], folder: &Path) -> String {
    let rules: Vec<Value> = codes::ALL.iter().map(|(code, title)| rule(*code, title)).collect();
    let results: Vec<Value> = diagnostics
        .iter()
        .map(|diagnostic| result(diagnostic, folder))
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "ensemble",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    let mut text = serde_json::to_string_pretty(&log).expect("texts and numbers are always JSON");
    text.push('\n');
    text
}

fn rule(code: Code, title: &str) -> Value {
    json!({
        "id": code.0,
        "shortDescription": {"text": title},
        "help": {"text": explanation(code), "markdown": explanation(code)},
        "defaultConfiguration": {"level": level(code.severity())},
    })
}

fn result(diagnostic: &Diagnostic, folder: &Path) -> Value {
    let message = match &diagnostic.help {
        Some(help) => format!("{}\nhelp: {help}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    let index = codes::ALL.iter().position(|(code, _)| *code == diagnostic.code);
    let mut result = json!({
        "ruleId": diagnostic.code.0,
        "ruleIndex": index,
        "level": level(diagnostic.severity),
        "message": {"text": message},
        "locations": [location(&diagnostic.source, diagnostic.span, folder)],
    });
    if !diagnostic.also.is_empty() {
        let related = diagnostic.also.iter().map(|(span, label)| {
            let mut location = location(&diagnostic.source, *span, folder);
            location["message"] = json!({"text": label});
            location
        });
        result["relatedLocations"] = related.collect();
    }
    result
}

fn location(source: &Source, span: Span, folder: &Path) -> Value {
    let (start, end) = (source.place(span.start), source.place(span.end));
    json!({"physicalLocation": {
        "artifactLocation": {"uri": uri(source.name(), folder)},
        "region": {
            "startLine": start.line,
            "startColumn": start.column,
            "endLine": end.line,
            "endColumn": end.column,
        },
    }})
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "note",
    }
}
