//! Limits that end the conversation before an agent can have its first execution.
//!
//! The shortest path to an agent is counted in turns from the start. No event of a run can make it shorter.

use super::check_subject::CheckSubject;
use std::collections::HashSet;

use super::check_graph::{CheckGraph, FirstTurnRules};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentTrigger};
use crate::loader::codes;
use crate::source::{Route, RouteLocation};

/// The highest number of agents named in one finding.
const MAX_SHOWN_AGENTS: usize = 5;

/// The last possible turn of the conversation, with the limit that ends the conversation.
struct LatestTurnLimit {
    turn: u32,
    place: Option<RouteLocation>,
    why: String,
}

/// Returns all agents that the conversation cannot reach before a limit ends it.
pub(super) fn list_unreached_agents(graph: &CheckGraph<'_>) -> Vec<usize> {
    let turns = first_possible_turns(graph);
    let mut late = agents_after_turn(&turns, find_latest_turn_limit(graph).turn);
    late.extend(agents_after_execution_limit(graph, &turns, &late));
    late
}

/// Returns the earliest possible turn of each agent. Conditions that are never true count; limits do not.
fn first_possible_turns(graph: &CheckGraph<'_>) -> Vec<Option<u32>> {
    graph.compute_first_turns(&FirstTurnRules {
        conditions: true,
        ..FirstTurnRules::default()
    })
}

/// Returns the agents whose first turn is after the turn `end`, in the order of their turns.
fn agents_after_turn(turns: &[Option<u32>], end: u32) -> Vec<usize> {
    let mut late: Vec<(u32, usize)> = turns
        .iter()
        .enumerate()
        .filter_map(|(agent, turn)| Some((turn.filter(|turn| *turn > end)?, agent)))
        .collect();
    late.sort_unstable();
    late.into_iter().map(|(_, agent)| agent).collect()
}

/// Returns the agents that need the output of an agent whose first execution ends the conversation.
fn agents_after_execution_limit(graph: &CheckGraph<'_>, turns: &[Option<u32>], late: &[usize]) -> Vec<usize> {
    let mut last = vec![false; graph.agent_count()];
    for (name, cap) in &graph.ensemble.limits.max_agent_executions {
        if cap.get() == 1
            && let Some(agent) = graph.find_agent_index(name)
        {
            last[agent] = true;
        }
    }
    if !last.contains(&true) {
        return Vec::new();
    }
    let reached = graph.compute_first_turns(&FirstTurnRules {
        conditions: true,
        last,
        ..FirstTurnRules::default()
    });
    let late: HashSet<usize> = late.iter().copied().collect();
    (0..graph.agent_count())
        .filter(|agent| turns[*agent].is_some() && reached[*agent].is_none() && !late.contains(agent))
        .collect()
}

/// Returns the limit that certainly ends the conversation: `max_total_turns`, or the limit of an agent that runs in every turn.
fn find_latest_turn_limit(graph: &CheckGraph<'_>) -> LatestTurnLimit {
    let limits = &graph.ensemble.limits;
    let turn_limit = limits.max_total_turns.get();
    let route = Route::root().with_key("conversation_limits");
    let mut end = LatestTurnLimit {
        turn: turn_limit,
        place: Some(route.with_key("max_total_turns").into_value_location()),
        why: format!("`max_total_turns` is {turn_limit}"),
    };
    for (name, cap) in &limits.max_agent_executions {
        let Some(agent) = graph.find_agent_index(name).map(|at| graph.agent_at(at)) else {
            continue;
        };
        let is_sure = agent.dependencies.is_empty()
            && agent.conversation.trigger != AgentTrigger::Request
            && (cap.get() == 1 || agent.conversation.trigger == AgentTrigger::EveryTurn)
            && agent.conversation.max_turns >= *cap;
        if is_sure && cap.get() < end.turn {
            end = LatestTurnLimit {
                turn: cap.get(),
                place: Some(
                    route
                        .with_key("max_agent_executions")
                        .with_key(name.clone())
                        .into_value_location(),
                ),
                why: format!(
                    "`{name}` runs from turn 1 on, and `max_agent_executions` ends the conversation after its execution {cap}"
                ),
            };
        }
    }
    end
}

/// Warns of the first agent beyond the last turn, with the others as related locations, and of the first agent behind an execution limit.
pub(super) fn check_unreached_agents(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let turns = first_possible_turns(graph);
    let end = find_latest_turn_limit(graph);
    let late = agents_after_turn(&turns, end.turn);
    let mut findings = Vec::new();
    if let Some((first, others)) = late.split_first() {
        let message = format!(
            "agent `{}` can never run: it could run in turn {} at the earliest, and the conversation ends after turn {}",
            graph.agent_name(*first),
            turns[*first].unwrap_or_default(),
            end.turn
        );
        let mut finding = Finding::new_warning(codes::TOO_LATE, agent_name_location(*first), message);
        if let Some(place) = end.place.filter(|_| has_nondefault_limits(graph)) {
            finding = finding.with_related(place, "this limit ends the conversation");
        }
        for agent in others.iter().take(MAX_SHOWN_AGENTS) {
            finding = finding.with_related(
                agent_name_location(*agent),
                format!("`{}` can never run either", graph.agent_name(*agent)),
            );
        }
        findings.push(finding.with_help(format!(
            "{}; raise the limit, or remove dependencies before this agent",
            end.why
        )));
    }
    for agent in agents_after_execution_limit(graph, &turns, &late).into_iter().take(1) {
        let message = format!(
            "agent `{}` can never run: it needs an agent whose first execution ends the conversation",
            graph.agent_name(agent)
        );
        let caps = Route::root()
            .with_key("conversation_limits")
            .with_key("max_agent_executions");
        findings.push(
            Finding::new_warning(codes::TOO_LATE, agent_name_location(agent), message)
                .with_related(caps.into_value_location(), "this limit ends the conversation")
                .with_help("raise the limit: the conversation ends after the turn in which the limit is reached"),
        );
    }
    findings
}

/// Returns whether the limits of the conversation differ from the defaults.
fn has_nondefault_limits(graph: &CheckGraph<'_>) -> bool {
    graph.ensemble.limits != crate::ensemble::ConversationLimits::default()
}

/// Returns the location of the name of the agent.
fn agent_name_location(agent: usize) -> RouteLocation {
    Agent::route_at(agent).with_key("name").into_value_location()
}
