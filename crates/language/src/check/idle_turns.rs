//! Executions that an agent may have but can never reach: `max_turns` is larger than the number of possible starts.
//!
//! An agent runs once, and then again only after a new output. So it runs at most one time more than its sources have
//! new outputs. An agent that it requires at the start has already used one of its outputs by then. Agents without
//! dependencies that are alone in an ensemble are checked by [`super::independent_agents`].

use super::check_graph::{CheckGraph, GraphEdge};
use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentTrigger};
use crate::loader::codes;
use crate::source::RouteLocation;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The number of rounds in which the bounds are reduced; the bounds are valid after each round.
const MAX_BOUND_ROUNDS: usize = 16;

/// Returns the maximum number of executions that each agent can have in a run. Computes the numbers on first use.
pub(super) fn max_executions_by_agent<'g>(graph: &'g CheckGraph<'_>) -> &'g [u64] {
    graph.max_executions.get_or_init(|| compute_max_executions(graph))
}

/// Computes the maximum number of executions of each agent: `max_turns`, reduced in rounds by the limits of its sources.
fn compute_max_executions(graph: &CheckGraph<'_>) -> Vec<u64> {
    let limit = |at: usize| u64::from(graph.agent_at(at).conversation.max_turns.get());
    let mut execution_limits: Vec<u64> = (0..graph.agent_count()).map(limit).collect();
    // An agent that can be requested may run up to its limit.
    if graph.any_agent_can_request() {
        return execution_limits;
    }
    for _ in 0..MAX_BOUND_ROUNDS {
        let mut narrowed = false;
        let total = execution_limits.iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
        for agent in 0..graph.agent_count() {
            let agent_limit = bound_executions(graph, agent, &execution_limits, total);
            if agent_limit < execution_limits[agent] {
                execution_limits[agent] = agent_limit;
                narrowed = true;
            }
        }
        if !narrowed {
            break;
        }
    }
    execution_limits
}

/// Returns the maximum number of executions of one agent, given the limits of all agents and their sum.
fn bound_executions(graph: &CheckGraph<'_>, agent: usize, most: &[u64], total: u64) -> u64 {
    match graph.agent_at(agent).conversation.trigger {
        AgentTrigger::EveryTurn => return u64::MAX,
        // No agent can request it.
        AgentTrigger::Request => return 0,
        AgentTrigger::News => {}
    }
    if graph.agent_at(agent).dependencies.is_empty() {
        // `total` may be older than `most`; then it is only larger.
        return total.saturating_sub(most[agent]).saturating_add(1);
    }
    let mut edges: Vec<&GraphEdge<'_>> = graph
        .dependency_edges(agent)
        .iter()
        .filter(|edge| !edge.is_never_fulfilled())
        .collect();
    edges.sort_by_key(|edge| edge.from);
    let restarts = edges
        .chunk_by(|one, other| one.from == other.from)
        .map(|edges| count_restarts(edges, most[edges[0].from]))
        .fold(0_u64, u64::saturating_add);
    restarts.saturating_add(1)
}

/// Returns how often the outputs of one agent can start another agent after its first execution.
fn count_restarts(edges: &[&GraphEdge<'_>], outputs: u64) -> u64 {
    let needed_first = edges.iter().any(|edge| edge.is_required_at_start());
    let allowed = edges.iter().fold(0_u64, |sum, edge| {
        let limit = edge.dependency.max_executions;
        sum.saturating_add(limit.map_or(u64::MAX, |most| u64::from(most.get())))
    });
    outputs.saturating_sub(u64::from(needed_first)).min(allowed)
}

/// Warns if an agent that may run several times runs only once, and gives a hint if an agent without dependencies cannot
/// reach its `max_turns`.
pub(super) fn check_idle_turns(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let execution_limits = max_executions_by_agent(graph);
    let mut findings = Vec::new();
    for (at, most) in execution_limits.iter().copied().enumerate() {
        let agent = graph.agent_at(at);
        let turns = agent.conversation.max_turns.get();
        if graph.runs_on_request(at)
            || most >= u64::from(turns)
            || graph.agent_count() == 1 && agent.dependencies.is_empty()
        {
            continue;
        }
        // A limit that is never reached can be a precaution. For an agent without dependencies it is probably a
        // mistake.
        if most > 1 && !agent.dependencies.is_empty() {
            continue;
        }
        let finding = if most <= 1 {
            let message = format!("agent `{}` will run at most once, not {turns} times", agent.name);
            Finding::new_warning(codes::NEVER_NEWS, max_turns_location(at), message)
        } else {
            let message = format!(
                "agent `{}` can run at most {most} times, so `max_turns: {turns}` is never reached",
                agent.name
            );
            Finding::new_hint(codes::IDLE_TURNS, max_turns_location(at), message)
        };
        let change = RouteEdit::WriteYaml(finding.at.clone(), most.max(1).to_string());
        let fix = RouteFix::new_unsafe(format!("write `{}`", most.max(1)), change);
        findings.push(finding.with_fix(fix).with_help(
            "the agents that it depends on produce no more outputs for it: raise their `max_turns`, set `trigger: every_turn`, or lower this `max_turns`",
        ));
    }
    findings
}

/// Returns the location of `max_turns` of the agent.
fn max_turns_location(agent: usize) -> RouteLocation {
    Agent::route_at(agent)
        .with_key("conversation")
        .with_key("max_turns")
        .into_value_location()
}
