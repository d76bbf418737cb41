//! What is found in a text, its agents, and its graph.

use ensemble_ide::analysis::findings::FolderChecks;
use ensemble_language::design::parse_file_values;
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::loader::load_ensemble;
use ensemble_language::source::SourceText;
use ensemble_language::yaml::edit::{FixApplicability, TextFix};
use serde_json::{Value, json};

use super::file::resolve_file_and_text;
use super::utf16_lines::{Utf16LineIndex, position_json};
use crate::app::UiServerState;
use crate::reply::ApiFailure;
use crate::view::draw_for_page;

/// Checks a text, and returns its findings and agents: `{findings, agents}`.
pub(super) fn check_text(app: &UiServerState, given: &Value) -> Result<Value, ApiFailure> {
    let (path, text) = resolve_file_and_text(app, given)?;
    let project = app.runs.runs().project();
    let place = FolderChecks::for_file(&project.folder.join(&path), project, &*app.checks);
    let diagnostics = place
        .check_text_if_wanted(&project.folder.join(&path), &text, &|| true)
        .unwrap_or_default();
    let source = SourceText::new(path.display().to_string(), text.clone());
    let units = Utf16LineIndex::new(&text);
    let findings: Vec<Value> = diagnostics
        .iter()
        .map(|finding| finding_to_json(finding, &source, &units))
        .collect();
    Ok(
        json!({"findings": findings, "agents": super::edit::agents_to_json(&source, &units), "values": parse_file_values(&source)}),
    )
}

/// Converts a finding to JSON. A fix is included only if it changes the checked text.
fn finding_to_json(finding: &Diagnostic, source: &SourceText, units: &Utf16LineIndex<'_>) -> Value {
    let is_here = finding.source.name() == source.name();
    let is_in_same_file = |fix: &&TextFix| *fix.file == *source.name();
    let fix = finding
        .fix
        .as_ref()
        .filter(is_in_same_file)
        .filter(|_| is_here)
        .map(|fix| {
            let edits = fix.edits.iter().map(|edit| {
                let mut range = units.range_json(edit.span);
                range["text"] = edit.replacement.as_str().into();
                range
            });
            json!({
                "title": fix.title,
                "safe": fix.applicability == FixApplicability::Safe,
                "edits": edits.collect::<Vec<_>>(),
            })
        });
    let related = finding.related.iter().map(|related| {
        let place = related.source.line_column(related.span.start);
        json!({"message": related.message, "file": related.source.name(), "line": place.line, "column": place.column})
    });
    json!({
        "severity": finding.severity,
        "code": finding.code,
        "message": finding.message,
        "help": finding.help,
        "file": (!is_here).then(|| finding.source.name()),
        "at": is_here.then(|| position_json(source, units, finding.span)),
        "related": related.collect::<Vec<_>>(),
        "fix": fix,
    })
}

/// Draws the graph of a text as SVG without a style.
pub(super) fn draw_text_graph(app: &UiServerState, given: &Value) -> Result<String, ApiFailure> {
    let (path, text) = resolve_file_and_text(app, given)?;
    let loaded = load_ensemble(&SourceText::new(path.display().to_string(), text));
    let ensemble = loaded
        .ensemble
        .ok_or_else(|| ApiFailure::bad_request("the text has errors, so it has no graph"))?;
    draw_for_page(&(app.picture)(&ensemble))
}
