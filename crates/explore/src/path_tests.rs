//! For every reported path, the resolver itself reaches the reported end when it evaluates the conditions.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ExecutionResult, ExplorationBudget, StepReport, explore_plan};
use ensemble_core::conversation::{CompletionReason, ExhaustedAgent};
use ensemble_core::random_conversations::HandDrivenConversation;
use ensemble_core::resolver::{NextDecision, decide_next_step};
use ensemble_language::data::RunContext;
use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::{plan_with_results, with_strict_limits};

/// Drives the way with real outputs: `n` is what the next condition that asks for it is to find.
fn drive(plan: &Arc<Plan>, path: &[StepReport]) -> (CompletionReason, Vec<Arc<str>>, Vec<ExhaustedAgent>) {
    let wanted = |from: usize| -> Option<Value> {
        let said = path[from..].iter().flat_map(|told| &told.assumed).next()?;
        Some(json!(if said.answer { 2 } else { 0 }))
    };
    let context = wanted(0).map(|n| ("n".into(), Arc::new(n)));
    let mut driver = HandDrivenConversation::with_context(plan, context.into_iter().collect::<RunContext>());
    for (at, told) in path.iter().enumerate().filter(|(_, told)| !told.runs.is_empty()) {
        let NextDecision::StartTurn(turn) = decide_next_step(plan, driver.state()) else {
            panic!("turn {} starts", told.turn);
        };
        let starts: Vec<_> = turn
            .starts
            .iter()
            .map(|start| (start.agent.clone(), start.execution))
            .collect();
        let expected: Vec<_> = told.runs.iter().map(|ran| (ran.agent.clone(), ran.execution)).collect();
        assert_eq!(starts, expected, "turn {} of {path:#?}", told.turn);
        let output = |ran: &super::ExploredExecution| {
            let mut output = json!({});
            if let Some(n) = wanted(at + 1) {
                output["n"] = n;
            }
            if let Some(target) = &ran.requests {
                output["agent_requests"] = json!([{"target_agent": target}]);
            }
            (ran.result == ExecutionResult::Succeeded).then_some(output)
        };
        let outputs: Vec<Option<Value>> = told.runs.iter().map(output).collect();
        driver.perform_turn(&turn, &outputs);
        match decide_next_step(plan, driver.state()) {
            NextDecision::FinishTurn(finished) => driver.apply_turn_end(finished),
            other => panic!("turn {} is complete: {other:?}", told.turn),
        }
    }
    match decide_next_step(plan, driver.state()) {
        NextDecision::End(ended) => {
            let never = ended.not_run.into_iter().map(|one| one.agent);
            (ended.completion_reason, never.collect(), ended.exhausted)
        }
        other => panic!("{path:#?} goes on: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_way_that_is_told_can_be_gone((plan, _) in plan_with_results(), knobs in any::<u8>()) {
        let plan = Arc::new(with_strict_limits(&plan, knobs));
        let found = explore_plan(&plan, ExplorationBudget::with_max_states(60));
        for end in &found.ends {
            let (reason, never, exhausted) = drive(&plan, &end.path);
            prop_assert_eq!(reason, end.reason, "{:#?}", end);
            let told: Vec<Arc<str>> = end.not_run.iter().map(|one| one.agent.clone()).collect();
            prop_assert_eq!(never, told, "{:#?}", end);
            prop_assert_eq!(&exhausted, &end.exhausted, "{:#?}", end);
            let turns = end.path.iter().filter(|told| !told.runs.is_empty()).count();
            prop_assert_eq!(turns, end.turns as usize);
        }
    }
}
