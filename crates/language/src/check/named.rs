//! Unknown agents in conditions and in the expressions of the result.

use super::graph::Graph;
use super::subject::Subject;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::source::At;

/// Reports an error for every unknown agent.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let mut findings = Vec::new();
    for (to, edge) in graph.all_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        for (name, span) in reading.agents_read() {
            findings.extend(unknown(graph, &name, || edge.route(to).key("condition").text(span)));
        }
    }
    for (reading, route) in graph.result() {
        for (name, span) in reading.agents_read() {
            findings.extend(unknown(graph, &name, || route.clone().text(span)));
        }
    }
    findings
}

fn unknown(graph: &Graph<'_>, name: &str, at: impl FnOnce() -> At) -> Option<Finding> {
    if graph.find(name).is_some() {
        return None;
    }
    Some(Finding::unknown_agent(
        codes::CONDITION_AGENT,
        at(),
        name,
        graph.names(),
    ))
}
