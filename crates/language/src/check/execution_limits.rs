//! Limits that end the whole conversation before an agent reaches its own limit.

use super::check_subject::CheckSubject;
use std::collections::HashMap;

use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;
use crate::source::Route;

/// Gives a hint for every `max_executions` that is not larger than the agent's `max_turns`.
pub(super) fn check_execution_limits(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    if ensemble.limits.max_agent_executions.is_empty() {
        return Vec::new();
    }
    let agents: HashMap<&str, (usize, &Agent)> = ensemble
        .agents
        .iter()
        .enumerate()
        .map(|(at, agent)| (&*agent.name, (at, agent)))
        .collect();
    let caps = Route::root()
        .with_key("conversation_limits")
        .with_key("max_agent_executions");
    let mut findings = Vec::new();
    for (name, cap) in &ensemble.limits.max_agent_executions {
        let Some((index, agent)) = agents.get(&**name) else {
            continue;
        };
        let turns = agent.conversation.max_turns;
        if *cap > turns {
            continue;
        }
        let message = format!("the conversation ends after execution {cap} of `{name}`, whose `max_turns` is {turns}");
        let location = Agent::route_at(*index)
            .with_key("conversation")
            .with_key("max_turns")
            .into_value_location();
        findings.push(
            Finding::new_hint(
                codes::CAP_ENDS_RUN,
                caps.with_key(name.clone()).into_value_location(),
                message,
            )
            .with_related(location, "this limit only prevents the agent from running again")
            .with_help("`max_agent_executions` ends the whole conversation; to limit only this agent, use `max_turns`"),
        );
    }
    findings
}
