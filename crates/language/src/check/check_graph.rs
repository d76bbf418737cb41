//! Data that several checks use: the dependencies of all agents, and what is known of each condition before a run.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use crate::condition::{ConditionText, ParsedCondition, StaticResult, ValueExpression};
use crate::ensemble::{Agent, AgentTrigger, Dependency, Ensemble, ResultSpec};
use crate::plan::AgentId;
use crate::plan::agent_graph::AgentGraph;
use crate::source::Route;

/// An ensemble with resolved dependencies and parsed conditions.
pub(super) struct CheckGraph<'e> {
    pub(super) ensemble: &'e Ensemble,
    graph: AgentGraph,
    /// Numbered as the links of the graph.
    edges: Vec<GraphEdge<'e>>,
    /// The result of [`super::idle_turns::max_executions`], once it was needed.
    pub(super) max_executions: OnceCell<Vec<u64>>,
}

/// A dependency.
pub(super) struct GraphEdge<'e> {
    /// The agent that is depended on.
    pub(super) from: usize,
    /// The agent that has the dependency.
    to: usize,
    pub(super) dependency: &'e Dependency,
    pub(super) condition: Option<(Arc<ParsedCondition>, StaticResult)>,
}

/// Rules for computing the first possible turn of each agent.
#[derive(Default)]
pub(super) struct FirstTurnRules {
    /// A dependency with a condition that is never true is never fulfilled.
    pub(super) conditions: bool,
    /// No agent requests another one.
    pub(super) no_requests: bool,
    /// The agents whose outputs come too late for all other agents.
    pub(super) last: Vec<bool>,
}

impl<'e> CheckGraph<'e> {
    /// Resolves the dependencies of all agents, and evaluates the conditions as far as they are known before a run.
    pub(super) fn build(ensemble: &'e Ensemble) -> Self {
        let graph = AgentGraph::new(ensemble);
        let edges = graph.links().iter().map(|link| {
            let dependency = &ensemble.agents[link.to.index()].dependencies[link.position];
            let read = dependency
                .condition
                .as_ref()
                .and_then(ConditionText::parsed_condition)
                .cloned();
            GraphEdge {
                from: link.from.index(),
                to: link.to.index(),
                dependency,
                condition: read.map(|reading| {
                    let verdict = reading.static_result();
                    (reading, verdict)
                }),
            }
        });
        let edges = edges.collect();
        Self {
            ensemble,
            graph,
            edges,
            max_executions: OnceCell::new(),
        }
    }

    /// Returns the parsed expressions of `result` and `success`, each with its route. Skips expressions that do not parse.
    pub(super) fn parse_result_expressions(&self) -> impl Iterator<Item = (ParsedCondition, Route)> {
        let entries = match &self.ensemble.result {
            Some(ResultSpec::Map(entries)) => entries.as_slice(),
            Some(ResultSpec::Agent(_)) | None => &[],
        };
        let of_result = entries.iter().map(|(key, text)| {
            let route = Route::root().with_key("result").with_key(key.clone());
            (text.as_str(), route)
        });
        let success = self.ensemble.success.iter();
        let success = success.map(|text| (&**text.text(), Route::root().with_key("success")));
        success
            .chain(of_result)
            .filter_map(|(text, route)| Some((ValueExpression::parse(text).ok()?, route)))
    }

    /// Returns the parsed expression of `success`.
    pub(super) fn parsed_success_condition(&self) -> Option<&Arc<ParsedCondition>> {
        self.ensemble.success.as_ref()?.parsed_condition()
    }

    /// Returns the number of agents.
    pub(super) fn agent_count(&self) -> usize {
        self.ensemble.agents.len()
    }

