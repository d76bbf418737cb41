//! Limits that end the whole conversation before an agent reaches its own limit.

use super::subject::Subject;
use std::collections::HashMap;

use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;
use crate::source::Route;

/// Gives a hint for every `max_agent_executions` that is not larger than the agent's `max_turns`.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
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
    let caps = Route::root().key("conversation_limits").key("max_agent_executions");
    let mut findings = Vec::new();
    for (name, cap) in &ensemble.limits.max_agent_executions {
        let Some((index, agent)) = agents.get(&**name) else {
            continue;
        };
        let turns = agent.conversation.max_turns;
        if *cap > turns {
            continue;
        }
        let message = format!("the conversation ends when `{name}` has run {cap} times; its `max_turns` is {turns}");
        let own = Agent::route(*index).key("conversation").key("max_turns").value();
        findings.push(
            Finding::hint(codes::CAP_ENDS_RUN, caps.key(name.clone()).value(), message)
                .also(own, "this limit only prevents the agent from running again")
                .help("`max_agent_executions` ends the whole conversation; to limit only this agent, use `max_turns`"),
        );
    }
    findings
}
