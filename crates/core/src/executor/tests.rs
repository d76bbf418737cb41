//! One loop for runs and resumed runs: whatever was cut, and in whatever order agents finish, the end is the same.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use crate::conversation::{CompletionReason, ConversationState, Event, Record, RunResult, RunResumed};
use crate::random_conversations::{drive_from_records, run_started_event};
use ensemble_language::random_ensembles::plan_with_results;

/// Returns the result without durations and without the numbers of attempts.
pub(super) fn result(state: &ConversationState) -> Value {
    let mut result = serde_json::to_value(RunResult(state)).expect("results are JSON");
    for entry in result["conversation_history"].as_array_mut().expect("a history") {
        for key in ["execution_time", "attempt"] {
            entry[key] = Value::Null;
        }
    }
    result
}

/// Executions that ended twice, and attempts whose number was used before.
pub(super) fn repeated(records: &[Record]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let names = records.iter().filter_map(|record| match &record.event {
        Event::ExecutionFinished(end) => Some(format!("{} {} ended", end.agent, end.execution)),
        Event::ExecutionStarted(start) => {
            Some(format!("{} {} attempt {}", start.agent, start.execution, start.attempt))
        }
        Event::PartEnded(part) if part.is_final() => {
            Some(format!("{} {} part {}", part.agent, part.execution, part.key))
        }
        _ => None,
    });
    names.filter(|name| !seen.insert(name.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn resuming_from_every_prefix_ends_in_the_same_state((plan, fate) in plan_with_results()) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (whole, records) = drive_from_records(&plan, &fate, 3, &[], run_started_event());
        let ended = records.len() - 1;
        for cut in 1..ended {
            let resumed = Event::RunResumed(RunResumed::default());
            let (state, all) = drive_from_records(&plan, &fate, 3, &records[..cut], resumed);
            prop_assert_eq!(result(&state), result(&whole), "cut after {} of {} records", cut, records.len());
            prop_assert_eq!(repeated(&all), Vec::<String>::new(), "cut after {} of {} records", cut, records.len());
        }
    }

    #[test]
    fn the_order_in_which_agents_finish_does_not_matter((plan, fate) in plan_with_results(), one in any::<u64>(), other in any::<u64>()) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (one, _) = drive_from_records(&plan, &fate, one, &[], run_started_event());
        let (other, _) = drive_from_records(&plan, &fate, other, &[], run_started_event());
        prop_assert_eq!(result(&one), result(&other));
    }

    #[test]
    fn every_conversation_ends_with_an_outcome_and_within_its_limits((plan, fate) in plan_with_results()) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (state, _) = drive_from_records(&plan, &fate, 1, &[], run_started_event());
        let reason = state.run_end().expect("it ended").completion_reason;
        prop_assert!(matches!(reason, CompletionReason::Completed | CompletionReason::MaxTotalTurns), "{reason}");
        prop_assert!(state.turn_count() <= plan.ensemble().limits.max_total_turns.get());
        for id in plan.agent_ids() {
            prop_assert!(state.execution_count(id) <= plan.agent(id).conversation.max_turns.get());
        }
        let total: u32 = plan.agent_ids().map(|id| state.execution_count(id)).sum();
        prop_assert_eq!(state.list_executions().count(), total as usize);
    }
}
