//! Agents that can never run, because a condition on the path to them is never true.
//!
//! Cycles are separate errors, and limits have a separate check. An agent that can be requested can always run.

use super::check_graph::{CheckGraph, FirstTurnRules, GraphEdge};
use super::check_subject::CheckSubject;
use crate::condition::StaticResult;
use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;

/// The highest number of agents named in one finding.
const MAX_SHOWN_AGENTS: usize = 5;

/// Returns the agents that never run because of a condition that is never true, in declaration order.
pub(super) fn list_condition_blocked_agents(graph: &CheckGraph<'_>) -> Vec<usize> {
    if !graph.list_edges().any(|(_, edge)| edge.is_never_fulfilled()) {
        return Vec::new();
    }
    let without = graph.compute_first_turns(&FirstTurnRules::default());
    let with = graph.compute_first_turns(&FirstTurnRules {
        conditions: true,
        ..FirstTurnRules::default()
    });
    (0..graph.agent_count())
        .filter(|agent| without[*agent].is_some() && with[*agent].is_none())
        .collect()
}

/// Warns of the first agents that can never run, and names the agents that wait for them.
pub(super) fn check_blocked_agents(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let never = list_condition_blocked_agents(graph);
    let is_blocked = |agent: usize| never.binary_search(&agent).is_ok();
    let mut findings = Vec::new();
    let mut other_agents = Vec::new();
    for agent in never.iter().copied() {
        match find_blocking_edge(graph, agent) {
            Some(edge) => findings.push(blocked_agent_finding(graph, agent, edge)),
            None => other_agents.push(agent),
        }
    }
    if let Some(first) = findings.first_mut() {
        for agent in other_agents.into_iter().take(MAX_SHOWN_AGENTS) {
            let waits = graph.dependency_edges(agent).iter().find(|edge| is_blocked(edge.from));
            let for_whom = waits.map_or("it", |edge| graph.agent_name(edge.from));
            let label = format!(
                "`{}` can never run either: it waits for `{for_whom}`",
                graph.agent_name(agent)
            );
            first
                .related
                .push((Agent::route_at(agent).with_key("name").into_value_location(), label));
        }
    }
    findings
}

/// Returns the dependencies that block the first execution of an agent, one for each blocked agent that has such a dependency.
pub(super) fn list_blocking_edges<'g, 'e>(graph: &'g CheckGraph<'e>) -> Vec<&'g GraphEdge<'e>> {
    let never = list_condition_blocked_agents(graph).into_iter();
    never.filter_map(|agent| find_blocking_edge(graph, agent)).collect()
}

/// Returns the dependency of the agent that blocks its first execution: one that is never fulfilled and no feedback.
fn find_blocking_edge<'g, 'e>(graph: &'g CheckGraph<'e>, agent: usize) -> Option<&'g GraphEdge<'e>> {
    let barred = |edge: &&GraphEdge<'e>| edge.is_never_fulfilled() && !edge.dependency.feedback;
    let edges = || graph.dependency_edges(agent).iter();
    edges()
        .filter(barred)
        .find(|edge| edge.dependency.requires_all)
        .or_else(|| edges().find(barred))
}

/// Builds the warning that the agent can never run because of the condition of this dependency.
fn blocked_agent_finding(graph: &CheckGraph<'_>, agent: usize, edge: &GraphEdge<'_>) -> Finding {
    let (verdict, label, help) = match &edge.condition {
        Some((_, StaticResult::AlwaysFails(why))) => (
            format!("can never be evaluated: {why}"),
            "can never be evaluated",
            "correct the condition: a run that evaluates it ends with the outcome `condition_failed`",
        ),
        _ => (
            "is never true".to_owned(),
            "never true",
            "correct the condition, or remove the agent",
        ),
    };
    let message = format!(
        "agent `{}` can never run: its condition on `{}` {verdict}",
        graph.agent_name(agent),
        edge.dependency.agent_name
    );
    Finding::new_warning(
        codes::NEVER_RUNS,
        Agent::route_at(agent).with_key("name").into_value_location(),
        message,
    )
    .with_related(
        edge.dependency_route(agent).with_key("condition").into_value_location(),
        label,
    )
    .with_help(help)
}
