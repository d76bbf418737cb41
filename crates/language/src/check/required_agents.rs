//! Required agents that can never succeed, because they do not run by themselves.

use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;

/// Warns of every agent with `required: true` that only runs as a tool. Executions as a tool do not count as success.
pub(super) fn check_required_agents(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let agents = graph.ensemble.agents.iter().enumerate();
    agents
        .filter(|(at, agent)| agent.required && graph.is_only_tool(*at))
        .map(|(at, agent)| {
            let place = Agent::route_at(at).with_key("required").into_value_location();
            let message = format!(
                "no run can succeed: `{}` is required, but it is a tool and does not run by itself",
                agent.name
            );
            let help = "remove `required`, or require the agent whose model calls the tool";
            Finding::new_warning(codes::NEVER_MET, place, message).with_help(help)
        })
        .collect()
}
