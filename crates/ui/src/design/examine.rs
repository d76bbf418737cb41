//! What is found in a text, its agents, and its graph.

use ensemble_ide::analysis::findings::Place;
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::loader::load;
use ensemble_language::source::Source;
use ensemble_language::yaml::edit::{Applicability, Fix};
use ensemble_reports::report::graph::{STYLE, svg};
use serde_json::{Value, json};

use super::file::given_text;
use super::units::{Units, place};
use crate::app::App;
use crate::reply::Failure;

/// `{findings, agents}`. The findings are those of `validate`.
pub(super) fn examine(app: &App, given: &Value) -> Result<Value, Failure> {
    let (path, text) = given_text(app, given)?;
    let project = app.runs.runs().project();
    let place = Place::around(&project.folder.join(&path), project, &*app.checks);
    let found = place
        .check(&project.folder.join(&path), &text, &|| true)
        .unwrap_or_default();
    let source = Source::new(path.display().to_string(), text.clone());
    let units = Units::of(&text);
    let findings: Vec<Value> = found
        .iter()
        .map(|finding| described(finding, &source, &units))
        .collect();
    Ok(json!({"findings": findings, "agents": super::edit::agents(&source, &units)}))
}

fn described(finding: &Diagnostic, source: &Source, units: &Units<'_>) -> Value {
    let is_here = finding.source.name() == source.name();
    let own = |fix: &&Fix| *fix.file == *source.name();
    let fix = finding.fix.as_ref().filter(own).filter(|_| is_here).map(|fix| {
        let edits = fix.edits.iter().map(|edit| {
            let mut range = units.range(edit.span);
            range["text"] = edit.replacement.as_str().into();
            range
        });
        json!({
            "title": fix.title,
            "safe": fix.applicability == Applicability::Safe,
            "edits": edits.collect::<Vec<_>>(),
        })
    });
    let related = finding.related.iter().map(|related| {
        let place = related.source.place(related.span.start);
        json!({"message": related.message, "file": related.source.name(), "line": place.line, "column": place.column})
    });
    json!({
        "severity": finding.severity,
        "code": finding.code,
        "message": finding.message,
        "help": finding.help,
        "file": (!is_here).then(|| finding.source.name()),
        "at": is_here.then(|| place(source, units, finding.span)),
        "related": related.collect::<Vec<_>>(),
        "fix": fix,
    })
}

/// The graph of a text as SVG, without a style of its own.
pub(super) fn graph(app: &App, given: &Value) -> Result<String, Failure> {
    let (path, text) = given_text(app, given)?;
    let loaded = load(&Source::new(path.display().to_string(), text));
    let ensemble = loaded
        .ensemble
        .ok_or_else(|| Failure::wrong("the text has errors, so it has no graph"))?;
    Ok(svg(&(app.picture)(&ensemble)).replace(&format!("<style>\n{STYLE}</style>\n"), ""))
}
