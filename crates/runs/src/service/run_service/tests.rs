//! Runs of a service: their clients come and go.

use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, Event};
use ensemble_core::request::{AnswerSource, RequestAddress, RequestAnswer};
use ensemble_core::store::{MemoryStore, RunId};
use ensemble_history::RunState;

use super::RunService;
use crate::drive::events::RunEventKind;
use crate::drive::host::RunHost;
use crate::drive::run_events::RunEventStream;
use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::project::Project;
use crate::start::runs::{EnsembleRef, Runs};

const GATE: &str = r#"
name: gate
model_profiles:
  prints: {provider: simulated, replies: [printed]}
agents:
  - {name: editor, input: {prompt: "Print it?", choices: ["yes", "no"]}}
  - {name: printer, model_profile: prints, prompt: "Print", depends_on: [editor]}
"#;

fn gate() -> EnsembleRef {
    EnsembleRef::from_text(GATE)
}

fn runs(store: &Arc<MemoryStore>, host: RunHost) -> Runs {
    Runs::for_project(Project::from_folder("."), host).with_store(store.clone())
}

fn service() -> RunService {
    RunService::new(runs(&Arc::new(MemoryStore::new()), RunHost::from_system()))
}

/// Returns the events until `is_last`: names of records, and `asked`.
async fn until(follow: &mut RunEventStream, last: &str) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(event) = follow.next().await.expect("a log that can be read") {
        match event.kind {
            RunEventKind::Committed(record) => seen.push(record.event.event_name().to_owned()),
            RunEventKind::QuestionAsked(asked) => seen.push(format!("asked {}", asked.request.question.prompt)),
            RunEventKind::Live(_) | RunEventKind::PermissionRequested(_) => continue,
        }
        if seen.last().is_some_and(|name| name == last) {
            break;
        }
    }
    seen
}

async fn outcome(service: &RunService, id: &RunId) -> RunState {
    service.wait_until_closed(id).await;
    service.load_summary(id).await.expect("a run that can be read").state
}

const COMPLETED: RunState = RunState::Ended(CompletionReason::Completed);

/// Answers the only question of a run.
async fn answer(service: &RunService, id: &RunId, text: &str) -> Result<(), RunError> {
    let pending = service.load_pending_requests(id).await?;
    let [request] = pending.as_slice() else {
        panic!("one question: {pending:?}")
    };
    let shown = (&request.address, &request.digest);
    let answer = RequestAnswer::Text(text.to_owned());
    service
        .answer_or_resume(id, shown, answer, AnswerSource::Page, RunOptions::default())
        .await
}

#[tokio::test]
async fn a_run_outlives_its_clients_and_each_client_gets_every_event_once() {
    let service = service();
    let id = service
        .start_run(gate(), RunOptions::default())
        .await
        .expect("it starts");
    let mut first = service.follow_run(&id, 0).await.expect("it is there");
    until(&mut first, "asked Print it?").await;
    drop(first);

    // The question was asked before this client came.
    let mut second = service.follow_run(&id, 0).await.expect("it is there");
    let seen = until(&mut second, "asked Print it?").await;
    assert_eq!(seen.iter().filter(|name| *name == "run_started").count(), 1, "{seen:?}");
    let summary = service.load_summary(&id).await.expect("it can be read");
    assert_eq!(
        summary.state,
        RunState::Waiting,
        "it is driven, and waits for an answer"
    );

    answer(&service, &id, "yes").await.expect("it asks");
    let seen = until(&mut second, "run_ended").await;
    assert!(!seen.iter().any(|name| name.starts_with("asked")), "{seen:?}");
    assert_eq!(outcome(&service, &id).await, COMPLETED);

    // All of it again, from the log, and from a record in the middle.
    let mut third = service.follow_run(&id, 0).await.expect("it is there");
    let all = until(&mut third, "run_ended").await;
    assert!(third.next().await.expect("a log that can be read").is_none());
    let mut rest = service.follow_run(&id, 3).await.expect("it is there");
    assert_eq!(until(&mut rest, "run_ended").await, all[3..]);
}

