//! The ensembles that can be started by name, with what a form needs.

use std::collections::HashMap;
use std::path::PathBuf;

use ensemble_ide::analysis::tested_ensemble_path;
use ensemble_language::cases::is_test_file;
use ensemble_language::ensemble::{Ensemble, InputDeclaration};
use ensemble_project::catalogue::list_named_ensembles;
use ensemble_project::project::Project;
use serde_json::{Value, json};

use crate::app::UiServerState;

/// Converts all ensembles of the project to JSON.
pub(super) fn ensembles_to_json(app: &UiServerState) -> Value {
    let project = app.runs.runs().project();
    let tests = editable_tests_by_ensemble(project, &project.list_named_files());
    let documents = list_named_ensembles(project).map(|listed| {
        let errors: Vec<&str> = listed.errors.iter().map(|error| &*error.message).collect();
        let ensemble = listed.loaded.ensemble.as_ref();
        let mut document = ensemble.map(ensemble_to_start_form_json).unwrap_or_else(|| json!({}));
        document["name"] = listed.name.into();
        document["file"] = listed.file.display().to_string().into();
        document["editable"] = project.contains_file(&listed.file).into();
        document["errors"] = json!(errors);
        document["tests"] = json!(tests.get(&project.folder.join(&listed.file)).unwrap_or(&Vec::new()));
        document
    });
    documents.collect()
}

/// Lists the editable test files by the ensemble that they test.
fn editable_tests_by_ensemble(project: &Project, files: &[(String, PathBuf)]) -> HashMap<PathBuf, Vec<String>> {
    let mut tests: HashMap<PathBuf, Vec<String>> = HashMap::new();
    let is_one = |path: &PathBuf| is_test_file(&path.to_string_lossy()) && project.contains_file(path);
    for (_, path) in files.iter().filter(|(_, path)| is_one(path)) {
        let text = project.read_file(path).ok();
        let tested = text.and_then(|text| tested_ensemble_path(text.text(), &project.folder.join(path)));
        if let Some(ensemble) = tested {
            tests.entry(ensemble).or_default().push(path.display().to_string());
        }
    }
    tests
}

/// Converts an ensemble to JSON for the start form.
fn ensemble_to_start_form_json(ensemble: &Ensemble) -> Value {
    let inputs = ensemble
        .inputs
        .as_ref()
        .map(|inputs| inputs.iter().map(input_to_json).collect::<Vec<_>>());
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

/// Converts a declared input to JSON.
fn input_to_json(input: &InputDeclaration) -> Value {
    json!({
        "name": input.name,
        "type": input.type_name(),
        "schema": input.schema,
        "default": input.default_value(),
        "description": input.description(),
    })
}
