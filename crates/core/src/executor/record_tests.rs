//! A runner that records something goes on when that is in the log, as safe as the log promises.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::mpsc;

use super::Executor;
use crate::conversation::{Canceller, ConversationState, IllegalEvent, Interruption, Record};
use crate::log::{CommitError, Logged, RunLog, SyncPoint};
use crate::random_conversations::{Frozen, started};
use crate::reporter::Silent;
use crate::runner::{AttemptOutcome, BoxFuture, Execution, Runner};
use crate::thread::{Iteration, Message, Role, Thread, ToolCall, ToolEnd};
use ensemble_language::data::{FailureKind, Usage};
use ensemble_language::loader::load;
use ensemble_language::plan::Plan;
use ensemble_language::source::Source;

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
    fn append<'a>(&'a mut self, record: &'a Record) -> Logged<'a> {
        self.0.lock().expect("nobody panics").push(record.event.name());
        Logged::ended(Ok(()))
    }

    fn sync(&mut self, _: SyncPoint) -> Logged<'_> {
        self.0.lock().expect("nobody panics").push("sync");
        Logged::ended(Ok(()))
    }
}

/// Looks into the log after each of its records.
struct Recording(Spy);

impl Runner for Recording {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            let call = ToolCall::new("c", "pay", json!({}));
            let reply = Iteration {
                messages: vec![Message::new(Role::Assistant, "I pay.")],
                tool_calls: vec![call.clone()],
                ..Iteration::default()
            };
            execution.records.replied(reply, Usage::default()).await;
            assert_eq!(self.0.latest(2), ["reply_received", "sync"]);
            execution.records.call_started("c").await;
            assert_eq!(self.0.latest(2), ["tool_call_started", "sync"]);
            let ended = call.ended(ToolEnd::Result("paid".into()), 0.1);
            execution.records.call_ended(&ended, Usage::default()).await;
            assert_eq!(self.0.latest(2), ["tool_call_ended", "sync"]);
            AttemptOutcome::success(serde_json::Map::new())
        })
    }
}

#[tokio::test]
async fn an_illegal_event_is_not_appended() {
    let loaded = load(&Source::new("a.yaml", "name: e\nagents: [{name: a, script: x}]\n"));
    let ensemble = loaded.ensemble.unwrap_or_else(|| panic!("{:?}", loaded.findings));
    let mut state = ConversationState::new(Arc::new(Plan::build(Arc::new(ensemble)).expect("a plan")));
    let spy = Spy::default();
    let (_keep, interruptions) = tokio::sync::mpsc::unbounded_channel();
    let mut executor = Executor {
        runners: Vec::new(),
        log: &mut spy.clone(),
        reporter: &mut Silent,
        clock: &Frozen,
        interruptions,
        timeout: None,
        secrets: crate::secrets::Secrets::default(),
        around: None,
        turn_ends_in: None,
    };
    executor
        .commit(&mut state, started())
        .await
        .expect("it is the first event");
    let again = executor.commit(&mut state, started()).await;
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
    let loaded = load(&Source::new("a.yaml", text));
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
        reporter: &mut Silent,
        clock: &Frozen,
        interruptions,
        timeout: None,
        secrets: crate::secrets::Secrets::default(),
        around: None,
        turn_ends_in: None,
    };
    executor
        .commit(&mut state, started())
        .await
        .expect("the spy takes everything");
    executor.drive(&mut state).await.expect("the spy takes everything");
    assert_eq!(state.history().count(), 1, "it ended");
}

/// Is killed by the Ctrl-C that stops the run, before the run has heard of it.
struct Killed(mpsc::UnboundedSender<Interruption>);

impl Runner for Killed {
    fn execute(&self, _: Execution) -> BoxFuture<'_, AttemptOutcome> {
        let by = Canceller::Keyboard;
        self.0.send(Interruption::Cancelled { by }).expect("the run listens");
        Box::pin(async { AttemptOutcome::failure(FailureKind::Signal, "killed") })
    }
}

/// Waits for a model, and inside a call for another one.
struct Waiting;

impl Runner for Waiting {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            let asking = |text: &str| {
                Thread::of(vec![Iteration {
                    messages: vec![Message::new(Role::User, text)],
                    ..Iteration::default()
                }])
            };
            execution.ledger.begin_round(asking("Hello?"), 0);
            let call = execution.ledger.open_call("c", "helper");
            call.ledger().begin_round(asking("Who is there?"), 0);
            call.ledger().add_usage(Usage {
                requests: 1,
                ..Usage::default()
            });
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn a_request_that_is_stopped_beside_a_script_that_was_killed_is_recorded() {
    let text = "name: e\nagents: [{name: a, script: a}, {name: b, script: b}]\n";
    let loaded = load(&Source::new("a.yaml", text));
    let plan = Plan::build(Arc::new(loaded.ensemble.expect("an ensemble"))).expect("a plan");
    let mut state = ConversationState::new(Arc::new(plan));
    let spy = Spy::default();
    let (interrupt, interruptions) = mpsc::unbounded_channel();
    let mut executor = Executor {
        runners: vec![Arc::new(Killed(interrupt)), Arc::new(Waiting)],
        log: &mut spy.clone(),
        reporter: &mut Silent,
        clock: &Frozen,
        interruptions,
        timeout: None,
        secrets: crate::secrets::Secrets::default(),
        around: None,
        turn_ends_in: None,
    };
    executor
        .commit(&mut state, started())
        .await
        .expect("the spy takes everything");
    executor.drive(&mut state).await.expect("the spy takes everything");
    let latest = spy.latest(5);
    assert_eq!(
        latest,
        ["request_stopped", "request_stopped", "interrupted", "run_ended", "sync"]
    );
    assert_eq!(state.usage().requests, 0, "the turn is open");
    let turn = state.open_turn().expect("it was interrupted");
    let used = turn.slots[1].used().unwrap_or_default();
    assert_eq!((used.requests, used.by_tools), (1, 1), "of the request in the call");
}
