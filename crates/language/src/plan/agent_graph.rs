//! The agents of an ensemble as a graph: numbers, names and dependencies, without any condition.
//!
//! It is cheap enough for checks, which build it for every text. A plan adds the compiled conditions.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::graph_walks::find_reachable;
use super::{AgentId, EdgeId};
use crate::ensemble::Ensemble;

/// Agents by name.
pub(super) type AgentIdsByName = HashMap<Arc<str>, AgentId, foldhash::fast::RandomState>;

/// A dependency between two agents of the ensemble. `position` is its index in the agent's list of dependencies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgentLink {
    /// The agent that is depended on.
    pub(crate) from: AgentId,
    /// The agent that has the dependency.
    pub(crate) to: AgentId,
    /// The position among the dependencies of `to`, from 0.
    pub(crate) position: usize,
}

/// The graph of the agents of an ensemble and their dependencies, both numbered in declaration order. Dependencies on
/// unknown agents are left out.
#[derive(Debug)]
pub(crate) struct AgentGraph {
    names: AgentIdsByName,
    /// Ordered by the agent at the end and the position.
    links: Vec<AgentLink>,
    /// For each agent, the number of its first link; behind the last agent, the number of links.
    first_links: Vec<u32>,
    /// The links ordered by the agent at the start, the last one first.
    outgoing: Vec<EdgeId>,
    /// For each agent, its first place in `outgoing`; behind the last agent, the number of links.
    first_outgoing: Vec<u32>,
}

impl AgentGraph {
    /// Builds the graph in declaration order. Of two agents with one name, the later one counts.
    pub(crate) fn new(ensemble: &Ensemble) -> Self {
        let numbered = || (0..).map(AgentId).zip(&ensemble.agents);
        let names: AgentIdsByName = numbered().map(|(id, agent)| (agent.name.clone(), id)).collect();
        let mut links: Vec<AgentLink> = Vec::new();
        let mut first_links = Vec::with_capacity(ensemble.agents.len() + 1);
        for (to, agent) in numbered() {
            first_links.push(count_links(&links));
            let dependencies = agent.dependencies.iter().enumerate();
            links.extend(dependencies.filter_map(|(position, dependency)| {
                let from = *names.get(&dependency.agent_name)?;
                Some(AgentLink { from, to, position })
            }));
        }
        first_links.push(count_links(&links));
        let mut first_outgoing = vec![0_u32; ensemble.agents.len() + 1];
        for link in &links {
            first_outgoing[link.from.index() + 1] += 1;
        }
        for at in 0..ensemble.agents.len() {
            first_outgoing[at + 1] += first_outgoing[at];
        }
        let mut free = first_outgoing.clone();
        let mut outgoing = vec![EdgeId(0); links.len()];
        for (at, link) in links.iter().enumerate().rev() {
            let place = &mut free[link.from.index()];
            outgoing[*place as usize] = EdgeId(at as u32);
            *place += 1;
        }
        Self {
            names,
            links,
            first_links,
            outgoing,
            first_outgoing,
        }
    }

    /// Returns the number of agents.
    pub(crate) fn agent_count(&self) -> usize {
        self.first_links.len() - 1
    }

    /// Returns all agents by name.
    pub(super) fn agent_ids_by_name(&self) -> &AgentIdsByName {
        &self.names
    }

    /// Returns the number of the agent with this name.
    #[inline]
    pub(crate) fn find_agent_id(&self, name: &str) -> Option<AgentId> {
        self.names.get(name).copied()
    }

    /// Returns all dependencies, in the order of their numbers.
    pub(crate) fn links(&self) -> &[AgentLink] {
        &self.links
    }

    /// Returns the range of the numbers of an agent's dependencies.
    #[inline]
    pub(crate) fn incoming_edge_range(&self, to: AgentId) -> Range<usize> {
        self.first_links[to.index()] as usize..self.first_links[to.index() + 1] as usize
    }

    /// Returns the numbers of the dependencies on an agent, the last one first.
    #[inline]
    pub(crate) fn outgoing_edge_ids(&self, from: AgentId) -> &[EdgeId] {
        let (start, end) = (self.first_outgoing[from.index()], self.first_outgoing[from.index() + 1]);
        &self.outgoing[start as usize..end as usize]
    }

    /// Returns these agents and all agents upstream of them, over the dependencies for which `is_followed` is true.
    pub(crate) fn find_upstream_agents(
        &self,
        agents: impl IntoIterator<Item = usize>,
        is_followed: impl Fn(usize, &AgentLink) -> bool,
    ) -> FixedBitSet {
        find_reachable(self.agent_count(), agents, |agent| {
            let range = self.incoming_edge_range(AgentId(agent as u32));
            let links = range.clone().zip(&self.links[range]);
            let followed = links.filter(|(at, link)| is_followed(*at, link));
            followed.map(|(_, link)| link.from.index())
        })
    }
}

/// Returns the number of dependencies. Panics above 4 billion.
fn count_links(links: &[AgentLink]) -> u32 {
    u32::try_from(links.len()).expect("fewer than 4 billion dependencies")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::load_ensemble;
    use crate::source::SourceText;

    #[test]
    fn links_are_numbered_by_their_ends_and_listed_by_their_starts() {
        let text = "name: t\nagents:\n- {name: a, script: s, dependencies: [{agent_name: c, feedback: true}]}\n\
                    - {name: b, script: s, depends_on: [a]}\n- {name: c, script: s, depends_on: [b, a]}\n- {name: d, script: s}\n";
        let loaded = load_ensemble(&SourceText::new("t", text));
        let graph = AgentGraph::new(&loaded.ensemble.expect("an ensemble"));
        let ends = |at: &AgentLink| (at.from.index(), at.to.index(), at.position);
        let links: Vec<_> = graph.links().iter().map(ends).collect();
        assert_eq!(links, [(2, 0, 0), (0, 1, 0), (1, 2, 0), (0, 2, 1)]);
        let incoming: Vec<_> = (0..4).map(|at| graph.incoming_edge_range(AgentId(at))).collect();
        assert_eq!(incoming, [0..1, 1..2, 2..4, 4..4]);
        let outgoing: Vec<Vec<usize>> = (0..4)
            .map(|at| {
                graph
                    .outgoing_edge_ids(AgentId(at))
                    .iter()
                    .map(|id| id.index())
                    .collect()
            })
            .collect();
        assert_eq!(outgoing, [vec![3, 1], vec![2], vec![0], vec![]]);
        let upstream = |follows: fn(usize) -> bool| {
            graph
                .find_upstream_agents([1], |at, _| follows(at))
                .ones()
                .collect::<Vec<_>>()
        };
        assert_eq!(upstream(|_| true), [0, 1, 2]);
        assert_eq!(upstream(|at| at != 0), [0, 1]);
        assert_eq!(
            (
                graph.find_agent_id("d").map(AgentId::index),
                graph.find_agent_id("e").is_none()
            ),
            (Some(3), true)
        );
    }
}
