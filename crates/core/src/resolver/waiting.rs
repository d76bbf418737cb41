//! Waiting: a ready agent does not run on what is about to be replaced (rule 4 of readiness).
//!
//! The rules before this one decide who is ready. Of these agents, those wait for whose required dependencies another
//! output is about to come: the agent of the dependency, or one upstream of it, is ready too. Only ready agents are
//! looked at, and the agents upstream of a dependency are computed once for each run.

use super::{Answers, Readiness, Reason};
use crate::conversation::{Awaited, ConversationState, is_unseen};
use ensemble_language::ensemble::WaitFor;
use ensemble_language::plan::{AgentId, Edge, EdgeId, Plan};

/// Holds back the ready agents that wait. At least one ready agent is left, if there was one.
pub(super) fn hold_back(
    plan: &Plan,
    state: &ConversationState,
    examined: &mut [(AgentId, Readiness)],
    answers: &dyn Answers,
) {
    let ready: Vec<(AgentId, bool)> = examined.iter().filter_map(ready).collect();
    if ready.len() < 2 {
        return;
    }
    let agents: Vec<AgentId> = ready.iter().map(|(agent, _)| *agent).collect();
    // If all would wait, feedback dependencies are left out; if all still would, nobody waits.
    for with_feedback in [true, false] {
        let held: Vec<Vec<Awaited>> = ready
            .iter()
            .map(|(agent, is_requested)| match is_requested {
                true => Vec::new(),
                false => awaited(plan, state, *agent, &agents, with_feedback),
            })
            .collect();
        if held.iter().any(Vec::is_empty) {
            let mut held = agents.into_iter().zip(held).peekable();
            for (agent, readiness) in examined {
                if let Some((_, dependencies)) = held.next_if(|(one, _)| one == agent)
                    && !dependencies.is_empty()
                {
                    *readiness = Readiness::NotReady(Reason::Waits { dependencies });
                }
            }
            return;
        }
        answers.everyone_waits();
    }
}

/// A ready agent, and whether a request starts it.
fn ready((agent, readiness): &(AgentId, Readiness)) -> Option<(AgentId, bool)> {
    match readiness {
        Readiness::Ready(start) => Some((*agent, start.request.is_some())),
        Readiness::NotReady(_) => None,
    }
}

/// The dependencies for which the agent waits, if these agents are ready.
fn awaited(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    ready: &[AgentId],
    with_feedback: bool,
) -> Vec<Awaited> {
    let may_wait = |(_, edge): &(EdgeId, &Edge)| (with_feedback || !edge.feedback) && asks(plan, state, edge);
    let edges = plan.incoming(agent).filter(may_wait);
    edges
        .filter_map(|(id, edge)| {
            let sources = plan.sources(id);
            if edge.wait_for == WaitFor::Update && state.turns_waited(id) >= sources.count() {
                return None;
            }
            let is_ready = |agent: &&AgentId| sources.contains(**agent);
            let of_itself = ready.iter().find(|agent| **agent == edge.from && is_ready(agent));
            let source = of_itself.or_else(|| ready.iter().find(is_ready))?;
            Some(Awaited {
                agent: plan.name(edge.from).clone(),
                position: edge.position,
                wait_for: edge.wait_for,
                ready: plan.name(*source).clone(),
            })
        })
        .collect()
}

/// Returns whether the agent would wait for the dependency, if something can lead to another output of it.
fn asks(plan: &Plan, state: &ConversationState, edge: &Edge) -> bool {
    let has_executed = state.agent(edge.to).has_executed();
    edge.requires_all
        && (has_executed || !edge.feedback)
        && match edge.wait_for {
            WaitFor::Update => has_executed && !is_unseen(state, edge) && !plan.every_turn(edge.to),
            WaitFor::Settled => true,
            WaitFor::Nothing => false,
        }
}
