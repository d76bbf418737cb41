//! The key of a state: two states with the same key have the same possible futures.
//!
//! The content, time and order of outputs do not matter. The key contains only what readiness, outcomes and the results
//! of conditions still depend on.

use super::oracle::{Remembered, World};
use ensemble_core::conversation::{ConversationState, is_unseen};
use ensemble_language::ensemble::WaitFor;
use ensemble_language::plan::AgentId;

/// A value that is equal for states with the same possible futures.
pub(super) fn key(world: &World, state: &ConversationState, remembered: &Remembered) -> Box<[u8]> {
    let plan = &world.plan;
    let mut key = Key(Vec::with_capacity(plan.len() * 3 + plan.edge_count()));
    for id in plan.ids() {
        let agent = state.agent(id);
        key.number(agent.executions());
        key.flags(&[
            agent.last_success().is_some(),
            agent.latest_failed(),
            agent.is_unhandled(),
        ]);
        key.number(u32::try_from(state.requests(id).len()).unwrap_or(u32::MAX));
    }
    for id in plan.ids().filter(|id| !state.is_exhausted(plan, *id)) {
        for (edge_id, edge) in plan.incoming(id) {
            key.flags(&[is_unseen(state, edge)]);
            if edge.requires_all && edge.wait_for == WaitFor::Update {
                key.number(state.turns_waited(edge_id));
            }
            if edge.max_executions.is_some() {
                key.number(state.starts_of(edge_id));
            }
        }
    }
    for id in plan.listeners().iter().filter(|id| !state.is_exhausted(plan, **id)) {
        key.flags(&[has_heard(state, *id)]);
    }
    key.number(turns_that_matter(world, state));
    let budget = plan.ensemble().limits.max_total_tokens;
    key.flags(&[budget.is_some_and(|budget| state.leg_usage().input_tokens >= budget)]);
    for (claim, answer) in remembered {
        key.number(*claim);
        key.flags(&[*answer]);
    }
    key.0.into()
}

/// Returns whether there is a new output for an agent without dependencies.
fn has_heard(state: &ConversationState, id: AgentId) -> bool {
    let seen = state.agent(id).last_started().and_then(|turn| turn.checked_sub(1));
    state.latest_success_but(id) > seen
}

/// The number of finished turns, plus one; 0 if neither a limit nor a condition can depend on it.
fn turns_that_matter(world: &World, state: &ConversationState) -> u32 {
    let plan = &world.plan;
    let left = |id: AgentId| plan.agent(id).conversation.max_turns.get() - state.agent(id).executions();
    let left: u64 = plan.ids().map(|id| u64::from(left(id))).sum();
    let limit_is_far = u64::from(state.leg_turns()) + left <= u64::from(plan.ensemble().limits.max_total_turns.get());
    let is_asked = world.claims().any(|reads| reads.turn_count && reads.are_counts());
    if limit_is_far && !is_asked && !world.tells_turns {
        0
    } else {
        state.turn_count() + 1
    }
}

struct Key(Vec<u8>);

impl Key {
    fn number(&mut self, number: u32) {
        match u8::try_from(number) {
            Ok(small) if small < u8::MAX => self.0.push(small),
            _ => {
                self.0.push(u8::MAX);
                self.0.extend(number.to_le_bytes());
            }
        }
    }

    fn flags(&mut self, flags: &[bool]) {
        self.0
            .push(flags.iter().fold(0, |byte, flag| byte * 2 + u8::from(*flag)));
    }
}
