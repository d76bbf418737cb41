//! The ensembles of the served folder, each as a typed tool.
//!
//! Invariant: no file outside of the folder is named, even through links.

use std::path::PathBuf;
use std::sync::Arc;

use ensemble_core::operator::escape_hidden;
use ensemble_language::ensemble::{AgentKind, Ensemble, ResultSpec};
use ensemble_language::loader::load_ensemble;
use ensemble_project::catalogue::list_ensembles_with_shadowed;
use ensemble_project::prepare::{can_be_quoted_to_client, describe_without_quoting};
use ensemble_project::{Project, ProjectError};
use ensemble_reports::report::format_count;
use ensemble_runs::schema_of_inputs;
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::names::choose_tool_names;
use crate::status::status_document_schema;

/// The ensembles of a folder: those that are offered as tools, and the invalid ones.
#[derive(Debug, Default)]
pub struct EnsembleToolCatalog {
    /// The ensembles that can be run.
    pub entries: Vec<EnsembleToolEntry>,
    /// The ensembles with errors.
    pub invalid_ensembles: Vec<InvalidEnsembleFile>,
}

/// An ensemble that is offered as a tool, with its tool name and its file.
#[derive(Debug)]
pub struct EnsembleToolEntry {
    /// The name of the tool.
    pub tool: String,
    /// True if another ensemble or a tool of the server has the same name, so that `tool` contains a digest of the path.
    pub is_qualified: bool,
    /// The file of the ensemble, relative to the folder.
    pub file: PathBuf,
    /// The loaded ensemble.
    pub ensemble: Ensemble,
}

/// An ensemble file with errors, which is not offered as a tool.
#[derive(Debug)]
pub struct InvalidEnsembleFile {
    /// The file of the ensemble, relative to the folder.
    pub file: PathBuf,
    /// The number of errors.
    pub errors: usize,
}

impl EnsembleToolCatalog {
    /// Loads the ensembles of the folder that can be run by name. Ignores files outside of the folder.
    pub fn load_catalog(project: &Project) -> Self {
        let mut invalid_ensembles = Vec::new();
        let mut valid_ensembles = Vec::new();
        for listed_ensemble in
            list_ensembles_with_shadowed(project).filter(|listed| project.contains_file(&listed.file))
        {
            let errors = listed_ensemble.errors.len();
            match listed_ensemble.loaded.ensemble {
                Some(ensemble) if errors == 0 => {
                    valid_ensembles.push((listed_ensemble.name, listed_ensemble.file, ensemble))
                }
                _ => invalid_ensembles.push(InvalidEnsembleFile {
                    file: listed_ensemble.file,
                    errors,
                }),
            }
        }
        let named_files: Vec<(String, String)> = valid_ensembles
            .iter()
            .map(|(name, file, _)| (name.clone(), file.to_string_lossy().into_owned()))
            .collect();
        let names = choose_tool_names(&named_files, &crate::tools::BUILT_IN_TOOL_NAMES);
        let entries = valid_ensembles
            .into_iter()
            .zip(names)
            .map(|((_, file, ensemble), name)| EnsembleToolEntry {
                tool: name.text,
                is_qualified: name.is_qualified,
                file,
                ensemble,
            });
        Self {
            entries: entries.collect(),
            invalid_ensembles,
        }
    }

    /// Returns the entry of the tool with this name, and drops all other entries.
    pub(crate) fn into_tool_entry(self, tool: &str) -> Option<EnsembleToolEntry> {
        self.entries.into_iter().find(|entry| entry.tool == tool)
    }
}

/// The files of the ensembles with their times and sizes, which change when an ensemble changes.
pub(crate) type FolderFingerprint = Vec<(PathBuf, Option<std::time::SystemTime>, u64)>;

/// Reads the current fingerprint of the folder.
pub(crate) fn read_folder_fingerprint(project: &Project) -> FolderFingerprint {
    let files = project.list_named_and_shadowed_files().into_iter().map(|(_, file)| {
        let about = project.folder.join(&file).metadata().ok();
        let changed = about.as_ref().and_then(|about| about.modified().ok());
        (file, changed, about.map_or(0, |about| about.len()))
    });
    files.collect()
}

/// Resolves the file of an ensemble that a client names: by name, or by a path relative to the folder.
///
/// # Errors
///
/// The file does not exist, or is not inside the folder.
fn resolve_ensemble_file(project: &Project, given: &str) -> Result<PathBuf, String> {
    let outside = || format!("`{given}` is not inside the served folder");
    let file = project.resolve_ensemble_file(given).map_err(|error| match error {
        ProjectError::NotFound { given, similar, .. } => match similar {
            Some(similar) => format!("there is no ensemble `{given}`; did you mean `{similar}`?"),
            None => format!("there is no ensemble `{given}` in the served folder"),
        },
        error => error.to_string(),
    })?;
    if project.contains_file(&file) {
        Ok(file)
    } else {
        Err(outside())
    }
}

