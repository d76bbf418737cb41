//! The bounds that checks work with hold in random conversations.

use std::sync::Arc;

use ensemble_language::check::{EarlyCount, bounds};
use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::{counting, limited_conversation};
use proptest::prelude::*;

use super::tests::walk;
use crate::conversation::ConversationState;

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_run_exceeds_the_bounds((plan, fates) in limited_conversation()) {
        let plan = Arc::new(plan);
        let bounds = bounds(plan.ensemble());
        for fate in fates {
            let driver = walk(&plan, fate);
            let state = driver.state();
            for id in plan.ids() {
                let executions = u64::from(state.execution_count(id));
                prop_assert!(!bounds.never_run.contains(&id.index()) || executions == 0, "{} ran", plan.name(id));
                let most = bounds.most_executions[id.index()];
                prop_assert!(executions <= most, "{} ran {executions} times", plan.name(id));
                for (most, (at, _)) in bounds.most_starts[id.index()].iter().zip(plan.incoming(id)) {
                    prop_assert!(u64::from(state.starts_of(at)) <= *most);
                }
            }
        }
    }

    #[test]
    fn a_count_that_is_reported_starts_its_agent_at_once(plan in counting()) {
        let plan = Arc::new(plan);
        // Every execution succeeds.
        let driver = walk(&plan, vec![1]);
        for early in bounds(plan.ensemble()).early_counts {
            let late = is_late(&plan, driver.state(), early);
            prop_assert!(!late, "{early:?} {:#?}", plan.ensemble().agents);
        }
    }
}

/// Whether the agent has not started in the turn after the one in which the count was reached.
fn is_late(plan: &Plan, state: &ConversationState, early: EarlyCount) -> bool {
    let EarlyCount {
        agent,
        dependency,
        counted,
        count,
    } = early;
    let turns = |at: usize| {
        let name = plan.ensemble().agents[at].name.clone();
        let history: Vec<(u32, bool)> = state
            .history()
            .map(|one| (one.turn_number, one.agent_name == name))
            .collect();
        history
            .into_iter()
            .filter(|(_, is_own)| *is_own)
            .map(|(turn, _)| turn)
            .collect::<Vec<u32>>()
    };
    let reached = turns(counted).get(usize::try_from(count - 1).expect("small")).copied();
    let Some(reached) = reached.filter(|turn| state.turn_count() > *turn) else {
        return false;
    };
    let has_run = |at: usize, until: u32| turns(at).first().is_some_and(|first| *first <= until);
    let most = plan.ensemble().limits.max_total_turns.get();
    let reads = state.turn_count() >= most || turns(dependency).iter().any(|turn| *turn > reached);
    has_run(dependency, reached) && !(has_run(agent, reached + 1) && reads)
}
