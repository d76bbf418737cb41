//! The goal of a run: `success`, `required`, `on_limit` and `on_error: stop`, as a table and on random conversations.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{NextDecision, decide_next_step};
use crate::conversation::{CompletionReason, RunEnded};
use crate::random_conversations::{HandDrivenConversation, build_plan, perform_random_conversation};
use ensemble_language::ensemble::{Ensemble, OnError};
use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::{plan_with_results, with_goal, with_strict_limits};

/// Returns the end of a conversation with these turns, each a list of outputs; `None` is a failure.
fn end_after(text: &str, turns: &[&[Option<Value>]]) -> RunEnded {
    let plan = Arc::new(build_plan(&format!("name: t\n{text}")));
    let mut driver = HandDrivenConversation::new(&plan);
    let mut turns = turns.iter();
    loop {
        match decide_next_step(&plan, driver.state()) {
            NextDecision::StartTurn(turn) => {
                let outputs = turns.next().unwrap_or_else(|| panic!("no more turns: {turn:?}"));
                driver.perform_turn(&turn, outputs);
            }
            NextDecision::FinishTurn(finished) => driver.apply_turn_end(finished),
            NextDecision::End(ended) => {
                assert_eq!(turns.len(), 0, "{ended:?}");
                return ended;
            }
            NextDecision::Perform => unreachable!("every execution has ended"),
        }
    }
}

/// Describes the end: whether the exit code is 0, the outcome, and its sentence.
fn describe_end(text: &str, turns: &[&[Option<Value>]]) -> String {
    let ended = end_after(text, turns);
    let mark = if ended.is_success() { "+" } else { "-" };
    let detail = ended.detail.map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("{mark} {}{detail}", ended.completion_reason)
}

fn ok() -> Option<Value> {
    Some(json!({"ok": true}))
}

/// A name, the text of an ensemble, the outputs of the executions of each agent (`None`: a failure), and the expected end.
type GoalRow<'r> = (&'r str, String, Vec<&'r [Option<Value>]>, &'r str);

#[test]
fn the_goal_of_a_run() {
    let one = "agents: [{name: a, script: x}]\n";
    let spin = "agents: [{name: a, script: x, conversation: {max_turns: 9, trigger: every_turn}}]\n";
    let chain = "agents: [{name: tests, script: x, on_error: ERR}, {name: deploy, script: x, required: true, depends_on: [tests]}]\n";
    let limit = |more: &str| format!("{spin}conversation_limits: {{max_total_turns: 1{more}}}\n");
    let no: Option<Value> = Some(json!({"ok": false}));
    let table: Vec<GoalRow<'_>> = vec![
        ("no goal", one.to_owned(), vec![&[]], "+ completed"),
        (
            "a true success",
            format!("{one}success: outputs.a.ok\n"),
            vec![&[]],
            "+ completed",
        ),
        (
            "a YAML boolean",
            format!("{one}success: false\n"),
            vec![&[]],
            "- unsuccessful: success is false: false",
        ),
        (
            "a success that has no value",
            format!("{one}success: outputs.a.ok > 1\n"),
            vec![&[]],
            "- condition_failed: success `outputs.a.ok > 1`: cannot compare a Boolean with a number: true > 1",
        ),
        (
            "a required agent that waits",
            chain.replace("ERR", "continue"),
            vec![],
            "- unsuccessful: `deploy` is required and never ran: waiting for `tests`, whose latest execution failed",
        ),
        (
            "a failure stands above a required agent",
            chain.replace("ERR", "fail"),
            vec![],
            "- agent_failed: tests failed: no",
        ),
        (
            "a required agent that failed",
            "agents: [{name: a, script: x, on_error: continue, required: true}]\n".to_owned(),
            vec![],
            "- unsuccessful: `a` is required and never succeeded: no",
        ),
        (
            "a limit",
            limit(""),
            vec![&[]],
            "- max_total_turns: max_total_turns was reached: 1",
        ),
        (
            "a limit that is the natural end",
            limit(", on_limit: succeed"),
            vec![&[]],
            "+ max_total_turns: max_total_turns was reached: 1",
        ),
        (
            "a limit that fails asks for no success",
            format!("{}success: false\n", limit("")),
            vec![&[]],
            "- max_total_turns: max_total_turns was reached: 1",
        ),
        (
            "a natural limit does",
            format!("{}success: false\n", limit(", on_limit: succeed")),
            vec![&[]],
            "- unsuccessful: success is false: false",
        ),
        (
            "a result that has no value is only a warning without success",
            format!("{one}success: false\nresult: {{x: 1 / 0}}\n"),
            vec![&[]],
            "- unsuccessful: success is false: false",
        ),
        (
            "and makes a success fail",
            format!("{one}success: true\nresult: {{x: 1 / 0}}\n"),
            vec![&[]],
            "- condition_failed: result `x` `1 / 0`: division by zero: 1 / 0",
        ),
    ];
    for (case, text, turns, expected) in table {
        let mut given: Vec<Vec<Option<Value>>> = turns.iter().map(|_| vec![ok()]).collect();
        if given.is_empty() {
            given.push(vec![None]);
        }
        let turns: Vec<&[Option<Value>]> = given.iter().map(Vec::as_slice).collect();
        assert_eq!(describe_end(&text, &turns), expected, "{case}");
    }
    let read = format!("{one}success: outputs.a.ok and executions.a > 0\n");
    assert_eq!(
        describe_end(&read, &[&[no]]),
        "- unsuccessful: success is false: outputs.a.ok and executions.a > 0 (outputs.a.ok = false, executions.a = 1)"
    );
}

