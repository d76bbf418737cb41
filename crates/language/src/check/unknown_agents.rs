//! Unknown agents in conditions and in the expressions of the result.

use super::check_graph::CheckGraph;
use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::source::RouteLocation;

/// Reports an error for every unknown agent in conditions and in the expressions of the result.
pub(super) fn check_unknown_agents(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let mut findings = Vec::new();
    for (to, edge) in graph.list_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        for (name, span) in reading.list_named_agents() {
            findings.extend(unknown_agent_finding(graph, &name, || {
                edge.dependency_route(to).with_key("condition").into_text_location(span)
            }));
        }
    }
    for (reading, route) in graph.parse_result_expressions() {
        for (name, span) in reading.list_named_agents() {
            findings.extend(unknown_agent_finding(graph, &name, || {
                route.clone().into_text_location(span)
            }));
        }
    }
    findings
}

/// Returns an error with a similar name, if the ensemble has no agent with this name.
fn unknown_agent_finding(graph: &CheckGraph<'_>, name: &str, at: impl FnOnce() -> RouteLocation) -> Option<Finding> {
    if graph.find_agent_index(name).is_some() {
        return None;
    }
    Some(Finding::new_unknown_agent(
        codes::CONDITION_AGENT,
        at(),
        name,
        graph.agent_names(),
    ))
}
