//! Whether two plans hold the same conversations.
//!
//! Both are walked side by side: in every pair of states that the same choices lead to, every step must ask for the same
//! results, start the same executions and have the same end.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::choices::{ChoiceSequences, StepChoices};
use super::key::compute_state_key;
use super::oracle::ExploredPlan;
use super::report::{ClaimSite, ExploredExecution, StepReport};
use super::step::{ConversationPosition, StepOutcome, can_request_agents};
use super::{ExplorationBudget, MAX_STEPS_FROM_STATE};
use ensemble_core::conversation::{AgentNotRun, ExhaustedAgent};
use ensemble_language::plan::Plan;

/// Pair of positions in two plans that the same choices lead to.
type PositionPair = (ConversationPosition, ConversationPosition);

/// Returns whether both plans have the same conversations: the same agents in the same turns, after the same results, with the same
/// outcomes.
/// Returns `None` if the budget is too small, or if an agent can make requests.
/// Time, tokens and costs are ignored. Of exhausted agents only the names are compared.
pub fn have_same_conversations(
    one: &Arc<Plan>,
    other: &Arc<Plan>,
    budget: ExplorationBudget<'_>,
    has_time: &dyn Fn() -> bool,
) -> Option<bool> {
    if one.agent_ids().any(|id| can_request_agents(one.agent(id))) {
        return None;
    }
    let worlds = (
        ExploredPlan::new(one.clone(), budget),
        ExploredPlan::new(other.clone(), budget),
    );
    let start = (
        ConversationPosition::at_conversation_start(&worlds.0),
        ConversationPosition::at_conversation_start(&worlds.1),
    );
    let mut seen_pairs = HashSet::from([compute_pair_key(&worlds, &start)]);
    let mut ahead = VecDeque::from([start]);
    let mut states = 0;
    while let Some(pair) = ahead.pop_front() {
        states += 1;
        if states > budget.states || !has_time() {
            return None;
        }
        let mut rows = ChoiceSequences::new();
        for steps in 0.. {
            let Some(choices) = rows.next() else { break };
            if steps == MAX_STEPS_FROM_STATE {
                return None;
            }
            match perform_step_in_both(&worlds, &pair, &choices) {
                PairStepResult::Different => return Some(false),
                PairStepResult::BothEnded => {}
                PairStepResult::BothContinue(next) => {
                    if seen_pairs.insert(compute_pair_key(&worlds, &next)) {
                        ahead.push_back(*next);
                    }
                }
            }
            rows.queue_alternatives(&choices);
        }
    }
    Some(true)
}

/// Result of the same step in both plans.
enum PairStepResult {
    Different,
    BothEnded,
    BothContinue(Box<PositionPair>),
}

/// Performs the step with these choices in both plans, and compares the results.
fn perform_step_in_both(
    worlds: &(ExploredPlan, ExploredPlan),
    pair: &PositionPair,
    choices: &StepChoices,
) -> PairStepResult {
    let (next, told) = pair.0.perform_step(&worlds.0, choices);
    let same = StepChoices::from_prescribed(choices.taken_options());
    let (other, other_told) = pair.1.perform_step(&worlds.1, &same);
    if observable_step(&told) != observable_step(&other_told) || choices.taken_options() != same.taken_options() {
        return PairStepResult::Different;
    }
    match (next, other) {
        (StepOutcome::Turn(next), StepOutcome::Turn(other)) => PairStepResult::BothContinue(Box::new((*next, *other))),
        (StepOutcome::End(one, _), StepOutcome::End(other, _)) => {
            let names = |not_run: &[AgentNotRun]| not_run.iter().map(|one| one.agent.clone()).collect::<Vec<_>>();
            let exhausted = |agents: &[ExhaustedAgent]| agents.iter().map(|one| one.agent.clone()).collect::<Vec<_>>();
            let is_same = one.completion_reason == other.completion_reason
                && one.success == other.success
                && names(&one.not_run) == names(&other.not_run)
                && exhausted(&one.exhausted) == exhausted(&other.exhausted);
            if is_same {
                PairStepResult::BothEnded
            } else {
                PairStepResult::Different
            }
        }
        _ => PairStepResult::Different,
    }
}

/// Returns the observable data of a step: the assumed claims without positions, their results, and the executions.
fn observable_step(told: &StepReport) -> (Vec<[&str; 3]>, Vec<bool>, &[ExploredExecution]) {
    let assumed = told.assumed.iter();
    let claims = assumed.map(|one| match &one.site {
        ClaimSite::Dependency { agent, dependency, .. } => [&**agent, &**dependency, &*one.claim],
        ClaimSite::Success => ["", "", &*one.claim],
    });
    let answers = told.assumed.iter().map(|one| one.answer);
    (claims.collect(), answers.collect(), &told.runs)
}

