//! Conditions that count an agent before their own dependency.
//!
//! `editor` listens to `reviewer` with the condition `executions.writer >= 3`, and `reviewer` listens to `writer`. The
//! condition becomes true with the third output of `writer`. In the next turn, `reviewer` reads this output, and
//! `editor` starts in the same turn, with the second output of `reviewer`.
//!
//! A condition is only reported if nothing else can delay the agent, and if the dependency certainly reacts to the
//! output that makes the condition true.

use super::graph::{Edge, Graph};
use super::subject::Subject;
use super::turns::most_executions;
use crate::condition::CountRead;
use crate::diagnostic::Finding;
use crate::ensemble::{Ending, WaitFor};
use crate::loader::codes;
use crate::plan::walks::reach;

/// The highest number of counts that are examined, because each takes a walk through the agents.
const MOST: usize = 100;

/// A count that is reached before the dependency has read the output of the counted agent.
struct EarlyCount<'g, 'e> {
    to: usize,
    edge: &'g Edge<'e>,
    count: CountRead,
}

/// Warns of every such condition.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    early_counts(graph).iter().map(|early| report(graph, early)).collect()
}

/// For each such condition: the agent that has it, its dependency, the agent that is counted, and the count.
pub(super) fn early(graph: &Graph<'_>) -> Vec<(usize, usize, usize, u64)> {
    let early = early_counts(graph).into_iter();
    early
        .filter_map(|one| Some((one.to, one.edge.from, graph.find(&one.count.agent)?, one.count.from)))
        .collect()
}

fn early_counts<'g, 'e>(graph: &'g Graph<'e>) -> Vec<EarlyCount<'g, 'e>> {
    let counts = graph.all_edges().flat_map(|(to, edge)| {
        let counts = counts(edge).into_iter();
        counts.map(move |count| EarlyCount { to, edge, count })
    });
    let reached = counts.filter_map(|one| {
        let most = most_executions(graph);
        let counted = graph.find(&one.count.agent).filter(|counted| *counted != one.to)?;
        let is_reached = one.count.from > 1 && most[counted].min(most[one.edge.from]) >= one.count.from;
        is_reached.then_some((counted, one))
    });
    let examined = reached.take(MOST);
    let early = examined.filter(|(counted, one)| is_early(graph, one.to, one.edge, *counted));
    early.map(|(_, one)| one).collect()
}

fn counts(edge: &Edge<'_>) -> Vec<CountRead> {
    // Feedback is not needed before the first execution, and a failure does not happen in every round.
    if edge.dependency.feedback || edge.dependency.on == Ending::Failure || edge.never_holds() {
        return Vec::new();
    }
    let counts = edge.condition.as_ref().map(|(reading, _)| reading.counts_read());
    counts.unwrap_or_default()
}

/// Returns whether the agent starts before its dependency has read the output with which the count is reached.
fn is_early(graph: &Graph<'_>, to: usize, edge: &Edge<'_>, counted: usize) -> bool {
    let waits = |one: &Edge<'_>| one.dependency.requires_all && one.dependency.wait_for == WaitFor::Settled;
    let before = graph.upstream([edge.from]);
    // Another dependency that holds later delays the agent.
    let may_delay = |one: &Edge<'_>| {
        let is_this = std::ptr::eq(one, edge);
        match (one.dependency.requires_all, one.dependency.feedback) {
            (true, true) => false,
            (true, false) => !(is_this || reacts(one) && before.contains(one.from)),
            (false, _) => edge.dependency.requires_all,
        }
    };
    let is_delayed = graph.edges(to).iter().any(|one| waits(one) || may_delay(one));
    !is_delayed && follows(graph, edge.from, counted, to)
}

/// Returns whether every output of the agent at the other end fulfils the dependency.
fn reacts(edge: &Edge<'_>) -> bool {
    edge.dependency.on != Ending::Failure && edge.condition.is_none() && edge.dependency.condition.is_none()
}

/// Returns whether each output of `counted` leads to a new execution of `agent`, on a way that does not pass `except`.
fn follows(graph: &Graph<'_>, agent: usize, counted: usize, except: usize) -> bool {
    let ways = |at: usize| {
        let is_free = at != except && at != counted && is_free(graph, at, counted);
        let edges = graph.edges(at).iter().filter(move |_| is_free);
        let reacting =
            edges.filter(|edge| !edge.dependency.feedback && reacts(edge) && edge.dependency.max_executions.is_none());
        reacting.map(|edge| edge.from)
    };
    agent != counted && agent != except && reach(graph.len(), [agent], ways).contains(counted)
}

/// Returns whether no condition, and no agent that may not have run, can keep the agent from another execution.
fn is_free(graph: &Graph<'_>, agent: usize, counted: usize) -> bool {
    let mut before = None;
    let (required, any_of): (Vec<_>, Vec<_>) = graph.edges(agent).iter().partition(|edge| edge.dependency.requires_all);
    let mut holds = |edge: &Edge<'_>| {
        let is_before = edge.from == counted || edge.is_needed_first();
        reacts(edge)
            && (is_before
                || before
                    .get_or_insert_with(|| graph.upstream([agent]))
                    .contains(edge.from))
    };
    required.into_iter().all(&mut holds) && (any_of.is_empty() || any_of.into_iter().any(holds))
}

fn report(graph: &Graph<'_>, early: &EarlyCount<'_, '_>) -> Finding {
    let EarlyCount { to, edge, count, .. } = early;
    let (to, CountRead { agent, from, span }) = (*to, count);
    let (name, dependency) = (graph.name(to), &edge.dependency.agent_name);
    let message = format!(
        "this condition is true as soon as `{agent}` has run {from} times: `{name}` then starts before `{dependency}` has read the last output of `{agent}`"
    );
    let help = match edge.dependency.requires_all {
        true => format!(
            "count the dependency itself (`executions.{dependency} >= {from}`), or set `wait_for: settled` to wait for the end of the loop"
        ),
        false => format!("count the dependency itself: `executions.{dependency} >= {from}`"),
    };
    let place = edge.route(to).key("condition").text(*span);
    Finding::warning(codes::COUNTS_UPSTREAM, place, message).help(help)
}
