//! Runs driven through the library: no command line, no terminal, many in one process.

use std::sync::Arc;
use std::time::Duration;

use ensemble_core::conversation::PermissionDecision;
use ensemble_core::conversation::{CompletionReason, Event, Record, RunCanceller, RunInterruption};
use ensemble_core::request::{AnswerSource, RequestAnswer};
use ensemble_core::store::{Durability, MemoryStore, RunStore};
use ensemble_language::data::RunContext;
use ensemble_runs::store::files::FileRunStore;
use ensemble_runs::{
    EnsembleRef, InputError, LiveEventKind, Project, RunError, RunEvent, RunEventKind, RunHost, RunOptions, Runs,
};

#[path = "../examples/front_end.rs"]
#[expect(dead_code, reason = "an example has a main function of its own")]
mod front_end;

/// A folder with files in it, and its runs in memory.
fn runs(files: &[(&str, &str)]) -> (tempfile::TempDir, Runs) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        write(&folder.path().join(name), text);
    }
    let runs = Runs::for_project(
        Project::from_folder(folder.path().canonicalize().expect("it is there")),
        RunHost::from_system(),
    );
    (folder, runs.with_store(Arc::new(MemoryStore::new())))
}

#[expect(clippy::disallowed_methods, reason = "tests make files")]
fn write(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).expect("files can be written");
}

const LOOP: (&str, &str) = (
    "loop.yaml",
    "name: loop\nconversation_limits: {max_total_turns: 100000}\nagents:\n  \
     - {name: tick, script: tick.rhai, conversation: {trigger: every_turn, max_turns: 100000}}\n",
);
const TICK: (&str, &str) = ("tick.rhai", "#{ n: execution }");
const ASK: (&str, &str) = (
    "ask.yaml",
    "name: ask\nagents:\n  - {name: person, input: {prompt: How many?}}\n  - {name: twice, script: twice.rhai, depends_on: [person]}\n",
);
const TWICE: (&str, &str) = ("twice.rhai", "#{ n: parse_int(dependencies.person.response) * 2 }");

/// Answers the question of an agent when the agent asks it.
async fn answer(run: &ensemble_runs::RunHandle, agent: &str, text: &str) {
    let request = run.wait_for_request(agent).await.expect("the agent asks");
    let answer = RequestAnswer::Text(text.to_owned());
    let answered = run.answer_request(&request, answer, AnswerSource::Option).await;
    answered.expect("the question is open");
}

/// Everything until the run has ended.
async fn until_the_end(mut events: ensemble_runs::RunEventStream) -> Vec<RunEvent> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await.expect("the log can be read") {
        let is_end = matches!(&event.kind, RunEventKind::Committed(record)
            if matches!(record.event, Event::RunEnded(_)) && event.run.nested_names().next().is_none());
        all.push(event);
        if is_end {
            break;
        }
    }
    all
}

/// The records, each as its run's innermost name, its number and its event.
fn committed(events: &[RunEvent]) -> Vec<(String, u64, &'static str)> {
    let records = events.iter().filter_map(|event| match &event.kind {
        RunEventKind::Committed(record) => {
            let path: Vec<&str> = event.run.nested_names().collect();
            Some((path.join("/"), record.seq, record.event.event_name()))
        }
        _ => None,
    });
    records.collect()
}

#[tokio::test]
async fn a_run_is_given_inputs_by_name() {
    let ensemble = "name: e\ninputs: {n: {type: integer}, unit: {default: km}, year: {type: string, default: ''}}\n\
                    agents: [{name: a, script: a.rhai}]\n";
    let (_folder, runs) = runs(&[("e.yaml", ensemble), ("a.rhai", "inputs")]);
    let wrong = runs
        .start_run(
            "e.yaml",
            RunOptions::default()
                .with_input_value("n", "x")
                .with_input_value("m", 1),
        )
        .await;
    let Err(RunError::Inputs(wrong)) = wrong else {
        panic!("two inputs are wrong")
    };
    assert!(matches!(
        wrong.as_slice(),
        [InputError::OffSchema { .. }, InputError::Undeclared { .. }]
    ));
    let options = RunOptions::default()
        .with_text_value("n", "3")
        .with_text_value("year", "2026");
    let run = runs.start_run("e.yaml", options).await.expect("it starts");
    let finished = run.wait_and_close().await.expect("it ends");
    let inputs = serde_json::to_value(&**finished.state.inputs()).expect("JSON");
    assert_eq!(inputs, serde_json::json!({"n": 3, "unit": "km", "year": "2026"}));
}

