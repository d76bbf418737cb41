//! Conditions that count an agent before their own dependency.
//!
//! `editor` listens to `reviewer` with the condition `executions.writer >= 3`, and `reviewer` listens to `writer`. The
//! condition becomes true with the third output of `writer`. In the next turn, `reviewer` reads this output, and
//! `editor` starts in the same turn, with the second output of `reviewer`.
//!
//! A condition is only reported if nothing else can delay the agent, and if the dependency certainly reacts to the
//! output that makes the condition true.

use super::check_graph::{CheckGraph, GraphEdge};
use super::check_subject::CheckSubject;
use super::idle_turns::max_executions_by_agent;
use crate::condition::CountThreshold;
use crate::diagnostic::Finding;
use crate::ensemble::{RequiredResult, WaitForOutputs};
use crate::loader::codes;
use crate::plan::graph_walks::find_reachable;

/// The highest number of counts that are examined, because each takes a walk through the agents.
const MOST: usize = 100;

/// A count that is reached before the dependency has read the output of the counted agent.
struct EarlyCountRead<'g, 'e> {
    to: usize,
    edge: &'g GraphEdge<'e>,
    count: CountThreshold,
}

/// Warns of every condition that counts an agent before its own dependency has read the output of that agent.
pub(super) fn check_early_counts(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    find_early_counts(graph)
        .iter()
        .map(|early| early_count_finding(graph, early))
        .collect()
}

/// Lists the counts that alone make such a condition true: the agent, its dependency, the counted agent and the count.
pub(super) fn list_early_counts(graph: &CheckGraph<'_>) -> Vec<(usize, usize, usize, u64)> {
    let early = find_early_counts(graph).into_iter();
    early
        .filter(|one| one.count.is_sufficient)
        .filter_map(|one| {
            Some((
                one.to,
                one.edge.from,
                graph.find_agent_index(&one.count.agent)?,
                one.count.threshold,
            ))
        })
        .collect()
}

/// Finds the counts that are reached before the dependency has read the output of the counted agent.
fn find_early_counts<'g, 'e>(graph: &'g CheckGraph<'e>) -> Vec<EarlyCountRead<'g, 'e>> {
    let counts = graph.list_edges().flat_map(|(to, edge)| {
        let counts = list_count_thresholds(edge).into_iter();
        counts.map(move |count| EarlyCountRead { to, edge, count })
    });
    let reached = counts.filter_map(|one| {
        let execution_limits = max_executions_by_agent(graph);
        let counted = graph
            .find_agent_index(&one.count.agent)
            .filter(|counted| *counted != one.to)?;
        let is_reached = one.count.threshold > 1
            && execution_limits[counted].min(execution_limits[one.edge.from]) >= one.count.threshold;
        is_reached.then_some((counted, one))
    });
    let examined = reached.take(MOST);
    let early = examined.filter(|(counted, one)| is_early(graph, one.to, one.edge, *counted));
    early.map(|(_, one)| one).collect()
}

/// Returns the thresholds in the condition of the dependency, except where the dependency waits for the count in any case.
fn list_count_thresholds(edge: &GraphEdge<'_>) -> Vec<CountThreshold> {
    // Feedback is not needed before the first execution, and a failure does not happen in every round.
    if edge.dependency.feedback || edge.dependency.on == RequiredResult::Failure || edge.is_never_fulfilled() {
        return Vec::new();
    }
    let Some((reading, _)) = &edge.condition else {
        return Vec::new();
    };
    let mut counts = reading.list_count_thresholds();
    // A part of an `and` that counts the dependency itself waits for it.
    if reading
        .list_counted_agents()
        .iter()
        .any(|agent| **agent == *edge.dependency.agent_name)
    {
        counts.retain(|count| count.is_sufficient);
    }
    counts
}

