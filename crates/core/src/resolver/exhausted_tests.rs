//! Tables of the agents that are exhausted at the end of a run.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{NextDecision, decide_next_step};
use crate::conversation::RunEnded;
use crate::random_conversations::{HandDrivenConversation, build_plan};

/// Returns the end of the conversation of these agents. `output` gives the output of an execution, and `None` for a
/// failure.
fn find_end(text: &str, output: &dyn Fn(&str, u32) -> Option<Value>) -> RunEnded {
    let plan = Arc::new(build_plan(&format!("name: t\n{text}")));
    let mut driver = HandDrivenConversation::new(&plan);
    loop {
        match decide_next_step(&plan, driver.state()) {
            NextDecision::StartTurn(turn) => {
                let outputs: Vec<_> = turn
                    .starts
                    .iter()
                    .map(|one| output(&one.agent, one.execution))
                    .collect();
                driver.perform_turn(&turn, &outputs);
            }
            NextDecision::FinishTurn(finished) => driver.apply_turn_end(finished),
            NextDecision::End(ended) => return ended,
            other => panic!("{other:?}"),
        }
    }
}

fn list_exhausted(ended: &RunEnded) -> String {
    let agents = ended.exhausted.iter();
    let agents: Vec<String> = agents
        .map(|one| format!("{} {} {}", one.agent, one.limit.as_str(), one.count))
        .collect();
    format!("{}: {}", ended.completion_reason, agents.join(", "))
}

/// Returns a loop of a writer and a reviewer with these limits; the feedback dependency has these keys.
fn review_loop(writer: u32, feedback: &str) -> String {
    format!(
        "agents:\n- {{name: w, script: x, conversation: {{max_turns: {writer}}}, dependencies: [{{agent_name: r, feedback: true, condition: not output.ok{feedback}}}]}}\n- {{name: r, script: x, conversation: {{max_turns: 9}}, depends_on: [w]}}\n"
    )
}

#[test]
fn an_agent_that_only_its_limit_kept_from_unseen_outputs_is_listed() {
    let never_ok = |_: &str, _| Some(json!({"ok": false}));
    let ok_in_the_end = |_: &str, execution| Some(json!({"ok": execution == 3}));
    let fails = |_: &str, execution| (execution < 3).then(|| json!({"ok": false}));
    type Output<'a> = &'a dyn Fn(&str, u32) -> Option<Value>;
    let spin = "agents:\n- {name: w, script: x, conversation: {max_turns: 3, trigger: every_turn}}\n";
    let behind = "agents:\n- {name: w, script: x, conversation: {max_turns: 3, trigger: every_turn}, depends_on: [a]}\n- {name: a, script: x}\n";
    let listeners = "agents:\n- {name: w, script: x, conversation: {max_turns: 2}}\n- {name: r, script: x, conversation: {max_turns: 3}}\n";
    let first_of = "agents:\n- {name: a, script: x}\n- {name: b, script: x, depends_on: [a]}\n- {name: j, script: x, dependencies: [{agent_name: a, requires_all: false}, {agent_name: b, requires_all: false}]}\n";
    let two_sources = "agents:\n- {name: a, script: x, conversation: {max_turns: 9, trigger: every_turn}}\n- {name: b, script: x, conversation: {max_turns: 9, trigger: every_turn}}\n- {name: j, script: x, conversation: {max_turns: 9}, dependencies: [{agent_name: a, requires_all: false, max_executions: 1}, {agent_name: b, requires_all: false}]}\nconversation_limits: {max_total_turns: 4}\n";
    let table: Vec<(&str, String, Output<'_>, &str)> = vec![
        (
            "a loop that was not approved",
            review_loop(3, ""),
            &never_ok,
            "completed: w max_turns 3",
        ),
        (
            "a loop that was approved at its limit",
            review_loop(3, ""),
            &ok_in_the_end,
            "completed: ",
        ),
        (
            "the executions that a dependency may start",
            review_loop(9, ", max_executions: 2"),
            &never_ok,
            "completed: w max_executions 2",
        ),
        (
            "both limits at once are lifted together",
            review_loop(3, ", max_executions: 2"),
            &never_ok,
            "completed: w max_turns 3",
        ),
        ("every turn is no work", spin.to_owned(), &never_ok, "completed: "),
        (
            "every turn is no work behind a dependency",
            behind.to_owned(),
            &never_ok,
            "completed: ",
        ),
        (
            "the outputs of others are no work",
            listeners.to_owned(),
            &never_ok,
            "completed: ",
        ),
        (
            "a second output of an any-of group is work",
            first_of.to_owned(),
            &never_ok,
            "completed: j max_turns 1",
        ),
        (
            "an agent that is ready at a limit of the conversation is not exhausted",
            review_loop(9, "") + "conversation_limits: {max_total_turns: 4}\n",
            &never_ok,
            "max_total_turns: ",
        ),
        (
            "an agent that another dependency makes ready is not exhausted",
            two_sources.to_owned(),
            &never_ok,
            "max_total_turns: ",
        ),
        (
            "an agent is listed with any outcome between turns",
            review_loop(3, "") + "- {name: f, script: x, dependencies: [{agent_name: w, wait_for: settled}]}\n",
            &|agent, _| (agent != "f").then(|| json!({"ok": false})),
            "agent_failed: w max_turns 3",
        ),
        (
            "a failure is no output of a plain dependency",
            review_loop(3, "").replace("script: x", "script: x, on_error: continue"),
            &fails,
            "completed: ",
        ),
    ];
    for (rule, text, output, expected) in table {
        assert_eq!(list_exhausted(&find_end(&text, output)), expected, "{rule}");
    }
}

