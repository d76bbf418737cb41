//! Loops that `max_total_turns` ends before one of their agents reaches its `max_turns`.
//!
//! In a loop in which joins wait for updates, one round passes through the loop for each output of feedback. A round
//! takes at least as many turns as the shortest way from a feedback dependency to a feedback dependency. So an agent has
//! its last execution no earlier than that many rounds after its first one. Loops in which an agent can run for other
//! reasons are not examined.

use std::collections::VecDeque;

use super::check_graph::{CheckGraph, FirstTurnRules, GraphEdge};
use super::check_subject::CheckSubject;
use super::idle_turns::max_executions_by_agent;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentTrigger, ConversationLimits, OnLimit, WaitForOutputs};
use crate::loader::codes;
use crate::plan::graph_walks::find_components;
use crate::source::Route;

/// Returns the loops: groups of agents that depend on each other, or agents that depend on themselves. Agents are in ascending order.
pub(super) fn list_loops(graph: &CheckGraph<'_>) -> Vec<Vec<usize>> {
    let heard = |agent: usize| {
        let edges = graph.dependency_edges(agent).iter();
        edges.filter(|edge| !edge.is_never_fulfilled()).map(|edge| edge.from)
    };
    let mut groups = find_components(graph.agent_count(), heard);
    groups.retain(|group| group.len() > 1 || heard(group[0]).any(|from| from == group[0]));
    groups
}

/// Returns the dependencies inside a loop, each with the agent that has it.
pub(super) fn list_loop_edges<'g, 'e>(
    graph: &'g CheckGraph<'e>,
    group: &'g [usize],
) -> impl Iterator<Item = (usize, &'g GraphEdge<'e>)> {
    let edges = group
        .iter()
        .flat_map(|agent| graph.dependency_edges(*agent).iter().map(|edge| (*agent, edge)));
    edges.filter(|(_, edge)| group.binary_search(&edge.from).is_ok() && !edge.is_never_fulfilled())
}

/// Gives a hint for each loop that needs more turns than `max_total_turns`, at the agent that needs the most.
pub(super) fn check_loop_turns(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let total_turns = u64::from(graph.ensemble.limits.max_total_turns.get());
    let cut_loops = list_loops(graph).into_iter().filter_map(|group| {
        let limited = compute_loop_turns(graph, &group)?.limit_turns.into_iter();
        let most = limited.max_by_key(|(turn, agent)| (*turn, std::cmp::Reverse(*agent)));
        most.filter(|(turn, _)| *turn > total_turns)
    });
    cut_loops
        .map(|(turn, agent)| cut_loop_finding(graph, agent, turn))
        .collect()
}

/// The turns that a loop needs.
struct LoopTurns {
    /// The lowest number of turns of a round.
    round: u64,
    /// The agents that can reach their `max_turns`, each after the first turn in which it can do so.
    limit_turns: Vec<(u64, usize)>,
}

/// Returns the turns that the loop needs. Returns `None` if its agents can run for other reasons than the loop.
fn compute_loop_turns(graph: &CheckGraph<'_>, group: &[usize]) -> Option<LoopTurns> {
    if graph.any_agent_can_request() {
        return None;
    }
    let first_turns = graph.compute_first_turns(&FirstTurnRules::default());
    let execution_limits = max_executions_by_agent(graph);
    let round = count_round_turns(graph, group)?;
    let limited = group.iter().filter_map(|agent| {
        let turns = u64::from(graph.agent_at(*agent).conversation.max_turns.get());
        let first = u64::from(first_turns[*agent]?);
        (execution_limits[*agent] >= turns).then(|| (first + (turns - 1) * round, *agent))
    });
    Some(LoopTurns {
        round,
        limit_turns: limited.collect(),
    })
}