/// Resolves the file of an ensemble that a client names, and checks that the file is an ensemble. Other files are refused, because findings
/// quote the text of the file.
///
/// # Errors
///
/// The file does not exist, is not inside the folder, cannot be read, or is not an ensemble.
pub(crate) fn resolve_readable_ensemble(project: &Project, given: &str) -> Result<PathBuf, String> {
    let file = resolve_ensemble_file(project, given)?;
    let source = project.read_file(&file).map_err(|error| error.to_string())?;
    let loaded = load_ensemble(&source);
    match can_be_quoted_to_client(&file, &loaded) {
        true => Ok(file),
        false => Err(describe_without_quoting(&file, &loaded)),
    }
}

impl EnsembleToolEntry {
    /// Converts the entry to a tool definition.
    pub(crate) fn to_tool(&self) -> Tool {
        let annotations = ToolAnnotations::from_raw(None, Some(false), None, Some(false), None);
        Tool::new(
            self.tool.clone(),
            self.tool_description(),
            Arc::new(self.tool_input_schema()),
        )
        .with_title(self.ensemble.name.to_string())
        .with_raw_output_schema(Arc::new(status_document_schema(self.tool_result_schema())))
        .with_annotations(annotations)
    }

    /// Renders the description of the tool: ensemble, agents, questions and file.
    fn tool_description(&self) -> String {
        let ensemble = &self.ensemble;
        let mut text = match ensemble.description.as_deref().map(str::trim) {
            Some(about) if !about.is_empty() => format!("{about}\n\n"),
            _ => String::new(),
        };
        let agents: Vec<&str> = ensemble.agents.iter().map(|agent| &*agent.name).collect();
        text.push_str(&format!(
            "Runs the ensemble `{}` ({}: {}).",
            ensemble.name,
            format_count(agents.len() as u64, "agent"),
            agents.join(", ")
        ));
        let asks = ensemble
            .agents
            .iter()
            .filter(|agent| matches!(agent.kind, AgentKind::Input(_)));
        let asks: Vec<String> = asks.map(|agent| format!("`{}`", agent.name)).collect();
        if !asks.is_empty() {
            text.push_str(&format!(" It asks questions to a person: {}.", asks.join(", ")));
        }
        if self.is_qualified {
            text.push_str(&format!(
                " Its file is {}: another tool would have the same name.",
                escape_hidden(&self.file.display().to_string())
            ));
        }
        text.push_str(" A run that takes longer returns the status `running`; `await_run` waits for it.");
        text
    }

    /// Builds the JSON Schema for the inputs of the tool.
    pub(crate) fn tool_input_schema(&self) -> Map<String, Value> {
        let default = self.ensemble.default_task.as_deref().map(str::trim);
        let mut schema = match schema_of_inputs(&self.ensemble) {
            Some(schema) => schema,
            None => json!({
                "type": "object",
                "properties": {
                    "input": {"type": "string", "description": "The task, in words."},
                    "context": {"type": "object", "description": "Values that the agents can read."},
                },
                "required": if default.is_some() { json!([]) } else { json!(["input"]) },
                "additionalProperties": false,
            }),
        };
        if let Some(properties) = schema["properties"].as_object_mut() {
            properties.values_mut().for_each(remove_schema_references);
            if let (Some(default), None, Some(task)) =
                (default, self.ensemble.find_input("input"), properties.get_mut("input"))
            {
                task["default"] = json!(default);
            }
        }
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    /// Builds the JSON Schema for the result, as far as it is known.
    fn tool_result_schema(&self) -> Value {
        match &self.ensemble.result {
            None => json!({"type": "object", "description": "The context at the end."}),
            Some(ResultSpec::Map(entries)) => {
                let properties: Map<String, Value> =
                    entries.iter().map(|(key, _)| (key.to_string(), json!({}))).collect();
                let required: Vec<&str> = entries.iter().map(|(key, _)| &**key).collect();
                json!({"type": "object", "properties": properties, "required": required})
            }
            Some(ResultSpec::Agent(name)) => {
                let schema = self
                    .ensemble
                    .find_agent(name)
                    .and_then(|agent| agent.output_schema.clone());
                let description = format!("The latest output of `{name}`.");
                match schema {
                    Some(mut schema) => {
                        remove_schema_references(&mut schema);
                        add_response_property(&mut schema);
                        // An agent that has put nothing out has none.
                        json!({"description": description, "anyOf": [schema, {"type": "null"}]})
                    }
                    None => json!({"description": description}),
                }
            }
        }
    }
}

/// Adds the key `response`, which the reply of a model can have, to a schema.
fn add_response_property(schema: &mut Value) {
    if schema.get("additionalProperties").is_some()
        && let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
        && !properties.contains_key("response")
    {
        properties.insert("response".to_owned(), json!({}));
    }
}

/// Removes references, because they refer to the root of the original schema.
fn remove_schema_references(schema: &mut Value) {
    let refers = ["\"$ref\"", "\"$dynamicRef\""]
        .iter()
        .any(|word| schema.to_string().contains(word));
    if refers {
        *schema = match schema.get("description") {
            Some(description) => json!({"description": description}),
            None => json!({}),
        };
    }
}
