//! The decision what happens next: a total and deterministic function of plan and state.
//!
//! **Invariant:** there is no clock, no randomness and no I/O. Only the candidates of the state are examined: the cost
//! of a decision is proportional to the number of agents with new outputs to read.

#[cfg(test)]
mod bounds_tests;
mod condition_evaluator;
mod end;
mod exhausted;
#[cfg(test)]
mod exhausted_tests;
#[cfg(test)]
mod goal_tests;
mod merge;
#[cfg(test)]
mod read_warning_tests;
mod readiness;
#[cfg(test)]
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod waiting;

use std::sync::Arc;

use crate::conversation::{
    AgentSkipReason, AgentStart, CompletionReason, ConditionFailure, ConversationState, ExecutionProgress,
    ExpressionReadWarning, OpenTurn, RunEnded, RunInterruption, SkippedAgent, TurnFinished, TurnStarted,
};
use ensemble_language::plan::{AgentId, Plan};

use condition_evaluator::WarningEvaluator;
pub use condition_evaluator::{ConditionEvaluator, DirectEvaluator};
use readiness::decide_readiness_with_evaluator;
pub use readiness::{AgentReadiness, decide_readiness};

/// The next step of a run.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum NextDecision {
    /// The open turn has executions that have not ended: perform them.
    Perform,
    /// All executions of the open turn have ended: merge their results.
    FinishTurn(TurnFinished),
    /// Another turn starts.
    StartTurn(TurnStarted),
    /// The conversation ends.
    End(RunEnded),
}

/// Decides the next step of the run. Adds warnings about missing keys that conditions read.
pub fn decide_next_step(plan: &Plan, state: &ConversationState) -> NextDecision {
    let evaluator = WarningEvaluator::default();
    let decision = decide_with_evaluator(plan, state, &evaluator);
    add_read_warnings(decision, evaluator.into_warnings())
}

/// Adds the warnings to a decision that starts a turn or ends the run.
fn add_read_warnings(mut decision: NextDecision, warnings: Vec<ExpressionReadWarning>) -> NextDecision {
    match &mut decision {
        NextDecision::StartTurn(turn) => turn.warnings = warnings,
        NextDecision::End(ended) => {
            let messages = warnings.into_iter().map(|warning| warning.message);
            ended.warnings.extend(messages);
        }
        NextDecision::Perform | NextDecision::FinishTurn(_) => {}
    }
    decision
}

/// Decides the next step of the run, with conditions that `answers` evaluates.
pub fn decide_with_evaluator(plan: &Plan, state: &ConversationState, answers: &dyn ConditionEvaluator) -> NextDecision {
    if let Some(cause) = state.interruption() {
        let (reason, detail) = match cause {
            RunInterruption::Cancelled { by } => (CompletionReason::Cancelled, format!("stopped by {by}")),
            RunInterruption::Timeout => (CompletionReason::Timeout, "timeout_seconds was reached".to_owned()),
        };
        return NextDecision::End(end::build_run_ended(plan, state, reason, Some(detail), answers));
    }
    match state.open_turn() {
        Some(turn) => decide_open_turn(plan, state, turn, answers),
        None => decide_new_turn(plan, state, answers),
    }
}

/// Decides the next step in an open turn: perform, finish the turn, or wait for input.
fn decide_open_turn(
    plan: &Plan,
    state: &ConversationState,
    turn: &OpenTurn,
    answers: &dyn ConditionEvaluator,
) -> NextDecision {
    let pending = |progress: &ExecutionProgress| matches!(progress, ExecutionProgress::Pending);
    if turn.slots.iter().any(|slot| pending(&slot.progress)) {
        return NextDecision::Perform;
    }
    let mut waiting = state.pending_requests();
    match waiting.next() {
        None => NextDecision::FinishTurn(merge::build_turn_finished(plan, state, turn)),
        Some(first) => {
            let more_text = match waiting.count() {
                0 => String::new(),
                others => format!(" (and {others} more)"),
            };
            let detail = format!("{} asks: {}{more_text}", first.address, first.question.prompt.trim());
            NextDecision::End(end::build_run_ended(
                plan,
                state,
                CompletionReason::WaitingForInput,
                Some(detail),
                answers,
            ))
        }
    }
}

/// Decides the next step between turns: another turn, or the end.
fn decide_new_turn(plan: &Plan, state: &ConversationState, answers: &dyn ConditionEvaluator) -> NextDecision {
    if let Some((reason, detail)) = end::find_stopping_failure(plan, state) {
        return NextDecision::End(end::build_run_ended(plan, state, reason, detail, answers));
    }
    let mut examined = Vec::new();
    for agent in list_agents_to_examine(state) {
        match decide_readiness_with_evaluator(plan, state, agent, answers) {
            Ok(readiness) => examined.push((agent, readiness)),
            Err(failure) => return NextDecision::End(end::build_condition_failed(plan, state, *failure, answers)),
        }
    }
    waiting::hold_back_waiting_agents(plan, state, &mut examined, answers);
    let mut starts = Vec::new();
    let mut waiting = Vec::new();
    for (agent, readiness) in examined {
        match readiness {
            AgentReadiness::Ready(start) => starts.push(start),
            AgentReadiness::NotReady(reason) => waiting.push(SkippedAgent {
                agent: plan.agent_name(agent).clone(),
                reason,
            }),
        }
    }
    if let Some((reason, detail)) = end::find_final_outcome(plan, state, !starts.is_empty()) {
        return NextDecision::End(end::build_run_ended(plan, state, reason, detail, answers));
    }
    NextDecision::StartTurn(TurnStarted {
        turn: state.turn_count() + 1,
        starts,
        waiting,
        warnings: Vec::new(),
    })
}

/// Returns the agents that a decision examines, in declaration order.
fn list_agents_to_examine(state: &ConversationState) -> Vec<AgentId> {
    let mut agents: Vec<AgentId> = state.candidate_agents().collect();
    agents.extend(state.excluded_agents());
    agents.extend(state.requested_agents());
    agents.sort_unstable();
    agents.dedup();
    agents
}

/// Result of a decision about an agent, or the condition that cannot be evaluated.
type ReadinessResult<T> = Result<T, Box<ConditionFailure>>;

/// Returns the names of the agents in this order, each once.
fn list_distinct_names(plan: &Plan, agents: impl IntoIterator<Item = AgentId>) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for agent in agents {
        let name = plan.agent_name(agent);
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}
