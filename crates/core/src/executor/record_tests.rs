//! A runner that records something goes on when that is in the log, as safe as the log promises.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::mpsc;

use super::Executor;
use crate::conversation::{ConversationState, IllegalEvent, Record, RunCanceller, RunInterruption};
use crate::log::{CommitError, LogFuture, RunLog, SyncPoint};
use crate::random_conversations::{FrozenClock, run_started_event};
use crate::reporter::NoReporter;
use crate::runner::{AttemptEnd, BoxFuture, ExecutionInput, Runner};
use crate::thread::{Message, MessageRole, Thread, ThreadIteration, ToolCall, ToolCallEnd};
use ensemble_language::data::{FailureKind, ModelUsage};
use ensemble_language::loader::load_ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;

/// The names of the events that were appended, and `sync` for each sync.
#[derive(Clone, Default)]
struct Spy(Arc<Mutex<Vec<&'static str>>>);

impl Spy {
    fn latest(&self, count: usize) -> Vec<&'static str> {
        let all = self.0.lock().expect("nobody panics");
        all[all.len() - count..].to_vec()
    }
}

impl RunLog for Spy {
    fn append<'a>(&'a mut self, record: &'a Record) -> LogFuture<'a> {
        self.0.lock().expect("nobody panics").push(record.event.event_name());
        LogFuture::ready(Ok(()))
    }

    fn sync(&mut self, _: SyncPoint) -> LogFuture<'_> {
        self.0.lock().expect("nobody panics").push("sync");
        LogFuture::ready(Ok(()))
    }
}

/// Looks into the log after each of its records.
struct Recording(Spy);

impl Runner for Recording {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            let call = ToolCall::new("c", "pay", json!({}));
            let reply = ThreadIteration {
                messages: vec![Message::new(MessageRole::Assistant, "I pay.")],
                tool_calls: vec![call.clone()],
                ..ThreadIteration::default()
            };
            execution
                .records
                .record_reply_and_wait(reply, ModelUsage::default())
                .await;
            assert_eq!(self.0.latest(2), ["reply_received", "sync"]);
            execution.records.record_call_start_and_wait("c").await;
            assert_eq!(self.0.latest(2), ["tool_call_started", "sync"]);
            let ended = call.with_end(ToolCallEnd::Result("paid".into()), 0.1);
            execution
                .records
                .record_call_end_and_wait(&ended, ModelUsage::default())
                .await;
            assert_eq!(self.0.latest(2), ["tool_call_ended", "sync"]);
            AttemptEnd::from_output(serde_json::Map::new())
        })
    }
}

#[tokio::test]
async fn an_illegal_event_is_not_appended() {
    let loaded = load_ensemble(&SourceText::new("a.yaml", "name: e\nagents: [{name: a, script: x}]\n"));
    let ensemble = loaded.ensemble.unwrap_or_else(|| panic!("{:?}", loaded.findings));
    let mut state = ConversationState::new(Arc::new(Plan::build(Arc::new(ensemble)).expect("a plan")));
    let spy = Spy::default();
    let (_keep, interruptions) = tokio::sync::mpsc::unbounded_channel();
    let mut executor = Executor {
        runners: Vec::new(),
        log: &mut spy.clone(),
        reporter: &mut NoReporter,
        clock: &FrozenClock,
        interruptions,
        timeout: None,
        secrets: crate::secrets::Secrets::default(),
        outer_stopwatch: None,
        refuses_exhausted: false,
        turn_ends_in: None,
    };
    executor
        .commit(&mut state, run_started_event())
        .await
        .expect("it is the first event");
    let again = executor.commit(&mut state, run_started_event()).await;
    let Err(CommitError::Illegal(illegal)) = again else {
        panic!("{again:?}");
    };
    assert_eq!((illegal.seq, illegal.reason), (1, IllegalEvent::AlreadyStarted));
    assert_eq!(*spy.0.lock().expect("nobody panics"), ["run_started"]);
    assert_eq!(state.next_seq(), 1);
}

