//! Data that several checks use: the dependencies of all agents, and what is known of each condition before a run.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use crate::condition::{ConditionText, Expression, Reading, Verdict};
use crate::ensemble::{Agent, Dependency, Ensemble, ResultSpec};
use crate::plan::AgentId;
use crate::plan::agent_graph::AgentGraph;
use crate::source::Route;

/// An ensemble with resolved dependencies and parsed conditions.
pub(super) struct Graph<'e> {
    pub(super) ensemble: &'e Ensemble,
    graph: AgentGraph,
    /// Numbered as the links of the graph.
    edges: Vec<Edge<'e>>,
    /// The result of [`super::turns::most_executions`], once it was needed.
    pub(super) most_executions: OnceCell<Vec<u64>>,
}

/// A dependency.
pub(super) struct Edge<'e> {
    /// The agent that is depended on.
    pub(super) from: usize,
    /// The agent that has the dependency.
    to: usize,
    pub(super) dependency: &'e Dependency,
    pub(super) condition: Option<(Arc<Reading>, Verdict)>,
}

/// The dependencies that can be fulfilled, and the agents that end the conversation when they run.
#[derive(Default)]
pub(super) struct Rules {
    /// A dependency with a condition that is never true is never fulfilled.
    pub(super) conditions: bool,
    /// No agent requests another one.
    pub(super) no_requests: bool,
    /// The agents whose outputs come too late for all other agents.
    pub(super) last: Vec<bool>,
}

impl<'e> Graph<'e> {
    pub(super) fn of(ensemble: &'e Ensemble) -> Self {
        let graph = AgentGraph::new(ensemble);
        let edges = graph.links().iter().map(|link| {
            let dependency = &ensemble.agents[link.to.index()].dependencies[link.position];
            let read = dependency.condition.as_ref().and_then(ConditionText::reading).cloned();
            Edge {
                from: link.from.index(),
                to: link.to.index(),
                dependency,
                condition: read.map(|reading| {
                    let verdict = reading.verdict();
                    (reading, verdict)
                }),
            }
        });
        let edges = edges.collect();
        Self {
            ensemble,
            graph,
            edges,
            most_executions: OnceCell::new(),
        }
    }

    /// The expressions of the result, each with its place.
    pub(super) fn result(&self) -> impl Iterator<Item = (Reading, Route)> {
        let entries = match &self.ensemble.result {
            Some(ResultSpec::Map(entries)) => entries.as_slice(),
            Some(ResultSpec::Agent(_)) | None => &[],
        };
        entries.iter().filter_map(|(key, text)| {
            let route = Route::root().key("result").key(key.clone());
            Some((Expression::read(text).ok()?, route))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.ensemble.agents.len()
    }

    pub(super) fn agent(&self, at: usize) -> &'e Agent {
        &self.ensemble.agents[at]
    }

    pub(super) fn name(&self, at: usize) -> &'e str {
        &self.ensemble.agents[at].name
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.graph.find(name).map(AgentId::index)
    }

