//! What happens next: a total, deterministic function of plan and state.
//!
//! **Invariant:** no clock, no randomness, no I/O, and nothing but the state's candidates is looked at: a
//! decision costs in proportion to the agents that news has reached.

mod answers;
#[cfg(test)]
mod bounds_tests;
mod end;
mod merge;
mod readiness;
#[cfg(test)]
mod table;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use crate::conversation::{
    CompletionReason, ConditionFailure, ConversationState, Interruption, OpenExecution, OpenTurn, Reason, RunEnded,
    Start, TurnFinished, TurnStarted, Waiting,
};
use ensemble_language::plan::{AgentId, Plan};

pub use answers::{Answers, Evaluated};
use readiness::readiness_by;
pub use readiness::{Readiness, readiness};

/// What happens next.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Decision {
    /// The open turn has executions that have not ended: perform them.
    Perform,
    /// The open turn is complete: merge it.
    FinishTurn(TurnFinished),
    /// Another turn begins.
    StartTurn(TurnStarted),
    /// It is over.
    End(RunEnded),
}

/// Decides what happens next.
pub fn decide(plan: &Plan, state: &ConversationState) -> Decision {
    decide_by(plan, state, &Evaluated)
}

/// Decides what would happen next if conditions were answered like this.
pub fn decide_by(plan: &Plan, state: &ConversationState, answers: &dyn Answers) -> Decision {
    if let Some(cause) = state.interrupted() {
        let (reason, detail) = match cause {
            Interruption::Cancelled { by } => (CompletionReason::Cancelled, format!("stopped by {by}")),
            Interruption::Timeout => (CompletionReason::Timeout, "timeout_seconds was reached".to_owned()),
        };
        return Decision::End(end::ended(plan, state, reason, Some(detail), answers));
    }
    match state.open_turn() {
        Some(turn) => decide_open(plan, state, turn, answers),
        None => decide_next(plan, state, answers),
    }
}

fn decide_open(plan: &Plan, state: &ConversationState, turn: &OpenTurn, answers: &dyn Answers) -> Decision {
    let pending = |progress: &OpenExecution| matches!(progress, OpenExecution::Pending);
    if turn.slots.iter().any(|slot| pending(&slot.progress)) {
        return Decision::Perform;
    }
    let waiting = turn.slots.iter().find_map(|slot| match &slot.progress {
        OpenExecution::Waiting(question) => Some((question.asked_by.as_ref().unwrap_or(&slot.start.agent), question)),
        _ => None,
    });
    match waiting {
        None => Decision::FinishTurn(merge::finish(plan, state, turn)),
        Some((asker, question)) => {
            let detail = format!("{asker} asks: {}", question.prompt.trim());
            Decision::End(end::ended(
                plan,
                state,
                CompletionReason::WaitingForInput,
                Some(detail),
                answers,
            ))
        }
    }
}

fn decide_next(plan: &Plan, state: &ConversationState, answers: &dyn Answers) -> Decision {
    let mut starts = Vec::new();
    let mut waiting = Vec::new();
    for agent in examined(state) {
        match readiness_by(plan, state, agent, answers) {
            Ok(Readiness::Ready(start)) => starts.push(start),
            Ok(Readiness::NotReady(reason)) => waiting.push(Waiting {
                agent: plan.name(agent).clone(),
                reason,
            }),
            Err(failure) => return Decision::End(end::condition_failed(plan, state, failure, answers)),
        }
    }
    if let Some(reason) = end::reason(plan, state, !starts.is_empty()) {
        let (reason, detail) = reason;
        return Decision::End(end::ended(plan, state, reason, detail, answers));
    }
    Decision::StartTurn(TurnStarted {
        turn: state.turn_count() + 1,
        starts,
        waiting,
    })
}

/// The agents that a decision looks at, in declaration order.
fn examined(state: &ConversationState) -> Vec<AgentId> {
    let mut agents: Vec<AgentId> = state.candidates().collect();
    agents.extend(state.stirred());
    agents.extend(state.requested());
    agents.sort_unstable();
    agents.dedup();
    agents
}

/// Readiness of one agent, or the condition that has no answer.
type Asked<T> = Result<T, ConditionFailure>;

/// The names of agents, each once, in order.
fn names(plan: &Plan, agents: impl IntoIterator<Item = AgentId>) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for agent in agents {
        let name = plan.name(agent);
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}
