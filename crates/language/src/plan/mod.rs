//! The ensemble as a graph: numbered agents, numbered edges, compiled conditions.
//!
//! **Invariant:** a plan is valid. Every edge connects two agents of the ensemble, and every condition compiles. Code
//! that uses a plan does not check this again.

pub(crate) mod agent_graph;
mod execution_reads;
pub mod graph_walks;
mod upstream_agents;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use crate::condition::{Condition, ValueExpression};
use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentTrigger, Dependency, Ensemble, RequiredResult, ResultSpec, WaitForOutputs};
use crate::loader::codes::{CONDITION, CONDITION_AGENT};
use crate::source::Route;

use agent_graph::{AgentGraph, AgentIdsByName};

pub use execution_reads::{ExecutionReads, HistoryRead};
pub use upstream_agents::UpstreamAgents;

/// The number of an agent: its position in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(u32);

/// The number of an edge; the edges to one agent are consecutive, in declaration order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(u32);

/// An edge: `to` depends on `from`.
#[derive(Debug)]
pub struct PlanEdge {
    /// The agent that is depended on.
    pub from: AgentId,
    /// The agent that has the dependency.
    pub to: AgentId,
    /// The condition; `None`: no condition.
    pub condition: Option<Condition>,
    /// How often the edge may start `to`.
    pub max_executions: Option<NonZeroU32>,
    /// True: this dependency is required. False: one of the dependencies with false is required.
    pub requires_all: bool,
    /// Not needed before the first execution of `to`.
    pub feedback: bool,
    /// The results of executions of `from` that fulfil the dependency and start `to`.
    pub on: RequiredResult,
    /// What `to` waits for; only if the dependency is required.
    pub wait_for: WaitForOutputs,
    /// The position among the dependencies of `to`, from 0.
    pub position: usize,
}

/// An ensemble prepared for execution.
#[derive(Debug)]
pub struct Plan {
    ensemble: Arc<Ensemble>,
    graph: AgentGraph,
    reserved: AgentIdsByName,
    /// Numbered as the links of the graph.
    edges: Vec<PlanEdge>,
    /// For each edge, its sources, once they were needed.
    sources: Vec<OnceLock<UpstreamAgents>>,
    listeners: Vec<AgentId>,
    caps: Vec<Option<NonZeroU32>>,
    parameters: Vec<Arc<JsonMap>>,
    only_tools: Vec<bool>,
    /// Computed at the first execution, since checks do not need it.
    readings: OnceLock<Vec<ExecutionReads>>,
    result: Option<CompiledResult>,
    success: Option<Condition>,
    required: Vec<AgentId>,
}

/// The compiled `result` of an ensemble: an agent, or a map of expressions.
#[derive(Debug)]
pub enum CompiledResult {
    /// The latest output of this agent.
    Agent(AgentId),
    /// A map: keys, and expressions over the last state.
    Map(Vec<(Arc<str>, ValueExpression)>),
}

impl Plan {
    /// Numbers agents and edges and compiles the conditions; reports every condition that does not compile.
    ///
    /// The loader has checked the ensemble, so its names are unique and its edges refer to existing agents.
    pub fn build(ensemble: Arc<Ensemble>) -> Result<Self, Vec<Finding>> {
        let graph = AgentGraph::new(&ensemble);
        let mut findings = Vec::new();
        let edges = graph.links().iter().map(|link| {
            let dependency = &ensemble.agents[link.to.index()].dependencies[link.position];
            PlanEdge {
                from: link.from,
                to: link.to,
                condition: compile_condition(dependency, link.to, graph.agent_ids_by_name(), &mut findings),
                max_executions: dependency.max_executions,
                requires_all: dependency.requires_all,
                feedback: dependency.feedback,
                on: dependency.on,
                wait_for: dependency.wait_for,
                position: link.position,
            }
        });
        let edges: Vec<PlanEdge> = edges.collect();
        let result = compile_result(&ensemble, graph.agent_ids_by_name(), &mut findings);
        let success = compile_success(&ensemble, graph.agent_ids_by_name(), &mut findings);
        if !findings.is_empty() {
            return Err(findings);
        }
        Ok(Self {
            result,
            success,
            ..Self::from_graph_without_result(ensemble, graph, edges)
        })
    }

