//! Fixes as actions of the editor.

use std::collections::HashMap;
use std::sync::Arc;

use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::source::Span;
use ensemble_language::yaml::edit::{FixApplicability, TextEdit, TextFix, compute_text_edit};
use lsp_types::CodeActionParams;
use serde_json::{Value, json};

use super::capabilities::{ClientFeatures, FIX_ALL_ACTION};
use super::documents::OpenDocument;
use super::{LspServerOptions, lsp_diagnostic};
use ensemble_ide::analysis::findings::FolderChecks;
use ensemble_ide::analysis::fixes;

/// Returns the actions for a range of a text: one for each finding with a fix, and one that applies all safe fixes.
pub(super) fn list_code_actions(
    params: &CodeActionParams,
    documents: &HashMap<String, Arc<OpenDocument>>,
    place: &FolderChecks<'_>,
    services: &LspServerOptions,
    client: ClientFeatures,
) -> Option<Vec<Value>> {
    let document = documents.get(params.text_document.uri.as_str())?;
    let project = &services.project;
    let findings = place.check_text_if_wanted(&document.path, document.text.content(), &|| true)?;
    let mut actions = Vec::new();
    if accepts_action_kind(params, "quickfix") {
        let range = document.text.span_for_range(params.range);
        let fixable = fixes::list_fixes_in_range(&findings, range);
        actions.extend(fixable.map(|(finding, fix)| {
            let finding =
                lsp_diagnostic::to_lsp_diagnostic(finding, &document.text, &document.uri, &project.folder, client);
            build_quick_fix(document, fix, &json!([finding]))
        }));
    }
    let is_safe = |finding: &Diagnostic| {
        finding
            .fix
            .as_ref()
            .is_some_and(|fix| fix.applicability == FixApplicability::Safe)
    };
    if accepts_action_kind(params, FIX_ALL_ACTION)
        && findings.iter().any(is_safe)
        && let Some(fixed) = fixes::text_with_safe_fixes(&document.path, document.text.content(), place)
    {
        let TextEdit { span, replacement } = compute_text_edit(document.text.content(), &fixed);
        actions.push(json!({
            "title": "Fix everything that can be fixed safely (ensemble)",
            "kind": FIX_ALL_ACTION,
            "edit": build_workspace_edit(document, &[(span, &replacement)]),
        }));
    }
    Some(actions)
}

/// Returns whether the client asks for this kind of action, for a kind that contains it, or for any kind.
fn accepts_action_kind(params: &CodeActionParams, kind: &str) -> bool {
    let holds = |asked: &str| {
        let suffix = kind.strip_prefix(asked);
        suffix.is_some_and(|rest| asked.is_empty() || rest.is_empty() || rest.starts_with('.'))
    };
    let only = params.context.only.as_ref();
    only.is_none_or(|only| only.iter().any(|asked| holds(asked.as_str())))
}

/// Builds the action that applies one fix.
fn build_quick_fix(document: &OpenDocument, fix: &TextFix, findings: &Value) -> Value {
    let edits: Vec<(Span, &str)> = fix
        .edits
        .iter()
        .map(|edit| (edit.span, edit.replacement.as_str()))
        .collect();
    json!({
        "title": fix.title,
        "kind": "quickfix",
        "diagnostics": findings,
        "isPreferred": fix.applicability == FixApplicability::Safe,
        "edit": build_workspace_edit(document, &edits),
    })
}

/// Converts edits of one document to the form of the protocol.
fn build_workspace_edit(document: &OpenDocument, edits: &[(Span, &str)]) -> Value {
    let edit = |(span, text): &(Span, &str)| json!({"range": document.text.range_for_span(*span), "newText": text});
    let edits: Vec<Value> = edits.iter().map(edit).collect();
    json!({"changes": {document.uri.as_str(): edits}})
}
