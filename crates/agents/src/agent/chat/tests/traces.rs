//! Traces and saved threads in files.

#![expect(clippy::disallowed_methods, reason = "the tests read the files that were written")]

use super::*;
use std::fs;

async fn traced(folder: &tempfile::TempDir) -> (Dialogue, std::path::PathBuf, std::path::PathBuf) {
    let (readable, parsed) = (folder.path().join("talk.md"), folder.path().join("talk.jsonl"));
    let replies = vec![
        calls("I count.", &[("1", "double", json!({"n": 21}))]),
        says("It is 42, and the key is s3cret-key."),
        Err(ModelError::new_fatal("down")),
    ];
    let (dialogue, ..) = dialogue(replies);
    dialogue.model().secrets().add_secret("s3cret-key");
    let dialogue = dialogue.with_trace(&readable).expect("can be created");
    (dialogue.with_trace(&parsed).expect("can be created"), readable, parsed)
}

#[tokio::test]
async fn a_trace_contains_messages_replies_calls_and_errors_without_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dialogue, readable, parsed) = traced(&folder).await;
    let ended = dialogue
        .say(Thread::default(), "Twice 21? (s3cret-key)")
        .await
        .expect("a reply");
    dialogue
        .say(ended.thread, "And now?")
        .await
        .expect_err("the model is down");

    let text = fs::read_to_string(&parsed).expect("was written");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("is JSON"))
        .collect();
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(
        events,
        [
            "message_sent",
            "reply_received",
            "tool_call_ended",
            "reply_received",
            "message_sent",
            "failed"
        ]
    );
    assert!(lines.iter().all(|line| line["at"] == "1970-01-01T00:00:00.000Z"));
    assert_eq!(lines[0]["message"]["content"], "Twice 21? ([secret])");
    assert_eq!(lines[1]["tool_calls"][0]["name"], "double");
    assert!(lines[1]["usage"]["input_tokens"].is_u64(), "{}", lines[1]);
    assert_eq!(
        (&lines[2]["call"]["arguments"], &lines[2]["call"]["result"]),
        (&json!({"n": 21}), &json!(42))
    );
    assert_eq!(
        (&lines[3]["text"], &lines[3]["stop_reason"]),
        (&json!("It is 42, and the key is [secret]."), &json!("end_turn"))
    );
    assert_eq!(lines[5]["error"], "down");

    let page = fs::read_to_string(&readable).expect("was written");
    for words in [
        "user\n\nTwice 21?",
        "I count.",
        r#"double({"n":21}) -> 42"#,
        "the key is [secret].",
        "failed\n\ndown",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains("s3cret") && !text.contains("s3cret"), "{page}{text}");
}

#[tokio::test]
async fn steps_and_cancellations_are_in_the_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dialogue, _, parsed) = traced(&folder).await;
    let thread = dialogue.with_user_message(Thread::default(), "Twice 21?");
    let DialogueStepResult::CallTools(calls) = dialogue.step(thread).await.expect("a reply") else {
        panic!("it calls a tool");
    };
    let DialogueStepResult::AskModel(results) = dialogue.step(calls).await.expect("results") else {
        panic!("the model gets the results");
    };
    let mut stream = dialogue.continue_thread(results.into());
    stream.next().await;
    stream.cancel();
    let text = fs::read_to_string(&parsed).expect("was written");
    let events: Vec<&str> = ["message_sent", "reply_received", "tool_call_ended", "cancelled"].to_vec();
    let written: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("is JSON"))
        .collect();
    let written: Vec<&str> = written.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(written, events);
}

#[tokio::test]
async fn a_trace_that_cannot_be_written_is_an_error_and_a_full_disk_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dialogue, ..) = dialogue(vec![says("x")]);
    let error = dialogue.with_trace(folder.path()).expect_err("is a folder");
    assert!(error.to_string().starts_with("cannot write the trace `"), "{error}");
    let full = std::path::Path::new("/dev/full");
    if full.exists() {
        let (dialogue, ..) = super::dialogue(vec![says("x")]);
        let dialogue = dialogue.with_trace(full).expect("can be opened");
        let ended = dialogue
            .say(Thread::default(), "y")
            .await
            .expect("the dialogue goes on");
        assert_eq!(ended.warnings.len(), 1, "said once: {:?}", ended.warnings);
    }
}

#[tokio::test]
async fn a_thread_is_saved_and_loaded_in_one_line_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("thread.json");
    let (dialogue, ..) = dialogue(vec![says("one"), says("two")]);
    dialogue
        .say(Thread::default(), "a")
        .await
        .expect("a reply")
        .thread
        .save(&path)
        .expect("can be written");
    let ended = dialogue
        .say(Thread::load(&path).expect("was saved"), "b")
        .await
        .expect("a reply");
    ended.thread.save(&path).expect("replaces the file");
    assert_eq!(Thread::load(&path).expect("was saved"), ended.thread);
    assert_eq!(
        fs::read_dir(folder.path()).expect("is a folder").count(),
        1,
        "no other file stays"
    );
    let missing = Thread::load(folder.path().join("none")).expect_err("is not there");
    assert!(missing.to_string().starts_with("cannot read `"), "{missing}");
    fs::write(&path, "{}").expect("can be written");
    let wrong = Thread::load(&path).expect_err("is no thread");
    assert!(
        wrong.to_string().contains("is not a saved thread: it has no `version`"),
        "{wrong}"
    );
}