#[tokio::test]
async fn a_postponed_question_is_recorded_and_its_answer_resumes_the_run() {
    let question = "choices: [\"yes\", \"no\"]";
    for (more, is_postponed) in [
        ("", true),
        (", default: \"no\"", true),
        (", timeout_seconds: 90", false),
    ] {
        let service = service();
        let gate = EnsembleRef::from_text(GATE.replace(question, &format!("{question}{more}")));
        let id = service.start_run(gate, RunOptions::default()).await.expect("it starts");
        let mut follow = service.follow_run(&id, 0).await.expect("it is there");
        until(&mut follow, "asked Print it?").await;
        let request = service.load_pending_requests(&id).await.expect("it asks").remove(0);
        assert_eq!(service.postpone_questions(&id), usize::from(is_postponed), "{more}");
        if is_postponed {
            let recorded = until(&mut follow, "run_ended").await;
            assert!(recorded.contains(&"input_requested".to_owned()), "{more}: {recorded:?}");
        }
        // At once: the run may still hold its lease.
        let answered = service.answer_or_resume(
            &id,
            (&request.address, &request.digest),
            RequestAnswer::Text("yes".to_owned()),
            AnswerSource::Page,
            RunOptions::default(),
        );
        answered.await.expect("it waits");
        assert_eq!(outcome(&service, &id).await, COMPLETED, "{more}");
    }
}

#[tokio::test]
async fn a_run_that_has_ended_goes_on_with_a_message_at_once() {
    let service = service();
    let id = service
        .start_run(gate(), RunOptions::default().with_answer("editor", "yes"))
        .await
        .expect("it starts");
    for round in 0..3 {
        let mut follow = service.follow_run(&id, 0).await.expect("it is there");
        while let Some(event) = follow.next().await.expect("a log that can be read") {
            let is_end =
                matches!(&event.kind, RunEventKind::Committed(record) if matches!(record.event, Event::RunEnded(_)));
            if is_end && service.load_summary(&id).await.expect("it can be read").state == COMPLETED {
                break;
            }
        }
        let options = RunOptions::default().with_answer("editor", "no");
        let went_on = service
            .continue_with_message(&id, format!("again {round}"), Default::default(), options)
            .await;
        went_on.expect("its lease was given back");
    }
    assert_eq!(outcome(&service, &id).await, COMPLETED);
}

#[tokio::test]
async fn a_cancelled_run_is_resumed_at_once() {
    let service = service();
    let id = service
        .start_run(gate(), RunOptions::default())
        .await
        .expect("it starts");
    let mut follow = service.follow_run(&id, 0).await.expect("it is there");
    until(&mut follow, "asked Print it?").await;
    for _ in 0..5 {
        service.cancel_run(&id, "a test").await.expect("it goes on");
        // As soon as the record tells that it is over, and its lease is still held.
        while let Some(event) = follow.next().await.expect("a log that can be read") {
            if matches!(&event.kind, RunEventKind::Committed(record) if matches!(record.event, Event::RunEnded(_))) {
                break;
            }
        }
        while service.is_driven_here(&id) {
            tokio::task::yield_now().await;
        }
        let resumed = service.resume_run(&id, RunOptions::default()).await;
        resumed.expect("its lease was given back");
        follow = service.follow_run(&id, 0).await.expect("it is there");
        until(&mut follow, "asked Print it?").await;
    }
    answer(&service, &id, "no").await.expect("it asks");
    assert_eq!(outcome(&service, &id).await, COMPLETED);
}

#[tokio::test]
async fn answers_resume_a_run_that_waits_and_are_refused_where_nobody_asks() {
    let store = Arc::new(MemoryStore::new());
    let alone = RunService::new(runs(&store, RunHost::from_system().without_operator()));
    let id = alone.start_run(gate(), RunOptions::default()).await.expect("it starts");
    let waits = RunState::Waiting;
    assert_eq!(outcome(&alone, &id).await, waits);

    let service = RunService::new(runs(&store, RunHost::from_system()));
    let pending = service.load_pending_requests(&id).await.expect("it can be read");
    let (address, digest) = (RequestAddress::for_agent("printer"), &pending[0].digest);
    let yes = || RequestAnswer::Text("yes".to_owned());
    let options = RunOptions::default();
    let refused = service.answer_or_resume(&id, (&address, digest), yes(), AnswerSource::Page, options);
    let refused = refused.await.expect_err("it does not ask");
    assert_eq!(
        refused.to_string(),
        "`printer` asks nothing; what waits for an answer: `editor`"
    );
    answer(&service, &id, "yes").await.expect("it waits for this");
    assert_eq!(outcome(&service, &id).await, COMPLETED);
    let editor = (&pending[0].address, digest);
    let refused = service.answer_or_resume(&id, editor, yes(), AnswerSource::Page, RunOptions::default());
    let refused = refused.await.expect_err("it is over").to_string();
    assert!(
        refused.starts_with("`editor` was answered `yes` by the page at "),
        "{refused}"
    );
}

