//! The key of a state: two states with the same key have the same possible futures.
//!
//! The content, time and order of outputs do not matter. The key contains only what readiness, outcomes and the results
//! of conditions still depend on.

use super::oracle::{ExploredPlan, RememberedClaimResults};
use ensemble_core::conversation::{ConversationState, has_unseen_result};
use ensemble_language::ensemble::WaitForOutputs;
use ensemble_language::plan::AgentId;

/// Returns a key that is equal for states with the same possible futures.
pub(super) fn compute_state_key(
    world: &ExploredPlan,
    state: &ConversationState,
    remembered: &RememberedClaimResults,
) -> Box<[u8]> {
    let plan = &world.plan;
    let mut key = StateKeyBytes(Vec::with_capacity(plan.agent_count() * 3 + plan.edge_count()));
    for id in plan.agent_ids() {
        let agent = state.agent_state(id);
        key.push_number(agent.executions_in_segment());
        key.push_flags(&[
            agent.last_success_turn().is_some(),
            agent.has_failed_last(),
            agent.has_unhandled_failure(),
            state.was_requested_at_limit(id),
        ]);
        key.push_number(u32::try_from(state.agent_requests(id).len()).unwrap_or(u32::MAX));
    }
    for id in plan.agent_ids() {
        let may_run = !state.has_reached_max_turns(plan, id);
        for (edge_id, edge) in plan.incoming_edges(id) {
            // At the end, an agent that may not run is exhausted if it has work.
            key.push_flags(&[has_unseen_result(state, edge)]);
            if !may_run {
                continue;
            }
            if edge.requires_all && edge.wait_for == WaitForOutputs::Update {
                key.push_number(state.turns_waited(edge_id));
            }
            if edge.max_executions.is_some() {
                key.push_number(state.edge_start_count(edge_id));
            }
        }
    }
    for id in plan
        .listening_agent_ids()
        .iter()
        .filter(|id| !state.has_reached_max_turns(plan, **id))
    {
        key.push_flags(&[has_unread_output(state, *id)]);
    }
    key.push_number(turns_if_relevant(world, state));
    let (limits, usage) = (&plan.ensemble().limits, state.budgeted_usage());
    let cost = usage.cost.unwrap_or_default();
    key.push_flags(&[
        limits
            .max_total_tokens
            .is_some_and(|budget| usage.input_tokens >= budget),
        limits.max_cost.is_some_and(|budget| cost >= budget),
    ]);
    for (claim, answer) in remembered {
        key.push_number(*claim);
        key.push_flags(&[*answer]);
    }
    key.0.into()
}

/// Returns whether there is an output that the agent without dependencies has not read.
fn has_unread_output(state: &ConversationState, id: AgentId) -> bool {
    let seen_turn = state
        .agent_state(id)
        .last_start_turn()
        .and_then(|turn| turn.checked_sub(1));
    state.latest_success_turn_except(id) > seen_turn
}

/// Returns the number of finished turns plus one. Returns 0 if no limit and no condition can depend on the number.
fn turns_if_relevant(world: &ExploredPlan, state: &ConversationState) -> u32 {
    let plan = &world.plan;
    let remaining_executions =
        |id: AgentId| plan.agent(id).conversation.max_turns.get() - state.agent_state(id).executions_in_segment();
    let remaining_executions: u64 = plan.agent_ids().map(|id| u64::from(remaining_executions(id))).sum();
    let limit_is_far = u64::from(state.segment_turn_count()) + remaining_executions
        <= u64::from(plan.ensemble().limits.max_total_turns.get());
    let is_asked = world
        .list_claim_reads()
        .any(|reads| reads.turn_count && reads.reads_only_counts());
    if limit_is_far && !is_asked && !world.tells_turns {
        0
    } else {
        state.turn_count() + 1
    }
}

/// Bytes of a state key.
struct StateKeyBytes(Vec<u8>);

impl StateKeyBytes {
    /// Appends a number, in one byte if the number is small.
    fn push_number(&mut self, number: u32) {
        match u8::try_from(number) {
            Ok(small) if small < u8::MAX => self.0.push(small),
            _ => {
                self.0.push(u8::MAX);
                self.0.extend(number.to_le_bytes());
            }
        }
    }

    /// Appends up to eight flags as one byte.
    fn push_flags(&mut self, flags: &[bool]) {
        self.0
            .push(flags.iter().fold(0, |byte, flag| byte * 2 + u8::from(*flag)));
    }
}