    /// Returns the agent with this index. Panics if there is none.
    pub(super) fn agent_at(&self, at: usize) -> &'e Agent {
        &self.ensemble.agents[at]
    }

    /// Returns the name of the agent with this index.
    pub(super) fn agent_name(&self, at: usize) -> &'e str {
        &self.ensemble.agents[at].name
    }

    /// Returns the index of the agent with this name.
    pub(super) fn find_agent_index(&self, name: &str) -> Option<usize> {
        self.graph.find_agent_id(name).map(AgentId::index)
    }

    /// Returns the names of all agents.
    pub(super) fn agent_names(&self) -> impl Iterator<Item = &'e str> + Clone {
        self.ensemble.agents.iter().map(|agent| &*agent.name)
    }

    /// Returns the dependencies of the agent, in declaration order.
    pub(super) fn dependency_edges(&self, to: usize) -> &[GraphEdge<'e>] {
        &self.edges[self.graph.incoming_edge_range(AgentId::from_index(to))]
    }

    /// Returns every edge, each with the index of the agent that has the dependency.
    pub(super) fn list_edges(&self) -> impl Iterator<Item = (usize, &GraphEdge<'e>)> {
        self.edges.iter().map(|edge| (edge.to, edge))
    }

    /// Returns whether only a request starts the agent.
    pub(super) fn runs_on_request(&self, at: usize) -> bool {
        self.agent_at(at).conversation.trigger == AgentTrigger::Request
    }

    /// Returns whether the agent only runs as a tool. Such executions leave no output.
    pub(super) fn is_only_tool(&self, at: usize) -> bool {
        let agent = self.agent_at(at);
        let is_tool = self.ensemble.list_agent_tools().any(|(_, used)| *used == agent.name);
        is_tool && agent.dependencies.is_empty() && !self.list_edges().any(|(_, edge)| edge.from == at)
    }

    /// Returns whether any agent of the ensemble may request other agents, independent of their dependencies.
    pub(super) fn any_agent_can_request(&self) -> bool {
        let mut agents = self.ensemble.agents.iter();
        agents.any(|agent| agent.conversation.triggers_conversation)
    }

    /// Returns these agents, and all agents that must run before the first execution of one of these agents.
    pub(super) fn agents_and_upstream(&self, agents: impl IntoIterator<Item = usize>) -> FixedBitSet {
        self.graph
            .find_upstream_agents(agents, |at, _| self.edges[at].is_required_at_start())
    }

    /// Returns the earliest turn in which each agent can have its first execution; `None` if there is no such turn.
    ///
    /// An agent can run one turn after the last of the agents that it requires, and after the first of the agents of
    /// which it requires one; or one turn after the first agent that may request other agents.
    pub(super) fn compute_first_turns(&self, rules: &FirstTurnRules) -> Vec<Option<u32>> {
        let mut waits = PendingStarts::from_graph(self, rules);
        let mut turns = vec![None; self.agent_count()];
        let mut queue: VecDeque<(usize, u32)> = waits.ready_agents().map(|agent| (agent, 1)).collect();
        let mut was_requested = false;
        while let Some((agent, turn)) = queue.pop_front() {
            if turns[agent].is_some() {
                continue;
            }
            turns[agent] = Some(turn);
            if rules.last.get(agent).copied().unwrap_or_default() {
                continue;
            }
            let requests = self.agent_at(agent).conversation.triggers_conversation && !rules.no_requests;
            if requests && !std::mem::replace(&mut was_requested, true) {
                queue.extend((0..self.agent_count()).map(|other| (other, turn + 1)));
            }
            queue.extend(
                waits
                    .finish_agent(agent)
                    .into_iter()
                    .map(|listener| (listener, turn + 1)),
            );
        }
        turns
    }
}

impl GraphEdge<'_> {
    /// Returns whether the condition of this dependency is always false or always fails.
    pub(super) fn is_never_fulfilled(&self) -> bool {
        matches!(
            self.condition,
            Some((
                _,
                StaticResult::AlwaysFalse | StaticResult::WrittenLiteral(false) | StaticResult::AlwaysFails(_)
            ))
        )
    }

    /// Returns whether this dependency must be fulfilled before the first execution.
    pub(super) fn is_required_at_start(&self) -> bool {
        self.dependency.requires_all && !self.dependency.feedback
    }

    /// Returns the route of this dependency in the agent with index `to`.
    pub(super) fn dependency_route(&self, to: usize) -> Route {
        self.dependency.route_in(&Agent::route_at(to))
    }
}

/// A tracker of the dependencies that still prevent the first execution of each agent.
struct PendingStarts {
    /// The number of required agents that have not run.
    missing: Vec<usize>,
    /// Whether one of the agents of which one is required has run.
    door: Vec<bool>,
    /// Whether only a request starts the agent.
    only_requested: Vec<bool>,
    /// For each agent, the agents that wait for it, and whether they require it.
    listeners: Vec<Vec<(usize, bool)>>,
}

impl PendingStarts {
    /// Counts for each agent the dependencies that are open before its first execution.
    fn from_graph(graph: &CheckGraph<'_>, rules: &FirstTurnRules) -> Self {
        let count = graph.agent_count();
        let mut waits = Self {
            missing: vec![0; count],
            door: vec![true; count],
            only_requested: (0..count).map(|at| graph.runs_on_request(at)).collect(),
            listeners: vec![Vec::new(); count],
        };
        for to in 0..count {
            let mut any_of = graph
                .dependency_edges(to)
                .iter()
                .filter(|edge| !edge.dependency.requires_all);
            let is_open = graph
                .dependency_edges(to)
                .iter()
                .all(|edge| edge.dependency.requires_all);
            waits.door[to] = is_open || any_of.any(|edge| edge.dependency.feedback);
            for edge in graph
                .dependency_edges(to)
                .iter()
                .filter(|edge| !edge.dependency.feedback)
            {
                let required = edge.dependency.requires_all;
                waits.missing[to] += usize::from(required);
                if !(rules.conditions && edge.is_never_fulfilled()) {
                    waits.listeners[edge.from].push((to, required));
                }
            }
        }
        waits
    }

    /// Returns whether the agent waits for no other agent and does not only run on request.
    fn is_ready(&self, agent: usize) -> bool {
        self.missing[agent] == 0 && self.door[agent] && !self.only_requested[agent]
    }

    /// Returns the agents that wait for no other agent.
    fn ready_agents(&self) -> impl Iterator<Item = usize> {
        (0..self.missing.len()).filter(|agent| self.is_ready(*agent))
    }

    /// Marks the agent as run, and returns the agents that have become ready.
    fn finish_agent(&mut self, agent: usize) -> Vec<usize> {
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
