//! The bounds that checks work with hold in random conversations.

use std::sync::Arc;

use ensemble_language::check::bounds;
use ensemble_language::random_ensembles::limited_conversation;
use proptest::prelude::*;

use super::tests::walk;

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
}
