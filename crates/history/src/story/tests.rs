use serde_json::json;

use super::*;
use ensemble_core::conversation::{Event, Record};

/// Returns the story of these events, each with the second in which it was recorded.
fn story(events: Vec<(i64, Value)>) -> RunStory {
    RunStory::from_records(&records(events))
}

fn records(events: Vec<(i64, Value)>) -> Vec<Record> {
    let record = |(seq, (second, event)): (u64, (i64, Value))| Record {
        seq,
        at: DateTime::from_timestamp(second, 0).expect("a time"),
        event: serde_json::from_value::<Event>(event).expect("an event"),
    };
    (0..).zip(events).map(record).collect()
}

fn turn(agents: &[&str]) -> Value {
    let starts: Vec<Value> = agents
        .iter()
        .map(|agent| json!({"agent": agent, "execution": 1}))
        .collect();
    json!({"event": "turn_started", "data": {"turn": 1, "starts": starts}})
}

fn started(attempt: u32) -> Value {
    json!({"event": "execution_started", "data": {"turn": 1, "agent": "a", "execution": 1, "attempt": attempt}})
}

fn usage(requests: u64) -> Value {
    json!({"requests": requests, "input_tokens": 10, "output_tokens": 1, "estimated": false, "cost": 0.5})
}

fn ended(reason: &str) -> Value {
    json!({"event": "run_ended", "data": {"completion_reason": reason}})
}

#[test]
fn what_failed_attempts_cost_counts_and_pauses_do_not() {
    let failure = json!({"kind": "exit", "error": "no"});
    let failed = json!({"turn": 1, "agent": "a", "execution": 1, "attempt": 1, "failure": failure, "usage": usage(2), "pause": 1.0});
    let finished = json!({"turn": 1, "agent": "a", "execution": 1, "attempt": 2, "failure": failure, "execution_time": 1.0, "usage": usage(1)});
    let records = records(vec![
        (0, turn(&["a"])),
        (1, started(1)),
        (3, json!({"event": "attempt_failed", "data": failed})),
        (4, started(2)),
        (5, json!({"event": "execution_finished", "data": finished})),
        (6, json!({"event": "turn_finished", "data": {"turn": 1}})),
        (7, ended("agent_failed")),
        (1007, json!({"event": "message_added", "data": {"text": "again"}})),
        (1008, ended("completed")),
    ]);
    let story = RunStory::from_records(&records);
    let totals = story.history.run_totals();
    assert_eq!((totals.all.usage.requests, totals.all.usage.input_tokens), (3, 20));
    assert_eq!(story.active, 8.0, "the message came a thousand seconds later");
    let one = totals.agents["a"];
    assert_eq!((one.executions, one.failed, one.attempts), (1, 1, 2));
    assert_eq!((one.usage.requests, one.seconds), (3, 3.0));
    assert_eq!(totals.all.usage, one.usage);
}

#[test]
fn two_runs_are_the_same_only_if_nothing_that_matters_differs() {
    let run = |agents: &[&str], reason: &str| story(vec![(0, turn(agents)), (1, ended(reason))]);
    let with = |keys: &[&str]| -> RunContext {
        let pair = |key: &&str| (Arc::from(*key), Arc::new(json!(1)));
        keys.iter().map(pair).collect()
    };
    let same = |a: (&RunStory, &RunContext), b: (&RunStory, &RunContext)| {
        let side = |(story, context)| ComparedRun {
            story,
            context: Some(context),
        };
        compare_runs(side(a), side(b)).same
    };
    let (run_a, keys) = (run(&["a", "b"], "completed"), with(&["k"]));
    let a = (&run_a, &keys);
    assert!(same(a, a));
    assert!(
        same(a, (&run(&["b", "a"], "completed"), &keys)),
        "the file has another order"
    );
    assert!(!same(a, (&run(&["a"], "completed"), &keys)));
    assert!(!same(a, (&run(&["a", "b"], "agent_failed"), &keys)));
    let more = with(&["k", "l"]);
    assert!(!same(a, (&run_a, &more)) && !same((&run_a, &more), a));
}

#[test]
fn the_time_of_a_fork_begins_with_the_fork() {
    let finished = json!({"turn": 1, "agent": "a", "execution": 1, "attempt": 1, "output": {}, "execution_time": 1.0});
    let run = json!({
        "format": 1, "ensemble": "e", "ensemble_file": "e.yaml", "ensemble_digest": "", "project_root": "", "context": {},
        "input": "", "run_id": "b", "program": "0",
        "forked_from": {"run_id": "a", "turn": 1},
    });
    let story = story(vec![
        (1000, json!({"event": "run_started", "data": run})),
        (100, turn(&["a"])),
        (101, started(1)),
        (104, json!({"event": "execution_finished", "data": finished})),
        (105, json!({"event": "turn_finished", "data": {"turn": 1}})),
        (1002, ended("completed")),
    ]);
    assert_eq!(story.active, 2.0);
    assert_eq!(
        (story.history.latest_record_at().zip(story.history.started_at()))
            .map(|(latest, begun)| (latest - begun).num_seconds()),
        Some(2)
    );
    assert_eq!(story.active_seconds(), 7.0, "with the turn that was taken over");
}

