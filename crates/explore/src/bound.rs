//! Bounds that hold in every conversation, whatever part of them was examined: the numbers of a complete walk, and
//! otherwise what the checks prove from the ensemble alone.

use super::{Exploration, ExploredAgentSummary};
use ensemble_language::check::compute_run_bounds;
use ensemble_language::plan::Plan;

/// Sets the bounds of turns and executions: the numbers of a complete walk, or the limits that follow from the ensemble.
pub(super) fn set_proven_bounds(plan: &Plan, found: &mut Exploration) {
    if found.coverage.is_complete() {
        for agent in &mut found.agents {
            agent.bound = u64::from(agent.most);
        }
        found.turns_bound = u64::from(found.turns);
        found.executions_bound = u64::from(found.executions);
        return;
    }
    let bounds = compute_run_bounds(plan.ensemble());
    let turns = u64::from(plan.ensemble().limits.max_total_turns.get());
    for (at, (agent, most)) in found.agents.iter_mut().zip(&bounds.max_executions).enumerate() {
        let limit = u64::from(agent.limit);
        agent.bound = match bounds.never_run.contains(&at) {
            true => 0,
            false => limit.min(*most).min(turns),
        };
    }
    let sum = |all: u64, one: &ExploredAgentSummary| all.saturating_add(one.bound);
    found.executions_bound = found.agents.iter().fold(0, sum);
    // Every turn has an execution.
    found.turns_bound = found.executions_bound.min(turns);
}
