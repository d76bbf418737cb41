//! Whether two plans hold the same conversations.
//!
//! Both are walked side by side: in every pair of states that the same choices lead to, every step must ask for the same
//! results, start the same executions and have the same end.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::choices::{Choices, Rows};
use super::key::key;
use super::oracle::World;
use super::report::{ExploredExecution, StepReport};
use super::step::{Next, Position, may_request};
use super::{Budget, STEPS_FROM_ONE_STATE};
use ensemble_core::conversation::NotRun;
use ensemble_language::plan::Plan;

/// A pair of states that the same choices lead to.
type Pair = (Position, Position);

/// Returns whether every conversation of one plan is one of the other: the same agents in the same turns, after the
/// same results of conditions, to the same ends. `None`: the budget does not suffice to know, or an agent may make
/// requests. Time, tokens and costs are not known.
pub fn same_conversations(
    one: &Arc<Plan>,
    other: &Arc<Plan>,
    budget: Budget<'_>,
    has_time: &dyn Fn() -> bool,
) -> Option<bool> {
    if one.ids().any(|id| may_request(one.agent(id))) {
        return None;
    }
    let worlds = (World::new(one.clone(), budget), World::new(other.clone(), budget));
    let start = (Position::start(&worlds.0), Position::start(&worlds.1));
    let mut known = HashSet::from([keys(&worlds, &start)]);
    let mut ahead = VecDeque::from([start]);
    let mut states = 0;
    while let Some(pair) = ahead.pop_front() {
        states += 1;
        if states > budget.states || !has_time() {
            return None;
        }
        let mut rows = Rows::new();
        for steps in 0.. {
            let Some(choices) = rows.next() else { break };
            if steps == STEPS_FROM_ONE_STATE {
                return None;
            }
            match step(&worlds, &pair, &choices) {
                Stepped::Apart => return Some(false),
                Stepped::Ended => {}
                Stepped::On(next) => {
                    if known.insert(keys(&worlds, &next)) {
                        ahead.push_back(*next);
                    }
                }
            }
            rows.gone(&choices);
        }
    }
    Some(true)
}

/// The result of a step of both explorations.
enum Stepped {
    Apart,
    Ended,
    On(Box<Pair>),
}

fn step(worlds: &(World, World), pair: &Pair, choices: &Choices) -> Stepped {
    let (next, told) = pair.0.step(&worlds.0, choices);
    let same = Choices::prescribed(choices.taken());
    let (other, other_told) = pair.1.step(&worlds.1, &same);
    if seen(&told) != seen(&other_told) || choices.taken() != same.taken() {
        return Stepped::Apart;
    }
    match (next, other) {
        (Next::Turn(next), Next::Turn(other)) => Stepped::On(Box::new((*next, *other))),
        (Next::End(one, _), Next::End(other, _)) => {
            let names = |not_run: &[NotRun]| not_run.iter().map(|one| one.agent.clone()).collect::<Vec<_>>();
            let is_same =
                one.completion_reason == other.completion_reason && names(&one.not_run) == names(&other.not_run);
            if is_same { Stepped::Ended } else { Stepped::Apart }
        }
        _ => Stepped::Apart,
    }
}

/// What is to be seen of a step from outside: what was assumed, wherever its dependency stands in the list, and what ran.
fn seen(told: &StepReport) -> (Vec<[&str; 3]>, Vec<bool>, &[ExploredExecution]) {
    let assumed = told.assumed.iter();
    let claims = assumed.map(|one| [&*one.agent, &*one.dependency, &*one.claim]);
    let answers = told.assumed.iter().map(|one| one.answer);
    (claims.collect(), answers.collect(), &told.runs)
}

fn keys(worlds: &(World, World), pair: &Pair) -> (Box<[u8]>, Box<[u8]>) {
    let key = |world: &World, position: &Position| key(world, &position.state, &position.remembered);
    (key(&worlds.0, &pair.0), key(&worlds.1, &pair.1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::same_conversations;
    use crate::{Budget, Goal, examples, explore};
    use ensemble_core::random_conversations::plan_of;
    use ensemble_language::plan::Plan;
    use ensemble_language::random_ensembles::conversation;
    use proptest::prelude::*;

    /// A loop that ends by a condition, and an agent behind it.
    const LOOP: &str = "name: e
agents:
  - {name: a, script: s, dependencies: [{agent_name: b, feedback: true, condition: CONDITION}], conversation: {max_turns: 3}}
  - {name: b, script: s, depends_on: [a], conversation: {max_turns: 3}}
  - {name: c, script: s, depends_on: [a, b]}
conversation_limits: {max_total_turns: 20}
";

    fn plan(text: &str) -> Arc<Plan> {
        Arc::new(plan_of(text))
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
            (
                free.clone(),
                free.replace("depends_on: [a, b]", "depends_on: [b]"),
                true,
            ),
            (
                free.clone(),
                free.replace("depends_on: [a, b]", "depends_on: [a]"),
                false,
            ),
            (with("executions.a < 2"), with("executions.a <= 1"), true),
            (with("executions.a < 2"), with("executions.a <= 2"), false),
        ];
        for (one, other, is_same) in rows {
            let found = same_conversations(&plan(&one), &plan(&other), Budget::of_states(1000), &|| true);
            assert_eq!(found, Some(is_same), "{one}\n{other}");
        }
    }

    #[test]
    fn without_enough_time_or_states_nothing_is_claimed() {
        let plan = plan(&LOOP.replace("CONDITION", "output.again"));
        let same =
            |states, has_time: &dyn Fn() -> bool| same_conversations(&plan, &plan, Budget::of_states(states), has_time);
        assert_eq!(same(3, &|| true), None);
        assert_eq!(same(1000, &|| false), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_reached_has_an_example((plan, _) in conversation()) {
            let plan = Arc::new(plan);
            let budget = Budget::of_states(300);
            let found = explore(&plan, budget);
            prop_assert_ne!(same_conversations(&plan, &plan, budget, &|| true), Some(false));
            if found.coverage.is_complete() {
                let goals = found.reached.iter().copied();
                let goals = goals.chain(found.ends.iter().map(|end| Goal::Outcome(end.reason))).collect();
                for (goal, end) in examples(&plan, &goals, Budget::of_states(20_000), &|| true) {
                    prop_assert!(end.is_some(), "{:?}", goal);
                }
            }
        }
    }
}
