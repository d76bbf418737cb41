//! What a check says never happens does not happen in random conversations.

use std::sync::Arc;

use proptest::prelude::*;

use crate::check::graph::Graph;
use crate::check::{edges, never, too_late, turns};
use crate::random_ensembles::limited_conversation;
use crate::resolver::tests::walk;

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn what_never_happens_does_not((plan, fates) in limited_conversation()) {
        let plan = Arc::new(plan);
        let ensemble = plan.ensemble().clone();
        let graph = Graph::of(&ensemble);
        let never: Vec<usize> = never::shut_out(&graph).into_iter().chain(too_late::unreached(&graph)).collect();
        let most = turns::most_executions(&graph);
        for fate in fates {
            let driver = walk(&plan, fate);
            let state = driver.state();
            for id in plan.ids() {
                let executions = u64::from(state.execution_count(id));
                prop_assert!(!never.contains(&id.index()) || executions == 0, "{} ran", plan.name(id));
                prop_assert!(executions <= most[id.index()], "{} ran {executions} times", plan.name(id));
                for (edge, (at, _)) in graph.edges(id.index()).iter().zip(plan.incoming(id)) {
                    prop_assert!(state.starts_of(at) <= edges::most_starts(&graph, id.index(), edge));
                }
            }
        }
    }
}
