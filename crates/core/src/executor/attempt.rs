//! What the state says about the attempts of a turn: which are due, what one is given, and what its end comes to.

use std::collections::VecDeque;
use std::time::Duration;

use crate::conversation::{
    AttemptScope, ConversationState, ExecutionEnd, ExecutionFinished, ExecutionProgress, ExecutionSlot, InputRequested,
    NestedRequestAnswered,
};
use crate::request::PendingRequest;
use crate::runner::{AttemptLedger, AttemptResult, ExecutionInput, ExecutionRecorder, LedgerEntries};
use crate::stopwatch::Stopwatch;
use ensemble_language::data::{ModelUsage, OperatorQuestion, RemainingBudget};
use ensemble_language::ensemble::AgentKind;
use ensemble_language::plan::{AgentId, Plan};

/// The number of agents in `ExecutionInput::recent_agents`.
const RECENT_AGENTS: usize = 3;

/// Returns the executions that neither ended nor wait: requested executions by priority, then the others in declaration order.
pub fn list_pending_executions(state: &ConversationState) -> VecDeque<AgentId> {
    let slots = state.open_turn().into_iter().flat_map(|turn| &turn.slots);
    let mut pending: Vec<&ExecutionSlot> = slots
        .filter(|slot| matches!(slot.progress, ExecutionProgress::Pending))
        .collect();
    pending.sort_by_key(|slot| match &slot.start.request {
        Some(request) => (0, std::cmp::Reverse(request.priority)),
        None => (1, std::cmp::Reverse(0)),
    });
    pending.into_iter().map(|slot| slot.agent).collect()
}

/// Returns the slot of the agent in the open turn.
pub(super) fn find_execution_slot(state: &ConversationState, agent: AgentId) -> Option<&ExecutionSlot> {
    let slots = &state.open_turn()?.slots;
    let at = slots.binary_search_by_key(&agent, |slot| slot.agent).ok()?;
    Some(&slots[at])
}

/// Returns the input of the agent's next attempt, whose time the stopwatch measures.
pub fn build_attempt_input(
    plan: &Plan,
    state: &ConversationState,
    slot: &ExecutionSlot,
    stopwatch: Stopwatch,
) -> ExecutionInput {
    let agent = plan.agent(slot.agent);
    let agent_state = state.agent_state(slot.agent);
    let started = state.run_start();
    let caller = started.map(|started| started.caller.clone()).unwrap_or_default();
    ExecutionInput {
        run_id: started.map_or_else(|| "".into(), |started| started.run_id.clone()),
        origin: caller.append_agent(agent.name.clone(), slot.agent.index(), slot.start.execution),
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
        latest_outputs: state
            .list_latest_outputs(slot.agent)
            .map(|outputs| outputs.into_iter().map(|(name, _, output)| (name, output)).collect()),
        failures: state
            .list_dependency_failures(slot.agent)
            .into_iter()
            .map(|(name, _, failure)| (name, failure))
            .collect(),
        news: state.list_triggering_agents(slot),
        other_outputs: state
            .list_unconnected_outputs(slot.agent)
            .into_iter()
            .map(|(name, _, output)| (name, output))
            .collect(),
        history: state.readable_history(slot.agent),
        whole_history: state.finished_turn_history(),
        recent_agents: state.recent_agents(RECENT_AGENTS),
        parameters: plan.agent_config(slot.agent).clone(),
        request: slot.start.request.clone(),
        thread: agent_state.thread().clone(),
        requests_made: agent_state.requests_made() + slot.usage_so_far().map_or(0, |used| used.own_requests()),
        summaries_made: agent_state.summaries_made() + slot.usage_so_far().map_or(0, |used| used.summaries),
        ended_requests: slot.ended_requests,
        lost_attempts: slot.attempt - slot.last_ended,
        remaining: remaining_attempt_budget(plan, state, slot.usage_so_far()),
        last_failure: slot.last_failure.clone(),
        ledger: AttemptLedger::default(),
        stopwatch,
        part: None,
        parts: None,
        records: ExecutionRecorder::default(),
    }
}

/// Returns the budget at the start of the turn, minus the usage of earlier attempts. Parallel executions can use the same amount twice.
pub(super) fn remaining_attempt_budget(
    plan: &Plan,
    state: &ConversationState,
    used: Option<ModelUsage>,
) -> RemainingBudget {
    let whole = plan.ensemble().limits.initial_budget();
    whole
        .subtract_usage(state.budgeted_usage())
        .subtract_usage(used.unwrap_or_default())
}

/// Returns the pause before the next attempt. Returns `None` if no further attempt follows.
pub(super) fn pause_before_retry(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    observation: &AttemptResult,
) -> Option<Duration> {
    let failure = observation.result.as_ref().err()?;
    let spec = plan.agent(agent);
    // An LLM agent has already sent the errors to its model, up to the allowed number of times.
    let may_pass = failure.kind.is_retryable(matches!(spec.kind, AgentKind::Llm(_)));
    // The attempts of an agent with parts are those of each part.
    if spec.for_each.is_some() {
        return None;
    }
    let slot = find_execution_slot(state, agent)?;
    // With no budget left, the next attempt would only send one more request than the limits allow.
    let used = observation.usage;
    let used_up = used.is_some_and(|used| {
        remaining_attempt_budget(plan, state, slot.usage)
            .subtract_usage(used)
            .find_exhausted_limit()
            .is_some()
    });
    let failed = slot.failed_attempts + 1;
    (may_pass && !used_up && failed < spec.retry.max_attempts.get()).then(|| spec.retry.pause_after(failed))
}

/// Returns the event of a request for which the execution of the agent waits. Inner requests keep the inner agent and execution.
pub(super) fn input_requested_event(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    request: PendingRequest,
) -> InputRequested {
    let name = plan.agent_name(agent);
    let is_inner = request.address.segments().len() > 1 || request.agent != *name;
    InputRequested {
        turn: state.turn_count() + 1,
        agent: name.clone(),
        execution: find_execution_slot(state, agent).map_or(1, |slot| slot.start.execution),
        question: OperatorQuestion {
            asked_by: is_inner.then(|| request.agent.clone()),
            ..request.question
        },
        address: request.address,
        digest: request.digest,
        inner_execution: is_inner.then_some(request.execution),
    }
}

/// Returns the event of an answer inside a recorded execution, as an event of the execution of the agent in this run.
pub(super) fn nested_answer_event(
    state: &ConversationState,
    agent: AgentId,
    recorded: &NestedRequestAnswered,
) -> NestedRequestAnswered {
    let slot = find_execution_slot(state, agent);
    NestedRequestAnswered {
        within: AttemptScope {
            turn: state.turn_count() + 1,
            agent: state.plan().agent_name(agent).clone(),
            execution: slot.map_or(1, |slot| slot.start.execution),
            attempt: slot.map_or(1, |slot| slot.attempt),
            ..recorded.within.clone()
        },
        ..recorded.clone()
    }
}

pub(super) fn execution_finished_event(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    observation: AttemptResult,
    took: Duration,
    left: LedgerEntries,
) -> ExecutionFinished {
    let slot = find_execution_slot(state, agent);
    let result = observation.result.map_err(|failure| left.with_process_end(failure));
    let end = ExecutionEnd::from_result(result);
    ExecutionFinished {
        turn: state.turn_count() + 1,
        agent: plan.agent_name(agent).clone(),
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
