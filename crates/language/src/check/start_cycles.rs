//! Cycles of agents that can never start, because each agent waits for another agent of the cycle.
//!
//! Conditions and requests are ignored: a condition may become true, and a request can start any agent. But an ensemble
//! that needs one of them to start at all is most likely a mistake.

use super::check_graph::{CheckGraph, FirstTurnRules, GraphEdge};
use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::plan::graph_walks::{find_components, find_shortest_cycle};

/// The highest number of agents of a cycle that are named.
const MAX_SHOWN_CYCLE_AGENTS: usize = 12;

/// Reports one error for each group of agents that wait for each other: a shortest cycle through its first agent.
pub(super) fn check_start_cycles(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let first_turns = graph.compute_first_turns(&FirstTurnRules {
        no_requests: true,
        ..FirstTurnRules::default()
    });
    let waits_for = |agent: usize| {
        let is_blocked = first_turns[agent].is_none() && !graph.runs_on_request(agent);
        let edges = graph.dependency_edges(agent).iter().filter(move |_| is_blocked);
        edges.filter(|edge| !edge.dependency.feedback && first_turns[edge.from].is_none())
    };
    let groups = find_components(graph.agent_count(), |agent| waits_for(agent).map(|edge| edge.from));
    let cycles = groups.iter().filter_map(|group| {
        let inside = |agent: usize| waits_for(agent).filter(|edge| group.binary_search(&edge.from).is_ok());
        find_shortest_cycle(group[0], |agent| inside(agent).map(|edge| (edge.from, edge)))
    });
    cycles.map(|cycle| cycle_finding(graph, &cycle)).collect()
}

/// Builds the error about a cycle, with a label for each of its dependencies.
fn cycle_finding(graph: &CheckGraph<'_>, cycle: &[(usize, &GraphEdge<'_>)]) -> Finding {
    let mut names: Vec<&str> = cycle
        .iter()
        .take(MAX_SHOWN_CYCLE_AGENTS)
        .map(|(agent, _)| graph.agent_name(*agent))
        .collect();
    if cycle.len() > MAX_SHOWN_CYCLE_AGENTS {
        names.push("…");
    }
    names.push(graph.agent_name(cycle[0].0));
    let place = |(agent, edge): &(usize, &GraphEdge<'_>)| edge.dependency_route(*agent).into_value_location();
    let message = format!("none of the agents in this cycle can run first: {}", names.join(" → "));
    let mut finding = Finding::new_error(codes::DEAD_CIRCLE, place(&cycle[0]), message);
    for step in cycle.iter().take(MAX_SHOWN_CYCLE_AGENTS) {
        let label = format!(
            "`{}` waits for `{}`",
            graph.agent_name(step.0),
            graph.agent_name(step.1.from)
        );
        finding = finding.with_related(place(step), label);
    }
    finding.with_help("add `feedback: true` to the dependency that closes the cycle: a feedback dependency is ignored before the agent's first execution")
}