#[test]
fn a_required_agent_counts_at_a_limit() {
    let text = "agents:
- {name: a, script: x, conversation: {max_turns: 9, trigger: every_turn}}
- {name: b, script: x, required: true, dependencies: [{agent_name: a, condition: executions.a > 5}]}
conversation_limits: {max_total_turns: 1}
";
    let expected = "- unsuccessful: `b` is required and never ran: condition false on a: executions.a > 5 (executions.a = 1); max_total_turns was reached: 1";
    assert_eq!(describe_end(text, &[&[ok()]]), expected);
}

#[test]
fn a_failure_that_stops_the_run_starts_nobody_and_asks_nothing() {
    let text = "agents:
- {name: a, script: x, on_error: stop}
- {name: b, script: x, dependencies: [{agent_name: a, on: failure}]}
- {name: c, script: x, dependencies: [{agent_name: a, on: any, condition: 1 / 0 > 1}]}
- {name: d, script: x, conversation: {max_turns: 5, trigger: every_turn}}
";
    let ended = end_after(text, &[&[None, ok()]]);
    assert_eq!(ended.completion_reason, CompletionReason::AgentFailed);
    assert_eq!(ended.detail.as_deref(), Some("a failed and stops the run: no"));
    assert_eq!(ended.failed.map(|failed| failed.agent), Some("a".into()));
    let reasons: Vec<String> = ended
        .not_run
        .iter()
        .map(|one| format!("{}: {}", one.agent, one.reason))
        .collect();
    assert_eq!(reasons, ["b: the run ended first", "c: the run ended first"]);
}

/// Builds the same plan without `success` and `required`.
fn without_goal(plan: &Plan) -> Arc<Plan> {
    let mut ensemble = Ensemble::clone(plan.ensemble());
    ensemble.success = None;
    ensemble.agents.iter_mut().for_each(|agent| agent.required = false);
    Arc::new(Plan::build(Arc::new(ensemble)).expect("the conditions compile"))
}

fn decide_end(plan: &Arc<Plan>, driver: &HandDrivenConversation) -> RunEnded {
    match decide_next_step(plan, driver.state()) {
        NextDecision::End(ended) => ended,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exit_code_0_means_that_the_goal_was_reached(
        (plan, fate) in plan_with_results(),
        knobs in any::<u8>(),
        goal in any::<u16>(),
    ) {
        let plan = Arc::new(with_goal(&with_strict_limits(&plan, knobs), goal));
        let driver = perform_random_conversation(&plan, fate.clone());
        let ended = decide_end(&plan, &driver);
        let succeeded = |agent| driver.results.iter().any(|(_, who, success)| *who == agent && *success);
        let is_met = plan.required_agents().iter().all(|id| succeeded(*id));
        let facts = driver.state().condition_values_without_output();
        let holds = plan.success_condition().is_none_or(|success| success.evaluate(&facts).expect("goals have a value"));
        if ended.is_success() {
            prop_assert!(is_met && holds, "{:?}", ended);
        }
        // The outcome without the goal, and what the goal makes of it.
        let plain = without_goal(&plan);
        let plain_end = decide_end(&plain, &perform_random_conversation(&plain, fate));
        let is_asked = plain_end.completion_reason == CompletionReason::Completed || plain_end.completion_reason.is_limit();
        let expected = match plain_end.completion_reason {
            _ if is_asked && !is_met => CompletionReason::Unsuccessful,
            _ if plain_end.is_success() && !holds => CompletionReason::Unsuccessful,
            reason => reason,
        };
        prop_assert_eq!(ended.completion_reason, expected, "{:?}", ended.detail);
        // No turn follows the failure of an agent that stops the run.
        let stops = |agent| plan.agent(agent).on_error == OnError::Stop;
        let stop = driver.results.iter().find(|(_, agent, success)| !success && stops(*agent));
        if let Some((turn, ..)) = stop {
            prop_assert_eq!(driver.turns.last().map(|last| last.turn), Some(*turn));
            prop_assert_eq!(ended.completion_reason, CompletionReason::AgentFailed);
        }
    }
}
