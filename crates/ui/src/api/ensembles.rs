//! The ensembles that can be started by name, with what a form needs.

use ensemble_language::diagnostic::Severity;
use ensemble_language::ensemble::{Ensemble, Input};
use ensemble_language::loader::load;
use ensemble_runs::around::Folder;
use ensemble_runs::prepare::examine;
use serde_json::{Value, json};

use crate::app::App;

/// All ensembles of the project.
pub(super) fn list(app: &App) -> Value {
    let project = app.runs.runs().project();
    let listed = project.named_files().into_iter().filter_map(|(name, path)| {
        let loaded = load(&project.read(&path).ok()?);
        if !loaded.is_ensemble() {
            return None;
        }
        let findings = examine(&loaded, &Folder::around(&path, project));
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
        let errors: Vec<&str> = errors.map(|finding| &*finding.message).collect();
        let mut document = loaded.ensemble.as_ref().map(described).unwrap_or_else(|| json!({}));
        document["name"] = name.into();
        document["file"] = path.display().to_string().into();
        document["editable"] = project.holds(&path).into();
        document["errors"] = json!(errors);
        Some(document)
    });
    listed.collect()
}

/// What a form shows.
fn described(ensemble: &Ensemble) -> Value {
    let inputs = ensemble
        .inputs
        .as_ref()
        .map(|inputs| inputs.iter().map(input).collect::<Vec<_>>());
    let agents: Vec<Value> = ensemble
        .agents
        .iter()
        .map(|agent| json!({"name": agent.name, "kind": agent.kind_name()}))
        .collect();
    json!({
        "description": ensemble.description,
        "default_task": ensemble.default_task,
        "inputs": inputs,
        "agents": agents,
    })
}

fn input(input: &Input) -> Value {
    json!({
        "name": input.name,
        "type": input.type_name(),
        "schema": input.schema,
        "default": input.default(),
        "description": input.description(),
    })
}