    /// The names of all agents.
    pub(super) fn names(&self) -> impl Iterator<Item = &'e str> + Clone {
        self.ensemble.agents.iter().map(|agent| &*agent.name)
    }

    /// The dependencies of the agent, in declaration order.
    pub(super) fn edges(&self, to: usize) -> &[Edge<'e>] {
        &self.edges[self.graph.incoming(AgentId::from_index(to))]
    }

    /// Every edge, with the agent that has the dependency.
    pub(super) fn all_edges(&self) -> impl Iterator<Item = (usize, &Edge<'e>)> {
        self.edges.iter().map(|edge| (edge.to, edge))
    }

    /// Returns whether an agent may request other agents, independent of their dependencies.
    pub(super) fn has_requests(&self) -> bool {
        let mut agents = self.ensemble.agents.iter();
        agents.any(|agent| agent.conversation.triggers_conversation)
    }

    /// The agents, and all agents that must run before the first execution of one of them.
    pub(super) fn upstream(&self, agents: impl IntoIterator<Item = usize>) -> FixedBitSet {
        self.graph.upstream(agents, |at, _| self.edges[at].is_needed_first())
    }

    /// The earliest turn in which each agent can have its first execution; `None` if there is no such turn.
    ///
    /// An agent can run one turn after the last of the agents that it requires, and after the first of the agents of
    /// which it requires one; or one turn after the first agent that may request other agents.
    pub(super) fn first_turns(&self, rules: &Rules) -> Vec<Option<u32>> {
        let mut waits = Waits::of(self, rules);
        let mut turns = vec![None; self.len()];
        let mut queue: VecDeque<(usize, u32)> = waits.ready().map(|agent| (agent, 1)).collect();
        let mut asked = false;
        while let Some((agent, turn)) = queue.pop_front() {
            if turns[agent].is_some() {
                continue;
            }
            turns[agent] = Some(turn);
            if rules.last.get(agent).copied().unwrap_or_default() {
                continue;
            }
            let requests = self.agent(agent).conversation.triggers_conversation && !rules.no_requests;
            if requests && !std::mem::replace(&mut asked, true) {
                queue.extend((0..self.len()).map(|other| (other, turn + 1)));
            }
            queue.extend(waits.without(agent).into_iter().map(|listener| (listener, turn + 1)));
        }
        turns
    }
}

impl Edge<'_> {
    /// Returns whether it can never be fulfilled when its condition is evaluated.
    pub(super) fn never_holds(&self) -> bool {
        matches!(
            self.condition,
            Some((_, Verdict::Never | Verdict::Plain(false) | Verdict::Fails(_)))
        )
    }

    /// Returns whether it must be fulfilled before the first execution.
    pub(super) fn is_needed_first(&self) -> bool {
        self.dependency.requires_all && !self.dependency.feedback
    }

    pub(super) fn route(&self, to: usize) -> Route {
        self.dependency.route(&Agent::route(to))
    }
}

/// The dependencies that prevent the first execution of agents.
struct Waits {
    /// The number of required agents that have not run.
    missing: Vec<usize>,
    /// Whether one of the agents of which one is required has run.
    door: Vec<bool>,
    /// For each agent, the agents that wait for it, and whether they require it.
    listeners: Vec<Vec<(usize, bool)>>,
}

impl Waits {
    fn of(graph: &Graph<'_>, rules: &Rules) -> Self {
        let count = graph.len();
        let mut waits = Self {
            missing: vec![0; count],
            door: vec![true; count],
            listeners: vec![Vec::new(); count],
        };
        for to in 0..count {
            let mut any_of = graph.edges(to).iter().filter(|edge| !edge.dependency.requires_all);
            let is_open = graph.edges(to).iter().all(|edge| edge.dependency.requires_all);
            waits.door[to] = is_open || any_of.any(|edge| edge.dependency.feedback);
            for edge in graph.edges(to).iter().filter(|edge| !edge.dependency.feedback) {
                let required = edge.dependency.requires_all;
                waits.missing[to] += usize::from(required);
                if !(rules.conditions && edge.never_holds()) {
                    waits.listeners[edge.from].push((to, required));
                }
            }
        }
        waits
    }

    fn is_ready(&self, agent: usize) -> bool {
        self.missing[agent] == 0 && self.door[agent]
    }

    /// The agents that wait for no other agent.
    fn ready(&self) -> impl Iterator<Item = usize> {
        (0..self.missing.len()).filter(|agent| self.is_ready(*agent))
    }

    /// Marks the agent as run, and returns the agents that now wait for no other agent.
    fn without(&mut self, agent: usize) -> Vec<usize> {
        let mut ready = Vec::new();
        for (listener, required) in std::mem::take(&mut self.listeners[agent]) {
            if required {
                self.missing[listener] -= 1;
            } else {
                self.door[listener] = true;
            }
            if self.is_ready(listener) {
                ready.push(listener);
            }
        }
        ready
    }
}
