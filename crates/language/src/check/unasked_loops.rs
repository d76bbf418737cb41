//! Loops that end by a condition or by a limit, and nothing asks which of the two it was.
//!
//! `success` and `required` ask it for the whole run; a condition of a dependency behind the loop asks it for what follows.

use super::check_graph::CheckGraph;
use super::check_subject::CheckSubject;
use super::loop_turns::{is_always_cut_off, list_loop_edges, list_loops};
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::plan::graph_walks::find_reachable;

/// Gives a hint for each loop whose end nothing checks: neither `success`, nor `required`, nor a condition behind the loop.
pub(super) fn check_unasked_loops(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let ensemble = graph.ensemble;
    if ensemble.success.is_some() || ensemble.agents.iter().any(|agent| agent.required) {
        return Vec::new();
    }
    let loops = list_loops(graph).into_iter();
    loops
        .filter_map(|group| unchecked_loop_finding(graph, &group))
        .collect()
}

/// Returns the hint for one loop, if its end is not checked and a limit can end it.
fn unchecked_loop_finding(graph: &CheckGraph<'_>, group: &[usize]) -> Option<Finding> {
    let mut conditions = list_loop_edges(graph, group).filter(|(_, edge)| edge.condition.is_some());
    let (agent, edge) = conditions.next()?;
    if is_checked_behind(graph, group) || is_always_cut_off(graph, group) {
        return None;
    }
    let names: Vec<String> = group.iter().map(|at| format!("`{}`", graph.agent_name(*at))).collect();
    let message = format!(
        "the loop of {} can end at a limit with exit code 0: nothing asks whether its condition ended it",
        names.join(", ")
    );
    let place = edge.dependency_route(agent).with_key("condition").into_value_location();
    let finding = Finding::new_hint(codes::UNASKED_LOOP, place, message);
    Some(finding.with_help(
        "say with `success: …` what must be true at the end, or let an agent behind the loop depend on it with a condition",
    ))
}

/// Returns whether a dependency behind the loop has a condition.
fn is_checked_behind(graph: &CheckGraph<'_>, group: &[usize]) -> bool {
    let behind = find_reachable(graph.agent_count(), group.iter().copied(), |agent| {
        let listeners = graph.list_edges().filter(move |(_, edge)| edge.from == agent);
        listeners.map(|(to, _)| to)
    });
    graph.list_edges().any(|(to, edge)| {
        let is_inside = group.binary_search(&to).is_ok() && group.binary_search(&edge.from).is_ok();
        behind.contains(edge.from) && !is_inside && edge.condition.is_some()
    })
}