#[tokio::test]
async fn the_front_end_of_the_example_shows_what_happens() {
    let shown = front_end::front_end().await.expect("the example runs");
    let text = shown.join("\n");
    assert!(text.contains("writer: A short text about the sea."), "{text}");
    assert!(text.contains("editor asks: Print it?"), "{text}");
    assert_eq!(
        shown.iter().filter(|line| line.ends_with("run_started")).count(),
        1,
        "{text}"
    );
    let last = [
        "ended as completed",
        "ended as cancelled",
        "resumed, the editor said \"no\"",
    ];
    assert_eq!(shown[shown.len() - 3..], last, "{text}");
}

#[tokio::test]
async fn of_two_runs_in_one_process_one_is_cancelled_and_the_other_goes_on() {
    let (_folder, runs) = runs(&[LOOP, TICK, ASK, TWICE]);
    let endless = runs
        .start_run("loop.yaml", RunOptions::default())
        .await
        .expect("starts");
    let asking = runs.start_run("ask.yaml", RunOptions::default()).await.expect("starts");
    assert_ne!(endless.id(), asking.id());
    endless.cancel(RunCanceller::Client("a test".into()));
    let ended = endless.wait_for_end().await.expect("ends");
    assert_eq!(ended.completion_reason, CompletionReason::Cancelled);
    assert_eq!(ended.detail.as_deref(), Some("stopped by a test"));
    answer(&asking, "person", "21").await;
    let ended = asking.wait_for_end().await.expect("ends");
    assert_eq!(ended.completion_reason, CompletionReason::Completed);
    let state = asking.wait_and_close().await.expect("closes").state;
    assert_eq!(state.context().get("n").expect("a number").as_ref(), 42);
    let state = endless.wait_and_close().await.expect("closes").state;
    let by = RunCanceller::Client("a test".into());
    assert_eq!(state.interruption(), Some(&RunInterruption::Cancelled { by }));
}

#[tokio::test]
async fn an_answer_goes_to_the_agent_that_it_names() {
    let two = (
        "two.yaml",
        "name: two\nagents:\n- {name: first, input: {prompt: one?}}\n- {name: second, input: {prompt: two?}}\n",
    );
    let (_folder, runs) = runs(&[two]);
    let run = runs.start_run("two.yaml", RunOptions::default()).await.expect("starts");
    let mut events = run.events();
    let mut open = 2;
    while open > 0 {
        let event = events.next().await.expect("the log can be read").expect("it goes on");
        open -= usize::from(matches!(event.kind, RunEventKind::QuestionAsked(_)));
    }
    answer(&run, "second", "b").await;
    answer(&run, "first", "a").await;
    let state = run.wait_and_close().await.expect("closes").state;
    let said = |agent: &str| state.context().get(agent).expect("an output")["response"].clone();
    assert_eq!((said("first"), said("second")), ("a".into(), "b".into()));
}

