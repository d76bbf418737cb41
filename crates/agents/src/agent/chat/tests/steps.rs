//! One step at a time.

use super::*;
use crate::agent::chat::error::CALL_NOT_MADE;

fn two_calls() -> Result<ModelReply, ModelError> {
    calls(
        "I count.",
        &[("1", "double", json!({"n": 1})), ("2", "double", json!({"n": 2}))],
    )
}

fn to_call(step: DialogueStepResult) -> PendingToolCalls {
    match step {
        DialogueStepResult::CallTools(calls) => calls,
        other => panic!("{other:?}"),
    }
}

fn to_ask(step: DialogueStepResult) -> PendingToolCalls {
    match step {
        DialogueStepResult::AskModel(calls) => calls,
        other => panic!("{other:?}"),
    }
}

/// Without what differs from run to run.
fn timeless(thread: Thread) -> Thread {
    let mut iterations = thread.into_iterations();
    let calls = iterations.iter_mut().flat_map(|iteration| &mut iteration.tool_calls);
    calls.for_each(|call| call.duration = 0.0);
    Thread::from_iterations(iterations)
}

#[tokio::test]
async fn steps_come_to_the_same_thread_as_a_stream_also_when_it_is_saved_between_them() {
    let replies = || vec![says("Ask."), two_calls(), two_calls(), says("2 and 4.")];
    let (streaming, ..) = dialogue(replies());
    let said = streaming.say_all(Thread::default(), ["x", "y"]).await.expect("an end");

    let (stepping, fake, sums) = dialogue(replies());
    let mut kinds = String::new();
    let mut thread = Thread::default();
    for text in ["x", "y"] {
        thread = stepping.with_user_message(thread, text);
        thread = loop {
            let saved = Thread::from_json(&thread.to_json()).expect("was just written");
            assert_eq!(timeless(saved.clone()), timeless(thread));
            thread = match stepping.step(saved).await.expect("a step") {
                DialogueStepResult::CallTools(calls) => {
                    kinds.push('c');
                    calls.into()
                }
                DialogueStepResult::AskModel(calls) => {
                    kinds.push('a');
                    assert!(calls.iter().all(|call| call.end.is_some()));
                    calls.into()
                }
                DialogueStepResult::Done(ended) => {
                    kinds.push('d');
                    assert_eq!(ended.usage.requests, 1);
                    break ended.thread;
                }
            };
        };
    }
    assert_eq!(kinds, "dcacad");
    assert_eq!(timeless(thread), timeless(said[1].thread.clone()));
    let asked = fake.asked.lock().unwrap();
    let numbers: Vec<u64> = asked.iter().map(|request| request.request_number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(sums.running.lock().unwrap().1, 2, "calls are performed side by side");
}

#[tokio::test]
async fn a_call_is_changed_answered_or_left_out_before_it_is_made() {
    let three = [
        ("1", "double", json!({"n": 1})),
        ("2", "double", json!({"n": 2})),
        ("3", "double", json!({"n": 3})),
    ];
    let (dialogue, fake, _) = dialogue(vec![calls("", &three), says("Done.")]);
    let asked = dialogue.with_user_message(Thread::default(), "x");
    let mut pending = to_call(dialogue.step(asked).await.expect("a step"));
    assert_eq!(pending.usage.requests, 1);
    pending[0].arguments = json!({"n": 50});
    pending[1].end = Some(ToolCallEnd::Error("not allowed".into()));
    pending.retain(|call| call.id != "3");
    let mut ended = to_ask(dialogue.step(pending).await.expect("a step"));
    assert_eq!(ended[0].text_for_model(), "100");
    ended[0].end = Some(ToolCallEnd::Result(json!("a hundred")));
    dialogue.step(ended).await.expect("a step");
    let asked = fake.asked.lock().unwrap();
    let told: Vec<String> = asked[1].messages[2]
        .tool_calls
        .iter()
        .map(ToolCall::text_for_model)
        .collect();
    assert_eq!(told[0], "a hundred");
    assert!(told[1].contains("not allowed"), "{told:?}");
    assert!(told[2].contains(CALL_NOT_MADE), "{told:?}");
}

#[tokio::test]
async fn calls_that_all_have_their_ends_are_not_made() {
    let (dialogue, fake, sums) = dialogue(vec![two_calls(), says("Done.")]);
    let asked = dialogue.with_user_message(Thread::default(), "x");
    let mut pending = to_call(dialogue.step(asked).await.expect("a step"));
    pending.clear();
    let step = dialogue.step(pending).await.expect("a step");
    assert!(
        matches!(&step, DialogueStepResult::Done(ended) if ended.text == "Done."),
        "{step:?}"
    );
    assert_eq!(fake.asked.lock().unwrap().len(), 2);
    assert_eq!(sums.running.lock().unwrap().1, 0);
}

#[tokio::test]
async fn after_the_last_word_nothing_is_done() {
    let (dialogue, fake, _) = dialogue(vec![says("Done.")]);
    let ended = dialogue.say(Thread::default(), "x").await.expect("an end");
    let step = dialogue.step(ended.thread.clone()).await.expect("a step");
    let DialogueStepResult::Done(again) = step else {
        panic!("{step:?}")
    };
    assert_eq!((again.text, again.thread), ("Done.".into(), ended.thread));
    assert_eq!(fake.asked.lock().unwrap().len(), 1);
    let error = dialogue.step(Thread::default()).await.expect_err("nothing was said");
    assert_eq!(error.cause, DialogueErrorKind::NothingSaid);
}

#[tokio::test]
async fn a_step_that_failed_is_made_again() {
    let replies = vec![
        Err(ModelError::new_fatal("down")),
        two_calls(),
        Err(ModelError::new_fatal("down again")),
        says("Done."),
    ];
    let (dialogue, fake, _) = dialogue(replies);
    let error = dialogue.step(dialogue.with_user_message(Thread::default(), "x")).await;
    let error = error.expect_err("it is down");
    assert_eq!(
        (error.cause, error.usage.requests),
        (DialogueErrorKind::Model("down".into()), 1)
    );
    let pending = to_call(dialogue.step(error.thread).await.expect("a step"));
    let ended = to_ask(dialogue.step(pending).await.expect("a step"));
    let thread = Thread::from(ended.clone());
    assert!(
        thread
            .iterations()
            .last()
            .is_some_and(|last| last.completed_at.is_some())
    );
    let error = dialogue.step(ended).await.expect_err("it is down");
    let step = dialogue.step(error.thread).await.expect("a step");
    assert!(
        matches!(&step, DialogueStepResult::Done(ended) if ended.text == "Done."),
        "{step:?}"
    );
    let asked = fake.asked.lock().unwrap();
    let roles: Vec<MessageRole> = asked[3].messages.iter().map(|message| message.role).collect();
    assert_eq!(
        roles,
        [MessageRole::System, MessageRole::User, MessageRole::Assistant],
        "nothing is told twice"
    );
    let numbers: Vec<u64> = asked.iter().map(|request| request.request_number).collect();
    assert_eq!(numbers, [1, 2, 3, 4], "every request counts");
}

#[tokio::test]
async fn a_step_tells_a_refusal_and_a_cut_reply() {
    let ended_by = |stop_reason| {
        Ok(ModelReply {
            stop_reason,
            ..ModelReply::from_text("So")
        })
    };
    let (dialogue, ..) = dialogue(vec![ended_by(StopReason::Refusal), ended_by(StopReason::MaxTokens)]);
    let error = dialogue.step(dialogue.with_user_message(Thread::default(), "x")).await;
    let error = error.expect_err("it refused");
    assert_eq!(error.cause, DialogueErrorKind::Refused("So".into()));
    let step = dialogue
        .step(dialogue.with_user_message(error.thread, "y"))
        .await
        .expect("a step");
    let DialogueStepResult::Done(ended) = step else {
        panic!("{step:?}")
    };
    assert_eq!(ended.stop_reason, StopReason::MaxTokens);
    let noted = |at: usize| ended.thread.iterations()[at].metadata["stop_reason"].clone();
    assert_eq!((noted(0), noted(1)), (json!("refusal"), json!("max_tokens")));
}
