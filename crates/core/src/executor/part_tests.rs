//! The executor with executions that have parts, in loops, and with agents that wait until others have settled.

use std::sync::Arc;

use proptest::prelude::*;

use super::tests::{repeated, result};
use crate::conversation::{Event, RunResumed};
use crate::random_conversations::{drive_from_records, run_started_event};
use ensemble_language::random_ensembles::plan_with_lists;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn resuming_from_every_prefix_with_parts_ends_in_the_same_state(
        (plan, fate) in plan_with_lists(),
        detours in any::<u64>(),
    ) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (whole, records) = drive_from_records(&plan, &fate, detours, &[], run_started_event());
        for cut in 1..records.len() - 1 {
            let resumed = Event::RunResumed(RunResumed::default());
            let (state, all) = drive_from_records(&plan, &fate, detours, &records[..cut], resumed);
            prop_assert_eq!(result(&state), result(&whole), "cut after {} of {} records", cut, records.len());
            prop_assert_eq!(repeated(&all), Vec::<String>::new(), "cut after {} of {} records", cut, records.len());
        }
    }

    #[test]
    fn the_order_in_which_parts_end_does_not_matter(
        (plan, fate) in plan_with_lists(),
        one in any::<u64>(),
        other in any::<u64>(),
    ) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (one, _) = drive_from_records(&plan, &fate, one, &[], run_started_event());
        let (other, _) = drive_from_records(&plan, &fate, other, &[], run_started_event());
        prop_assert_eq!(result(&one), result(&other));
    }
}