#[tokio::test]
async fn every_subscriber_gets_every_record_once_from_wherever_it_asks() {
    let (_folder, runs) = runs(&[LOOP, TICK]);
    let options = RunOptions::default();
    let mut ready = runs.prepare_run("loop.yaml", options).expect("ready");
    ready.set_input_or_message("go".into());
    let run = ready.start_and_spawn().await.expect("starts");
    // One that is there from the beginning, and one that reads a record and then nothing before the end.
    let (early, mut slow) = (run.events(), run.events());
    let first = slow.next().await.expect("the log can be read").expect("a record");
    let early = tokio::spawn(until_the_end(early));
    tokio::time::timeout(Duration::from_secs(30), async {
        while run
            .stored_run()
            .read_journal()
            .await
            .map_or(0, |journal| journal.records.len())
            < 5_000
        {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the loop goes on");
    run.cancel(RunCanceller::Keyboard);
    run.wait_for_end().await.expect("ends");
    let records = run.stored_run().read_journal().await.expect("a log").records;
    let expected: Vec<u64> = records.iter().map(|record| record.seq).collect();
    let numbers = |events: &[RunEvent]| committed(events).iter().map(|(_, seq, _)| *seq).collect::<Vec<u64>>();
    let early = numbers(&early.await.expect("the task ends"));
    assert!(early == expected, "{} of {} records", early.len(), expected.len());
    let read = [numbers(&[first]), numbers(&until_the_end(slow).await)].concat();
    assert!(
        read == expected,
        "a slow one reads {} of {}",
        read.len(),
        expected.len()
    );
    let late = until_the_end(run.events_from(records.len() as u64 - 3)).await;
    assert_eq!(numbers(&late), expected[expected.len() - 3..]);
}

#[tokio::test]
async fn runs_inside_a_run_are_followed_with_their_path() {
    let outer = (
        "outer.yaml",
        "name: outer\nagents:\n  - {name: inner, ensemble: ask.yaml}\n  - {name: after, script: after.rhai, depends_on: [inner]}\n",
    );
    let (_folder, runs) = runs(&[outer, ASK, TWICE, ("after.rhai", "#{ done: true }")]);
    let run = runs
        .start_run("outer.yaml", RunOptions::default())
        .await
        .expect("starts");
    let live = tokio::spawn(until_the_end(run.events()));
    answer(&run, "person", "4").await;
    assert_eq!(
        run.wait_for_end().await.expect("ends").completion_reason,
        CompletionReason::Completed
    );
    let live = live.await.expect("the task ends");
    let afterwards = until_the_end(run.events()).await;
    // An answer inside a nested run is also a record of the outer run, whose order among the records of the nested run is open.
    let by_run = |events| {
        let mut records = committed(events);
        records.sort_by_key(|(run, seq, _)| (run.clone(), *seq));
        records
    };
    assert_eq!(by_run(&live), by_run(&afterwards), "live and afterwards tell the same");
    let told = committed(&afterwards);
    let at = |path: &str, event: &str| {
        let found = told.iter().position(|(run, _, name)| run == path && *name == event);
        found.unwrap_or_else(|| panic!("no {event} of {path:?} in {told:?}"))
    };
    assert!(at("", "execution_started") < at("inner-1-1", "run_started"));
    assert!(at("inner-1-1", "run_ended") < at("", "execution_finished"));
    let asked = live.iter().find_map(|event| match &event.kind {
        RunEventKind::QuestionAsked(asked) => Some((
            asked.run.nested_names().collect::<Vec<_>>().join("/"),
            asked.request.address.to_string(),
        )),
        _ => None,
    });
    assert_eq!(asked, Some(("inner-1-1".to_owned(), "inner.person".to_owned())));
}

#[tokio::test]
async fn live_pieces_come_between_the_records_of_their_execution() {
    let said = "name: said\nmodel_profiles: {m: {provider: simulated, replies: [one two three]}}\n\
                agents: [{name: a, model_profile: m}]\n";
    let (_folder, runs) = runs(&[("said.yaml", said)]);
    let run = runs
        .start_run("said.yaml", RunOptions::default())
        .await
        .expect("starts");
    let all = until_the_end(run.events()).await;
    let text_at = all.iter().position(|event| match &event.kind {
        RunEventKind::Live(live) => live.kind == LiveEventKind::Text("one two three".into()) && &*live.agent == "a",
        _ => false,
    });
    let event_at = |name: &str| {
        let is_it = |event: &RunEvent| matches!(&event.kind, RunEventKind::Committed(record) if record.event.event_name() == name);
        all.iter().position(is_it).expect("a record")
    };
    let text_at = text_at.unwrap_or_else(|| panic!("no live text in {all:?}"));
    assert!(event_at("execution_started") < text_at && text_at < event_at("execution_finished"));
}

const TOOL: &str = r#"
name: tool
model_profiles:
  m:
    provider: simulated
    replies:
      - {text: "", tool_calls: [{name: look, arguments: {word: gannet}}]}
      - "I have looked."
agents: [{name: a, model_profile: m, tools: [look]}]
tools:
  look: {script: look.rhai, permission: ask, description: Looks., parameters: {type: object, properties: {word: {type: string}}}}
"#;

#[tokio::test]
async fn calls_are_permitted_through_the_handle_with_all_their_arguments() {
    for (decision, expected) in [
        (PermissionDecision::Once, "result"),
        (PermissionDecision::Denied, "error"),
    ] {
        let (_folder, runs) = runs(&[("tool.yaml", TOOL), ("look.rhai", "`seen: ${parameters.word}`")]);
        let run = runs
            .start_run("tool.yaml", RunOptions::default())
            .await
            .expect("starts");
        let mut events = run.events();
        let call = loop {
            match events.next().await.expect("events").expect("a request").kind {
                RunEventKind::PermissionRequested(requested) => break requested,
                _ => continue,
            }
        };
        assert_eq!(
            (call.request.address.to_string().as_str(), &*call.tool),
            ("a/look#1", "look")
        );
        assert_eq!(call.arguments["word"], "gannet");
        assert_eq!(run.open_requests().len(), 1);
        let permission = RequestAnswer::Permission(decision);
        let answered = run
            .answer_request(&call.request, permission, AnswerSource::Option)
            .await;
        answered.expect("is open");
        assert_eq!(
            run.wait_for_end().await.expect("ends").completion_reason,
            CompletionReason::Completed
        );
        let rest = until_the_end(events).await;
        let ended = rest.iter().find_map(|event| match &event.kind {
            RunEventKind::Live(live) => match &live.kind {
                LiveEventKind::ToolEnded(call) => Some(format!("{:?}", call.end)),
                _ => None,
            },
            _ => None,
        });
        assert!(
            ended.as_ref().is_some_and(|end| end.to_lowercase().contains(expected)),
            "{decision:?}: {ended:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_clocks_of_a_run_stand_while_a_person_thinks() {
    let slow = "name: slow\nconversation_limits: {timeout_seconds: 10, turn_timeout_seconds: 5}\nagents:\n  \
                - {name: person, input: {prompt: How many?}}\n  - {name: twice, script: twice.rhai, depends_on: [person]}\n";
    let (_folder, runs) = runs(&[("slow.yaml", slow), TWICE]);
    let run = runs
        .start_run("slow.yaml", RunOptions::default())
        .await
        .expect("starts");
    let mut events = run.events();
    while !matches!(
        events.next().await.expect("events").expect("a question").kind,
        RunEventKind::QuestionAsked(_)
    ) {}
    tokio::time::sleep(Duration::from_secs(3600)).await;
    answer(&run, "person", "21").await;
    assert_eq!(
        run.wait_for_end().await.expect("ends").completion_reason,
        CompletionReason::Completed
    );
}

#[tokio::test]
async fn a_subscription_ends_when_the_run_is_closed() {
    let (_folder, runs) = runs(&[ASK, TWICE]);
    let run = runs
        .start_run("ask.yaml", RunOptions::default().with_answer("person", "3"))
        .await
        .expect("starts");
    let (mut before, mut after) = (run.events(), run.events_from(1));
    run.wait_for_end().await.expect("ends");
    let records = run.stored_run().read_journal().await.expect("a log").records.len();
    run.wait_and_close().await.expect("closes");
    let mut seen = 0;
    while before.next().await.expect("the log can be read").is_some() {
        seen += 1;
    }
    while after.next().await.expect("the log can be read").is_some() {
        seen += 1;
    }
    assert_eq!(seen, 2 * records - 1);
}

#[tokio::test]
async fn a_run_goes_on_without_its_handle() {
    let (_folder, runs) = runs(&[ASK, TWICE]);
    let options = RunOptions::default().with_answer("person", "3");
    let run = runs.start_run("ask.yaml", options).await.expect("starts");
    let stored = run.stored_run().clone();
    drop(run);
    tokio::time::timeout(Duration::from_secs(30), async {
        // The lease is free when the run is closed.
        while stored.acquire_lease().await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("the run is closed");
    let records = stored.read_journal().await.expect("a log").records;
    assert!(matches!(&records.last().expect("records").event, Event::RunEnded(ended)
        if ended.completion_reason == CompletionReason::Completed));
}

#[tokio::test]
async fn a_conversation_is_continued_resumed_and_forked_on_any_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let stores: [Arc<dyn RunStore>; 2] = [
        Arc::new(MemoryStore::new()),
        Arc::new(FileRunStore::for_project(folder.path())),
    ];
    for store in stores {
        let (_files, runs) = runs(&[ASK, TWICE]);
        let runs = runs.with_store(store);
        let waiting = Runs::for_project(runs.project().clone(), RunHost::from_system().without_operator())
            .with_store(runs.store());
        let run = waiting
            .start_run("ask.yaml", RunOptions::default())
            .await
            .expect("starts");
        let ended = run.wait_for_end().await.expect("ends");
        assert_eq!(ended.completion_reason, CompletionReason::WaitingForInput);
        let id = run.wait_and_close().await.expect("closes").run;
        let options = || RunOptions::default().with_answer("person", "5");
        assert!(matches!(
            runs.continue_with_message(&id, "more", options()).await,
            Err(RunError::NotEnded(_))
        ));
        let run = runs.resume_run(&id, options()).await.expect("resumes");
        assert_eq!(
            run.wait_for_end().await.expect("ends").completion_reason,
            CompletionReason::Completed
        );
        assert!(
            matches!(runs.resume_run(&id, options()).await, Err(RunError::Store(_))),
            "it is held"
        );
        run.continue_with_message("again").await.expect("has ended");
        assert_eq!(
            run.wait_for_end().await.expect("ends").completion_reason,
            CompletionReason::Completed
        );
        let state = run.wait_and_close().await.expect("closes").state;
        assert_eq!((&**state.input(), state.turn_count()), ("again", 4));
        assert!(matches!(
            runs.resume_run(&id, options()).await,
            Err(RunError::IsOver(_))
        ));
        let context = ensemble_language::data::RunContext::default();
        let fork = runs
            .prepare_fork(&id, 1, context, None, options())
            .await
            .expect("forks");
        let run = fork.ready.start_and_spawn().await.expect("starts");
        assert_eq!(
            run.wait_for_end().await.expect("ends").completion_reason,
            CompletionReason::Completed
        );
        assert_ne!(*run.id(), id);
        let record = runs.resolve_record(&id).await.expect("is there");
        let replayed = runs.replay_record(record, Default::default()).await.expect("replays");
        assert_eq!(replayed.outcome, ensemble_runs::replay::ReplayOutcome::Same);
    }
}

#[tokio::test]
async fn what_is_not_asked_cannot_be_answered() {
    let (_folder, runs) = runs(&[ASK, TWICE]);
    let run = runs
        .start_run("ask.yaml", RunOptions::default().with_answer("person", "3"))
        .await
        .expect("starts");
    run.wait_for_end().await.expect("ends");
    let asked = run.wait_for_request("person").await;
    assert!(matches!(asked, Err(RunError::NotAsked(_))), "{asked:?}");
    let broken = runs.start_run(
        EnsembleRef::from_text("name: x\nagents: [{name: a, scrpt: y}]\n"),
        RunOptions::default(),
    );
    let error = broken.await.err().expect("an error").to_string();
    assert!(
        error.contains("ensemble:2:20: E010") && error.contains("did you mean `script`?"),
        "{error}"
    );
}

#[tokio::test]
async fn a_clock_before_1970_does_no_harm() {
    use chrono::{DateTime, Utc};

    let (_folder, runs) = runs(&[ASK, TWICE]);
    let store = runs.store();
    let began = DateTime::<Utc>::UNIX_EPOCH - chrono::Duration::days(40_000);
    let host = RunHost::from_system().with_clock(move || began);
    let runs = Runs::for_project(runs.project().clone(), host).with_store(store.clone());
    let options = RunOptions::default().with_answer("person", "21");
    let run = runs.start_run("ask.yaml", options).await.expect("it starts");
    let finished = run.wait_and_close().await.expect("it ends");
    let ended = finished.state.run_end().expect("it has ended");
    assert_eq!(ended.completion_reason, CompletionReason::Completed);
    let recorded = store.find_latest_run().await.expect("a run");
    assert!(recorded.id().as_str().contains("-18600626-"), "{}", recorded.id());
    let records = recorded.read_journal().await.expect("the log can be read").records;
    assert!(records.iter().all(|record| record.at == began));
}

#[tokio::test]
async fn a_journal_with_an_illegal_event_is_refused_with_the_number_of_the_record() {
    let ensemble = "name: e\nagents: [{name: a, script: tick.rhai}]\n";
    let (_folder, runs) = runs(&[("e.yaml", ensemble), TICK]);
    let run = runs
        .start_run("e.yaml", RunOptions::default())
        .await
        .expect("it starts");
    let id = run.id().clone();
    run.wait_and_close().await.expect("it ends");
    let stored = runs.store().find_run_by_prefix(id.as_str()).await.expect("it is kept");
    let journal = stored.read_journal().await.expect("memory can be read");
    let last = journal.records.last().expect("a record").clone();
    let seq = last.seq + 1;
    let mut log = stored
        .open_log(journal.end, Durability::Commit)
        .await
        .expect("memory opens");
    log.append(&Record { seq, ..last }).await.expect("memory takes it");
    let refused = runs.prepare_fork(id.as_str(), 1, RunContext::default(), None, RunOptions::default());
    let Err(error) = refused.await else {
        panic!("the run ends twice");
    };
    assert!(matches!(&error, RunError::Illegal(illegal) if illegal.seq == seq));
    let expected = format!(
        "the journal is damaged: record {seq} (`run_ended`) cannot follow the records before it: the run has ended (completed)"
    );
    assert_eq!(error.to_string(), expected);
}
