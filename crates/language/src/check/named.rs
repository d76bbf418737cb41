//! Unknown agents in conditions.

use super::graph::Graph;
use crate::diagnostic::{Finding, did_you_mean};
use crate::loader::codes;

/// Reports an error for every unknown agent in a condition.
pub(super) fn check(graph: &Graph<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (to, edge) in graph.all_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        for (name, span) in reading.agents_read() {
            if graph.find(&name).is_some() {
                continue;
            }
            let place = edge.route(to).key("condition").text(span);
            let finding = Finding::error(codes::CONDITION_AGENT, place, format!("there is no agent `{name}`"));
            findings.push(finding.help(match did_you_mean(&name, graph.names()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => {
                    "the keys of `executions` and `outputs` are the names of the agents in this ensemble".to_owned()
                }
            }));
        }
    }
    findings
}