    /// Builds a plan without `result` and `success`, which the caller adds.
    fn from_graph_without_result(ensemble: Arc<Ensemble>, graph: AgentGraph, edges: Vec<PlanEdge>) -> Self {
        let names = graph.agent_ids_by_name();
        let mut caps = vec![None; ensemble.agents.len()];
        for (name, cap) in &ensemble.limits.max_agent_executions {
            if let Some(id) = names.get(name) {
                caps[id.index()] = Some(*cap);
            }
        }
        let mut reserved = names.clone();
        for (id, agent) in (0..).map(AgentId).zip(&ensemble.agents) {
            reserved.entry(agent.state_key().clone()).or_insert(id);
        }
        let listeners = (0..)
            .map(AgentId)
            .zip(&ensemble.agents)
            .filter(|(_, agent)| agent.dependencies.is_empty() && agent.conversation.max_turns.get() > 1)
            .map(|(id, _)| id)
            .collect();
        let parameters = ensemble
            .agents
            .iter()
            .map(|agent| Arc::new(agent.config.clone()))
            .collect();
        let required = (0..).map(AgentId).zip(&ensemble.agents);
        let required = required.filter(|(_, agent)| agent.required).map(|(id, _)| id).collect();
        let only_tools = find_tool_only_agents(&ensemble, names);
        let sources = edges.iter().map(|_| OnceLock::new()).collect();
        Self {
            ensemble,
            graph,
            reserved,
            edges,
            sources,
            listeners,
            caps,
            parameters,
            only_tools,
            readings: OnceLock::new(),
            result: None,
            success: None,
            required,
        }
    }

    /// Returns the result of a run. Returns `None` if the result is the final state.
    pub fn result(&self) -> Option<&CompiledResult> {
        self.result.as_ref()
    }

    /// Returns the condition that must be true in the last state for exit code 0.
    pub fn success_condition(&self) -> Option<&Condition> {
        self.success.as_ref()
    }

    /// Returns the agents that must have succeeded when the run ends, in declaration order.
    pub fn required_agents(&self) -> &[AgentId] {
        &self.required
    }

    /// Returns the ensemble of the plan.
    pub fn ensemble(&self) -> &Arc<Ensemble> {
        &self.ensemble
    }

    /// Returns the number of agents.
    pub fn agent_count(&self) -> usize {
        self.ensemble.agents.len()
    }

    /// Always false: an ensemble has at least one agent.
    pub fn is_empty(&self) -> bool {
        self.ensemble.agents.is_empty()
    }

    /// Returns all agents in declaration order.
    pub fn agent_ids(&self) -> impl Iterator<Item = AgentId> + use<> {
        (0..u32::try_from(self.agent_count()).expect("fewer than 4 billion agents")).map(AgentId)
    }

    /// Returns the agent with this number.
    #[inline]
    pub fn agent(&self, id: AgentId) -> &Agent {
        &self.ensemble.agents[id.index()]
    }

    /// Returns the name of the agent with this number.
    #[inline]
    pub fn agent_name(&self, id: AgentId) -> &Arc<str> {
        &self.agent(id).name
    }

    /// Returns the number of the agent with this name.
    #[inline]
    pub fn find_agent_id(&self, name: &str) -> Option<AgentId> {
        self.graph.find_agent_id(name)
    }

    /// Returns whether the key is the name or the state key of an agent.
    #[inline]
    pub fn is_agent_or_state_key(&self, key: &str) -> bool {
        self.reserved.contains_key(key)
    }

    /// Returns the edge with this number.
    #[inline]
    pub fn edge(&self, id: EdgeId) -> &PlanEdge {
        &self.edges[id.0 as usize]
    }

