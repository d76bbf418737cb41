//! Every event in representative states: which events are legal, and why the others are not.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{IllegalEvent, IllegalRecord};
use crate::conversation::{CompletionReason, ConversationState, Event, Record};
use ensemble_language::loader::load_ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;

/// Reads an event from its name and its data.
fn event(name: &str, data: &Value) -> Event {
    let event = serde_json::from_value(json!({"event": name, "data": data}));
    event.unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn started() -> Event {
    event(
        "run_started",
        &json!({"format": 1, "run_id": "r", "ensemble": "e", "ensemble_file": "", "ensemble_digest": "",
            "project_root": "", "input": "", "program": ""}),
    )
}

/// Returns the start of turn 1 or 2 with the agents `a` and `b`.
fn turn_started(turn: u32) -> Event {
    let start = |agent: &str| json!({"agent": agent, "execution": turn});
    event(
        "turn_started",
        &json!({"turn": turn, "starts": [start("a"), start("b")]}),
    )
}

fn turn_finished(turn: u32) -> Event {
    event("turn_finished", &json!({"turn": turn}))
}

fn ended(outcome: &str) -> Event {
    event("run_ended", &json!({"completion_reason": outcome}))
}

fn interrupted() -> Event {
    event("interrupted", &json!({"cause": "timeout"}))
}

/// Returns an event of the execution of an agent in turn 1.
fn in_execution(name: &str, agent: &str) -> Event {
    let mut data = json!({"turn": 1, "agent": agent, "execution": 1, "attempt": 1});
    let more = match name {
        "execution_finished" => json!({"output": {}, "execution_time": 0.0}),
        "attempt_failed" => json!({"failure": {"kind": "exit", "error": "no"}, "pause": 0.0}),
        "part_ended" => {
            json!({"part": 0, "key": "k", "count": 1, "item_digest": "", "output": {}, "execution_time": 0.0})
        }
        "input_requested" => json!({"prompt": "?", "choices": [], "address": "a", "digest": ""}),
        "reply_received" | "request_stopped" => {
            json!({"iteration": {"number": 1, "messages": []}, "usage": {"requests": 1, "input_tokens": 0, "output_tokens": 0, "estimated": false}})
        }
        "permission_decided" => json!({"call": "c", "tool": "t", "decision": "once", "by": "operator"}),
        "nested_request_answered" => json!({
            "answer": {"address": "a.b", "prompt": "Go?", "answer": "yes", "source": "option"},
            "at": "2026-01-01T00:00:00Z",
        }),
        "tool_call_started" => json!({"call": "c"}),
        "tool_call_ended" => json!({"call": {"id": "c", "name": "t", "arguments": {}, "error": "no", "duration": 0.0}}),
        _ => json!({}),
    };
    let (Some(data_of), Value::Object(more)) = (data.as_object_mut(), more) else {
        unreachable!("objects");
    };
    data_of.extend(more);
    event(name, &data)
}

/// Every kind of event; those of executions are of the agent `a`.
fn events() -> Vec<Event> {
    let own = |name: &str| in_execution(name, "a");
    vec![
        started(),
        event("run_resumed", &json!({"program": ""})),
        event("message_added", &json!({"text": "more"})),
        event("context_set", &json!({"key": 1})),
        turn_started(1),
        own("execution_started"),
        own("reply_received"),
        own("request_stopped"),
        own("permission_decided"),
        own("nested_request_answered"),
        own("tool_call_started"),
        own("tool_call_ended"),
        own("attempt_failed"),
        own("part_ended"),
        own("execution_finished"),
        own("input_requested"),
        interrupted(),
        turn_finished(1),
        ended("completed"),
    ]
}

fn plan() -> Arc<Plan> {
    let text = "name: e\nagents: [{name: a, script: x}, {name: b, script: x}]\n";
    let loaded = load_ensemble(&SourceText::new("e.yaml", text));
    let ensemble = loaded.ensemble.unwrap_or_else(|| panic!("{:?}", loaded.findings));
    Arc::new(Plan::build(Arc::new(ensemble)).expect("a plan"))
}

fn apply(state: &mut ConversationState, event: Event) -> Result<(), IllegalRecord> {
    let seq = state.next_seq();
    let at = DateTime::<Utc>::UNIX_EPOCH;
    state.apply_record(&Record { seq, at, event })
}

/// Returns the state after these events.
fn after(events: impl IntoIterator<Item = Event>) -> ConversationState {
    let mut state = ConversationState::new(plan());
    for event in events {
        apply(&mut state, event).unwrap_or_else(|error| panic!("{error}"));
    }
    state
}

/// Returns the representative states, with the events that are legal in each.
fn states() -> Vec<(&'static str, ConversationState, Vec<&'static str>)> {
    let own = |name| in_execution(name, "a");
    let turn = |more: Vec<Event>| after([started(), turn_started(1)].into_iter().chain(more));
    let running = || vec![own("execution_started")];
    let with = |mut events: Vec<Event>, event: Event| {
        events.push(event);
        events
    };
    let finished = ["execution_started", "execution_finished"]
        .iter()
        .flat_map(|name| [own(name), in_execution(name, "b")])
        .collect::<Vec<_>>();
    let always = ["run_resumed", "interrupted", "run_ended"];
    let in_turn = ["run_resumed", "interrupted", "run_ended", "context_set"];
    let in_attempt = [
        "reply_received",
        "request_stopped",
        "permission_decided",
        "nested_request_answered",
        "tool_call_started",
        "tool_call_ended",
        "attempt_failed",
        "part_ended",
        "input_requested",
        "execution_started",
        "execution_finished",
    ];
    vec![
        ("before the start", after([]), vec!["run_started"]),
        (
            "between turns",
            after([started()]),
            [&in_turn[..], &["turn_started"]].concat(),
        ),
        (
            "in a turn, no attempt",
            turn(Vec::new()),
            [
                &in_turn[..],
                &["execution_started", "execution_finished", "input_requested"],
            ]
            .concat(),
        ),
        (
            "in a turn, an attempt runs",
            turn(running()),
            [&in_turn[..], &in_attempt].concat(),
        ),
        (
            "in a turn, an attempt failed",
            turn(with(running(), own("attempt_failed"))),
            [
                &in_turn[..],
                &["execution_started", "execution_finished", "input_requested"],
            ]
            .concat(),
        ),
        (
            "in a turn, the agent waits",
            turn(with(running(), own("input_requested"))),
            [&in_turn[..], &["input_requested"]].concat(),
        ),
        (
            "in a turn, one of two executions has ended",
            turn(with(running(), own("execution_finished"))),
            in_turn.to_vec(),
        ),
        (
            "in a turn, all executions have ended",
            turn(finished.clone()),
            [&in_turn[..], &["turn_finished"]].concat(),
        ),
        (
            "interrupted in a turn",
            turn(with(running(), interrupted())),
            [&always[..], &in_attempt].concat(),
        ),
        (
            "interrupted between turns",
            after([started(), interrupted()]),
            always.to_vec(),
        ),
        (
            "resumed in a turn",
            turn(with(
                with(running(), interrupted()),
                event("run_resumed", &json!({"program": ""})),
            )),
            [&in_turn[..], &in_attempt].concat(),
        ),
        (
            "completed",
            after([started(), ended("completed")]),
            vec!["message_added"],
        ),
        (
            "cancelled",
            after([started(), ended("cancelled")]),
            vec!["run_resumed", "message_added"],
        ),
        (
            "waiting for input",
            turn(with(
                with(running(), own("input_requested")),
                ended("waiting_for_input"),
            )),
            vec!["run_resumed"],
        ),
    ]
}

#[test]
fn every_event_in_every_state_is_legal_or_changes_nothing() {
    for (name, state, legal) in states() {
        for event in events() {
            let mut changed = state.clone();
            let applied = apply(&mut changed, event.clone());
            assert_eq!(
                applied.is_ok(),
                legal.contains(&event.event_name()),
                "{name}: {}: {applied:?}",
                event.event_name()
            );
            if let Err(error) = applied {
                assert_eq!((error.seq, error.event), (state.next_seq(), event.event_name()));
                assert_eq!(
                    format!("{changed:?}"),
                    format!("{state:?}"),
                    "{name}: {}",
                    event.event_name()
                );
            }
        }
    }
}

#[test]
fn each_reason_says_why_the_event_is_illegal() {
    let find = |name: &str| {
        let found = states().into_iter().find(|(state, ..)| *state == name);
        found.unwrap_or_else(|| panic!("{name}")).1
    };
    let cases = [
        ("before the start", turn_started(1), IllegalEvent::NotStarted),
        ("between turns", started(), IllegalEvent::AlreadyStarted),
        (
            "completed",
            turn_started(1),
            IllegalEvent::RunEnded(CompletionReason::Completed),
        ),
        (
            "between turns",
            event("message_added", &json!({"text": ""})),
            IllegalEvent::NotEnded,
        ),
        ("interrupted between turns", turn_started(1), IllegalEvent::Interrupted),
        ("interrupted in a turn", turn_finished(1), IllegalEvent::Interrupted),
        ("in a turn, no attempt", turn_started(2), IllegalEvent::TurnOpen(1)),
        (
            "between turns",
            in_execution("part_ended", "a"),
            IllegalEvent::NoOpenTurn,
        ),
        (
            "between turns",
            turn_started(2),
            IllegalEvent::OtherTurn { event: 2, expected: 1 },
        ),
        (
            "in a turn, all executions have ended",
            turn_finished(2),
            IllegalEvent::OtherTurn { event: 2, expected: 1 },
        ),
        (
            "in a turn, no attempt",
            in_execution("reply_received", "a"),
            IllegalEvent::NoAttempt("a".into()),
        ),
        (
            "in a turn, the agent waits",
            in_execution("execution_finished", "a"),
            IllegalEvent::ExecutionWaiting("a".into()),
        ),
        (
            "in a turn, one of two executions has ended",
            in_execution("execution_finished", "a"),
            IllegalEvent::ExecutionEnded("a".into()),
        ),
        (
            "in a turn, one of two executions has ended",
            turn_finished(1),
            IllegalEvent::ExecutionOpen("b".into()),
        ),
    ];
    for (name, event, reason) in cases {
        assert_eq!(
            find(name).check_event_is_legal(&event),
            Err(reason),
            "{name}: {}",
            event.event_name()
        );
    }
    let alone = event(
        "turn_started",
        &json!({"turn": 1, "starts": [{"agent": "a", "execution": 1}]}),
    );
    let other = in_execution("execution_started", "b");
    let state = after([started(), alone]);
    assert_eq!(
        state.check_event_is_legal(&other),
        Err(IllegalEvent::NotInTurn("b".into()))
    );
    let removed = in_execution("execution_started", "removed");
    assert_eq!(
        state.check_event_is_legal(&removed),
        Ok(()),
        "the plan of a fork may lack the agent"
    );
}

#[test]
fn an_illegal_record_names_its_number_and_event() {
    let events = [started(), turn_finished(1)];
    let at = DateTime::<Utc>::UNIX_EPOCH;
    let records: Vec<Record> = (0..)
        .zip(events)
        .map(|(seq, event)| Record { seq, at, event })
        .collect();
    let error = ConversationState::from_records(plan(), &records).expect_err("no turn is open");
    assert_eq!(
        error.to_string(),
        "record 1 (`turn_finished`) cannot follow the records before it: no turn is open"
    );
}
