//! Loops that end by a condition or by a limit, and nothing asks which of the two it was.
//!
//! `success` and `required` ask it for the whole run; a condition of a dependency behind the loop asks it for what follows.

use fixedbitset::FixedBitSet;

use super::check_graph::CheckGraph;
use super::check_subject::CheckSubject;
use super::loop_turns::{is_always_cut_off, list_loop_edges, list_loops};
use crate::condition::StaticResult;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::plan::graph_walks::find_reachable;

/// Gives a hint for each loop whose end nothing checks: neither `success`, nor `required`, nor a condition behind the loop.
pub(super) fn check_unasked_loops(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let Some(success_agents) = list_success_agents(graph) else {
        return Vec::new();
    };
    let is_asked = |group: &[usize]| {
        let behind = find_agents_behind(graph, group);
        success_agents.iter().any(|agent| behind.contains(*agent)) || is_required_conditionally(graph, group)
    };
    let loops = list_loops(graph).into_iter().filter(|group| !is_asked(group));
    loops
        .filter_map(|group| unchecked_loop_finding(graph, &group))
        .collect()
}

/// Returns the agents on which `success` depends; none if it is constant or missing. Returns `None` if it can depend on all agents.
fn list_success_agents(graph: &CheckGraph<'_>) -> Option<Vec<usize>> {
    if graph.ensemble.success.is_none() {
        return Some(Vec::new());
    }
    let success = graph.parsed_success_condition()?;
    let is_constant = !matches!(success.static_result(), StaticResult::DependsOnValues);
    match success.list_read_agents()? {
        names if names.is_empty() && !is_constant => None,
        names => Some(names.iter().filter_map(|name| graph.find_agent_index(name)).collect()),
    }
}

/// Returns whether a condition outside of the loop decides whether a required agent runs.
fn is_required_conditionally(graph: &CheckGraph<'_>, group: &[usize]) -> bool {
    let is_outside = |to: usize, from: usize| group.binary_search(&to).is_err() || group.binary_search(&from).is_err();
    let required = (0..graph.agent_count()).filter(|at| graph.agent_at(*at).required);
    let before = find_reachable(graph.agent_count(), required, |agent| {
        graph.dependency_edges(agent).iter().map(|edge| edge.from)
    });
    graph
        .list_edges()
        .any(|(to, edge)| before.contains(to) && is_outside(to, edge.from) && edge.condition.is_some())
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
    let behind = find_agents_behind(graph, group);
    graph.list_edges().any(|(to, edge)| {
        let is_inside = group.binary_search(&to).is_ok() && group.binary_search(&edge.from).is_ok();
        behind.contains(edge.from) && !is_inside && edge.condition.is_some()
    })
}

/// Returns the agents of the loop and all agents behind the loop.
fn find_agents_behind(graph: &CheckGraph<'_>, group: &[usize]) -> FixedBitSet {
    find_reachable(graph.agent_count(), group.iter().copied(), |agent| {
        let listeners = graph.list_edges().filter(move |(_, edge)| edge.from == agent);
        listeners.map(|(to, _)| to)
    })
}
