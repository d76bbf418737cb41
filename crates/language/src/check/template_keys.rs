//! Keys in templates that the outputs of the named agents never have.

use std::collections::BTreeSet;

use super::check_graph::CheckGraph;
use super::check_subject::CheckSubject;
use super::condition_keys::FAILURE_KEYS;
use super::output_keys::OutputKeyCache;
use super::templates::list_agent_templates;
use crate::diagnostic::{Finding, find_similar_word};
use crate::ensemble::{Agent, RequiredResult};
use crate::loader::codes;
use crate::template::{PrintedPath, VARIABLES, list_printed_paths};

/// The limit of findings, because each is compared with many names.
const MOST: usize = 100;

/// Warns of keys that templates print and that the outputs of the agents never have.
pub(super) fn check_template_keys(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let outputs = &mut *subject.outputs.borrow_mut();
    let mut findings = Vec::new();
    for agent in 0..graph.agent_count() {
        for (text, route) in list_agent_templates(graph.agent_at(agent), &Agent::route_at(agent)) {
            for path in list_printed_paths(text)
                .iter()
                .filter(|path| !may_be_other_variable(text, path))
            {
                let finding = missing_key_finding(graph, agent, path, outputs);
                findings.extend(finding.map(|finding| finding(route.clone().into_text_location(path.span))));
                if findings.len() >= MOST {
                    return findings;
                }
            }
        }
    }
    findings
}

/// Returns whether the name may be another variable than the output of an agent.
fn may_be_other_variable(text: &str, path: &PrintedPath) -> bool {
    const ASSIGNING: [&str; 5] = ["set ", "for ", "with ", "macro ", ", "];
    let name = path.name.as_str();
    let is_set = |at: usize| ASSIGNING.iter().any(|word| text[..at].ends_with(word));
    VARIABLES.contains(&name) || text.match_indices(name).any(|(at, _)| is_set(at))
}

/// Returns a function that builds the finding, if the output of the agent never has the printed key.
fn missing_key_finding(
    graph: &CheckGraph<'_>,
    agent: usize,
    path: &PrintedPath,
    outputs: &mut OutputKeyCache<'_>,
) -> Option<impl FnOnce(crate::source::RouteLocation) -> Finding + use<>> {
    let key = path.keys.first()?.clone();
    let edges = graph.dependency_edges(agent).iter();
    let mut edges = edges
        .filter(|edge| *edge.dependency.agent_name == *path.name)
        .peekable();
    let from = edges.peek()?.from;
    let ends: Vec<RequiredResult> = edges.map(|edge| edge.dependency.on).collect();
    let mut known_keys: BTreeSet<&str> = BTreeSet::new();
    if ends.iter().any(|on| on.is_fulfilled_by(true)) {
        known_keys.extend(outputs.keys_for_agent(from)?.iter().map(String::as_str));
    }
    if ends.iter().any(|on| on.is_fulfilled_by(false)) {
        known_keys.extend(FAILURE_KEYS);
    }
    if known_keys.contains(key.as_str()) {
        return None;
    }
    let similar_key = find_similar_word(&key, known_keys.iter().copied()).map(str::to_owned);
    let help = match &similar_key {
        Some(similar_key) => format!("did you mean `{similar_key}`?"),
        None => format!(
            "the known keys are {}",
            known_keys.into_iter().take(8).collect::<Vec<_>>().join(", ")
        ),
    };
    let message = format!(
        "the output of `{}` has no key `{key}`, so this prints nothing",
        path.name
    );
    Some(move |at| {
        let finding = Finding::new_warning(codes::MISSING_TEMPLATE_KEY, at, message);
        match similar_key {
            Some(similar_key) => finding.with_near_name_fix(&key, &similar_key),
            None => finding.with_help(help),
        }
    })
}
