//! Prompts that use variables, but none of the outputs of the agent's dependencies: the agent does not hear them.
//!
//! A prompt without variables is followed by the latest outputs, and one with variables is sent as it is rendered.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::check_graph::CheckGraph;
use super::check_subject::CheckSubject;
use super::output_keys::OutputKeyCache;
use super::templates::list_agent_templates;
use crate::condition::PartVariables;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, ForEachItems};
use crate::loader::codes;
use crate::source::Route;
use crate::template;

/// Template variables that contain outputs of all agents.
const ALL_OUTPUT_VARIABLES: [&str; 4] = ["dependencies", "history", "transcript", "outputs"];
/// Words in the list of a `for_each` whose items come from outputs.
const OUTPUT_WORDS: [&str; 3] = ["outputs", "context", "history"];

/// Gives a hint for every prompt that uses variables, but no output of the agent's dependencies.
pub(super) fn check_unheard_dependencies(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let outputs = &mut *subject.outputs.borrow_mut();
    let agents = 0..graph.agent_count();
    agents
        .filter_map(|agent| unheard_finding(graph, agent, outputs))
        .collect()
}

/// Returns the hint for one agent, if its prompt uses variables but no output of its dependencies.
fn unheard_finding(graph: &CheckGraph<'_>, at: usize, outputs: &mut OutputKeyCache<'_>) -> Option<Finding> {
    let agent = graph.agent_at(at);
    let (prompt, route) = find_prompt_template(agent, at)?;
    if agent.dependencies.is_empty() || !template::uses_variables(prompt) {
        return None;
    }
    let names: BTreeSet<&str> = agent.dependencies.iter().map(|one| &*one.agent_name).collect();
    let templates = list_agent_templates(agent, &Agent::route_at(at)).into_iter();
    let of_profile = find_profile_system_prompt(graph, agent);
    let texts = templates.map(|(text, _)| text).chain(of_profile);
    let paths: Vec<String> = texts.flat_map(template::list_read_paths).collect();
    if paths
        .iter()
        .any(|path| reads_dependency_output(graph, agent, path, &names, outputs))
    {
        return None;
    }
    let mut listed: Vec<String> = Vec::new();
    for dependency in &agent.dependencies {
        let name = format!("`{}`", dependency.agent_name);
        if !listed.contains(&name) {
            listed.push(name);
        }
    }
    let message = format!(
        "this prompt uses variables, but no output of its dependencies: `{}` does not hear {}",
        agent.name,
        listed.join(", ")
    );
    let help = match as_template_variable(&agent.dependencies[0].agent_name) {
        Some(name) => {
            format!("write `{{{{ {name} }}}}` for the output, or `{{{{ transcript }}}}` for all that was said")
        }
        None => "write `{{ transcript }}` for all that was said, or `{{ dependencies[\"NAME\"] }}` for one output"
            .to_owned(),
    };
    Some(Finding::new_hint(codes::UNHEARD_DEPENDENCIES, route.into_value_location(), message).with_help(help))
}

/// Returns the prompt or the question of the agent, with its route.
fn find_prompt_template(agent: &Agent, at: usize) -> Option<(&str, Route)> {
    let route = Agent::route_at(at);
    match &agent.kind {
        AgentKind::Llm(llm) => Some((llm.prompt.as_deref()?, route.with_key("prompt"))),
        AgentKind::Input(input) => Some((&input.prompt, route.with_key("input").with_key("prompt"))),
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => None,
    }
}

/// Returns the system prompt of the profile that the agent names, if the agent has no system prompt.
fn find_profile_system_prompt<'e>(graph: &CheckGraph<'e>, agent: &Agent) -> Option<&'e str> {
    let AgentKind::Llm(llm) = &agent.kind else { return None };
    let crate::ensemble::ModelChoice::Profile(name) = &llm.model else {
        return None;
    };
    let mut profiles = graph.ensemble.model_profiles.iter();
    let (_, profile) = profiles.find(|(known, _)| known == name)?;
    profile.system_prompt.as_deref().filter(|_| llm.system_prompt.is_none())
}

/// Returns the name if templates can use it as a variable: an identifier that no built-in variable has.
fn as_template_variable(name: &Arc<str>) -> Option<&str> {
    let is_variable = name.chars().all(crate::names::is_identifier_char) && !template::VARIABLES.contains(&&**name);
    is_variable.then_some(&**name)
}

/// Returns whether a template that reads this path reads an output of a dependency, or may do so.
fn reads_dependency_output(
    graph: &CheckGraph<'_>,
    agent: &Agent,
    path: &str,
    names: &BTreeSet<&str>,
    outputs: &mut OutputKeyCache<'_>,
) -> bool {
    let (root, rest) = path.split_once('.').unwrap_or((path, ""));
    if let Some(spec) = &agent.for_each
        && (root == &*spec.item_name || root == PartVariables::PART)
    {
        return match &spec.items {
            ForEachItems::Expression(text) => OUTPUT_WORDS.iter().any(|word| text.contains(word)),
            ForEachItems::List(_) | ForEachItems::Times(_) => false,
        };
    }
    if root == "context" {
        let key = rest.split('.').next().unwrap_or_default();
        let is_dependency = |at: usize| names.contains(graph.agent_name(at));
        // The whole context, or a key whose writers are not known, may be an output of a dependency.
        let is_whole = key.is_empty() || ["get", "items", "keys", "values"].contains(&key);
        return is_whole
            || outputs
                .find_context_key_writers(key)
                .is_none_or(|writers| writers.into_iter().any(is_dependency));
    }
    ALL_OUTPUT_VARIABLES.contains(&root) || names.contains(root)
}