#[tokio::test]
async fn a_record_is_in_the_log_before_its_runner_goes_on() {
    let text =
        "name: e\nagents: [{name: a, model_profile: m}]\nmodel_profiles: {m: {provider: simulated, replies: [x]}}\n";
    let loaded = load_ensemble(&SourceText::new("a.yaml", text));
    let plan = Plan::build(Arc::new(
        loaded.ensemble.unwrap_or_else(|| panic!("{:?}", loaded.findings)),
    ))
    .expect("a plan");
    let mut state = ConversationState::new(Arc::new(plan));
    let spy = Spy::default();
    let (_keep, interruptions) = tokio::sync::mpsc::unbounded_channel();
    let mut executor = Executor {
        runners: vec![Arc::new(Recording(spy.clone()))],
        log: &mut spy.clone(),
        reporter: &mut NoReporter,
        clock: &FrozenClock,
        interruptions,
        timeout: None,
        secrets: crate::secrets::Secrets::default(),
        outer_stopwatch: None,
        refuses_exhausted: false,
        turn_ends_in: None,
    };
    executor
        .commit(&mut state, run_started_event())
        .await
        .expect("the spy takes everything");
    executor
        .drive_conversation(&mut state)
        .await
        .expect("the spy takes everything");
    assert_eq!(state.list_executions().count(), 1, "it ended");
}

/// Is killed by the Ctrl-C that stops the run, before the run has heard of it.
struct Killed(mpsc::UnboundedSender<RunInterruption>);

impl Runner for Killed {
    fn execute_attempt(&self, _: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        let by = RunCanceller::Keyboard;
        self.0.send(RunInterruption::Cancelled { by }).expect("the run listens");
        Box::pin(async { AttemptEnd::from_failure(FailureKind::Signal, "killed") })
    }
}

/// Waits for a model, and inside a call for another one.
struct Waiting;

impl Runner for Waiting {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            let asking = |text: &str| {
                Thread::from_iterations(vec![ThreadIteration {
                    messages: vec![Message::new(MessageRole::User, text)],
                    ..ThreadIteration::default()
                }])
            };
            execution.ledger.start_round(asking("Hello?"), 0);
            let call = execution.ledger.open_call_ledger("c", "helper");
            call.ledger().start_round(asking("Who is there?"), 0);
            call.ledger().add_usage(ModelUsage {
                requests: 1,
                ..ModelUsage::default()
            });
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn a_request_that_is_stopped_beside_a_script_that_was_killed_is_recorded() {
    let text = "name: e\nagents: [{name: a, script: a}, {name: b, script: b}]\n";
    let loaded = load_ensemble(&SourceText::new("a.yaml", text));
    let plan = Plan::build(Arc::new(loaded.ensemble.expect("an ensemble"))).expect("a plan");
    let mut state = ConversationState::new(Arc::new(plan));
    let spy = Spy::default();
    let (interrupt, interruptions) = mpsc::unbounded_channel();
    let mut executor = Executor {
        runners: vec![Arc::new(Killed(interrupt)), Arc::new(Waiting)],
        log: &mut spy.clone(),
        reporter: &mut NoReporter,
        clock: &FrozenClock,
        interruptions,
        timeout: None,
        secrets: crate::secrets::Secrets::default(),
        outer_stopwatch: None,
        refuses_exhausted: false,
        turn_ends_in: None,
    };
    executor
        .commit(&mut state, run_started_event())
        .await
        .expect("the spy takes everything");
    executor
        .drive_conversation(&mut state)
        .await
        .expect("the spy takes everything");
    let latest = spy.latest(5);
    assert_eq!(
        latest,
        ["request_stopped", "request_stopped", "interrupted", "run_ended", "sync"]
    );
    assert_eq!(state.usage().requests, 0, "the turn is open");
    let turn = state.open_turn().expect("it was interrupted");
    let used = turn.slots[1].usage_so_far().unwrap_or_default();
    assert_eq!((used.requests, used.by_tools), (1, 1), "of the request in the call");
}
