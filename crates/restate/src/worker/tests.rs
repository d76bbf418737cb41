//! The calls that a worker begins, and those that it leaves to others.

use ensemble_runs::{Project, RunHost};

use super::*;

/// Returns a worker whose engine is not there, so that each execution that begins ends at once with an error.
fn worker() -> RestateWorker {
    let runs = Runs::for_project(Project::from_folder("."), RunHost::from_system().without_operator());
    let engine = EngineClient::from_url("http://127.0.0.1:9").expect("an address");
    let peers = PeerWorkerClient::new("here", None).expect("a client");
    RestateWorker::new(runs, ServedEnsembleCheck::for_folder_ensembles(), engine, peers)
}

fn work() -> ExecutionRequest {
    ExecutionRequest {
        protocol: ensemble_remote::protocol::PROTOCOL,
        answered_by: None,
        run: "r".into(),
        agent: "a".into(),
        records: 1,
        answer: None,
        decided: None,
        inner: Vec::new(),
        begun: Vec::new(),
        turn_is_up: false,
    }
}

const NEXT: StepRequest = StepRequest::Next(0);

async fn reply(worker: &RestateWorker, id: &str, call: &str) -> PeerStepReply {
    worker.reply_to_peer(id, call, NEXT).await
}

/// Returns whether the call was begun here, where it ends with an error.
async fn is_begun(worker: &RestateWorker, call: &str) -> bool {
    let called = JournaledExecution::new(work());
    match worker
        .start_or_fetch_step(&worker.claim_now(), call, called, NEXT)
        .await
    {
        ExecutionStep::Ended(result) => result.error.is_some(),
        step => {
            assert_eq!(step, ExecutionStep::Lost { has_begun: false });
            false
        }
    }
}

#[tokio::test]
async fn a_call_that_was_given_up_is_left_to_others_once() {
    let worker = worker();
    assert!(matches!(reply(&worker, "here", "call").await, PeerStepReply::Unknown));
    assert!(!is_begun(&worker, "call").await);
    // Whoever claims it anew begins it, and may be this worker.
    assert!(is_begun(&worker, "call").await);
    assert!(matches!(
        reply(&worker, "here", "call").await,
        PeerStepReply::Step(ExecutionStep::Ended(_))
    ));
}

#[tokio::test]
async fn a_call_is_given_up_only_for_who_asked_this_worker_for_it() {
    let worker = worker();
    assert!(matches!(reply(&worker, "here", "call").await, PeerStepReply::Unknown));
    assert!(is_begun(&worker, "another").await);
    // One that was at this address before.
    assert!(matches!(
        reply(&worker, "before", "third").await,
        PeerStepReply::OtherWorker
    ));
    assert!(is_begun(&worker, "third").await);
    // It goes on or has ended here: nothing is given up.
    assert!(matches!(reply(&worker, "here", "third").await, PeerStepReply::Step(_)));
    assert!(is_begun(&worker, "third").await);
}

#[tokio::test]
async fn a_call_that_must_stop_is_not_begun() {
    let worker = worker();
    let called = JournaledExecution::new(work());
    let claim = worker.claim_now();
    let rest = worker.start_or_fetch_step(&claim, "call", called, StepRequest::Rest(0));
    assert_eq!(rest.await, ExecutionStep::Lost { has_begun: false });
    assert!(worker.list_calls_of_run(&"r".into()).is_empty());
}
