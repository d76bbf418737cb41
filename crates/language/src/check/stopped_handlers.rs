//! Dependencies on failures of an agent whose failure stops the run, so that the failures start no agent.

use super::check_graph::{CheckGraph, GraphEdge};
use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, OnError, RequiredResult};
use crate::loader::codes;

/// Warns of `on: failure`, and gives a hint for `on: any`, if the source agent has `on_error: stop`.
pub(super) fn check_stopped_handlers(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let edges = graph.list_edges();
    edges
        .filter_map(|(to, edge)| stopped_handler_finding(graph, to, edge))
        .collect()
}

/// Returns a finding if the dependency handles failures of an agent whose failure stops the run.
fn stopped_handler_finding(graph: &CheckGraph<'_>, to: usize, edge: &GraphEdge<'_>) -> Option<Finding> {
    let (failing, handler) = (graph.agent_at(edge.from), graph.agent_name(to));
    if failing.on_error != OnError::Stop {
        return None;
    }
    let name = &failing.name;
    let place = edge.dependency_route(to).with_key("on").into_value_location();
    let related = Agent::route_at(edge.from).with_key("on_error").into_value_location();
    let finding = match edge.dependency.on {
        RequiredResult::Success => return None,
        RequiredResult::Failure => Finding::new_warning(
            codes::STOPPED_HANDLER,
            place,
            format!("`{handler}` can never handle a failure of `{name}`, because such a failure stops the run"),
        ),
        RequiredResult::Any => Finding::new_hint(
            codes::SUCCESS_ONLY,
            place,
            format!("only a success of `{name}` can start `{handler}`, because a failure of `{name}` stops the run"),
        ),
    };
    let help = format!("write `on_error: fail` for `{name}`, or remove the dependency on its failures");
    Some(
        finding
            .with_related(related, "a failure of this agent ends the run")
            .with_help(help),
    )
}
