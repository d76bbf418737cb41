//! Example conversations for what can be reached.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::goal::Goal;
use super::oracle::World;
use super::walk::Walk;
use super::{Budget, End};
use ensemble_language::plan::Plan;

/// For each goal, a conversation that reaches it soon, to its end; `None`: none was found.
pub fn examples(
    plan: &Arc<Plan>,
    goals: &BTreeSet<Goal>,
    budget: Budget<'_>,
    has_time: &dyn Fn() -> bool,
) -> Vec<(Goal, Option<End>)> {
    let world = World::new(plan.clone(), budget);
    let mut walk = Walk::new(&world, budget, has_time);
    walk.seek(goals.clone());
    walk.go();
    goals.iter().map(|goal| (*goal, walk.example(*goal))).collect()
}