#[test]
fn an_execution_that_has_not_ended_has_an_activity() {
    let begun = vec![(0, turn(&["a"])), (2, started(1))];
    let history = |events: Vec<(i64, Value)>| story(events).history;
    let since = DateTime::from_timestamp(2, 0).expect("a time");
    assert_eq!(
        history(begun.clone()).agent_activity("a"),
        Some(crate::AgentActivity::Working { since })
    );
    assert_eq!(
        history(vec![(0, turn(&["a"]))]).agent_activity("a"),
        Some(crate::AgentActivity::NotStarted)
    );
    assert_eq!(history(begun.clone()).agent_activity("b"), None);
    let failure = json!({"kind": "exit", "error": "no"});
    let finished =
        json!({"turn": 1, "agent": "a", "execution": 1, "attempt": 1, "failure": failure, "execution_time": 1.0});
    let mut failed = begun;
    failed.push((3, json!({"event": "execution_finished", "data": finished})));
    failed.push((4, json!({"event": "turn_finished", "data": {"turn": 1}})));
    let story = story(failed);
    assert_eq!(story.history.agent_activity("a"), None);
    let execution = story.find_execution(1, "a").expect("an execution");
    assert_eq!(execution.attempts[0].describe_end(execution), "failed");
    assert_eq!(story.last_turn_before_failure(), 0);
    assert!(story.find_execution(2, "a").is_none());
}

#[test]
fn the_state_of_an_execution_follows_from_its_activity_and_from_who_drives_the_run() {
    let failed = json!({"turn": 1, "agent": "a", "execution": 1, "attempt": 1, "failure": {"kind": "exit", "error": "no"}, "pause": 1.0});
    let failed = (3, json!({"event": "attempt_failed", "data": failed}));
    let stopped = (4, json!({"event": "interrupted", "data": {"cause": "timeout"}}));
    let resumed = (5, json!({"event": "run_resumed", "data": {"program": "1"}}));
    let begun = || vec![(0, turn(&["a"])), (2, started(1))];
    let with = |more: &[(i64, Value)]| [begun(), more.to_vec()].concat();
    for (events, driven, lost) in [
        (vec![(0, turn(&["a"]))], "ready", "not_started"),
        (begun(), "runs", "lost"),
        (with(std::slice::from_ref(&failed)), "retries", "lost"),
        (with(std::slice::from_ref(&stopped)), "stopped", "stopped"),
        (with(&[failed, stopped.clone()]), "stopped", "stopped"),
        (with(&[stopped, resumed]), "ready", "not_started"),
    ] {
        let activity = story(events).history.agent_activity("a").expect("an activity");
        let word = |is_driven, is_asking| activity.execution_state(is_driven, is_asking).as_str();
        assert_eq!((word(true, false), word(false, false)), (driven, lost));
        assert_eq!((word(true, true), word(false, true)), ("asks", lost));
    }
}

#[test]
fn the_answers_inside_an_execution_are_listed_once_with_their_times() {
    let record = |address: &str, answer: &str| json!({"address": address, "prompt": "Go?", "answer": answer, "source": "option"});
    let within = |more: Value| {
        let mut data = json!({"turn": 1, "agent": "a", "execution": 1, "attempt": 1});
        let (Some(data_map), Some(more)) = (data.as_object_mut(), more.as_object()) else {
            unreachable!("objects");
        };
        data_map.extend(more.clone());
        data
    };
    let call = |id: &str, answers: Value| json!({"id": id, "name": "ask", "arguments": {}, "result": "x", "duration": 0.5, "answers": answers});
    let nested = within(json!({"answer": record("a.ok", "yes"), "at": "1970-01-01T00:00:02Z"}));
    let inner = within(json!({"inside": ["c"], "call": call("d", json!([record("a/b#1.b/ask#1.p", "no")]))}));
    let own = within(json!({"call": call("f", json!([record("a/look#1", "f")]))}));
    let copied = json!([{"number": 1, "messages": [], "tool_calls": [call("e", json!([record("a/ask#1.p", "so")]))]}]);
    let finished =
        within(json!({"output": {}, "execution_time": 1.0, "exchange": copied, "answer": record("a", "own")}));
    let events = vec![
        (0, turn(&["a"])),
        (1, started(1)),
        (3, json!({"event": "nested_request_answered", "data": nested})),
        (4, json!({"event": "tool_call_ended", "data": inner})),
        (4, json!({"event": "tool_call_ended", "data": own})),
        (5, json!({"event": "execution_finished", "data": finished})),
    ];
    let story = story(events.clone());
    let execution = story.find_execution(1, "a").expect("an execution");
    let listed: Vec<(String, &str, i64)> = execution
        .answers
        .iter()
        .map(|given| (given.address().to_string(), &*given.record.answer, given.at.timestamp()))
        .collect();
    let expected = [
        ("a.ok", "yes", 2),
        ("a/b#1.b/ask#1.p", "no", 4),
        ("a/look#1", "f", 4),
        ("a/ask#1.p", "so", 5),
    ];
    let expected = expected.map(|(address, answer, at)| (address.to_owned(), answer, at));
    assert_eq!(listed, expected);
    // A copy of the result has the calls of the agent itself, so only the others are recorded again.
    let copied: Vec<usize> = [true, false]
        .map(|copies| {
            let all = records(events.clone());
            all.iter()
                .map(|one| ensemble_core::conversation::list_copied_answers(one, copies).len())
                .sum()
        })
        .to_vec();
    assert_eq!(copied, [2, 3]);
    let own: usize = records(events)
        .iter()
        .map(|one| crate::list_given_answers(one).len())
        .sum();
    assert_eq!(own, 5);
}
