//! Agents that can never run, because a condition on the path to them is never true.
//!
//! Cycles are separate errors, and limits have a separate check. An agent that can be requested can always run.

use super::graph::{Edge, Graph, Rules};
use super::subject::Subject;
use crate::condition::Verdict;
use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;

/// The highest number of agents named in one finding.
const SHOWN: usize = 5;

/// Agents with a dependency that can never be fulfilled, and that would run without their conditions.
pub(super) fn blocked_agents(graph: &Graph<'_>) -> Vec<usize> {
    if !graph.all_edges().any(|(_, edge)| edge.never_holds()) {
        return Vec::new();
    }
    let without = graph.first_turns(&Rules::default());
    let with = graph.first_turns(&Rules {
        conditions: true,
        ..Rules::default()
    });
    (0..graph.len())
        .filter(|agent| without[*agent].is_some() && with[*agent].is_none())
        .collect()
}

/// Warns of the first agents that can never run, and names the agents that wait for them.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let never = blocked_agents(graph);
    let is_blocked = |agent: usize| never.binary_search(&agent).is_ok();
    let mut findings = Vec::new();
    let mut others = Vec::new();
    for agent in never.iter().copied() {
        match culprit(graph, agent) {
            Some(edge) => findings.push(report(graph, agent, edge)),
            None => others.push(agent),
        }
    }
    if let Some(first) = findings.first_mut() {
        for agent in others.into_iter().take(SHOWN) {
            let waits = graph.edges(agent).iter().find(|edge| is_blocked(edge.from));
            let for_whom = waits.map_or("it", |edge| graph.name(edge.from));
            let label = format!(
                "`{}` can never run either: it waits for `{for_whom}`",
                graph.name(agent)
            );
            first.also.push((Agent::route(agent).key("name").value(), label));
        }
    }
    findings
}

/// The dependencies that are reported with an agent that can never run.
pub(super) fn culprits<'g, 'e>(graph: &'g Graph<'e>) -> Vec<&'g Edge<'e>> {
    let never = blocked_agents(graph).into_iter();
    never.filter_map(|agent| culprit(graph, agent)).collect()
}

/// The dependency of the agent itself that is never fulfilled.
fn culprit<'g, 'e>(graph: &'g Graph<'e>, agent: usize) -> Option<&'g Edge<'e>> {
    let barred = |edge: &&Edge<'e>| edge.never_holds() && !edge.dependency.feedback;
    let edges = || graph.edges(agent).iter();
    edges()
        .filter(barred)
        .find(|edge| edge.dependency.requires_all)
        .or_else(|| edges().find(barred))
}

fn report(graph: &Graph<'_>, agent: usize, edge: &Edge<'_>) -> Finding {
    let (verdict, label, help) = match &edge.condition {
        Some((_, Verdict::Fails(why))) => (
            format!("can never be evaluated: {why}"),
            "can never be evaluated",
            "correct the condition: a run that evaluates it ends with the outcome `condition_failed`",
        ),
        _ => (
            "is never true".to_owned(),
            "never true",
            "correct the condition, or remove the agent",
        ),
    };
    let message = format!(
        "agent `{}` can never run: its condition on `{}` {verdict}",
        graph.name(agent),
        edge.dependency.agent_name
    );
    Finding::warning(codes::NEVER_RUNS, Agent::route(agent).key("name").value(), message)
        .also(edge.route(agent).key("condition").value(), label)
        .help(help)
}
