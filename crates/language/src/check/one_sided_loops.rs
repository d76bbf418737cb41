//! Loops of which only one side may run often: `writer` five times, and `reviewer`, which starts it again, once.

use super::check_graph::{CheckGraph, GraphEdge};
use super::check_subject::CheckSubject;
use super::idle_turns::max_executions_by_agent;
use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;

/// Warns of agents that cannot reach their `max_turns`, because an agent that starts them again may run too rarely.
pub(super) fn check_one_sided_loops(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let turns = |at: usize| graph.agent_at(at).conversation.max_turns.get();
    let may_loop = |at: usize| turns(at) > 2 && loop_feedback_edges(graph, at).next().is_some();
    let looping: Vec<usize> = (0..graph.agent_count()).filter(|at| may_loop(*at)).collect();
    if looping.is_empty() {
        return Vec::new();
    }
    let execution_limits = max_executions_by_agent(graph);
    let short = looping
        .into_iter()
        .filter(|at| execution_limits[*at] < u64::from(turns(*at)));
    let finding = |at: usize| {
        let other_agent = loop_feedback_edges(graph, at)
            .map(|edge| edge.from)
            .min_by_key(|other| turns(*other))?;
        (turns(other_agent) + 1 < turns(at))
            .then(|| one_sided_loop_finding(graph, at, other_agent, execution_limits[at]))
    };
    short.filter_map(finding).collect()
}

/// Returns the feedback dependencies of the agent on agents that depend on it.
fn loop_feedback_edges<'g, 'e>(graph: &'g CheckGraph<'e>, agent: usize) -> impl Iterator<Item = &'g GraphEdge<'e>> {
    let listens = move |other: usize| graph.dependency_edges(other).iter().any(|edge| edge.from == agent);
    let feedback = graph
        .dependency_edges(agent)
        .iter()
        .filter(|edge| edge.dependency.feedback);
    feedback.filter(move |edge| edge.from != agent && !edge.is_never_fulfilled() && listens(edge.from))
}

/// Builds the warning that the loop ends early because of the `max_turns` of `other`.
fn one_sided_loop_finding(graph: &CheckGraph<'_>, agent: usize, other: usize, most: u64) -> Finding {
    let agent_turns = graph.agent_at(agent).conversation.max_turns;
    let turns = graph.agent_at(other).conversation.max_turns;
    let (name, other_name) = (graph.agent_name(agent), graph.agent_name(other));
    let place = |at: usize| {
        Agent::route_at(at)
            .with_key("conversation")
            .with_key("max_turns")
            .into_value_location()
    };
    let default = if turns.get() == 1 { ", the default," } else { "" };
    let message = format!(
        "`{name}` can run {agent_turns} times, but `max_turns: {turns}`{default} of `{other_name}` ends their loop: \
         execution {most} of `{name}` is the last, and `{other_name}` never reads its output"
    );
    let mut finding = Finding::new_warning(codes::ONE_SIDED_LOOP, place(agent), message);
    if turns.get() > 1 {
        finding = finding.with_related(place(other), "this limit is reached first");
    }
    finding.with_help(format!(
        "set `conversation.max_turns: {agent_turns}` for `{other_name}`, or lower it for `{name}`"
    ))
}