    /// Returns the dependencies of an agent with their numbers, in declaration order.
    #[inline]
    pub fn incoming_edges(&self, to: AgentId) -> impl DoubleEndedIterator<Item = (EdgeId, &PlanEdge)> {
        let range = self.graph.incoming_edge_range(to);
        (range.start as u32..range.end as u32)
            .map(EdgeId)
            .zip(&self.edges[range])
    }

    /// Returns the agents whose executions can lead to an output of the edge's agent, on paths that do not pass through `to`.
    ///
    /// Feedback dependencies are such a way only where the edge waits until everything has settled. The set is computed
    /// when it is first needed, and then kept.
    pub fn upstream_agents(&self, id: EdgeId) -> &UpstreamAgents {
        self.sources[id.index()].get_or_init(|| upstream_agents::find_upstream_agents(self, self.edge(id)))
    }

    /// Returns the edges to the agents that depend on this agent, with their numbers.
    #[inline]
    pub fn outgoing_edges(&self, from: AgentId) -> impl Iterator<Item = (EdgeId, &PlanEdge)> {
        self.graph
            .outgoing_edge_ids(from)
            .iter()
            .map(|id| (*id, self.edge(*id)))
    }

    /// Returns the number of edges.
    #[inline]
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// Returns whether any condition, `success` or the result reads the history.
    pub fn reads_history(&self) -> bool {
        let conditions = self.edges.iter().filter_map(|edge| edge.condition.as_ref());
        let result = match &self.result {
            Some(CompiledResult::Map(entries)) => entries.as_slice(),
            Some(CompiledResult::Agent(_)) | None => &[],
        };
        conditions.chain(&self.success).any(Condition::reads_history)
            || result.iter().any(|(_, expression)| expression.reads_history())
    }

    /// Returns the values that the agent reads in addition to the outputs of its dependencies.
    pub fn reads_beyond_dependencies(&self, id: AgentId) -> ExecutionReads {
        self.readings
            .get_or_init(|| execution_reads::list_execution_reads(&self.ensemble))[id.index()]
    }

    /// Returns the agents without dependencies that may run more than once. Every new output of another agent can start them.
    #[inline]
    pub fn listening_agent_ids(&self) -> &[AgentId] {
        &self.listeners
    }

    /// Returns the agent's limit in `max_executions`, if it has one.
    #[inline]
    pub fn max_agent_executions(&self, id: AgentId) -> Option<NonZeroU32> {
        self.caps[id.index()]
    }

    /// Returns the agent's `config`, which its executions share.
    #[inline]
    pub fn agent_config(&self, id: AgentId) -> &Arc<JsonMap> {
        &self.parameters[id.index()]
    }

    /// Returns whether the agent only runs as a tool.
    ///
    /// This is the case if a tool names it, it has no dependencies, and no agent depends on it.
    #[inline]
    pub fn runs_only_as_tool(&self, id: AgentId) -> bool {
        self.only_tools[id.index()]
    }

    /// Returns whether only a request starts the agent.
    #[inline]
    pub fn runs_on_request(&self, id: AgentId) -> bool {
        self.agent(id).conversation.trigger == AgentTrigger::Request
    }

    /// Returns whether the agent runs in every turn in which its dependencies are fulfilled.
    #[inline]
    pub fn runs_every_turn(&self, id: AgentId) -> bool {
        self.agent(id).conversation.trigger == AgentTrigger::EveryTurn
    }
}

/// Returns for each agent whether it only runs as a tool.
fn find_tool_only_agents(ensemble: &Ensemble, names: &AgentIdsByName) -> Vec<bool> {
    let mut only_tools = vec![false; ensemble.agents.len()];
    for (_, agent) in ensemble.list_agent_tools() {
        if let Some(id) = names.get(agent) {
            only_tools[id.index()] = true;
        }
    }
    for (at, agent) in ensemble.agents.iter().enumerate() {
        only_tools[at] &= agent.dependencies.is_empty();
        for dependency in &agent.dependencies {
            if let Some(id) = names.get(&dependency.agent_name) {
                only_tools[id.index()] = false;
            }
        }
    }
    only_tools
}

