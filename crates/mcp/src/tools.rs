//! The built-in tools: tools for runs, and tools for authors of ensembles.
//!
//! Invariant: no ensemble has the tool name of a built-in tool.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::status::status_document_schema;

/// The names of the built-in tools, which no ensemble gets as tool name.
pub(crate) const BUILT_IN_TOOL_NAMES: [&str; 12] = [
    "run_status",
    "await_run",
    "answer_run",
    "cancel_run",
    "resume_run",
    "list_runs",
    "schema",
    "validate",
    "check",
    "explain",
    "estimate",
    "graph",
];

/// The effect of a tool: it reads, changes or stops runs.
#[derive(Clone, Copy)]
enum ToolEffect {
    /// The tool only reads.
    Reads,
    /// The tool changes a run.
    Changes,
    /// The tool stops a run.
    Stops,
}

/// Lists the built-in tools.
pub(crate) fn list_built_in_tools() -> Vec<Tool> {
    BUILT_IN_TOOL_NAMES
        .iter()
        .map(|name| define_built_in_tool(name))
        .collect()
}

/// Builds the definition of a built-in tool, with its schemas and annotations.
fn define_built_in_tool(name: &'static str) -> Tool {
    let (description, properties, required, effect) = tool_definition_parts(name);
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    let annotations = match effect {
        ToolEffect::Reads => ToolAnnotations::from_raw(None, Some(true), None, None, Some(false)),
        ToolEffect::Changes => ToolAnnotations::from_raw(None, Some(false), Some(false), Some(false), None),
        ToolEffect::Stops => ToolAnnotations::from_raw(None, Some(false), Some(true), Some(true), Some(false)),
    };
    let tool = Tool::new(
        name,
        description,
        Arc::new(schema.as_object().cloned().unwrap_or_default()),
    )
    .with_annotations(annotations);
    let is_about_one_run = name.ends_with("_run") || name == "run_status";
    match is_about_one_run {
        true => tool.with_raw_output_schema(Arc::new(status_document_schema(json!({})))),
        false => tool,
    }
}

/// Returns the description, the properties, the required properties, and the effect of a built-in tool.
fn tool_definition_parts(name: &str) -> (&'static str, Value, Value, ToolEffect) {
    let run = json!({"type": "string", "description": "The id of the run, or the beginning of the id."});
    let seconds = json!({
        "type": "number",
        "minimum": 0,
        "description": "The maximum time to wait, in seconds; the server can shorten it.",
    });
    match name {
        "run_status" => (
            "Returns the state of a run: its status, its open questions and its result. Does not wait.",
            json!({"run": run}),
            json!(["run"]),
            ToolEffect::Reads,
        ),
        "await_run" => (
            "Waits until a run has ended or asks a question, or for a limited time, and returns its state. Resumes a run \
             that was interrupted, for example because the server exited.",
            json!({"run": run, "wait_seconds": seconds}),
            json!(["run"]),
            ToolEffect::Changes,
        ),
        "answer_run" => (
            "Answers a question of a run, and waits as await_run does. Give the answer of the user; do not invent one. For a \
             call of a tool that needs permission, the answer is `once`, `always` or `deny`.",
            json!({
                "run": run,
                "answer": {"type": "string", "description": "The answer; one of the choices if there are any."},
                "address": {"type": "string", "description": "The `address` of the request, from run_status."},
                "digest": {"type": "string", "description": "The `digest` of the request, from run_status. The answer is used only if the request has not changed."},
                "wait_seconds": seconds,
            }),
            json!(["run", "address", "digest", "answer"]),
            ToolEffect::Changes,
        ),
        "cancel_run" => (
            "Stops a run. Finished executions are kept, and resume_run resumes the run.",
            json!({"run": run}),
            json!(["run"]),
            ToolEffect::Stops,
        ),
        "resume_run" => (
            "Resumes a run that was cancelled, timed out or was interrupted, and waits as await_run does. With a \
             message, continues a run that has ended: the message is the next message of the user.",
            json!({
                "run": run,
                "message": {"type": "string", "description": "The next message of the user, for a run that has ended."},
                "wait_seconds": seconds,
            }),
            json!(["run"]),
            ToolEffect::Changes,
        ),
        "list_runs" => (
            "Lists the latest runs of the folder, the latest first.",
            json!({"limit": {"type": "integer", "minimum": 1, "maximum": 200, "description": "The maximum number of runs; default 20."}}),
            json!([]),
            ToolEffect::Reads,
        ),
        "schema" => (
            "Describes how to write ensembles. Read the form `skill` before you write or change an ensemble; `json` is the \
             complete JSON Schema of ensemble files, `tests` is the JSON Schema of test files.",
            json!({"form": {"type": "string", "enum": ["skill", "json", "tests", "config"], "default": "skill"}}),
            json!([]),
            ToolEffect::Reads,
        ),
        _ => authoring_tool_parts(name),
    }
}

