//! Unknown agents in conditions and in the expressions of the result.

use super::graph::Graph;
use super::subject::Subject;
use crate::diagnostic::{Finding, did_you_mean};
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
    let finding = Finding::error(codes::CONDITION_AGENT, at(), format!("there is no agent `{name}`"));
    Some(match did_you_mean(name, graph.names()) {
        Some(known) => finding.meant_name(name, known),
        None => finding.help("the keys of `executions` and `outputs` are the names of the agents in this ensemble"),
    })
}
