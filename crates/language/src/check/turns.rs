//! Executions that an agent may have but can never reach: `max_turns` is larger than the number of possible starts.
//!
//! An agent runs once, and then again only after a new output. So it runs at most one time more than its sources have
//! new outputs. An agent that it requires at the start has already used one of its outputs by then. Agents without
//! dependencies that are alone in an ensemble are checked by [`super::news`].

use super::graph::{Edge, Graph};
use super::subject::Subject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Trigger};
use crate::loader::codes;
use crate::source::At;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The number of rounds in which the bounds are reduced; the bounds are valid after each round.
const ROUNDS: usize = 16;

/// Returns the highest number of executions that each agent can have in a run.
pub(super) fn most_executions<'g>(graph: &'g Graph<'_>) -> &'g [u64] {
    graph.most_executions.get_or_init(|| compute_most_executions(graph))
}

fn compute_most_executions(graph: &Graph<'_>) -> Vec<u64> {
    let limit = |at: usize| u64::from(graph.agent(at).conversation.max_turns.get());
    let mut most: Vec<u64> = (0..graph.len()).map(limit).collect();
    // An agent that can be requested may run up to its limit.
    if graph.has_requests() {
        return most;
    }
    for _ in 0..ROUNDS {
        let mut narrowed = false;
        let total = most.iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
        for agent in 0..graph.len() {
            let bound = bound(graph, agent, &most, total);
            if bound < most[agent] {
                most[agent] = bound;
                narrowed = true;
            }
        }
        if !narrowed {
            break;
        }
    }
    most
}

fn bound(graph: &Graph<'_>, agent: usize, most: &[u64], total: u64) -> u64 {
    if graph.agent(agent).conversation.trigger == Trigger::EveryTurn {
        return u64::MAX;
    }
    if graph.agent(agent).dependencies.is_empty() {
        // `total` may be older than `most`; then it is only larger.
        return total.saturating_sub(most[agent]).saturating_add(1);
    }
    let mut edges: Vec<&Edge<'_>> = graph.edges(agent).iter().filter(|edge| !edge.never_holds()).collect();
    edges.sort_by_key(|edge| edge.from);
    let news = edges
        .chunk_by(|one, other| one.from == other.from)
        .map(|edges| news_of(edges, most[edges[0].from]))
        .fold(0_u64, u64::saturating_add);
    news.saturating_add(1)
}

/// Returns how often new outputs of one agent can start another agent again.
fn news_of(edges: &[&Edge<'_>], outputs: u64) -> u64 {
    let needed_first = edges.iter().any(|edge| edge.is_needed_first());
    let allowed = edges.iter().fold(0_u64, |sum, edge| {
        let most = edge.dependency.max_executions;
        sum.saturating_add(most.map_or(u64::MAX, |most| u64::from(most.get())))
    });
    outputs.saturating_sub(u64::from(needed_first)).min(allowed)
}

/// Warns if an agent that may run several times runs only once, and gives a hint if an agent without dependencies
/// cannot reach its `max_turns`.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let most = most_executions(graph);
    let mut findings = Vec::new();
    for (at, most) in most.iter().copied().enumerate() {
        let agent = graph.agent(at);
        let turns = agent.conversation.max_turns.get();
        if most >= u64::from(turns) || graph.len() == 1 && agent.dependencies.is_empty() {
            continue;
        }
        // A limit that is never reached can be a precaution. For an agent without dependencies it is probably a
        // mistake.
        if most > 1 && !agent.dependencies.is_empty() {
            continue;
        }
        let finding = if most <= 1 {
            let message = format!("agent `{}` will run at most once, not {turns} times", agent.name);
            Finding::warning(codes::NEVER_NEWS, place(at), message)
        } else {
            let message = format!(
                "agent `{}` can run at most {most} times, so `max_turns: {turns}` is never reached",
                agent.name
            );
            Finding::hint(codes::IDLE_TURNS, place(at), message)
        };
        let change = RouteEdit::WriteYaml(finding.at.clone(), most.max(1).to_string());
        let fix = RouteFix::not_safe(format!("write `{}`", most.max(1)), change);
        findings.push(finding.with_fix(fix).help(
            "the agents that it depends on produce no more outputs for it: raise their `max_turns`, set `trigger: every_turn`, or lower this `max_turns`",
        ));
    }
    findings
}

fn place(agent: usize) -> At {
    Agent::route(agent).key("conversation").key("max_turns").value()
}