/// Returns the description, the properties, the required properties, and the effect of a tool for authors.
fn authoring_tool_parts(name: &str) -> (&'static str, Value, Value, ToolEffect) {
    let ensemble = json!({"type": "string", "description": "The name of an ensemble, or its path in the folder."});
    let text = json!({
        "type": "string",
        "description": "The YAML of an ensemble, instead of a file; it is checked like a file in the folder.",
    });
    let of_one = json!({"ensemble": ensemble, "text": text});
    match name {
        "validate" => (
            "Checks the YAML of an ensemble, or a file, without running it, and returns all findings with line, column, help \
             and fix. Without `ensemble` and `text`, checks all ensembles of the folder that have errors and are therefore not tools.",
            of_one,
            json!([]),
            ToolEffect::Reads,
        ),
        "check" => (
            "Explores all possible conversations of an ensemble, without running it, and returns how they can end.",
            of_one,
            json!([]),
            ToolEffect::Reads,
        ),
        "explain" => (
            "Explains the code of a finding such as E021, with a wrong and a right example.",
            json!({"code": {"type": "string"}}),
            json!(["code"]),
            ToolEffect::Reads,
        ),
        "estimate" => (
            "Estimates tokens, cost and time of a run from a recorded run of the ensemble.",
            json!({
                "ensemble": ensemble,
                "run": {"type": "string", "description": "The recorded run; default: the latest run of the ensemble."},
            }),
            json!(["ensemble"]),
            ToolEffect::Reads,
        ),
        _ => (
            "Draws the agents of an ensemble and their dependencies.",
            json!({
                "ensemble": ensemble,
                "text": text,
                "format": {"type": "string", "enum": ["mermaid", "ascii", "dot", "svg"], "default": "mermaid"},
            }),
            json!([]),
            ToolEffect::Reads,
        ),
    }
}

/// The arguments of a call. Tools remove each argument that they use, and refuse the rest.
pub(crate) struct ToolArguments(Map<String, Value>);

impl ToolArguments {
    /// Creates the arguments of a call, which are empty if the call has none.
    pub(crate) fn new(given: Option<Map<String, Value>>) -> Self {
        Self(given.unwrap_or_default())
    }

    /// Removes the text with this name, if present.
    ///
    /// # Errors
    ///
    /// The value is not a text.
    pub(crate) fn take_text_argument(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{name}` is not a string")),
        }
    }

    /// Removes and returns the text with this name.
    ///
    /// # Errors
    ///
    /// The text is missing, or the value is not a text.
    pub(crate) fn take_required_text(&mut self, name: &str) -> Result<String, String> {
        self.take_text_argument(name)?
            .ok_or_else(|| format!("`{name}` is missing"))
    }

    /// Removes the number with this name, if present.
    ///
    /// # Errors
    ///
    /// The value is not a finite number of at least 0.
    pub(crate) fn take_number_argument(&mut self, name: &str) -> Result<Option<f64>, String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) if number >= 0.0 && number.is_finite() => Ok(Some(number)),
                _ => Err(format!("`{name}` is not a number of at least 0")),
            },
        }
    }

    /// Removes the map with this name. Returns an empty map if the argument is missing.
    ///
    /// # Errors
    ///
    /// The value is not a map.
    pub(crate) fn take_map_argument(&mut self, name: &str) -> Result<Map<String, Value>, String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map),
            Some(_) => Err(format!("`{name}` is not an object")),
        }
    }

    /// Returns the remaining arguments.
    pub(crate) fn into_rest(self) -> Map<String, Value> {
        self.0
    }

    /// Checks that no argument remains.
    ///
    /// # Errors
    ///
    /// An argument remains, which the tool does not know.
    pub(crate) fn require_no_rest(self) -> Result<(), String> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("there is no argument `{name}`")),
        }
    }
}
