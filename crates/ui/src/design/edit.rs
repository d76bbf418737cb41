//! Edits of the graph, as edits of the text.

use std::path::Path;
use std::sync::Arc;

use ensemble_ide::analysis::View;
use ensemble_ide::analysis::files::{is_shared_script, list_tests_of};
use ensemble_ide::analysis::findings::{Kind, Place};
use ensemble_ide::analysis::names::{self, Named};
use ensemble_ide::analysis::rename::{self, Renamed};
use ensemble_language::design::{self, Command};
use ensemble_language::loader::load;
use ensemble_language::source::{Source, Span};
use ensemble_project::project::{Project, read_source};
use serde_json::{Value, json};

use super::file::{digest, given_text};
use super::units::Units;
use crate::app::App;
use crate::reply::Failure;

/// The agents of a text with their dependencies and places.
pub(super) fn agents(source: &Source, units: &Units<'_>) -> Value {
    let sketched = design::sketch(source).into_iter().map(|agent| {
        let dependencies = agent.dependencies.iter().map(|one| {
            json!({
                "to": one.to,
                "condition": one.condition,
                "feedback": one.feedback,
                "on": one.on,
                "wait_for": one.wait_for,
                "max_executions": one.max_executions,
                "at": units.range(one.span),
            })
        });
        json!({
            "name": agent.name,
            "kind": agent.kind,
            "at": units.range(agent.span),
            "dependencies": dependencies.collect::<Vec<_>>(),
        })
    });
    sketched.collect()
}

/// `{title, edits, scripts, uncertain}` for `{file, text, edit}`: how the text changes, and what a rename leads to in scripts.
pub(super) fn edit(app: &App, given: &Value) -> Result<Value, Failure> {
    let (path, text) = given_text(app, given)?;
    let wanted = &given["edit"];
    if wanted["do"] == "rename" {
        return rename(app, &path, &text, wanted);
    }
    let command: Command = serde_json::from_value(wanted.clone())
        .map_err(|error| Failure::wrong(format!("`edit` is no edit: {error}")))?;
    let source = Source::new(path.display().to_string(), text.clone());
    let fix = design::edit(&source, &command).map_err(|error| Failure::wrong(error.to_string()))?;
    let units = Units::of(&text);
    let edits = fix
        .edits
        .iter()
        .map(|edit| edit_to_json(&units, edit.span, &edit.replacement));
    Ok(json!({"title": fix.title, "edits": edits.collect::<Vec<_>>(), "scripts": [], "uncertain": []}))
}

fn edit_to_json(units: &Units<'_>, span: Span, text: &str) -> Value {
    let mut json = units.range(span);
    json["text"] = text.into();
    json
}

/// `{do: rename, agent, name}`.
fn rename(app: &App, path: &Path, text: &Arc<str>, wanted: &Value) -> Result<Value, Failure> {
    let (agent, name) = (super::wanted(wanted, "agent")?, super::wanted(wanted, "name")?);
    let project = app.runs.runs().project();
    let absolute = project.folder.join(path);
    let place = Place::around(&absolute, project, &*app.checks);
    let loaded = load(&Source::new("", text.clone()));
    // While the text has errors, that of the file tells which scripts there are.
    let of_file = || load(&project.read(path).ok()?).ensemble;
    let ensemble = loaded.ensemble.or_else(of_file).map(Arc::new);
    let view = View::of(text, place.folder(), ensemble, Kind::Ensemble);
    let definition = names::definition(&view, Named::Agent, agent);
    let at = definition.ok_or_else(|| Failure::wrong(format!("there is no agent `{agent}`")))?;
    let shared = |script: &Path| is_shared_script(script, &absolute) || !project.holds(script);
    let tests = list_tests_of(&absolute).into_iter();
    let tests = tests.filter_map(|(path, text)| Some((path.strip_prefix(&project.folder).ok()?.to_owned(), text)));
    let renamed = rename::rename(&view, at.start, name, &shared, tests.collect()).map_err(Failure::wrong)?;
    let units = Units::of(text);
    let edits = renamed
        .edits
        .iter()
        .map(|edit| edit_to_json(&units, edit.span, &edit.replacement));
    Ok(json!({
        "title": format!("call `{agent}` `{name}`"),
        "edits": edits.collect::<Vec<_>>(),
        "scripts": others(project, &renamed, agent, name)?,
        "uncertain": renamed.uncertain,
    }))
}

/// The scripts and test files that name the agent, in the form that `save` takes.
fn others(project: &Project, renamed: &Renamed, agent: &str, name: &str) -> Result<Vec<Value>, Failure> {
    let others = renamed.others.iter().map(|(path, ..)| {
        let text = read_source(&project.folder.join(path))?;
        let names = json!([[agent, name, renamed.is_stored]]);
        Ok(json!({"file": path, "digest": digest(text.text()), "names": names}))
    });
    others.collect()
}