#[test]
fn a_request_that_came_too_late_is_work() {
    let team = |trigger: &str, asks: &str| {
        format!(
            "agents:\n- {{name: a, script: x, conversation: {{triggers_conversation: true}}}}\n- {{name: b, script: x, depends_on: [a], conversation: {{{trigger}}}}}\n- {{name: c, script: x, depends_on: [b], conversation: {{triggers_conversation: {asks}}}}}\n"
        )
    };
    let table = [
        ("trigger: request", 2, "false", "completed: b max_turns 1"),
        ("trigger: request", 1, "false", "completed: "),
        ("trigger: news", 2, "false", "completed: b max_turns 1"),
        ("trigger: request", 1, "true", "completed: b max_turns 1"),
        ("trigger: request, max_turns: 2", 2, "false", "completed: c max_turns 1"),
    ];
    for (trigger, requests, asks, expected) in table {
        let request = json!({"target_agent": "b"});
        let output = |agent: &str, _| match agent {
            "a" => Some(json!({"agent_requests": vec![request.clone(); requests]})),
            "c" => Some(json!({"agent_requests": [request]})),
            _ => Some(json!({})),
        };
        let ended = find_end(&team(trigger, asks), &output);
        assert_eq!(list_exhausted(&ended), expected, "{trigger} {requests} {asks}");
    }
}

#[test]
fn only_a_request_starts_an_agent_that_runs_on_request() {
    let text = "agents:\n- {name: a, script: x, conversation: {triggers_conversation: true}}\n- {name: b, script: x, conversation: {trigger: request, max_turns: 3}, depends_on: [a]}\n- {name: c, script: x, depends_on: [b]}\n";
    let end = |requests: Value| find_end(text, &move |_, _| Some(json!({"agent_requests": requests})));
    let never: Vec<String> = end(json!([])).not_run.iter().map(|one| one.to_sentence()).collect();
    assert_eq!(
        never,
        ["b never ran: it runs only on request", "c never ran: waiting for b"]
    );
    assert_eq!(end(json!([{"target_agent": "b"}])).not_run, []);
}

#[test]
fn a_condition_that_cannot_be_evaluated_leaves_it_open() {
    let text = review_loop(2, "").replace("not output.ok", "output.n > 0");
    let output = |_: &str, execution| match execution {
        1 => Some(json!({"n": 1})),
        _ => Some(json!({"n": "x"})),
    };
    let ended = find_end(&text, &output);
    assert_eq!(list_exhausted(&ended), "completed: ");
    assert_eq!(ended.warnings.len(), 1, "{ended:?}");
    assert!(
        ended.warnings[0].starts_with("w: its condition on r `output.n > 0` cannot be evaluated"),
        "{ended:?}"
    );
}

#[test]
fn the_details_of_every_outcome_name_exhausted_agents() {
    let ended = find_end(&review_loop(3, ""), &|_, _| Some(json!({"ok": false})));
    let sentence = "completed; `w` reached `max_turns: 3` while it still had work";
    assert_eq!(ended.detail.as_deref(), Some(sentence));
    assert_eq!(ended.to_outcome_sentence(), (sentence.to_owned(), "completed".len()));
    let failing = review_loop(3, "") + "- {name: f, script: x, dependencies: [{agent_name: w, wait_for: settled}]}\n";
    let ended = find_end(&failing, &|agent, _| (agent != "f").then(|| json!({"ok": false})));
    assert_eq!(
        ended.to_outcome_sentence().0,
        "agent_failed: f failed: no; `w` reached `max_turns: 3` while it still had work"
    );
    assert_eq!(
        ended.to_sentence_without_error().0,
        "agent_failed: f failed; `w` reached `max_turns: 3` while it still had work"
    );
    let spin = "agents:\n- {name: w, script: x, conversation: {max_turns: 9, trigger: every_turn}}\nconversation_limits: {max_total_turns: 1, on_limit: LIMIT}\n";
    for (on_limit, expected) in [
        ("fail", "cut off by max_total_turns: max_total_turns was reached: 1"),
        ("succeed", "max_total_turns: max_total_turns was reached: 1"),
    ] {
        let ended = find_end(&spin.replace("LIMIT", on_limit), &|_, _| Some(json!({})));
        assert_eq!(ended.to_outcome_sentence().0, expected);
    }
}

#[test]
fn a_stopped_run_evaluates_no_condition_to_find_exhausted_agents() {
    let text = "agents:
- {name: s, script: x, on_error: stop, conversation: {max_turns: 9, trigger: every_turn}}
- {name: w, script: x, dependencies: [{agent_name: s, on: any, condition: executions.s > 0}]}
- {name: v, script: x, dependencies: [{agent_name: s, on: any}]}
";
    let fails = |agent: &str, execution| (agent != "s" || execution < 3).then(|| json!({"ok": false}));
    assert_eq!(list_exhausted(&find_end(text, &fails)), "agent_failed: v max_turns 1");
    let without_stop = text
        .replace("on_error: stop", "on_error: fail")
        .replace("max_turns: 9", "max_turns: 3");
    let ended = find_end(&without_stop, &fails);
    assert_eq!(list_exhausted(&ended), "agent_failed: w max_turns 1, v max_turns 1");
}