#[tokio::test]
async fn a_cancelled_run_is_resumed_and_a_run_that_does_not_go_on_cannot_be_cancelled() {
    let service = service();
    let id = service
        .start_run(gate(), RunOptions::default())
        .await
        .expect("it starts");
    until(
        &mut service.follow_run(&id, 0).await.expect("it is there"),
        "asked Print it?",
    )
    .await;
    service.cancel_run(&id, "a test").await.expect("it goes on");
    let cancelled = RunState::Ended(CompletionReason::Cancelled);
    assert_eq!(outcome(&service, &id).await, cancelled);
    let refused = service.cancel_run(&id, "a test").await.expect_err("it does not go on");
    assert!(refused.to_string().contains("nothing to cancel"), "{refused}");

    service
        .resume_run(&id, RunOptions::default())
        .await
        .expect("it was cancelled");
    until(
        &mut service.follow_run(&id, 0).await.expect("it is there"),
        "asked Print it?",
    )
    .await;
    let refused = service
        .resume_run(&id, RunOptions::default())
        .await
        .expect_err("it goes on here");
    assert!(refused.to_string().contains(&id.to_string()), "{refused}");
    answer(&service, &id, "no").await.expect("it asks again");
    assert_eq!(outcome(&service, &id).await, COMPLETED);
}

#[tokio::test]
async fn a_message_withdraws_the_questions_before_it() {
    let store = Arc::new(MemoryStore::new());
    let alone = RunService::new(runs(&store, RunHost::from_system().without_operator()));
    let id = alone.start_run(gate(), RunOptions::default()).await.expect("it starts");
    outcome(&alone, &id).await;
    let open = alone.load_summary(&id).await.expect("it can be read").questions;
    assert_eq!(open.len(), 1, "{open:?}");
    let service = RunService::new(runs(&store, RunHost::from_system()));
    service
        .resume_run(&id, RunOptions::default())
        .await
        .expect("it waits for an answer");
    let mut follow = service.follow_run(&id, 0).await.expect("it is there");
    until(&mut follow, "asked Print it?").await;
    service.cancel_run(&id, "a test").await.expect("it goes on");
    outcome(&service, &id).await;
    let options = RunOptions::default().with_answer("editor", "no");
    let went_on = service
        .continue_with_message(&id, "again", Default::default(), options)
        .await;
    went_on.expect("it was cancelled");
    outcome(&service, &id).await;
    let open = service.load_summary(&id).await.expect("it can be read").questions;
    assert_eq!(open, [], "the question before the message is withdrawn");
}

#[tokio::test]
async fn a_summary_counts_what_ended_and_what_failed() {
    let service = service();
    let text = "name: f\nmodel_profiles:\n  bad: {provider: simulated, replies: [{error: no}]}\n  good: {provider: simulated, replies: [yes]}\n\
                agents:\n  - {name: a, model_profile: bad}\n  - {name: b, model_profile: good, dependencies: [{agent_name: a, on: failure}]}\n";
    let id = service
        .start_run(EnsembleRef::from_text(text), RunOptions::default())
        .await
        .expect("it starts");
    outcome(&service, &id).await;
    let summary = service.load_summary(&id).await.expect("it can be read");
    assert_eq!((summary.executions, summary.failed), (2, 1), "{summary:?}");
}

#[tokio::test]
async fn the_latest_runs_come_first() {
    let service = service();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = service
            .start_run(gate(), RunOptions::default().with_answer("editor", "yes"))
            .await
            .expect("it starts");
        service.wait_until_closed(&id).await;
        ids.push(id);
    }
    let listed = service.load_latest_summaries(2).await.expect("a list");
    let listed: Vec<RunId> = listed.into_iter().map(|run| run.expect("a run").id).collect();
    assert_eq!(listed.len(), 2);
    let mut latest = service.runs().store().list_runs().await.expect("a list");
    assert_eq!(&listed[0], latest.pop().expect("three").id());
    assert!(listed.iter().all(|id| ids.contains(id)));
}
