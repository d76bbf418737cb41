//! The decision what happens next: a total and deterministic function of plan and state.
//!
//! **Invariant:** there is no clock, no randomness and no I/O. Only the candidates of the state are examined: the cost
//! of a decision is proportional to the number of agents with new outputs to read.

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
mod waiting;

use std::sync::Arc;

use crate::conversation::{
    CompletionReason, ConditionFailure, ConversationState, Interruption, OpenExecution, OpenTurn, Reason, RunEnded,
    Start, TurnFinished, TurnStarted, Waiting,
};
use ensemble_language::plan::{AgentId, Plan};

pub use answers::{Answers, Evaluated};
use readiness::readiness_by;
pub use readiness::{Readiness, readiness};

/// The next step of a run.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Decision {
    /// The open turn has executions that have not ended: perform them.
    Perform,
    /// All executions of the open turn have ended: merge their results.
    FinishTurn(TurnFinished),
    /// Another turn starts.
    StartTurn(TurnStarted),
    /// The conversation ends.
    End(RunEnded),
}

/// Decides what happens next.
pub fn decide(plan: &Plan, state: &ConversationState) -> Decision {
    decide_by(plan, state, &Evaluated)
}

/// Decides what would happen next with these results of conditions.
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
    let mut waiting = state.pending_requests();
    match waiting.next() {
        None => Decision::FinishTurn(merge::finish(plan, state, turn)),
        Some(first) => {
            let others = match waiting.count() {
                0 => String::new(),
                others => format!(" (and {others} more)"),
            };
            let detail = format!("{} asks: {}{others}", first.address, first.question.prompt.trim());
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
    let mut examined = Vec::new();
    for agent in agents_to_examine(state) {
        match readiness_by(plan, state, agent, answers) {
            Ok(readiness) => examined.push((agent, readiness)),
            Err(failure) => return Decision::End(end::condition_failed(plan, state, failure, answers)),
        }
    }
    waiting::hold_back(plan, state, &mut examined, answers);
    let mut starts = Vec::new();
    let mut waiting = Vec::new();
    for (agent, readiness) in examined {
        match readiness {
            Readiness::Ready(start) => starts.push(start),
            Readiness::NotReady(reason) => waiting.push(Waiting {
                agent: plan.name(agent).clone(),
                reason,
            }),
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

/// The agents that a decision examines, in declaration order.
fn agents_to_examine(state: &ConversationState) -> Vec<AgentId> {
    let mut agents: Vec<AgentId> = state.candidates().collect();
    agents.extend(state.excluded());
    agents.extend(state.requested());
    agents.sort_unstable();
    agents.dedup();
    agents
}

/// The readiness of one agent, or the condition that cannot be evaluated.
type Asked<T> = Result<T, ConditionFailure>;

/// The names of the agents, each once, in declaration order.
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
