//! Example conversations for what can be reached.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::goal::ExplorationGoal;
use super::oracle::ExploredPlan;
use super::walk::StateWalk;
use super::{ExplorationBudget, PossibleEnd};
use ensemble_language::plan::Plan;

/// Finds for each goal a short conversation that reaches the goal, up to its end. The value is `None` if no conversation was found.
pub fn find_goal_examples(
    plan: &Arc<Plan>,
    goals: &BTreeSet<ExplorationGoal>,
    budget: ExplorationBudget<'_>,
    has_time: &dyn Fn() -> bool,
) -> Vec<(ExplorationGoal, Option<PossibleEnd>)> {
    let world = ExploredPlan::new(plan.clone(), budget);
    let mut walk = StateWalk::new(&world, budget, has_time);
    walk.set_sought_goals(goals.clone());
    walk.walk_until_limit();
    goals
        .iter()
        .map(|goal| (*goal, walk.find_goal_example(*goal)))
        .collect()
}