/// Compiles `result`, and reports its errors and unknown agents.
fn compile_result(ensemble: &Ensemble, names: &AgentIdsByName, findings: &mut Vec<Finding>) -> Option<CompiledResult> {
    let entries = match ensemble.result.as_ref()? {
        ResultSpec::Agent(agent) => return names.get(agent).copied().map(CompiledResult::Agent),
        ResultSpec::Map(entries) => entries,
    };
    let mut compiled = Vec::with_capacity(entries.len());
    for (key, text) in entries {
        let route = Route::root().with_key("result").with_key(key.clone());
        match ValueExpression::compile(text) {
            Ok(expression) => {
                for (name, span) in expression.list_named_agents() {
                    if !names.contains_key(name.as_str()) {
                        findings.push(build_unknown_agent_finding(
                            &name,
                            names,
                            route.clone().into_text_location(span),
                        ));
                    }
                }
                compiled.push((key.clone(), expression));
            }
            Err(error) => {
                let mut finding = Finding::new_error(CONDITION, route.into_text_location(error.span), error.message);
                finding.help = error.help;
                findings.push(finding);
            }
        }
    }
    Some(CompiledResult::Map(compiled))
}

/// Compiles `success`, and reports its errors and unknown agents.
fn compile_success(ensemble: &Ensemble, names: &AgentIdsByName, findings: &mut Vec<Finding>) -> Option<Condition> {
    let route = || Route::root().with_key("success");
    match Condition::compile_without_output(ensemble.success.as_ref()?) {
        Ok(condition) => {
            for (name, span) in condition.list_named_agents() {
                if !names.contains_key(name.as_str()) {
                    findings.push(build_unknown_agent_finding(
                        &name,
                        names,
                        route().into_text_location(span),
                    ));
                }
            }
            Some(condition)
        }
        Err(error) => {
            let mut finding = Finding::new_error(CONDITION, route().into_text_location(error.span), error.message);
            finding.help = error.help;
            findings.push(finding);
            None
        }
    }
}

/// Compiles the condition of a dependency, and reports its errors and unknown agents.
fn compile_condition(
    dependency: &Dependency,
    to: AgentId,
    names: &AgentIdsByName,
    findings: &mut Vec<Finding>,
) -> Option<Condition> {
    let text = dependency.condition.as_ref()?;
    let route = || -> Route { dependency.route_in(&Agent::route_at(to.index())).with_key("condition") };
    match Condition::compile(text) {
        Ok(condition) => {
            for (name, span) in condition.list_named_agents() {
                if !names.contains_key(name.as_str()) {
                    findings.push(build_unknown_agent_finding(
                        &name,
                        names,
                        route().into_text_location(span),
                    ));
                }
            }
            Some(condition)
        }
        Err(error) => {
            let mut finding = Finding::new_error(CONDITION, route().into_text_location(error.span), error.message);
            finding.help = error.help;
            findings.push(finding);
            None
        }
    }
}

/// Builds the error about an unknown agent, with the most similar name.
fn build_unknown_agent_finding(name: &str, names: &AgentIdsByName, at: crate::source::RouteLocation) -> Finding {
    let mut agents: Vec<(AgentId, &str)> = names.iter().map(|(name, id)| (*id, &**name)).collect();
    agents.sort_unstable_by_key(|(id, _)| id.0);
    Finding::new_unknown_agent(CONDITION_AGENT, at, name, agents.into_iter().map(|(_, name)| name))
}

impl AgentId {
    /// Returns the number of the agent at this position in the file.
    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 4 billion agents"))
    }

    /// Returns the position in the file, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl EdgeId {
    /// Returns the position among all edges, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent {}", self.0)
    }
}
