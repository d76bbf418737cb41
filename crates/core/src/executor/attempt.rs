//! What the state says about the attempts of a turn: which are due, what one is given, and what its end comes to.

use std::collections::VecDeque;
use std::time::Duration;

use crate::conversation::{ConversationState, ExecutionEnd, ExecutionFinished, InputRequested, OpenExecution, Slot};
use crate::request::PendingRequest;
use crate::runner::{AttemptLedger, AttemptResult, Execution, ExecutionRecords, LedgerEntries};
use crate::stopwatch::Stopwatch;
use ensemble_language::data::{Question, Remaining, Usage};
use ensemble_language::ensemble::AgentKind;
use ensemble_language::plan::{AgentId, Plan};

/// The executions that have not ended: first the requested ones by priority, then the others in declaration order.
pub fn queue(state: &ConversationState) -> VecDeque<AgentId> {
    let slots = state.open_turn().into_iter().flat_map(|turn| &turn.slots);
    let mut pending: Vec<&Slot> = slots
        .filter(|slot| matches!(slot.progress, OpenExecution::Pending))
        .collect();
    pending.sort_by_key(|slot| match &slot.start.request {
        Some(request) => (0, std::cmp::Reverse(request.priority)),
        None => (1, std::cmp::Reverse(0)),
    });
    pending.into_iter().map(|slot| slot.agent).collect()
}

pub(super) fn slot(state: &ConversationState, agent: AgentId) -> Option<&Slot> {
    let slots = &state.open_turn()?.slots;
    let at = slots.binary_search_by_key(&agent, |slot| slot.agent).ok()?;
    Some(&slots[at])
}

/// The data for the next attempt of the agent, whose time this stopwatch measures.
pub fn execution(plan: &Plan, state: &ConversationState, slot: &Slot, stopwatch: Stopwatch) -> Execution {
    let agent = plan.agent(slot.agent);
    let known = state.agent(slot.agent);
    let started = state.started();
    let caller = started.map(|started| started.caller.clone()).unwrap_or_default();
    Execution {
        run_id: started.map_or_else(|| "".into(), |started| started.run_id.clone()),
        origin: caller.with_agent(agent.name.clone(), slot.agent.index(), slot.start.execution),
        agent_name: agent.name.clone(),
        execution: slot.start.execution,
        attempt: slot.attempt + 1,
        turn_count: state.turn_count(),
        input: state.input().clone(),
        inputs: state.inputs().clone(),
        context: state.context().clone(),
        dependencies: state
            .dependency_outputs(slot.agent)
            .into_iter()
            .map(|(name, (_, output))| (name, output))
            .collect(),
        other_outputs: state
            .other_outputs(slot.agent)
            .into_iter()
            .map(|(name, _, output)| (name, output))
            .collect(),
        history: state.past(slot.agent),
        parameters: plan.parameters(slot.agent).clone(),
        request: slot.start.request.clone(),
        thread: known.thread().clone(),
        requests_made: known.requests_made() + slot.used().map_or(0, |used| used.own_requests()),
        lost_attempts: slot.attempt - slot.last_ended,
        remaining: remaining(plan, state, slot.used()),
        last_failure: slot.last_failure.clone(),
        ledger: AttemptLedger::default(),
        stopwatch,
        part: None,
        parts: None,
        records: ExecutionRecords::default(),
    }
}

/// The tokens and cost that the run may still use at the start of the turn, minus those of earlier attempts of this
/// execution. Parallel executions may therefore use the amount twice.
pub(super) fn remaining(plan: &Plan, state: &ConversationState, used: Option<Usage>) -> Remaining {
    let limits = &plan.ensemble().limits;
    let remaining = Remaining {
        tokens: limits.max_total_tokens,
        cost: limits.max_cost,
    };
    remaining.without(state.leg_usage()).without(used.unwrap_or_default())
}

/// The pause before the next attempt; `None`: there is no further attempt.
pub(super) fn pause_before_retry(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    observation: &AttemptResult,
) -> Option<Duration> {
    let failure = observation.result.as_ref().err()?;
    let spec = plan.agent(agent);
    // An LLM agent has already sent the errors to its model, up to the allowed number of times.
    let may_pass = failure.kind.may_pass(matches!(spec.kind, AgentKind::Llm(_)));
    // The attempts of an agent with parts are those of each part.
    if spec.for_each.is_some() {
        return None;
    }
    let slot = slot(state, agent)?;
    // With no budget left, the next attempt would only send one more request than the limits allow.
    let used = observation.usage;
    let used_up = used.is_some_and(|used| remaining(plan, state, slot.usage).without(used).used_up().is_some());
    let failed = slot.failed_attempts + 1;
    (may_pass && !used_up && failed < spec.retry.max_attempts.get()).then(|| spec.retry.pause_after(failed))
}

/// Returns the event of a request for which the execution of the agent waits.
pub(super) fn input_requested(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    request: PendingRequest,
) -> InputRequested {
    let name = plan.name(agent);
    let is_inner = request.address.segments().len() > 1 || request.agent != *name;
    InputRequested {
        turn: state.turn_count() + 1,
        agent: name.clone(),
        execution: slot(state, agent).map_or(1, |slot| slot.start.execution),
        question: Question {
            asked_by: is_inner.then(|| request.agent.clone()),
            ..request.question
        },
        address: request.address,
        digest: request.digest,
        inner_execution: is_inner.then_some(request.execution),
    }
}

pub(super) fn finished(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    observation: AttemptResult,
    took: Duration,
    left: LedgerEntries,
) -> ExecutionFinished {
    let slot = slot(state, agent);
    let end = ExecutionEnd::from_result(observation.result);
    ExecutionFinished {
        turn: state.turn_count() + 1,
        agent: plan.name(agent).clone(),
        execution: slot.map_or(1, |slot| slot.start.execution),
        attempt: slot.map_or(1, |slot| slot.attempt),
        end,
        execution_time: took.as_secs_f64(),
        usage: observation.usage,
        stderr: left.stderr,
        warnings: left.warnings,
        exchange: observation.exchange,
        reused: false,
        sandboxes: left.sandboxes.into(),
        answer: left.answer.map(Box::new).or(observation.answer),
    }
}
