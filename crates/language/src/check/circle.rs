//! Cycles of agents that can never start, because each agent waits for another agent of the cycle.
//!
//! Conditions and requests are ignored: a condition may become true, and a request can start any agent. But an ensemble
//! that needs one of them to start at all is most likely a mistake.

use super::graph::{Edge, Graph, Rules};
use super::subject::Subject;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::plan::walks::{components, find_shortest_cycle};

/// The highest number of agents of a cycle that are named.
const SHOWN: usize = 12;

/// Reports one error for each cycle: a shortest one through the first agent of each group that waits for itself.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let first_turns = graph.first_turns(&Rules {
        no_requests: true,
        ..Rules::default()
    });
    let waits_for = |agent: usize| {
        let is_blocked = first_turns[agent].is_none();
        let edges = graph.edges(agent).iter().filter(move |_| is_blocked);
        edges.filter(|edge| !edge.dependency.feedback && first_turns[edge.from].is_none())
    };
    let groups = components(graph.len(), |agent| waits_for(agent).map(|edge| edge.from));
    let cycles = groups.iter().filter_map(|group| {
        let inside = |agent: usize| waits_for(agent).filter(|edge| group.binary_search(&edge.from).is_ok());
        find_shortest_cycle(group[0], |agent| inside(agent).map(|edge| (edge.from, edge)))
    });
    cycles.map(|cycle| report(graph, &cycle)).collect()
}

fn report(graph: &Graph<'_>, cycle: &[(usize, &Edge<'_>)]) -> Finding {
    let mut names: Vec<&str> = cycle.iter().take(SHOWN).map(|(agent, _)| graph.name(*agent)).collect();
    if cycle.len() > SHOWN {
        names.push("…");
    }
    names.push(graph.name(cycle[0].0));
    let place = |(agent, edge): &(usize, &Edge<'_>)| edge.route(*agent).value();
    let message = format!("none of the agents in this cycle can run first: {}", names.join(" → "));
    let mut finding = Finding::error(codes::DEAD_CIRCLE, place(&cycle[0]), message);
    for step in cycle.iter().take(SHOWN) {
        let label = format!("`{}` waits for `{}`", graph.name(step.0), graph.name(step.1.from));
        finding = finding.also(place(step), label);
    }
    finding.help("add `feedback: true` to the dependency that closes the cycle: a feedback dependency is ignored before the agent's first execution")
}
