//! Cycles of agents that can never start, because each agent waits for another agent of the cycle.
//!
//! Conditions and requests are ignored: a condition may become true, and a request can start any agent. But an ensemble
//! that needs one of them to start at all is most likely a mistake.

use std::collections::HashMap;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Dependency, Ensemble};
use crate::loader::codes;

/// Reports one error for each cycle.
pub(super) fn check(ensemble: &Ensemble) -> Vec<Finding> {
    let graph = Graph::of(ensemble);
    let blocked = graph.blocked();
    let mut waiting = DiGraph::<usize, ()>::new();
    let nodes: HashMap<usize, NodeIndex> = (0..ensemble.agents.len())
        .filter(|agent| blocked[*agent])
        .map(|agent| (agent, waiting.add_node(agent)))
        .collect();
    for (agent, node) in &nodes {
        for (other, _) in graph.needs(*agent).filter(|(other, _)| blocked[*other]) {
            waiting.add_edge(*node, nodes[&other], ());
        }
    }
    let mut circles: Vec<_> = tarjan_scc(&waiting)
        .into_iter()
        .map(|group| group.into_iter().map(|node| waiting[node]).collect::<Vec<_>>())
        .filter_map(|group| graph.circle(&group))
        .collect();
    circles.sort_by_key(|circle| circle[0].0);
    circles.iter().map(|circle| report(ensemble, circle)).collect()
}

/// The agents that each agent needs before its first execution.
struct Graph<'e> {
    agents: &'e [Agent],
    index: HashMap<&'e str, usize>,
}

impl<'e> Graph<'e> {
    fn of(ensemble: &'e Ensemble) -> Self {
        let index = ensemble
            .agents
            .iter()
            .enumerate()
            .map(|(at, agent)| (&*agent.name, at))
            .collect();
        Self {
            agents: &ensemble.agents,
            index,
        }
    }

    /// The edges that can prevent the first execution of the agent.
    fn needs(&self, agent: usize) -> impl Iterator<Item = (usize, &'e Dependency)> {
        let edges = self.agents[agent].dependencies.iter().filter(|edge| !edge.feedback);
        edges.filter_map(|edge| Some((*self.index.get(&*edge.agent_name)?, edge)))
    }

    /// Whether one of the agents of which at least one is required can run at the start.
    fn has_open_door(&self, agent: usize) -> bool {
        let mut any_of = self.agents[agent]
            .dependencies
            .iter()
            .filter(|edge| !edge.requires_all)
            .peekable();
        any_of.peek().is_none() || any_of.any(|edge| edge.feedback)
    }

    /// The agents that can never have a first execution.
    fn blocked(&self) -> Vec<bool> {
        let count = self.agents.len();
        let mut listeners = vec![Vec::new(); count];
        let mut missing = vec![0_usize; count];
        let mut door = vec![false; count];
        for agent in 0..count {
            door[agent] = self.has_open_door(agent);
            for (other, edge) in self.needs(agent) {
                missing[agent] += usize::from(edge.requires_all);
                listeners[other].push((agent, edge.requires_all));
            }
        }
        let mut blocked = vec![true; count];
        let mut ready: Vec<usize> = (0..count)
            .filter(|agent| missing[*agent] == 0 && door[*agent])
            .collect();
        while let Some(agent) = ready.pop() {
            if !std::mem::replace(&mut blocked[agent], false) {
                continue;
            }
            for &(listener, required) in &listeners[agent] {
                missing[listener] -= usize::from(required);
                door[listener] |= !required;
                if missing[listener] == 0 && door[listener] {
                    ready.push(listener);
                }
            }
        }
        blocked
    }

    /// A shortest cycle through the first agent of a group that waits for itself; `None` if there is none.
    fn circle(&self, group: &[usize]) -> Option<Vec<(usize, &'e Dependency)>> {
        let start = *group.iter().min()?;
        let inside: std::collections::HashSet<usize> = group.iter().copied().collect();
        let mut came: HashMap<usize, (usize, &'e Dependency)> = HashMap::new();
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(agent) = queue.pop_front() {
            for (other, edge) in self.needs(agent).filter(|(other, _)| inside.contains(other)) {
                if other == start {
                    return Some(unwind(start, agent, edge, &came));
                }
                came.entry(other).or_insert_with(|| {
                    queue.push_back(other);
                    (agent, edge)
                });
            }
        }
        None
    }
}

/// The path from `start` to `last` and back over `closing`, as agents with the edge on which each of them waits.
fn unwind<'e>(
    start: usize,
    last: usize,
    closing: &'e Dependency,
    came: &HashMap<usize, (usize, &'e Dependency)>,
) -> Vec<(usize, &'e Dependency)> {
    let mut way = vec![(last, closing)];
    let mut here = last;
    while here != start {
        let step = came[&here];
        way.push(step);
        here = step.0;
    }
    way.reverse();
    way
}

fn report(ensemble: &Ensemble, circle: &[(usize, &Dependency)]) -> Finding {
    const SHOWN: usize = 12;
    let name = |agent: usize| &*ensemble.agents[agent].name;
    let mut names: Vec<&str> = circle.iter().take(SHOWN).map(|(agent, _)| name(*agent)).collect();
    if circle.len() > SHOWN {
        names.push("…");
    }
    names.push(name(circle[0].0));
    let place = |(agent, edge): &(usize, &Dependency)| edge.route(&Agent::route(*agent)).value();
    let message = format!("none of the agents in this cycle can run first: {}", names.join(" → "));
    let mut finding = Finding::error(codes::DEAD_CIRCLE, place(&circle[0]), message);
    for step in circle.iter().take(SHOWN) {
        finding = finding.also(
            place(step),
            format!("`{}` waits for `{}`", name(step.0), step.1.agent_name),
        );
    }
    finding.help("add `feedback: true` to the dependency that closes the cycle: a feedback dependency is ignored before the agent's first execution")
}
