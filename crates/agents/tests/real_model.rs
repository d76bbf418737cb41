//! A conversation with a real model, if the variable `ENSEMBLE_TEST_MODEL` names one, such as `ollama/llama3.2:1b`.
//!
//! The key is read from the usual variable of the provider. Without the variable the test says so and asks no model.

use ensemble_agents::agent::chat::{Dialogue, StreamItem, Thread, ThreadStatus};
use ensemble_models::ModelNetwork;

/// The variable that names the model.
const SWITCH: &str = "ENSEMBLE_TEST_MODEL";

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the environment is the switch of this test")]
#[expect(clippy::print_stderr, reason = "a test that asks no model says so")]
async fn a_conversation_of_two_messages_with_a_real_model_is_complete_and_can_be_saved() {
    let Ok(name) = std::env::var(SWITCH) else {
        eprintln!("no model was asked: {SWITCH} is not set (for example {SWITCH}=ollama/llama3.2:1b)");
        return;
    };
    let dialogue = Dialogue::with_model(&name).expect("the model and its key are there");
    let mut stream = dialogue.say(Thread::default(), "What is 2 + 2? Answer with one number.");
    let mut streamed = String::new();
    while let Some(item) = stream.next().await {
        if let StreamItem::Text(text) = item {
            streamed.push_str(&text);
        }
    }
    let first = stream.finish().await.expect("the model replies");
    assert_eq!(streamed.trim(), first.text.trim());

    let saved = Thread::from_json(&first.thread.to_json()).expect("it was saved");
    let continued = Dialogue::from_thread(&saved, &ModelNetwork::from_process()).expect("the thread names its model");
    let second = continued
        .say(saved, "Now multiply that by 3.")
        .await
        .expect("the model replies");
    assert_eq!(
        (second.thread.message_count(), second.thread.status()),
        (4, ThreadStatus::Complete)
    );
    assert!(
        second.usage.requests >= 1 && second.usage.output_tokens > 0,
        "{:?}",
        second.usage
    );
}
