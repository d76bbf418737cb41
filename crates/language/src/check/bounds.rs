//! Upper bounds for every run of an ensemble, computed by the checks. Only tests with random ensembles use them: what
//! the checks say of all runs must hold in each.

use super::edges;
use super::graph::Graph;
use super::joins;
use super::never;
use super::too_early;
use super::too_late;
use super::turns;
use super::typed::Types;
use crate::condition::Known;
use crate::ensemble::Ensemble;

/// Bounds that no run of the ensemble exceeds. Agents are in declaration order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// The positions of the agents that no run executes.
    pub never_run: Vec<usize>,
    /// The highest number of executions of each agent in a run.
    pub most_executions: Vec<u64>,
    /// For each agent, the highest number of executions that each of its dependencies starts.
    pub most_starts: Vec<Vec<u64>>,
    /// The counts in conditions that are reached before the dependency has read the output of the counted agent.
    pub early_counts: Vec<EarlyCount>,
}

/// A count that is reached early. Agents are positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlyCount {
    /// The agent with the condition.
    pub agent: usize,
    /// The agent that it depends on.
    pub dependency: usize,
    /// The agent whose executions are counted.
    pub counted: usize,
    /// The count with which the condition is true.
    pub count: u64,
}

/// The bounds that the checks use.
pub fn bounds(ensemble: &Ensemble) -> Bounds {
    let graph = Graph::of(ensemble);
    let starts = |agent: usize| {
        let edges = graph.edges(agent).iter();
        edges
            .map(|edge| u64::from(edges::most_starts(&graph, agent, edge)))
            .collect()
    };
    let early = |(agent, dependency, counted, count)| EarlyCount {
        agent,
        dependency,
        counted,
        count,
    };
    Bounds {
        never_run: never::blocked_agents(&graph)
            .into_iter()
            .chain(too_late::unreached(&graph))
            .chain(joins::never_joined(&graph))
            .collect(),
        most_executions: turns::most_executions(&graph).to_vec(),
        most_starts: (0..ensemble.agents.len()).map(starts).collect(),
        early_counts: too_early::early(&graph).into_iter().map(early).collect(),
    }
}

/// Returns the types of the values that the conditions of the ensemble read.
pub fn known(ensemble: &Ensemble) -> Known {
    Types::of(&Graph::of(ensemble), &|_| None).shared
}