/// Returns whether a limit of the conversation with a failing exit code always ends the loop before a limit of its agents.
pub(super) fn is_always_cut_off(graph: &CheckGraph<'_>, group: &[usize]) -> bool {
    let limits = &graph.ensemble.limits;
    let has_edge_limit = list_loop_edges(graph, group).any(|(_, edge)| edge.dependency.max_executions.is_some());
    if limits.on_limit == OnLimit::Succeed || has_edge_limit {
        return false;
    }
    let Some(LoopTurns { round, limit_turns }) = compute_loop_turns(graph, group) else {
        return false;
    };
    let total_turns = u64::from(limits.max_total_turns.get());
    // After the last execution of an agent, the others of the round still run.
    let is_too_late = |turn: u64| turn + round - 1 > total_turns;
    if limit_turns.len() == group.len() && limit_turns.iter().all(|(turn, _)| is_too_late(*turn)) {
        return true;
    }
    let agents = group.iter().map(|agent| graph.agent_at(*agent));
    let fewest_turns = agents.clone().map(|agent| agent.conversation.max_turns).min();
    let caps = limits.max_agent_executions.iter();
    let mut loop_caps = caps.filter(|(name, _)| agents.clone().any(|agent| agent.name == *name));
    loop_caps.any(|(_, cap)| fewest_turns.is_some_and(|turns| *cap < turns))
}

/// Returns the minimum number of turns of one round of the loop. Returns `None` if its agents can run for other reasons.
fn count_round_turns(graph: &CheckGraph<'_>, group: &[usize]) -> Option<u64> {
    let is_inside = |agent: usize| group.binary_search(&agent).is_ok();
    let execution_limits = max_executions_by_agent(graph);
    for agent in group {
        let waits = |edge: &GraphEdge<'_>| {
            edge.dependency.feedback
                || edge.dependency.requires_all && edge.dependency.wait_for != WaitForOutputs::Nothing
        };
        let is_driven_by_loop = |edge: &GraphEdge<'_>| match is_inside(edge.from) {
            true => waits(edge),
            false => execution_limits[edge.from] <= 1 && edge.is_required_at_start(),
        };
        let is_plain = graph.agent_at(*agent).conversation.trigger == AgentTrigger::News;
        if !is_plain || !graph.dependency_edges(*agent).iter().all(is_driven_by_loop) {
            return None;
        }
    }
    let feedback: Vec<(usize, usize)> = list_loop_edges(graph, group)
        .filter(|(_, edge)| edge.dependency.feedback)
        .map(|(to, edge)| (edge.from, to))
        .collect();
    let rounds = feedback.iter().filter_map(|(_, start)| {
        let distances = loop_distances_from(graph, group, *start);
        let ends = feedback
            .iter()
            .filter_map(|(end, _)| distances[group.binary_search(end).ok()?]);
        ends.min().map(|distance| distance + 1)
    });
    rounds.min()
}

/// Returns for each agent of the loop its distance from `start` in dependencies, without feedback.
fn loop_distances_from(graph: &CheckGraph<'_>, group: &[usize], start: usize) -> Vec<Option<u64>> {
    let mut distances = vec![None; group.len()];
    let mut queue = VecDeque::from([(start, 0)]);
    while let Some((agent, distance)) = queue.pop_front() {
        let Ok(at) = group.binary_search(&agent) else {
            continue;
        };
        if distances[at].is_some() {
            continue;
        }
        distances[at] = Some(distance);
        let next = list_loop_edges(graph, group).filter(|(_, edge)| edge.from == agent && !edge.dependency.feedback);
        queue.extend(next.map(|(to, _)| (to, distance + 1)));
    }
    distances
}

/// Builds the hint that the agent cannot reach its `max_turns`, because its loop needs `turn` turns.
fn cut_loop_finding(graph: &CheckGraph<'_>, agent: usize, turn: u64) -> Finding {
    let name = graph.agent_name(agent);
    let turns = graph.agent_at(agent).conversation.max_turns;
    let total_turns = graph.ensemble.limits.max_total_turns;
    let is_default = total_turns == ConversationLimits::default().max_total_turns;
    let default = if is_default { ", the default," } else { "" };
    let message = format!(
        "`{name}` cannot reach its `max_turns: {turns}`: its loop needs {turn} turns, and `max_total_turns: {total_turns}`{default} \
         ends the conversation first"
    );
    let place = Agent::route_at(agent)
        .with_key("conversation")
        .with_key("max_turns")
        .into_value_location();
    let mut finding = Finding::new_hint(codes::CUT_LOOP, place, message);
    if !is_default {
        let limit = Route::root()
            .with_key("conversation_limits")
            .with_key("max_total_turns")
            .into_value_location();
        finding = finding.with_related(limit, "this limit ends the conversation");
    }
    finding.with_help(format!(
        "set `conversation_limits.max_total_turns: {turn}` or more, or lower `max_turns`"
    ))
}
