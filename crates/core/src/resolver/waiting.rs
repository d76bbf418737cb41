//! Waiting: a ready agent does not run on what is about to be replaced (rule 4 of readiness).
//!
//! The rules before this one decide who is ready. Of these agents, those wait for whose required dependencies another
//! output is about to come: the agent of the dependency, or one upstream of it, is ready too. Only ready agents are
//! looked at, and the agents upstream of a dependency are computed once for each run.

use super::{AgentReadiness, AgentSkipReason, ConditionEvaluator};
use crate::conversation::{AwaitedDependency, ConversationState, has_unseen_result};
use ensemble_language::ensemble::WaitForOutputs;
use ensemble_language::plan::{AgentId, EdgeId, Plan, PlanEdge};

/// Changes ready agents that wait for newer outputs to not ready. Leaves at least one ready agent.
pub(super) fn hold_back_waiting_agents(
    plan: &Plan,
    state: &ConversationState,
    examined: &mut [(AgentId, AgentReadiness)],
    answers: &dyn ConditionEvaluator,
) {
    let ready: Vec<(AgentId, bool)> = examined.iter().filter_map(find_ready_agent).collect();
    if ready.len() < 2 {
        return;
    }
    let agents: Vec<AgentId> = ready.iter().map(|(agent, _)| *agent).collect();
    // If all would wait, feedback dependencies are left out; if all still would, nobody waits.
    for with_feedback in [true, false] {
        let awaited: Vec<Vec<AwaitedDependency>> = ready
            .iter()
            .map(|(agent, is_requested)| match is_requested {
                true => Vec::new(),
                false => list_awaited_dependencies(plan, state, *agent, &agents, with_feedback),
            })
            .collect();
        if awaited.iter().any(Vec::is_empty) {
            let mut agent_dependencies = agents.into_iter().zip(awaited).peekable();
            for (agent, readiness) in examined {
                if let Some((_, dependencies)) = agent_dependencies.next_if(|(one, _)| one == agent)
                    && !dependencies.is_empty()
                {
                    *readiness = AgentReadiness::NotReady(AgentSkipReason::Waits { dependencies });
                }
            }
            return;
        }
        answers.on_all_agents_waiting();
    }
}

/// Returns the agent if it is ready, and whether a request starts it.
fn find_ready_agent((agent, readiness): &(AgentId, AgentReadiness)) -> Option<(AgentId, bool)> {
    match readiness {
        AgentReadiness::Ready(start) => Some((*agent, start.request.is_some())),
        AgentReadiness::NotReady(_) => None,
    }
}

/// Returns the dependencies of the agent that one of the `ready` agents is about to replace.
fn list_awaited_dependencies(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    ready: &[AgentId],
    with_feedback: bool,
) -> Vec<AwaitedDependency> {
    let may_wait = |(_, edge): &(EdgeId, &PlanEdge)| {
        (with_feedback || !edge.feedback) && would_wait_for_dependency(plan, state, edge)
    };
    let edges = plan.incoming_edges(agent).filter(may_wait);
    edges
        .filter_map(|(id, edge)| {
            let sources = plan.upstream_agents(id);
            if edge.wait_for == WaitForOutputs::Update && state.turns_waited(id) >= sources.count() {
                return None;
            }
            let is_ready = |agent: &&AgentId| sources.contains(**agent);
            let of_itself = ready.iter().find(|agent| **agent == edge.from && is_ready(agent));
            let source = of_itself.or_else(|| ready.iter().find(is_ready))?;
            Some(AwaitedDependency {
                agent: plan.agent_name(edge.from).clone(),
                position: edge.position,
                wait_for: edge.wait_for,
                ready: plan.agent_name(*source).clone(),
            })
        })
        .collect()
}

/// Returns whether the agent waits for the dependency as soon as another output of the dependency is possible.
fn would_wait_for_dependency(plan: &Plan, state: &ConversationState, edge: &PlanEdge) -> bool {
    let has_executed = state.agent_state(edge.to).has_executed();
    edge.requires_all
        && (has_executed || !edge.feedback)
        && match edge.wait_for {
            WaitForOutputs::Update => has_executed && !has_unseen_result(state, edge) && !plan.runs_every_turn(edge.to),
            WaitForOutputs::Settled => true,
            WaitForOutputs::Nothing => false,
        }
}
