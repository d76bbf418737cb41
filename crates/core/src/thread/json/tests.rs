use chrono::{DateTime, Utc};
use serde_json::{Map, json};

use super::*;
use crate::request::{AnswerRecord, AnswerSource, PendingRequest};
use crate::runner::ExecutionInput;
use crate::thread::{Message, MessageRole, ToolCall, ToolCallEnd};
use ensemble_language::data::OperatorQuestion;

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 120_000_000).expect("is a time")
}

fn call(id: &str, end: Option<ToolCallEnd>) -> ToolCall {
    ToolCall {
        end,
        duration: 0.1,
        ..ToolCall::new(
            id,
            "look",
            json!({"at": [1, 2.5, "é\n"], "deep": {"z": null, "a": true}}),
        )
    }
}

/// Every kind of message, every end of a call, notes, and an iteration that is under way.
fn thread() -> Thread {
    let ended = |id, end| call(id, Some(end));
    let mut calls = vec![
        ended("text", ToolCallEnd::Result(json!("as it is"))),
        ended("null", ToolCallEnd::Result(json!(null))),
        ended("object", ToolCallEnd::Result(json!({"b": 1, "a": [0.1]}))),
        ended("error", ToolCallEnd::Error("no such place".into())),
    ];
    let asked = PendingRequest::for_question(
        &ExecutionInput::first_attempt_without_outputs("bot", 1),
        OperatorQuestion::new("Sure?", vec!["yes".into()]),
    );
    calls[1].answers = vec![AnswerRecord::from_answered_request(
        &asked,
        "yes".into(),
        AnswerSource::Page.into(),
    )];
    calls[0].signatures = vec!["opaque".into(), "twice".into()];
    // A call that has not ended took no time.
    let open = ToolCall {
        duration: 0.0,
        ..call("open", None)
    };
    Thread::new("Where?", Some("Be \"brief\".".into()), at(1))
        .add_assistant_message("I look.", calls.clone())
        .expect("fits")
        .set_metadata("stop_reason", json!("end_turn"))
        .add_tool_results(calls, at(2))
        .expect("fits")
        .add_assistant_message("", vec![open])
        .expect("fits")
        .start_iteration(vec![Message::new(MessageRole::User, "and?\u{2028}")], at(3))
        .start_iteration(Vec::new(), at(4))
}

#[test]
fn every_kind_of_message_is_read_as_it_was_written() {
    let thread = thread();
    let text = thread.to_json();
    assert_eq!(Thread::from_json(&text).expect("was just written"), thread);
    assert_eq!(text.lines().count(), 1);
    let first = &Thread::from_json(&text).expect("was just written").into_iterations()[0];
    let ends: Vec<_> = first.tool_calls.iter().map(|call| call.end.is_some()).collect();
    assert_eq!(ends, [true; 4], "a result of `null` is a result");
    let empty = Thread::default();
    assert_eq!(Thread::from_json(&empty.to_json()).expect("is one"), empty);
    // What a caller can build and a provider would refuse: calls without a reply, a duration without an end.
    let endless = ToolCall {
        duration: f64::INFINITY,
        ..call("1", Some(ToolCallEnd::Result(json!(1))))
    };
    let calls_only = Thread::from_iterations(vec![ThreadIteration {
        tool_calls: vec![endless],
        ..ThreadIteration::default()
    }]);
    let read = Thread::from_json(&calls_only.to_json()).expect("was just written");
    assert_eq!(read.iterations()[0].tool_calls[0].duration, 0.0);
    assert_eq!(
        read.to_messages(),
        [Message {
            tool_calls: read.iterations()[0].tool_calls.clone(),
            ..Message::new(MessageRole::Assistant, "")
        }]
    );
}

#[test]
fn the_written_form_stays() {
    let thread = Thread::default()
        .start_iteration(vec![Message::new(MessageRole::User, "hi")], at(1))
        .add_assistant_message("ho", Vec::new())
        .expect("fits");
    let text = r#"{"version":1,"status":"complete","created_at":"1970-01-01T00:00:01.120Z","updated_at":"1970-01-01T00:00:01.120Z","iterations":[{"number":1,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}],"tool_calls":[],"started_at":"1970-01-01T00:00:01.120Z"}]}"#;
    assert_eq!(thread.to_json(), text);
}

#[test]
fn what_is_no_saved_thread_is_told() {
    let one = |iteration: Value| json!({"version": 1, "iterations": [{"number": 1, "messages": []}, iteration]});
    let user = json!({"role": "user", "content": "x"});
    let rows = [
        ("{".to_owned(), "the saved thread is not JSON: EOF while parsing"),
        ("[]".to_owned(), "the JSON is not a saved thread: expected an object"),
        ("{}".to_owned(), "it has no `version`"),
        (json!({"version": "1"}).to_string(), "its `version` is not an integer"),
        (
            json!({"version": 2, "iterations": "?"}).to_string(),
            "the saved thread has version 2, and this program reads version 1",
        ),
        (json!({"version": 1}).to_string(), "it has no `iterations`"),
        (
            json!({"version": 1, "iterations": {}}).to_string(),
            "its `iterations` are not a list",
        ),
        (one(json!(3)).to_string(), "iteration 2 of the saved thread: "),
        (
            one(json!({"number": 2, "messages": [{"role": "robot", "content": ""}]})).to_string(),
            "iteration 2 of the saved thread: unknown variant `robot`",
        ),
        (
            one(json!({"number": 2, "messages": [{"role": "user"}]})).to_string(),
            "iteration 2 of the saved thread: missing field `content`",
        ),
        (
            one(json!({"number": 2, "messages": [user], "tool_calls": [call("1", None)]})).to_string(),
            "iteration 2 of the saved thread calls tools, but contains no message of the assistant",
        ),
    ];
    for (text, expected) in rows {
        let error = Thread::from_json(&text).expect_err(&text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn iterations_are_numbered_anew_and_unknown_keys_are_passed_over() {
    let iteration = |number: u32| json!({"number": number, "messages": [], "later": 1});
    let text = json!({"version": 1, "iterations": [iteration(7), iteration(7)], "by": "someone"}).to_string();
    let thread = Thread::from_json(&text).expect("is one");
    let numbers: Vec<u32> = thread.iterations().iter().map(|iteration| iteration.number).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(thread.iterations()[0].metadata, Map::new());
}

#[test]
fn whatever_is_written_can_be_read() {
    let call = ToolCall::new("1", "look", json!(null)).with_end(ToolCallEnd::Result(json!(null)), f64::NAN);
    let without_reply: Thread =
        serde_json::from_value(json!([{"number": 7, "messages": [], "tool_calls": [call]}])).expect("is a thread");
    let asked = Thread::new("", Some(String::new()), chrono::DateTime::<chrono::Utc>::MAX_UTC);
    let rows = [
        Thread::default(),
        without_reply,
        asked.clone(),
        asked
            .clone()
            .complete_current_iteration(chrono::DateTime::<chrono::Utc>::MIN_UTC),
        asked.clone().set_metadata("", json!({"\u{0}": [1e300, "\u{202e}"]})),
        asked
            .add_assistant_message("\u{feff}", vec![ToolCall::new("", "", json!([]))])
            .expect("fits"),
    ];
    for thread in rows {
        let text = thread.to_json();
        let read = Thread::from_json(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(read.to_json(), text);
    }
}
