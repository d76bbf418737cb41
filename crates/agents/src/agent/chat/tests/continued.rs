//! Threads that did not come to their end, and go on.

use super::*;
use crate::agent::chat::error::CALL_NOT_MADE;
use ensemble_core::thread::INTERRUPTED_CALL_ERROR;

fn refusing(tool_calls: Vec<ToolCall>) -> ModelReply {
    ModelReply {
        stop_reason: StopReason::Refusal,
        tool_calls,
        ..ModelReply::from_text("No.")
    }
}

/// What the model was sent with that request, in short.
fn sent(fake: &Prepared, request: usize) -> Vec<(MessageRole, String)> {
    let asked = fake.asked.lock().unwrap();
    let messages = asked[request].messages.iter().skip(1);
    messages
        .map(|message| (message.role, message.content.clone()))
        .collect()
}

fn message(role: MessageRole, text: &str) -> (MessageRole, String) {
    (role, text.to_owned())
}

#[tokio::test]
async fn a_failure_is_an_error_with_the_thread_that_goes_on() {
    let (dialogue, fake, _) = dialogue(vec![Err(ModelError::new_fatal("down")), says("Up.")]);
    let error = dialogue.say(Thread::default(), "x").await.expect_err("it is down");
    assert_eq!(
        (&error.cause, error.to_string()),
        (&DialogueErrorKind::Model("down".into()), "down".into())
    );
    assert_eq!(error.usage.requests, 1);
    assert!(error.thread.iterations()[0].completed_at.is_some());
    let ended = dialogue.say(error.thread, "y").await.expect("it is up");
    assert_eq!(
        sent(&fake, 1),
        [message(MessageRole::User, "x"), message(MessageRole::User, "y")]
    );
    assert_eq!(ended.thread.to_messages().len(), 3);
}