/// Returns whether the agent starts before the dependency has read the output that completes the count.
fn is_early(graph: &CheckGraph<'_>, to: usize, edge: &GraphEdge<'_>, counted: usize) -> bool {
    let waits = |one: &GraphEdge<'_>| one.dependency.requires_all && one.dependency.wait_for == WaitForOutputs::Settled;
    let before = graph.agents_and_upstream([edge.from]);
    // Another dependency that holds later delays the agent.
    let may_delay = |one: &GraphEdge<'_>| {
        let is_this = std::ptr::eq(one, edge);
        match (one.dependency.requires_all, one.dependency.feedback) {
            (true, true) => false,
            (true, false) => !(is_this || reacts_to_every_output(one) && before.contains(one.from)),
            (false, _) => edge.dependency.requires_all,
        }
    };
    let is_delayed = graph
        .dependency_edges(to)
        .iter()
        .any(|one| waits(one) || may_delay(one));
    !is_delayed && follows_every_output(graph, edge.from, counted, to)
}

/// Returns whether every successful output of the source agent fulfils the dependency.
fn reacts_to_every_output(edge: &GraphEdge<'_>) -> bool {
    edge.dependency.on != RequiredResult::Failure && edge.condition.is_none() && edge.dependency.condition.is_none()
}

/// Returns whether each output of `counted` leads to a new execution of `agent` over a path without `except`.
fn follows_every_output(graph: &CheckGraph<'_>, agent: usize, counted: usize, except: usize) -> bool {
    let ways = |at: usize| {
        let is_free = at != except && at != counted && can_always_run_again(graph, at, counted);
        let edges = graph.dependency_edges(at).iter().filter(move |_| is_free);
        let reacting = edges.filter(|edge| {
            !edge.dependency.feedback && reacts_to_every_output(edge) && edge.dependency.max_executions.is_none()
        });
        reacting.map(|edge| edge.from)
    };
    agent != counted && agent != except && find_reachable(graph.agent_count(), [agent], ways).contains(counted)
}

/// Returns whether the agent can always run again: no condition and no agent that may not have run can prevent it.
fn can_always_run_again(graph: &CheckGraph<'_>, agent: usize, counted: usize) -> bool {
    let mut before = None;
    let (required, any_of): (Vec<_>, Vec<_>) = graph
        .dependency_edges(agent)
        .iter()
        .partition(|edge| edge.dependency.requires_all);
    // The agent starts before its dependencies, so its `max_turns` may be used up before the last output.
    if any_of.iter().any(|edge| edge.dependency.feedback) {
        return false;
    }
    let mut holds = |edge: &GraphEdge<'_>| {
        let is_before = edge.from == counted || edge.is_required_at_start();
        reacts_to_every_output(edge)
            && (is_before
                || before
                    .get_or_insert_with(|| graph.agents_and_upstream([agent]))
                    .contains(edge.from))
    };
    required.into_iter().all(&mut holds) && (any_of.is_empty() || any_of.into_iter().any(holds))
}

/// Builds the warning or hint about a count that is reached too early.
fn early_count_finding(graph: &CheckGraph<'_>, early: &EarlyCountRead<'_, '_>) -> Finding {
    let EarlyCountRead { to, edge, count, .. } = early;
    let (
        to,
        CountThreshold {
            agent,
            threshold: from,
            span,
            is_sufficient,
        },
    ) = (*to, count);
    let (name, dependency) = (graph.agent_name(to), &edge.dependency.agent_name);
    let (is_true, starts) = match is_sufficient {
        true => ("is", "starts"),
        false => ("can be", "can start"),
    };
    let message = format!(
        "this condition {is_true} true from execution {from} of `{agent}` on: `{name}` {starts} before `{dependency}` has read the last output of `{agent}`"
    );
    let help = match edge.dependency.requires_all {
        true => format!(
            "count the dependency itself (`executions.{dependency} >= {from}`), or set `wait_for: settled` to wait for the end of the loop"
        ),
        false => format!("count the dependency itself: `executions.{dependency} >= {from}`"),
    };
    let place = edge
        .dependency_route(to)
        .with_key("condition")
        .into_text_location(*span);
    Finding::new_warning(codes::COUNTS_UPSTREAM, place, message).with_help(help)
}
