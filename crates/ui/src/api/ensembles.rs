//! The ensembles that can be started by name, with what a form needs.

use std::collections::HashMap;
use std::path::PathBuf;

use ensemble_ide::analysis::tested_by;
use ensemble_language::cases::is_test_file;
use ensemble_language::ensemble::{Ensemble, Input};
use ensemble_project::catalogue::list_ensembles;
use ensemble_project::project::Project;
use serde_json::{Value, json};

use crate::app::App;

/// All ensembles of the project.
pub(super) fn list(app: &App) -> Value {
    let project = app.runs.runs().project();
    let tests = tests(project, &project.named_files());
    let listed = list_ensembles(project).map(|listed| {
        let errors: Vec<&str> = listed.errors.iter().map(|error| &*error.message).collect();
        let ensemble = listed.loaded.ensemble.as_ref();
        let mut document = ensemble.map(described).unwrap_or_else(|| json!({}));
        document["name"] = listed.name.into();
        document["file"] = listed.file.display().to_string().into();
        document["editable"] = project.holds(&listed.file).into();
        document["errors"] = json!(errors);
        document["tests"] = json!(tests.get(&project.folder.join(&listed.file)).unwrap_or(&Vec::new()));
        document
    });
    listed.collect()
}

/// The test files that can be edited, by the ensembles that they test.
fn tests(project: &Project, files: &[(String, PathBuf)]) -> HashMap<PathBuf, Vec<String>> {
    let mut tests: HashMap<PathBuf, Vec<String>> = HashMap::new();
    let is_one = |path: &PathBuf| is_test_file(&path.to_string_lossy()) && project.holds(path);
    for (_, path) in files.iter().filter(|(_, path)| is_one(path)) {
        let text = project.read(path).ok();
        let tested = text.and_then(|text| tested_by(text.text(), &project.folder.join(path)));
        if let Some(ensemble) = tested {
            tests.entry(ensemble).or_default().push(path.display().to_string());
        }
    }
    tests
}

/// Renders a form.
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
