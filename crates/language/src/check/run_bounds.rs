//! Upper bounds for every run of an ensemble, computed by the checks. Only tests with random ensembles use them: what
//! the checks say of all runs must hold in each.

use super::blocked_agents;
use super::check_graph::CheckGraph;
use super::early_counts;
use super::exclusive_joins;
use super::idle_dependencies;
use super::idle_turns;
use super::unreached_agents;
use super::unrequested_agents;
use super::value_types::EnsembleTypes;
use crate::condition::VariableTypes;
use crate::ensemble::Ensemble;

/// Upper bounds that no run of the ensemble exceeds. Agents are in declaration order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunBounds {
    /// The positions of the agents that no run executes.
    pub never_run: Vec<usize>,
    /// The highest number of executions of each agent in a run.
    pub max_executions: Vec<u64>,
    /// For each agent, the highest number of executions that each of its dependencies starts.
    pub max_starts: Vec<Vec<u64>>,
    /// The counts in conditions that are reached before the dependency has read the output of the counted agent.
    pub early_counts: Vec<EarlyCountBound>,
}

/// A count that is reached before the dependency has read the counted output. Agents are indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlyCountBound {
    /// The agent with the condition.
    pub agent: usize,
    /// The agent that it depends on.
    pub dependency: usize,
    /// The agent whose executions are counted.
    pub counted: usize,
    /// The count with which the condition is true.
    pub count: u64,
}

/// Computes the bounds that the checks use.
pub fn compute_run_bounds(ensemble: &Ensemble) -> RunBounds {
    let graph = CheckGraph::build(ensemble);
    let starts = |agent: usize| {
        let edges = graph.dependency_edges(agent).iter();
        edges
            .map(|edge| u64::from(idle_dependencies::max_dependency_starts(&graph, agent, edge)))
            .collect()
    };
    let early = |(agent, dependency, counted, count)| EarlyCountBound {
        agent,
        dependency,
        counted,
        count,
    };
    RunBounds {
        never_run: blocked_agents::list_condition_blocked_agents(&graph)
            .into_iter()
            .chain(unreached_agents::list_unreached_agents(&graph))
            .chain(unrequested_agents::list_unrequested_agents(&graph))
            .chain(exclusive_joins::list_never_joined_agents(&graph))
            .collect(),
        max_executions: idle_turns::max_executions_by_agent(&graph).to_vec(),
        max_starts: (0..ensemble.agents.len()).map(starts).collect(),
        early_counts: early_counts::list_early_counts(&graph).into_iter().map(early).collect(),
    }
}

/// Infers the types of the variables that the conditions of the ensemble can read.
pub fn infer_condition_types(ensemble: &Ensemble) -> VariableTypes {
    EnsembleTypes::infer(&CheckGraph::build(ensemble), &|_| None).shared
}
