//! Agents without dependencies that may run several times: can another agent start them again?
//!
//! An agent without dependencies runs again when any other agent has a new output. Its own outputs do not start it
//! again. So if it is the only agent, it runs once, whatever its `max_turns` is, unless it may request itself.

use super::subject::Subject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Trigger};
use crate::loader::codes;
use crate::source::{At, Route};

/// Warns of agents that no agent can start again, and gives hints for agents that start each other.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let listeners: Vec<(usize, &Agent)> = ensemble
        .agents
        .iter()
        .enumerate()
        .filter(|(_, agent)| agent.dependencies.is_empty() && agent.conversation.max_turns.get() > 1)
        .filter(|(_, agent)| agent.conversation.trigger == Trigger::News)
        .collect();
    match listeners.as_slice() {
        [(index, agent)] if ensemble.agents.len() == 1 && !agent.conversation.triggers_conversation => {
            vec![alone(*index, agent)]
        }
        [_, _, ..] => vec![each_other(&listeners)],
        _ => Vec::new(),
    }
}

fn max_turns(index: usize) -> At {
    Route::key(&Agent::route(index).key("conversation"), "max_turns").value()
}

fn alone(index: usize, agent: &Agent) -> Finding {
    let turns = agent.conversation.max_turns;
    let message = format!(
        "agent `{}` will run once, not {turns} times: no other agent can produce a new output for it",
        agent.name
    );
    Finding::warning(codes::NEVER_NEWS, max_turns(index), message)
        .help("set `conversation.trigger: every_turn` to run the agent in every turn, or remove `max_turns`")
}

fn each_other(listeners: &[(usize, &Agent)]) -> Finding {
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
    let mut finding = Finding::hint(codes::FEED_EACH_OTHER, max_turns(listeners[0].0), message);
    for (index, agent) in listeners.iter().take(SHOWN).skip(1) {
        finding = finding.also(max_turns(*index), format!("`{}` too", agent.name));
    }
    finding.help("an agent without dependencies is started by the output of any other agent; list in `depends_on` the agents that it depends on")
}
