//! Agents without dependencies that may run several times: can another agent start them again?
//!
//! An agent without dependencies runs again when any other agent has a new output. Its own outputs do not start it
//! again. So if it is the only agent, it runs once, whatever its `max_turns` is, unless it may request itself.

use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentTrigger};
use crate::loader::codes;
use crate::source::{Route, RouteLocation};

/// Warns of agents that no agent can start again, and gives hints for agents that start each other.
pub(super) fn check_independent_agents(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let listeners: Vec<(usize, &Agent)> = ensemble
        .agents
        .iter()
        .enumerate()
        .filter(|(_, agent)| agent.dependencies.is_empty() && agent.conversation.max_turns.get() > 1)
        .filter(|(_, agent)| agent.conversation.trigger == AgentTrigger::News)
        .collect();
    match listeners.as_slice() {
        [(index, agent)] if ensemble.agents.len() == 1 && !agent.conversation.triggers_conversation => {
            vec![single_agent_finding(*index, agent)]
        }
        [_, _, ..] => vec![mutual_start_finding(&listeners)],
        _ => Vec::new(),
    }
}

/// Returns the location of `max_turns` of the agent.
fn max_turns_location(index: usize) -> RouteLocation {
    Route::with_key(&Agent::route_at(index).with_key("conversation"), "max_turns").into_value_location()
}

/// Builds the warning that the only agent runs once, whatever its `max_turns` is.
fn single_agent_finding(index: usize, agent: &Agent) -> Finding {
    let turns = agent.conversation.max_turns;
    let message = format!(
        "agent `{}` will run once, not {turns} times: no other agent can produce a new output for it",
        agent.name
    );
    Finding::new_warning(codes::NEVER_NEWS, max_turns_location(index), message)
        .with_help("set `conversation.trigger: every_turn` to run the agent in every turn, or remove `max_turns`")
}

/// Builds the hint that these agents start each other until they reach `max_turns`.
fn mutual_start_finding(listeners: &[(usize, &Agent)]) -> Finding {
    const SHOWN: usize = 5;
    let mut names: Vec<String> = listeners
        .iter()
        .take(SHOWN)
        .map(|(_, agent)| format!("`{}`", agent.name))
        .collect();
    if listeners.len() > SHOWN {
        names.push("…".to_owned());
    }
    let message = format!(
        "these agents without dependencies start each other until they reach `max_turns`: {}",
        names.join(", ")
    );
    let mut finding = Finding::new_hint(codes::FEED_EACH_OTHER, max_turns_location(listeners[0].0), message);
    for (index, agent) in listeners.iter().take(SHOWN).skip(1) {
        finding = finding.with_related(max_turns_location(*index), format!("`{}` too", agent.name));
    }
    finding.with_help("an agent without dependencies is started by the output of any other agent; list in `depends_on` the agents that it depends on")
}
