//! Fixes as actions of the editor.

use std::collections::HashMap;
use std::sync::Arc;

use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::source::Span;
use ensemble_language::yaml::edit::{Applicability, Edit, Fix, difference};
use lsp_types::CodeActionParams;
use serde_json::{Value, json};

use super::capabilities::{Client, FIX_ALL};
use super::documents::Document;
use super::{Services, shown};
use ensemble_ide::analysis::findings::Place;
use ensemble_ide::analysis::fixes;

/// The actions for a range of a text: a fix for each finding that has one, and one for all safe ones.
pub(super) fn actions(
    params: &CodeActionParams,
    documents: &HashMap<String, Arc<Document>>,
    place: &Place<'_>,
    services: &Services,
    client: Client,
) -> Option<Vec<Value>> {
    let document = documents.get(params.text_document.uri.as_str())?;
    let project = &services.project;
    let found = place.check(&document.path, document.text.text(), &|| true)?;
    let mut actions = Vec::new();
    if wants(params, "quickfix") {
        let range = document.text.span(params.range);
        let fixable = fixes::with_fixes(&found, range);
        actions.extend(fixable.map(|(finding, fix)| {
            let finding = shown::finding(finding, &document.text, &document.uri, &project.folder, client);
            action(document, fix, &json!([finding]))
        }));
    }
    let is_safe = |finding: &Diagnostic| {
        finding
            .fix
            .as_ref()
            .is_some_and(|fix| fix.applicability == Applicability::Safe)
    };
    if wants(params, FIX_ALL)
        && found.iter().any(is_safe)
        && let Some(fixed) = fixes::all_safe(&document.path, document.text.text(), place)
    {
        let Edit { span, replacement } = difference(document.text.text(), &fixed);
        actions.push(json!({
            "title": "Fix everything that can be fixed safely (ensemble)",
            "kind": FIX_ALL,
            "edit": edit(document, &[(span, &replacement)]),
        }));
    }
    Some(actions)
}

/// Returns whether the client asks for this kind of action, or for one of which it is a part, or for any.
fn wants(params: &CodeActionParams, kind: &str) -> bool {
    let holds = |asked: &str| {
        let rest = kind.strip_prefix(asked);
        rest.is_some_and(|rest| asked.is_empty() || rest.is_empty() || rest.starts_with('.'))
    };
    let only = params.context.only.as_ref();
    only.is_none_or(|only| only.iter().any(|asked| holds(asked.as_str())))
}

fn action(document: &Document, fix: &Fix, findings: &Value) -> Value {
    let edits: Vec<(Span, &str)> = fix
        .edits
        .iter()
        .map(|edit| (edit.span, edit.replacement.as_str()))
        .collect();
    json!({
        "title": fix.title,
        "kind": "quickfix",
        "diagnostics": findings,
        "isPreferred": fix.applicability == Applicability::Safe,
        "edit": edit(document, &edits),
    })
}

fn edit(document: &Document, edits: &[(Span, &str)]) -> Value {
    let edit = |(span, text): &(Span, &str)| json!({"range": document.text.range(*span), "newText": text});
    let edits: Vec<Value> = edits.iter().map(edit).collect();
    json!({"changes": {document.uri.as_str(): edits}})
}
