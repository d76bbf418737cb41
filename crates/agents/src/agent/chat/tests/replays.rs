//! Replays of threads with other tools, other instructions, or another model.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// A dialogue with the tools `weather`, which returns this text, and `time`. Returns the number of calls of `time`, too.
fn with_weather(
    replies: Vec<Result<ModelReply, ModelError>>,
    weather: &'static str,
) -> (Dialogue, Prepared, Arc<AtomicU32>) {
    let (dialogue, fake, _) = dialogue(replies);
    let calls_of_time = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls_of_time);
    let schema = json!({"type": "object"});
    let dialogue = dialogue
        .with_tool_and_schema("weather", "", schema.clone(), move |_| async move { Ok(weather) })
        .with_tool_and_schema("time", "", schema, move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok("noon") }
        });
    (dialogue, fake, calls_of_time)
}

fn both_calls() -> Result<ModelReply, ModelError> {
    calls("I look.", &[("1", "weather", json!({})), ("2", "time", json!({}))])
}

/// Two rounds; the first one calls both tools.
async fn recorded() -> Thread {
    let (dialogue, ..) = with_weather(vec![both_calls(), says("Sunny."), says("Bye.")], "sun");
    let all = dialogue.say_all(Thread::default(), ["The weather?", "Thanks."]).await;
    all.expect("replies")[1].thread.clone()
}

#[tokio::test]
async fn a_replay_executes_what_depends_on_a_changed_tool() {
    let recorded = recorded().await;
    let (dialogue, fake, calls_of_time) = with_weather(vec![says("Rainy."), says("Good luck.")], "rain");
    let replayed = dialogue
        .replay(&recorded, ReplayScope::changed_tools(["weather"]))
        .await
        .expect("replies");
    assert_eq!(replayed.first_change, Some(1));
    assert_eq!(
        list_texts(&replayed.thread),
        ["The weather?", "I look.", "Rainy.", "Thanks.", "Good luck."]
    );
    let calls = &replayed.thread.iterations()[0].tool_calls;
    assert_eq!(
        (calls[0].text_for_model(), calls[1].text_for_model()),
        ("rain".into(), "noon".into())
    );
    assert_eq!(
        calls_of_time.load(Ordering::Relaxed),
        0,
        "the other tool has not changed"
    );
    assert_eq!((fake.asked.lock().unwrap().len(), replayed.usage.requests), (2, 2));
    assert_eq!(replayed.thread.status(), ThreadStatus::Complete);
    assert_eq!(list_texts(&recorded)[2], "Sunny.", "the recorded thread stays");
}

#[tokio::test]
async fn a_replay_without_a_difference_asks_nobody() {
    let recorded = recorded().await;
    let (dialogue, fake, _) = with_weather(Vec::new(), "sun");
    for with in [
        ReplayScope::changed_tools(["weather", "time"]),
        ReplayScope::changed_instructions(),
    ] {
        let replayed = dialogue.replay(&recorded, with).await.expect("nothing fails");
        assert_eq!((replayed.first_change, replayed.thread), (None, recorded.clone()));
    }
    assert!(fake.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn other_instructions_and_a_missing_tool_are_changes() {
    let recorded = recorded().await;
    let (dialogue, fake, _) = with_weather(vec![says("No idea."), says("Bye!")], "sun");
    let dialogue = dialogue.with_system("You know nothing.");
    let replayed = dialogue
        .replay(&recorded, ReplayScope::changed_instructions())
        .await
        .expect("replies");
    assert_eq!(
        list_texts(&replayed.thread),
        ["The weather?", "No idea.", "Thanks.", "Bye!"]
    );
    assert_eq!(replayed.first_change, Some(1));
    assert_eq!(fake.asked.lock().unwrap()[0].messages[0].content, "You know nothing.");

    let (without_tools, ..) = super::dialogue(vec![says("I cannot look."), says("Bye!")]);
    let replayed = without_tools
        .replay(&recorded, ReplayScope::changed_instructions())
        .await
        .expect("replies");
    assert_eq!(list_texts(&replayed.thread)[2], "I cannot look.");
    assert!(
        replayed.thread.iterations()[0].tool_calls[0]
            .text_for_model()
            .contains("there is no tool")
    );
}

#[tokio::test]
async fn a_replay_of_everything_uses_only_the_messages_of_the_user() {
    let recorded = recorded().await;
    let (dialogue, fake, _) = with_weather(vec![says("Cloudy."), says("See you.")], "sun");
    let replayed = dialogue
        .replay(&recorded, ReplayScope::Everything)
        .await
        .expect("replies");
    assert_eq!(
        list_texts(&replayed.thread),
        ["The weather?", "Cloudy.", "Thanks.", "See you."]
    );
    assert_eq!(
        fake.asked.lock().unwrap()[1].messages.len(),
        4,
        "instructions, a round, the question"
    );
}

#[tokio::test]
async fn a_replay_that_fails_keeps_its_thread() {
    let recorded = recorded().await;
    let (dialogue, ..) = with_weather(vec![says("Rainy."), Err(ModelError::new_fatal("down"))], "rain");
    let replay = dialogue
        .replay(&recorded, ReplayScope::changed_tools(["weather"]))
        .await;
    let error = replay.expect_err("the model is down");
    assert_eq!(error.cause, DialogueErrorKind::Model("down".into()));
    assert_eq!(
        list_texts(&error.thread),
        ["The weather?", "I look.", "Rainy.", "Thanks."]
    );
    assert_eq!(error.usage.requests, 2, "all requests of the replay");
}
