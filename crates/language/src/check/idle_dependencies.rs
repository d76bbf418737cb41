//! Dependencies with a part that has no effect: counts that cannot be reached, and feedback that never applies.

use super::check_graph::{CheckGraph, GraphEdge};
use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, WaitForOutputs};
use crate::loader::codes;
use crate::plan::graph_walks::find_reachable;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Warns of feedback to agents that run only once, and gives a hint for every `max_executions` that cannot be reached.
pub(super) fn check_idle_dependencies(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let mut findings = Vec::new();
    for (to, edge) in graph.list_edges() {
        findings.extend(idle_feedback_finding(graph, to, edge));
        findings.extend(unreachable_limit_finding(graph, to, edge));
    }
    findings
}

/// Returns a warning if feedback has no effect, because the agent runs only once.
fn idle_feedback_finding(graph: &CheckGraph<'_>, to: usize, edge: &GraphEdge<'_>) -> Option<Finding> {
    let agent = graph.agent_at(to);
    if !edge.dependency.feedback || agent.conversation.max_turns.get() > 1 {
        return None;
    }
    if is_needed_to_settle(graph, to) {
        return None;
    }
    let message = format!(
        "this dependency has no effect: `{}` runs only once, and a feedback dependency is only checked from the second execution on",
        agent.name
    );
    let place = edge.dependency_route(to).with_key("feedback").into_value_location();
    // Without `feedback`, the agents of a loop would wait for each other.
    let help = match graph.agents_and_upstream([edge.from]).contains(to) {
        true => "set the agent's `conversation.max_turns` above 1, or remove the dependency",
        false => "set the agent's `conversation.max_turns` above 1, or remove `feedback`",
    };
    Some(Finding::new_warning(codes::FEEDBACK_ONCE, place, message).with_help(help))
}

/// Returns whether another agent waits until the agents upstream of this agent have settled, so that the feedback matters.
fn is_needed_to_settle(graph: &CheckGraph<'_>, to: usize) -> bool {
    let ways = |at: usize| graph.dependency_edges(at).iter().map(|edge| edge.from);
    let mut settled = graph
        .list_edges()
        .filter(|(_, edge)| edge.dependency.requires_all && edge.dependency.wait_for == WaitForOutputs::Settled);
    settled.any(|(_, edge)| find_reachable(graph.agent_count(), [edge.from], ways).contains(to))
}

/// Returns the maximum number of executions that this dependency can start in a run.
pub(super) fn max_dependency_starts(graph: &CheckGraph<'_>, to: usize, edge: &GraphEdge<'_>) -> u32 {
    let turns = |at: usize| graph.agent_at(at).conversation.max_turns.get();
    let own_turns = turns(to) - u32::from(edge.dependency.feedback);
    own_turns.min(turns(edge.from))
}

/// Returns a hint if the `max_executions` of the dependency cannot be reached.
fn unreachable_limit_finding(graph: &CheckGraph<'_>, to: usize, edge: &GraphEdge<'_>) -> Option<Finding> {
    let declared_limit = edge.dependency.max_executions?.get();
    let possible_starts = max_dependency_starts(graph, to, edge);
    // If the edge can never start its agent, another finding reports the edge.
    if declared_limit <= possible_starts || possible_starts == 0 {
        return None;
    }
    let own_turns = graph.agent_at(to).conversation.max_turns.get();
    let (limiting, turns) = if own_turns <= graph.agent_at(edge.from).conversation.max_turns.get() {
        (to, own_turns)
    } else {
        (edge.from, graph.agent_at(edge.from).conversation.max_turns.get())
    };
    // If the agent's own `max_turns` is the limit, feedback can start it one time fewer.
    let not_first = if limiting == to && edge.dependency.feedback {
        ", and a feedback dependency does not start the first execution"
    } else {
        ""
    };
    let message = format!(
        "`max_executions: {declared_limit}` can never be reached: `max_turns` of `{}` is {turns}{not_first}",
        graph.agent_name(limiting)
    );
    let limit = Agent::route_at(limiting).with_key("conversation").with_key("max_turns");
    let mut finding = Finding::new_hint(
        codes::IDLE_EXECUTIONS,
        edge.dependency_route(to)
            .with_key("max_executions")
            .into_value_location(),
        message,
    );
    if turns > 1 {
        finding = finding.with_related(limit.into_value_location(), "this limit is reached first");
    }
    let fix = RouteFix::new_safe(
        "remove `max_executions`",
        RouteEdit::Remove(edge.dependency_route(to).with_key("max_executions")),
    );
    let finding = finding.with_fix(fix);
    Some(finding.with_help("lower `max_executions`, remove it, or raise `max_turns` (default: 1)"))
}
