//! Limits that end the conversation before an agent can have its first execution.
//!
//! The shortest path to an agent is counted in turns from the start. No event of a run can make it shorter.

use super::subject::Subject;
use std::collections::HashSet;

use super::graph::{Graph, Rules};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Trigger};
use crate::loader::codes;
use crate::source::{At, Route};

/// The highest number of agents named in one finding.
const SHOWN: usize = 5;

/// The last possible turn of the conversation, and the limit that ends it.
struct End {
    turn: u32,
    place: Option<At>,
    why: String,
}

/// All agents that the conversation cannot reach.
pub(super) fn unreached(graph: &Graph<'_>) -> Vec<usize> {
    let turns = turns(graph);
    let mut late = late(&turns, latest_end(graph).turn);
    late.extend(behind_a_cap(graph, &turns, &late));
    late
}

fn turns(graph: &Graph<'_>) -> Vec<Option<u32>> {
    graph.first_turns(&Rules {
        conditions: true,
        ..Rules::default()
    })
}

fn late(turns: &[Option<u32>], end: u32) -> Vec<usize> {
    let mut late: Vec<(u32, usize)> = turns
        .iter()
        .enumerate()
        .filter_map(|(agent, turn)| Some((turn.filter(|turn| *turn > end)?, agent)))
        .collect();
    late.sort_unstable();
    late.into_iter().map(|(_, agent)| agent).collect()
}

/// The agents that need the output of an agent whose first execution ends the conversation.
fn behind_a_cap(graph: &Graph<'_>, turns: &[Option<u32>], late: &[usize]) -> Vec<usize> {
    let mut last = vec![false; graph.len()];
    for (name, cap) in &graph.ensemble.limits.max_agent_executions {
        if cap.get() == 1
            && let Some(agent) = graph.find(name)
        {
            last[agent] = true;
        }
    }
    if !last.contains(&true) {
        return Vec::new();
    }
    let reached = graph.first_turns(&Rules {
        conditions: true,
        last,
        ..Rules::default()
    });
    let late: HashSet<usize> = late.iter().copied().collect();
    (0..graph.len())
        .filter(|agent| turns[*agent].is_some() && reached[*agent].is_none() && !late.contains(agent))
        .collect()
}

/// The limit that certainly applies: `max_total_turns`, or a limit of an agent that runs in every turn.
fn latest_end(graph: &Graph<'_>) -> End {
    let limits = &graph.ensemble.limits;
    let most = limits.max_total_turns.get();
    let route = Route::root().key("conversation_limits");
    let mut end = End {
        turn: most,
        place: Some(route.key("max_total_turns").value()),
        why: format!("`max_total_turns` is {most}"),
    };
    for (name, cap) in &limits.max_agent_executions {
        let Some(agent) = graph.find(name).map(|at| graph.agent(at)) else {
            continue;
        };
        let is_sure = agent.dependencies.is_empty()
            && (cap.get() == 1 || agent.conversation.trigger == Trigger::EveryTurn)
            && agent.conversation.max_turns >= *cap;
        if is_sure && cap.get() < end.turn {
            end = End {
                turn: cap.get(),
                place: Some(route.key("max_agent_executions").key(name.clone()).value()),
                why: format!(
                    "`{name}` runs from turn 1 on, and `max_agent_executions` ends the conversation when it has run {cap} times"
                ),
            };
        }
    }
    end
}

/// Warns of the first agent that is not reached, and names the others.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let turns = turns(graph);
    let end = latest_end(graph);
    let late = late(&turns, end.turn);
    let mut findings = Vec::new();
    if let Some((first, others)) = late.split_first() {
        let message = format!(
            "agent `{}` can never run: it could run in turn {} at the earliest, and the conversation ends after turn {}",
            graph.name(*first),
            turns[*first].unwrap_or_default(),
            end.turn
        );
        let mut finding = Finding::warning(codes::TOO_LATE, name(*first), message);
        if let Some(place) = end.place.filter(|_| is_written(graph)) {
            finding = finding.also(place, "this limit ends the conversation");
        }
        for other in others.iter().take(SHOWN) {
            finding = finding.also(name(*other), format!("`{}` can never run either", graph.name(*other)));
        }
        findings.push(finding.help(format!(
            "{}; raise the limit, or remove dependencies before this agent",
            end.why
        )));
    }
    for agent in behind_a_cap(graph, &turns, &late).into_iter().take(1) {
        let message = format!(
            "agent `{}` can never run: it needs an agent whose first execution ends the conversation",
            graph.name(agent)
        );
        let caps = Route::root().key("conversation_limits").key("max_agent_executions");
        findings.push(
            Finding::warning(codes::TOO_LATE, name(agent), message)
                .also(caps.value(), "this limit ends the conversation")
                .help("raise the limit: the conversation ends after the turn in which the limit is reached"),
        );
    }
    findings
}

/// Returns whether the file contains limits.
fn is_written(graph: &Graph<'_>) -> bool {
    graph.ensemble.limits != crate::ensemble::Limits::default()
}

fn name(agent: usize) -> At {
    Agent::route(agent).key("name").value()
}
