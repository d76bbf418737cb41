//! Agents with `trigger: request`: some agent must be able to request them, and their dependencies start nothing.

use super::check_graph::{CheckGraph, FirstTurnRules};
use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;

/// Returns the agents that run only on request, and that no agent can request.
pub(super) fn list_unrequested_agents(graph: &CheckGraph<'_>) -> Vec<usize> {
    let mut waiting = (0..graph.agent_count())
        .filter(|at| graph.runs_on_request(*at))
        .peekable();
    if waiting.peek().is_none() {
        return Vec::new();
    }
    let turns = graph.compute_first_turns(&FirstTurnRules {
        conditions: true,
        ..FirstTurnRules::default()
    });
    waiting.filter(|at| turns[*at].is_none()).collect()
}

/// Warns of agents that no agent can request, and of keys without effect in the dependencies of agents that run on request.
pub(super) fn check_unrequested_agents(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let tools: Vec<_> = subject.ensemble.list_agent_tools().map(|(_, agent)| agent).collect();
    let is_tool = |at: usize| tools.iter().any(|tool| &***tool == graph.agent_name(at));
    let unrequested = list_unrequested_agents(graph).into_iter();
    let mut findings: Vec<Finding> = unrequested
        .filter(|at| !is_tool(*at))
        .map(|at| unrequested_agent_finding(graph, at))
        .collect();
    for at in (0..graph.agent_count()).filter(|at| graph.runs_on_request(*at)) {
        findings.extend(idle_key_findings(graph, at));
    }
    findings
}

/// Builds the warning that no agent can request this agent.
fn unrequested_agent_finding(graph: &CheckGraph<'_>, at: usize) -> Finding {
    let place = Agent::route_at(at)
        .with_key("conversation")
        .with_key("trigger")
        .into_value_location();
    let name = graph.agent_name(at);
    let message = format!("agent `{name}` can never run: it runs only on request, and no agent can request it");
    let finding = Finding::new_warning(codes::NEVER_REQUESTED, place, message);
    finding.with_help(
        "set `conversation.triggers_conversation: true` for an agent that runs, and let it put `agent_requests` into its output",
    )
}

/// Returns a warning for each key of a dependency that has no effect on an agent that runs only on request.
fn idle_key_findings(graph: &CheckGraph<'_>, at: usize) -> impl Iterator<Item = Finding> {
    graph.dependency_edges(at).iter().flat_map(move |edge| {
        let dependency = edge.dependency;
        let keys = [
            ("condition", dependency.condition.is_some()),
            ("max_executions", dependency.max_executions.is_some()),
        ];
        let written = keys.into_iter().filter(|(_, is_written)| *is_written);
        written.map(move |(key, _)| {
            let place = edge.dependency_route(at).with_key(key).into_value_location();
            let name = graph.agent_name(at);
            let message = format!("`{key}` has no effect: `{name}` runs only on request");
            Finding::new_warning(codes::IDLE_START_KEY, place, message).with_help(format!(
                "remove `{key}`, or remove `trigger: request` so that the dependency starts the agent"
            ))
        })
    })
}
