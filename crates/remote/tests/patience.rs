//! An engine that does not answer is waited for if it has answered before.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ensemble_remote::{EngineClient, EngineClientError};

/// What is answered to a request: a status and a body, or nothing.
type Reply = Option<(u16, &'static str)>;

/// What a node says that knows no workers.
const NO_WORKERS: &str = "{\"message\": \"service 'EnsembleRun' not found\"}";

/// An engine that gives these answers, one to each request; the last one again and again. How many requests it had.
fn engine(replies: &'static [Reply]) -> (EngineClient, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let client = support::start_engine(move |_path| {
        let at = counted.fetch_add(1, Ordering::SeqCst);
        replies[at.min(replies.len() - 1)].map(|(status, body)| (status, body.to_owned()))
    });
    (client, requests)
}

#[tokio::test]
async fn an_engine_that_has_answered_is_waited_for() {
    let (remote, requests) = engine(&[
        Some((200, "null")),
        None,
        Some((503, "{}")),
        Some((404, NO_WORKERS)),
        Some((200, "null")),
    ]);
    assert!(!remote.fetch_has_run_ended("a").await.expect("the first answer"));
    assert!(
        !remote
            .fetch_has_run_ended("a")
            .await
            .expect("the answer after three that are none")
    );
    assert_eq!(requests.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn a_worker_waits_from_the_first_request_on() {
    let (remote, requests) = engine(&[None, Some((200, "null"))]);
    assert!(
        !remote
            .with_waiting_from_start()
            .fetch_has_run_ended("a")
            .await
            .expect("the second answer")
    );
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_address_at_which_nobody_ever_answered_is_told_at_once() {
    let (remote, requests) = engine(&[None, Some((200, "null"))]);
    let error = remote.fetch_has_run_ended("a").await.expect_err("nobody answers");
    assert!(matches!(error, EngineClientError::Unreachable { .. }), "{error}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_engine_without_workers_is_told_at_once() {
    let (remote, requests) = engine(&[Some((404, NO_WORKERS))]);
    let error = remote.fetch_has_run_ended("a").await.expect_err("there are no workers");
    assert!(matches!(error, EngineClientError::NoWorkers(_)), "{error}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_the_engine_refuses_is_not_sent_again() {
    let (remote, requests) = engine(&[Some((500, "{\"message\": \"no\"}"))]);
    let error = remote
        .with_waiting_from_start()
        .fetch_has_run_ended("a")
        .await
        .expect_err("it refuses");
    assert!(
        matches!(error, EngineClientError::RequestRefused { status: 500, .. }),
        "{error}"
    );
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}