/// Computes the state keys of both positions.
fn compute_pair_key(worlds: &(ExploredPlan, ExploredPlan), pair: &PositionPair) -> (Box<[u8]>, Box<[u8]>) {
    let key = |world: &ExploredPlan, position: &ConversationPosition| {
        compute_state_key(world, &position.state, &position.remembered)
    };
    (key(&worlds.0, &pair.0), key(&worlds.1, &pair.1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::have_same_conversations;
    use crate::{ExplorationBudget, ExplorationGoal, explore_plan, find_goal_examples};
    use ensemble_core::random_conversations::build_plan;
    use ensemble_language::plan::Plan;
    use ensemble_language::random_ensembles::plan_with_results;
    use proptest::prelude::*;

    /// A loop that ends by a condition, and an agent behind it.
    const LOOP: &str = "name: e
agents:
  - {name: a, script: s, dependencies: [{agent_name: b, feedback: true, condition: CONDITION}], conversation: {max_turns: 3}}
  - {name: b, script: s, depends_on: [a], conversation: {max_turns: 3}}
  - {name: c, script: s, depends_on: [a, b]}
conversation_limits: {max_total_turns: 20}
";

    /// `c` runs again after `b`, which has no turn left to read that.
    const UNREAD: &str = "name: e
agents:
  - {name: a, script: s}
  - {name: c, script: s, on_error: continue, dependencies: [{agent_name: b, feedback: true}], conversation: {max_turns: 2}}
  - {name: b, script: s, dependencies: [{agent_name: a}, {agent_name: c, on: any}]}
";

    fn plan(text: &str) -> Arc<Plan> {
        Arc::new(build_plan(text))
    }

    #[test]
    fn only_what_changes_no_conversation_is_the_same() {
        let with = |condition: &str| LOOP.replace("CONDITION", condition);
        let free = with("output.again");
        let rows = [
            (free.clone(), free.clone(), true),
            (free.clone(), with("not output.again"), false),
            (free.clone(), with("output.other"), false),
            (
                free.clone(),
                free.replace("max_total_turns: 20", "max_total_turns: 9"),
                true,
            ),
            (
                free.clone(),
                free.replace("max_total_turns: 20", "max_total_turns: 3"),
                false,
            ),
            (
                free.clone(),
                free.replace("[a], conversation: {max_turns: 3}", "[a], conversation: {max_turns: 4}"),
                true,
            ),
            (free.clone(), free.replacen("max_turns: 3", "max_turns: 4", 1), false),
            (free.clone(), free.replacen("max_turns: 3", "max_turns: 2", 1), false),
            // After a last failure of `a`, `c` does not have the work that `b` has left.
            (
                free.clone(),
                free.replace("depends_on: [a, b]", "depends_on: [b]"),
                false,
            ),
            (
                free.clone(),
                free.replace("depends_on: [a, b]", "depends_on: [a]"),
                false,
            ),
            // The same turns, but in one of them `b` has not read the last output of `c`.
            (
                UNREAD.to_owned(),
                UNREAD.replace(", {agent_name: c, on: any}", ""),
                false,
            ),
            (with("executions.a < 2"), with("executions.a <= 1"), true),
            (with("executions.a < 2"), with("executions.a <= 2"), false),
        ];
        for (one, other, is_same) in rows {
            let found = have_same_conversations(
                &plan(&one),
                &plan(&other),
                ExplorationBudget::with_max_states(1000),
                &|| true,
            );
            assert_eq!(found, Some(is_same), "{one}\n{other}");
        }
    }

    #[test]
    fn without_enough_time_or_states_nothing_is_claimed() {
        let plan = plan(&LOOP.replace("CONDITION", "output.again"));
        let same = |states, has_time: &dyn Fn() -> bool| {
            have_same_conversations(&plan, &plan, ExplorationBudget::with_max_states(states), has_time)
        };
        assert_eq!(same(3, &|| true), None);
        assert_eq!(same(1000, &|| false), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_reached_has_an_example((plan, _) in plan_with_results()) {
            let plan = Arc::new(plan);
            let budget = ExplorationBudget::with_max_states(300);
            let found = explore_plan(&plan, budget);
            prop_assert_ne!(have_same_conversations(&plan, &plan, budget, &|| true), Some(false));
            if found.coverage.is_complete() {
                let goals = found.reached.iter().copied();
                let goals = goals.chain(found.ends.iter().map(|end| ExplorationGoal::Outcome(end.reason))).collect();
                for (goal, end) in find_goal_examples(&plan, &goals, ExplorationBudget::with_max_states(20_000), &|| true) {
                    prop_assert!(end.is_some(), "{:?}", goal);
                }
            }
        }
    }
}
