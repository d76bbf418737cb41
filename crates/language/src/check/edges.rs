//! Dependencies with a part that has no effect: counts that cannot be reached, and feedback that never applies.

use super::graph::{Edge, Graph};
use super::subject::Subject;
use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Warns of feedback to agents that run only once, and gives a hint for every `max_executions` that cannot be reached.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let mut findings = Vec::new();
    for (to, edge) in graph.all_edges() {
        findings.extend(feedback_once(graph, to, edge));
        findings.extend(out_of_reach(graph, to, edge));
    }
    findings
}

/// Feedback has an effect only from the second execution on, and there is no second execution.
fn feedback_once(graph: &Graph<'_>, to: usize, edge: &Edge<'_>) -> Option<Finding> {
    let agent = graph.agent(to);
    if !edge.dependency.feedback || agent.conversation.max_turns.get() > 1 {
        return None;
    }
    let message = format!(
        "this dependency has no effect: `{}` runs only once, and a feedback dependency is only checked from the second execution on",
        agent.name
    );
    let place = edge.route(to).key("feedback").value();
    let help = "set the agent's `conversation.max_turns` above 1, or remove `feedback`";
    Some(Finding::warning(codes::FEEDBACK_ONCE, place, message).help(help))
}

/// An edge starts its agent at most once for each new output, and not more often than the agent may run.
pub(super) fn most_starts(graph: &Graph<'_>, to: usize, edge: &Edge<'_>) -> u32 {
    let turns = |at: usize| graph.agent(at).conversation.max_turns.get();
    let own = turns(to) - u32::from(edge.dependency.feedback);
    own.min(turns(edge.from))
}

fn out_of_reach(graph: &Graph<'_>, to: usize, edge: &Edge<'_>) -> Option<Finding> {
    let wanted = edge.dependency.max_executions?.get();
    let most = most_starts(graph, to, edge);
    // If the edge can never start its agent, another finding reports the edge.
    if wanted <= most || most == 0 {
        return None;
    }
    let own = graph.agent(to).conversation.max_turns.get();
    let (limiting, turns) = if own <= graph.agent(edge.from).conversation.max_turns.get() {
        (to, own)
    } else {
        (edge.from, graph.agent(edge.from).conversation.max_turns.get())
    };
    // If the agent's own `max_turns` is the limit, feedback can start it one time fewer.
    let not_first = if limiting == to && edge.dependency.feedback {
        ", and a feedback dependency does not count for the first execution"
    } else {
        ""
    };
    let message = format!(
        "`max_executions: {wanted}` can never be reached: `max_turns` of `{}` is {turns}{not_first}",
        graph.name(limiting)
    );
    let limit = Agent::route(limiting).key("conversation").key("max_turns");
    let mut finding = Finding::hint(
        codes::IDLE_EXECUTIONS,
        edge.route(to).key("max_executions").value(),
        message,
    );
    if turns > 1 {
        finding = finding.also(limit.value(), "this limit is reached first");
    }
    let fix = RouteFix::safe(
        "remove `max_executions`",
        RouteEdit::Remove(edge.route(to).key("max_executions")),
    );
    let finding = finding.with_fix(fix);
    Some(finding.help("lower `max_executions`, remove it, or raise `max_turns` (default: 1)"))
}
