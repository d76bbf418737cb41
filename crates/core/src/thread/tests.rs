use serde_json::json;

use super::*;

fn at(second: u32) -> DateTime<Utc> {
    DateTime::from_timestamp(i64::from(second), 0).expect("is a time")
}

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "weather", json!({"city": "Paris"}))
}

/// Returns a question, a tool, an answer.
fn thread() -> Thread {
    Thread::new("What's the weather?", Some("Be brief.".into()), at(1))
        .add_assistant_message("I'll check.", vec![call("1"), call("2")])
        .expect("fits")
        .add_tool_results(
            vec![
                call("2").with_end(ToolCallEnd::Error("no such city".into()), 0.5),
                call("1").with_end(ToolCallEnd::Result(json!({"temp": 72})), 0.25),
            ],
            at(2),
        )
        .expect("fits")
        .add_assistant_message("72°F.", vec![])
        .expect("fits")
}

#[test]
fn a_thread_begins_with_one_iteration_of_instructions_and_input() {
    let thread = Thread::new("Hello", Some("Be brief.".into()), at(1));
    assert_eq!(thread.current_iteration(), 1);
    let first = thread.get_iteration(1).expect("is there");
    assert_eq!(first.messages.len(), 2);
    assert_eq!(
        (first.tool_calls.len(), first.started_at, first.completed_at),
        (0, Some(at(1)), None)
    );
    assert_eq!(Thread::new("Hello", None, at(1)).get_iteration_messages(1).len(), 1);
}

#[test]
fn results_close_an_iteration_and_open_the_next() {
    let thread = thread();
    let first = thread.get_iteration(1).expect("is there");
    assert_eq!(first.completed_at, Some(at(2)));
    let second = thread.get_iteration(2).expect("is there");
    assert_eq!(
        (second.number, second.started_at, second.completed_at),
        (2, Some(at(2)), None)
    );
    let ends: Vec<_> = first
        .tool_calls
        .iter()
        .map(|call| (call.id.as_str(), call.text_for_model()))
        .collect();
    assert_eq!(
        ends,
        [
            ("1", "{\"temp\":72}".to_owned()),
            ("2", "{\"error\":\"no such city\"}".to_owned())
        ],
        "one record a call, in the order of the calls"
    );
}

#[test]
fn open_calls_are_those_of_the_current_iteration_without_an_end() {
    let asked = Thread::new("x", None, at(1))
        .add_assistant_message("", vec![call("1")])
        .expect("fits");
    assert_eq!(asked.list_open_calls(), [&call("1")]);
    assert!(thread().list_open_calls().is_empty());
    assert!(Thread::default().list_open_calls().is_empty());
}

#[test]
fn messages_are_asked_for_by_iteration_or_all_together() {
    let thread = thread();
    let all = thread.to_messages();
    let roles: Vec<MessageRole> = all.iter().map(|message| message.role).collect();
    assert_eq!(
        roles,
        [
            MessageRole::System,
            MessageRole::User,
            MessageRole::Assistant,
            MessageRole::Assistant
        ]
    );
    assert_eq!(all[2].tool_calls.len(), 2, "a reply has its calls with it");
    assert_eq!(thread.get_iteration_messages(2), all[3..]);
    assert!(thread.get_iteration_messages(3).is_empty());
    assert_eq!(thread.get_all_messages(), all);
    assert!(thread.extract_tool_calls().is_empty(), "the last reply calls nothing");
    assert!(thread.get_iteration(0).is_none());
    assert_eq!(thread.initial_query(), Some("What's the weather?"));
}

#[test]
fn limits_and_ends() {
    let thread = thread();
    assert!(thread.exceeded_max_iterations(2) && !thread.exceeded_max_iterations(3));
    let table = [
        ("nothing", Thread::default(), false),
        ("no reply", Thread::new("x", None, at(1)), false),
        (
            "a reply",
            Thread::new("x", None, at(1))
                .add_assistant_message("y", vec![])
                .expect("fits"),
            true,
        ),
        (
            "a call",
            Thread::new("x", None, at(1))
                .add_assistant_message("y", vec![call("1")])
                .expect("fits"),
            false,
        ),
        (
            "results",
            Thread::new("x", None, at(1))
                .add_assistant_message("y", vec![call("1")])
                .expect("fits")
                .add_tool_results(vec![call("1").with_end(ToolCallEnd::Result(json!(1)), 0.0)], at(2))
                .expect("fits"),
            false,
        ),
        ("an answer to results", thread, true),
    ];
    for (what, thread, is_ended) in table {
        assert_eq!(thread.has_final_reply(), is_ended, "{what}");
    }
}

#[test]
fn adding_changes_no_other_value() {
    let before = thread();
    let kept = before.clone();
    let after = before
        .clone()
        .complete_current_iteration(at(3))
        .start_iteration(vec![Message::new(MessageRole::User, "And?")], at(3));
    assert_eq!(before, kept);
    assert_eq!(after.iterations()[..1], kept.iterations()[..1]);
    assert_eq!(after.current_iteration(), 3);
}

#[test]
fn a_thread_is_read_as_it_was_written() {
    let thread = thread()
        .set_metadata("stop_reason", json!(StopReason::EndTurn))
        .complete_current_iteration(at(4));
    let text = serde_json::to_string(&thread).expect("can be written");
    assert_eq!(serde_json::from_str::<Thread>(&text).expect("can be read"), thread);
    let null = call("1").with_end(ToolCallEnd::Result(Value::Null), 0.0);
    let text = serde_json::to_string(&null).expect("can be written");
    assert_eq!(serde_json::from_str::<ToolCall>(&text).expect("can be read"), null);
    let first = json!(thread)[0]["tool_calls"][1].clone();
    assert_eq!(
        first,
        json!({
            "id": "2", "name": "weather", "arguments": {"city": "Paris"},
            "error": "no such city", "duration": 0.5,
        })
    );
}
