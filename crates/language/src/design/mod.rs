//! Edits of the graph of an ensemble in its text: agents and dependencies are added, changed and removed.
//!
//! The new value of the text is computed first (`edit_plan`); then the text is edited step by step. **Invariant:** the new
//! text is YAML with exactly this value, and with all comments of the old one in their order; otherwise there is no edit.

mod agent_sketch;
mod edit_plan;
mod error;
mod form_keys;
mod setting_plan;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::Value;

use crate::loader;
use crate::loader::{YamlDocument, node_to_json};
use crate::source::SourceText;
use crate::yaml::edit;
use crate::yaml::edit::{FixApplicability, TextFix};
use edit_plan::plan_edit;

pub use agent_sketch::{UncheckedAgent, UncheckedDependency, parse_file_values, parse_unchecked_agents};
pub use error::GraphEditError;
pub use form_keys::{FormKey, list_form_keys};

/// An edit of the graph.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum DesignCommand {
    /// Adds an agent behind the last one.
    AddAgent {
        /// Its name.
        name: String,
        /// The key that chooses the kind: `script`, `model`, `model_profile`, `input`, `ensemble`, `acp` or `tool`.
        kind: String,
        /// The value of that key; of `input`, the question.
        value: String,
        /// The prompt, for models, ensembles and external programs.
        #[serde(default)]
        prompt: Option<String>,
        /// The agents to which it listens.
        #[serde(default)]
        listens_to: Vec<String>,
    },
    /// Removes an agent, and the dependencies and limits that name it.
    RemoveAgent {
        /// Its name.
        agent: String,
    },
    /// Makes an agent listen to another one.
    Connect {
        /// The agent that listens.
        agent: String,
        /// The agent to which it listens.
        to: String,
        /// The condition of the dependency.
        #[serde(default)]
        condition: Option<String>,
        /// Whether the dependency closes a loop.
        #[serde(default)]
        feedback: bool,
    },
    /// Sets or removes the condition of a dependency.
    SetCondition {
        /// The agent that listens.
        agent: String,
        /// The number of the dependency, from 0: those of `depends_on` first, then those of `dependencies`.
        at: usize,
        /// The agent to which it listens.
        to: String,
        /// The condition; `None`: it is removed.
        condition: Option<String>,
    },
    /// Sets a key of a dependency, or removes it where the value is what holds without it.
    SetKey {
        /// The agent that listens.
        agent: String,
        /// The number of the dependency, as for a condition.
        at: usize,
        /// The agent to which it listens.
        to: String,
        /// `feedback`, `on`, `wait_for`, `max_executions` or `requires_all`.
        key: String,
        /// The value; of `max_executions`, `null` means no limit.
        value: Value,
    },
    /// Sets a key of an agent or of the file, or removes it.
    SetValue {
        /// The agent; `None`: the file.
        #[serde(default)]
        agent: Option<String>,
        /// The key, and the keys inside its map: `["conversation", "max_turns"]`.
        path: Vec<String>,
        /// The value; `null`: the key is removed.
        value: Value,
    },
    /// Removes a dependency.
    Disconnect {
        /// The agent that listens.
        agent: String,
        /// The number of the dependency, as for a condition.
        at: usize,
        /// The agent to which it listens.
        to: String,
    },
}

/// Returns the edits of the text for a command, as one fix.
///
/// # Errors
/// The command cannot become an edit; the message contains the reason.
pub fn fix_for_command(source: &SourceText, command: &DesignCommand) -> Result<TextFix, GraphEditError> {
    let document = parse_editable_yaml(source)?;
    let plan = plan_edit(command, &document_to_json(&document)?)?;
    let stuck = || GraphEditError::Stuck {
        title: plan.title.clone(),
    };
    let mut now = document.clone();
    for edit in &plan.edits {
        let text = edit::apply_route_edit(&now, edit).ok_or_else(stuck)?;
        now = parse_editable_yaml(&SourceText::new(source.name(), text)).map_err(|_| stuck())?;
    }
    let is_as_planned = document_to_json(&now).is_ok_and(|after| after == plan.after);
    if !is_as_planned || !list_comments(&document).eq(list_comments(&now)) {
        return Err(stuck());
    }
    Ok(TextFix {
        edits: vec![edit::compute_text_edit(source.text(), now.source().text())],
        title: plan.title,
        applicability: FixApplicability::Safe,
        file: source.name().into(),
    })
}

/// Returns the texts of all comments, in order.
fn list_comments(document: &YamlDocument) -> impl Iterator<Item = &str> {
    let text = document.source().text();
    document.comments().iter().map(|span| &text[span.start..span.end])
}

/// Parses the text as YAML. # Errors: the text is no YAML; the error names the first problem.
fn parse_editable_yaml(source: &SourceText) -> Result<YamlDocument, GraphEditError> {
    loader::parse_yaml_partially(source).map_err(|findings| {
        let line = |start: usize| source.line_column(start).line;
        let first = findings.first();
        let first = first.map(|finding| (line(finding.span.start), finding.message.clone()));
        GraphEditError::NotYaml { first }
    })
}

/// Converts the document to JSON. # Errors: a number is no JSON number.
fn document_to_json(document: &YamlDocument) -> Result<Value, GraphEditError> {
    node_to_json(document.root()).ok_or(GraphEditError::NotJson)
}
