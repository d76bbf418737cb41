//! The agents of a text and their dependencies with their places, as far as the text has them.

use std::sync::Arc;

use serde_json::Value;

use crate::loader::document::YamlNode;
use crate::loader::{node_to_json, parse_yaml_partially};
use crate::source::{SourceText, Span};
use crate::vocabulary::TYPE_CHOOSING_KEYS;

/// An agent of a text that may be invalid: its name, kind, dependencies and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncheckedAgent {
    /// Its name.
    pub name: Arc<str>,
    /// The key that chooses the kind of the agent.
    pub kind: Option<&'static str>,
    /// The bytes of its name.
    pub span: Span,
    /// Its dependencies: those of `depends_on` first.
    pub dependencies: Vec<UncheckedDependency>,
    /// Its keys with their values, as far as they have a value in JSON.
    pub values: Value,
}

/// A dependency of an agent of a text that may be invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncheckedDependency {
    /// The agent to which it listens.
    pub to: Arc<str>,
    /// The condition, if there is one.
    pub condition: Option<Arc<str>>,
    /// Whether it is not needed at first.
    pub feedback: bool,
    /// `on`, as it is written.
    pub on: Option<Arc<str>>,
    /// `wait_for`, as it is written.
    pub wait_for: Option<Arc<str>>,
    /// `requires_all`, as it is written.
    pub requires_all: Option<Arc<str>>,
    /// `max_executions`, as it is written.
    pub max_executions: Option<Arc<str>>,
    /// The bytes of that agent's name.
    pub span: Span,
}

/// Returns the agents of a text in order. Returns none if the text is no YAML.
pub fn parse_unchecked_agents(source: &SourceText) -> Vec<UncheckedAgent> {
    let Ok(document) = parse_yaml_partially(source) else {
        return Vec::new();
    };
    let agents = document
        .root()
        .get("agents")
        .and_then(YamlNode::items)
        .unwrap_or_default();
    agents.iter().filter_map(|agent| parse_unchecked_agent(agent)).collect()
}

/// Returns the values of a text without its agents. Returns `null` if the text is no YAML.
pub fn parse_file_values(source: &SourceText) -> Value {
    let document = parse_yaml_partially(source).ok();
    let mut values = document
        .and_then(|document| node_to_json(document.root()))
        .unwrap_or_default();
    if let Some(entries) = values.as_object_mut() {
        entries.remove("agents");
    }
    values
}

/// Reads an agent of a text. Returns `None` if the agent has no name.
fn parse_unchecked_agent(agent: &YamlNode) -> Option<UncheckedAgent> {
    let name = agent.get("name")?;
    let list = |key: &str| agent.get(key).and_then(YamlNode::items).unwrap_or_default();
    let all = list("depends_on").iter().chain(list("dependencies"));
    Some(UncheckedAgent {
        name: name.string_text()?.clone(),
        kind: TYPE_CHOOSING_KEYS
            .map(|(key, _)| key)
            .into_iter()
            .find(|key| agent.get(key).is_some()),
        span: name.span,
        dependencies: all.filter_map(|one| parse_unchecked_dependency(one)).collect(),
        values: node_to_json(agent).unwrap_or_default(),
    })
}

/// Reads a dependency of a text. Returns `None` if the dependency names no agent.
fn parse_unchecked_dependency(node: &YamlNode) -> Option<UncheckedDependency> {
    let name = match node.get("agent_name") {
        Some(name) => name,
        None => node,
    };
    let scalar_value = |key: &str| node.get(key).and_then(YamlNode::scalar_text).cloned();
    Some(UncheckedDependency {
        to: name.string_text()?.clone(),
        condition: scalar_value("condition"),
        feedback: scalar_value("feedback").is_some_and(|text| &*text == "true"),
        on: scalar_value("on"),
        wait_for: scalar_value("wait_for"),
        requires_all: scalar_value("requires_all"),
        max_executions: scalar_value("max_executions"),
        span: name.span,
    })
}