#[tokio::test]
async fn requests_are_counted_on_whatever_becomes_of_them() {
    let busy = || Err(ModelError::new_retryable("busy"));
    let call = || calls("", &[("1", "double", json!({"n": 1}))]);
    let replies = vec![call(), busy(), call(), busy(), says("one"), says("two"), says("three")];
    let (dialogue, fake, _) = dialogue(replies);
    let failed = dialogue.say(Thread::default(), "a").await.expect_err("it is busy");
    let failed = dialogue.say(failed.thread, "b").await.expect_err("it is busy");
    let texts = dialogue.say_all(failed.thread, ["c", "d"]).await.expect("an end");
    let mut stream = dialogue.say(texts[1].thread.clone(), "e");
    stream.next().await;
    stream.cancel();
    let asked = fake.asked.lock().unwrap();
    let numbers: Vec<u64> = asked.iter().map(|request| request.request_number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn a_refusal_stands_in_the_thread_and_its_calls_were_not_made() {
    let call = ToolCall::new("1", "double", json!({"n": 1}));
    let (dialogue, fake, sums) = dialogue(vec![Ok(refusing(vec![call])), says("Well.")]);
    let error = dialogue.say(Thread::default(), "x").await.expect_err("it refused");
    assert_eq!(error.cause, DialogueErrorKind::Refused("No.".into()));
    let refused = &error.thread.iterations()[0];
    assert_eq!(refused.metadata["stop_reason"], "refusal");
    assert_eq!(
        refused.tool_calls[0].end,
        Some(ToolCallEnd::Error(CALL_NOT_MADE.into()))
    );
    assert_eq!(sums.running.lock().unwrap().1, 0);
    dialogue.say(error.thread, "Please.").await.expect("an end");
    assert_eq!(sent(&fake, 1)[1], message(MessageRole::Assistant, "No."));
}

#[tokio::test]
async fn a_reply_that_is_cut_off_is_an_end_that_says_so() {
    let cut = ModelReply {
        stop_reason: StopReason::MaxTokens,
        ..ModelReply::from_text("Once upon")
    };
    let (dialogue, fake, _) = dialogue(vec![Ok(cut), says("a time")]);
    let ended = dialogue.say(Thread::default(), "x").await.expect("an end");
    assert_eq!(ended.stop_reason, StopReason::MaxTokens);
    dialogue.say(ended.thread, "Go on.").await.expect("an end");
    assert_eq!(sent(&fake, 1)[1], message(MessageRole::Assistant, "Once upon"));
}

#[tokio::test]
async fn tools_that_cannot_be_made_ready_leave_a_thread() {
    let (dialogue, fake, _) = dialogue(vec![says("Hm.")]);
    let broken = dialogue
        .clone()
        .with_tool_and_schema("", "", json!({}), |_| async { Ok(1) });
    let error = broken
        .say(Thread::default(), "x")
        .await
        .expect_err("there are no tools");
    assert!(matches!(error.cause, DialogueErrorKind::Tools(_)), "{error}");
    dialogue.say(error.thread, "y").await.expect("an end");
    assert_eq!(sent(&fake, 0).len(), 2);
}

#[tokio::test]
async fn too_many_requests_leave_a_thread_that_knows_the_results() {
    let call = calls("", &[("1", "double", json!({"n": 21}))]);
    let (dialogue, fake, _) = dialogue(vec![call, says("42.")]);
    let error = dialogue
        .say_with_max_requests(Thread::default(), "x", 1)
        .await
        .expect_err("no end");
    assert_eq!(error.cause, DialogueErrorKind::MaxTurnRequests(1));
    dialogue.say(error.thread, "And?").await.expect("an end");
    let asked = fake.asked.lock().unwrap();
    assert_eq!(asked[1].messages[2].tool_calls[0].text_for_model(), "42");
}

#[tokio::test]
async fn a_cancelled_stream_stops_its_tools_and_keeps_what_was_said() {
    let both = [("2", "double", json!({"n": 2})), ("1", "slow", json!({"n": 1}))];
    let (dialogue, fake, _) = dialogue(vec![calls("Wait.", &both), says("Well.")]);
    let mut stream = dialogue.say(Thread::default(), "go");
    assert!(matches!(stream.next().await, Some(StreamItem::User(_))));
    assert_eq!(stream.next().await, Some(StreamItem::Text("Wa".into())));
    assert_eq!(stream.next().await, Some(StreamItem::Text("it.".into())));
    assert!(matches!(stream.next().await, Some(StreamItem::Tool(call)) if call.id == "2"));
    let thread = stream.cancel();
    assert!(!thread.has_final_reply());
    let first = &thread.iterations()[0];
    assert_eq!(first.metadata["stop_reason"], "cancelled");
    let ends: Vec<_> = first.tool_calls.iter().map(|call| call.end.clone()).collect();
    let unknown = ToolCallEnd::Error(INTERRUPTED_CALL_ERROR.into());
    assert_eq!(ends, [Some(ToolCallEnd::Result(json!(4))), Some(unknown)]);
    assert_eq!(first.messages.len(), 2, "the reply is there once: {first:?}");

    let ended = dialogue.say(thread, "go on").await.expect("an end");
    assert_eq!(ended.text, "Well.");
    let asked = fake.asked.lock().unwrap();
    assert!(
        asked[1].messages[2].tool_calls[1]
            .text_for_model()
            .contains("not known")
    );
    assert_eq!(asked[1].messages[3].content, "go on");
}

#[tokio::test]
async fn the_part_of_a_reply_that_was_heard_stays() {
    let (dialogue, fake, _) = dialogue(vec![says("Once upon a time"), says("Well.")]);
    let mut stream = dialogue.say(Thread::default(), "go");
    assert!(matches!(stream.next().await, Some(StreamItem::User(_))));
    assert_eq!(stream.next().await, Some(StreamItem::Text("Once upo".into())));
    let thread = stream.cancel();
    assert_eq!(thread.iterations()[0].metadata["stop_reason"], "cancelled");
    dialogue.say(thread, "go on").await.expect("an end");
    assert_eq!(sent(&fake, 1)[1], message(MessageRole::Assistant, "Once upo"));
}

#[tokio::test]
async fn a_stream_that_nobody_has_read_has_said_nothing() {
    let (dialogue, fake, _) = dialogue(Vec::new());
    let before = dialogue.with_user_message(Thread::default(), "x");
    assert_eq!(dialogue.say(before.clone(), "y").cancel(), before);
    assert!(fake.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_stream_that_has_ended_can_be_cancelled() {
    let (dialogue, ..) = dialogue(vec![says("x"), Err(ModelError::new_fatal("down"))]);
    let mut stream = dialogue.say(Thread::default(), "go");
    while stream.next().await.is_some() {}
    let thread = stream.cancel();
    assert!(thread.has_final_reply());
    let mut stream = dialogue.say(thread, "go");
    while stream.next().await.is_some() {}
    assert_eq!(stream.stop_reason(), None);
    assert_eq!(stream.cancel().iterations().len(), 2);
}

#[tokio::test]
async fn a_thread_that_was_saved_in_the_middle_of_a_tool_goes_on() {
    let (dialogue, fake, _) = dialogue(vec![says("Well.")]);
    let open = dialogue
        .with_user_message(Thread::default(), "x")
        .add_assistant_message("", vec![ToolCall::new("1", "double", json!({"n": 1}))])
        .expect("fits");
    let loaded = Thread::from_json(&open.to_json()).expect("was just written");
    let ended = dialogue.say(loaded, "y").await.expect("an end");
    assert!(ended.thread.list_open_calls().is_empty());
    assert!(
        fake.asked.lock().unwrap()[0].messages[2].tool_calls[0]
            .text_for_model()
            .contains(INTERRUPTED_CALL_ERROR)
    );
}

#[tokio::test]
async fn a_result_is_not_taken_for_that_of_a_later_call_with_the_same_id() {
    let first = calls("", &[("1", "double", json!({"n": 1}))]);
    let second = calls("", &[("1", "slow", json!({"n": 1}))]);
    let (dialogue, ..) = dialogue(vec![first, second]);
    let mut stream = dialogue.say(Thread::default(), "go");
    while !matches!(stream.next().await, Some(StreamItem::Tool(_))) {}
    // The second reply is two pieces of nothing.
    while let Some(Some(StreamItem::Text(_) | StreamItem::User(_))) = stream.next().now_or_never() {}
    assert_eq!(stream.next().now_or_never(), None, "the slow tool runs");
    let ended = |at: usize, thread: &Thread| thread.iterations()[at].tool_calls[0].end.clone();
    let thread = stream.cancel();
    assert_eq!(ended(0, &thread), Some(ToolCallEnd::Result(json!(2))));
    assert_eq!(
        ended(1, &thread),
        Some(ToolCallEnd::Error(INTERRUPTED_CALL_ERROR.into()))
    );
}

#[test]
fn what_is_said_can_be_sent_to_another_thread_of_the_program() {
    fn sendable<T: Send>(_: T) {}
    let (dialogue, ..) = dialogue(Vec::new());
    sendable(dialogue.say(Thread::default(), "x"));
    sendable(dialogue.step(Thread::default()));
    sendable(dialogue.say_all(Thread::default(), ["x"]));
    #[cfg(feature = "typed")]
    sendable(dialogue.say_as::<u8>(Thread::default(), "x"));
}

/// Reads all items, and returns the last one with the thread.
async fn read_to_end(mut stream: DialogueStream<'_>) -> (Vec<StreamItem>, Result<FinishedRound, DialogueError>) {
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        items.push(item);
    }
    (items, stream.finish().await)
}

#[tokio::test]
async fn a_thread_continues_without_a_new_message() {
    // A request that failed.
    let failed = || Err(ModelError::new_fatal("busy"));
    let (dialogue, fake, _) = dialogue(vec![failed(), says("Here."), says("Six.")]);
    let (items, end) = read_to_end(dialogue.say(Thread::default(), "Hello?")).await;
    let error = end.expect_err("the model is busy");
    assert_eq!(error.thread.status(), ThreadStatus::Failed);
    assert_eq!(items.last(), Some(&StreamItem::Failed(error.cause.clone())));
    let (items, end) = read_to_end(dialogue.continue_thread(error.thread)).await;
    let ended = end.expect("has ended");
    assert!(
        matches!(items.first(), Some(StreamItem::Text(_))),
        "no message is new: {items:?}"
    );
    assert_eq!((ended.thread.iterations().len(), ended.thread.message_count()), (2, 2));

    // Calls that have not been made.
    let call = ToolCall::new("7", "double", json!({"n": 3}));
    let thread = ended
        .thread
        .start_iteration(vec![Message::new(MessageRole::User, "Twice 3?")], (dialogue.now)());
    let calling = thread.add_assistant_message("I count.", vec![call]).expect("fits");
    let (items, end) = read_to_end(dialogue.continue_thread(calling)).await;
    let ended = end.expect("has ended");
    assert!(
        matches!(&items[0], StreamItem::Tool(call) if call.text == "I count."),
        "{items:?}"
    );
    assert_eq!(ended.thread.iterations()[2].tool_calls[0].text_for_model(), "6");
    assert_eq!((ended.text.as_str(), ended.thread.iterations().len()), ("Six.", 4));
    assert_eq!(fake.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_thread_that_cannot_be_continued_in_this_way_sends_nothing() {
    let (dialogue, fake, _) = dialogue(vec![says("Here.")]);
    let asked = dialogue.with_user_message(Thread::default(), "Hello?");
    let (items, end) = read_to_end(dialogue.say(asked.clone(), "And?")).await;
    let error = end.expect_err("has no reply");
    assert_eq!(
        (error.cause.clone(), error.thread),
        (DialogueErrorKind::Unanswered, asked.clone())
    );
    assert_eq!(items, [StreamItem::Failed(error.cause)]);
    let empty = dialogue.continue_thread(Thread::default()).await.expect_err("is empty");
    assert_eq!(empty.cause, DialogueErrorKind::NothingSaid);
    assert!(fake.asked.lock().unwrap().is_empty());

    let (items, ended) = read_to_end(dialogue.continue_thread(asked)).await;
    let first = StreamItem::User(Message::new(MessageRole::User, "Hello?"));
    assert_eq!(items.first(), Some(&first), "the message was not sent before");
    let ended = ended.expect("a reply");
    let complete = dialogue
        .continue_thread(ended.thread.clone())
        .await
        .expect_err("is complete");
    assert_eq!(
        (complete.cause, complete.thread),
        (DialogueErrorKind::Complete, ended.thread)
    );
}

#[tokio::test]
async fn a_saved_thread_states_its_instructions_and_options() {
    let (dialogue, ..) = dialogue(vec![says("Here.")]);
    let dialogue = dialogue.with_system("Be brief.").with_max_iterations(3);
    let thread = dialogue.say(Thread::default(), "Hello?").await.expect("a reply").thread;
    let saved: Value = serde_json::from_str(&thread.to_json()).expect("JSON");
    assert_eq!(saved["instructions"], "Be brief.");
    assert_eq!(saved["status"], "complete");
    assert_eq!(saved["options"]["max_iterations"], 3);
    assert!(saved["options"]["model"].is_string(), "{saved:#}");
    assert!(
        saved["created_at"].is_string() && saved["updated_at"].is_string(),
        "{saved:#}"
    );
    let stepped = dialogue.with_user_message(Thread::default(), "Hello?");
    assert_eq!(
        (stepped.instructions(), stepped.options()),
        (thread.instructions(), thread.options())
    );
}
