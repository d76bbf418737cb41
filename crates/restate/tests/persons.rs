//! Persons who are asked inside of inner ensembles, on the engine itself, which `tests/install.sh restate` installs; without it these
//! tests say that they were skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use chrono::Utc;
use ensemble_core::conversation::PermissionDecision;
use ensemble_core::conversation::{CompletionReason, Event, Record};
use ensemble_core::request::PendingRequest;
use ensemble_core::store::{MemoryStore, RunId, StoredRun};
use ensemble_language::plan::Plan;
use ensemble_remote::protocol::SentQuestionAnswer;
use ensemble_runs::{EnsembleRef, RunOptions, Runs};
use serde_json::{Value, json};

use support::compare::{folded, nested, told};
use support::terminal::TerminalSession;
use support::{Engine, INGRESS, in_a_network, process_in, records_when, remote, skipped, start};

/// Two ensembles around one that asks, and an agent beside them.
const OUTER: &str = "name: outer
agents:
  - {name: gate, ensemble: middle.yaml, config: {k: 3}}
  - {name: beside, script: step.sh}
  - {name: after, script: after.rhai, depends_on: [gate]}
";
const MIDDLE: &str = "name: middle
agents:
  - {name: first, script: step.sh}
  - {name: inner, ensemble: person.yaml, depends_on: [first]}
  - {name: last, script: step.sh, depends_on: [inner]}
";
const PERSON: &str = "name: person
agents:
  - {name: person, input: {prompt: How many?}}
  - {name: twice, script: twice.rhai, depends_on: [person]}
";

/// A line for each begin, appended at once.
const STEP: &str = "cat > /dev/null; echo \"$ENSEMBLE_RUN_ID $ENSEMBLE_AGENT_NAME\" >> ledger; echo done";

/// Three parts, each of which asks, and a fourth that does not, and of which no more than two are performed side by side.
const EACH: &str = "name: each
agents:
  - name: each
    ensemble: part.yaml
    inputs: {n: '{{ item }}'}
    for_each: {in: [1, 2, 3, 4], max_parallel: 2, on_error: collect}
";
const PART: &str = "name: part
agents:
  - {name: first, script: step.sh}
  - name: person
    input: {prompt: 'How many of {{ context.n }}?'}
    dependencies: [{agent_name: first, condition: context.n != 4}]
";

/// An inner ensemble whose model calls a tool that a person must permit.
const CALLS: &str = "name: calls\nagents: [{name: gate, ensemble: writes.yaml}]\n";
const WRITES: &str = "name: writes
agents: [{name: a, model_profile: m, tools: [write]}]
model_profiles:
  m:
    provider: simulated
    replies: [{tool_calls: [{name: write, arguments: {n: 1}}]}, {tool_calls: [{name: write, arguments: {n: 2}}]}, done]
tools:
  write: {script: 'cat > /dev/null; echo called >> ledger; echo 1', parameters: {type: object}, permission: ask}
";

#[test]
fn persons_inside_are_asked_on_the_engine_as_here() {
    in_a_network("asked_inside");
}

#[test]
fn a_run_that_waits_inside_is_cut_short_and_goes_on() {
    in_a_network("cut_short_inside");
}

#[test]
fn the_program_answers_questions_of_runs_inside() {
    in_a_network("program_answers");
}

async fn engine() -> Engine {
    Engine::start(&[
        ("outer.yaml", OUTER),
        ("middle.yaml", MIDDLE),
        ("person.yaml", PERSON),
        ("each.yaml", EACH),
        ("part.yaml", PART),
        ("calls.yaml", CALLS),
        ("writes.yaml", WRITES),
        ("step.sh", STEP),
        ("twice.rhai", "#{ n: parse_int(dependencies.person.response) * 2 }"),
        ("after.rhai", "#{ of: dependencies.gate }"),
        ("none.yaml", "name: none\nagents: [{name: a, script: step.sh}]\n"),
        (
            "both.yaml",
            "name: both\nagents: [{name: gate, ensemble: person.yaml}, {name: other, ensemble: none.yaml, depends_on: [gate]}]\n",
        ),
        (
            "waits.yaml",
            "name: waits\nagents: [{name: gate, ensemble: person.yaml}, {name: slow, script: 'cat > /dev/null; echo $$ > pid; until [ -e go ]; do sleep 0.05; done; echo ok'}]\n",
        ),
    ])
    .await
}

fn ends(record: &Record) -> bool {
    matches!(record.event, Event::RunEnded(_))
}

/// The records when the run waits, or is over, after more than these.
async fn stopped(id: &str, after: usize) -> Vec<Record> {
    records_when(id, |records, _| {
        records.len() > after && records.last().is_some_and(ends)
    })
    .await
}

fn reason(plan: &Arc<Plan>, records: &[Record]) -> Option<CompletionReason> {
    folded(plan, records).run_end().map(|ended| ended.completion_reason)
}

/// The first pending request of a run.
fn pending(plan: &Arc<Plan>, records: &[Record]) -> PendingRequest {
    let state = folded(plan, records);
    state.pending_requests().next().expect("a question").clone()
}

/// Answers the first request that an agent has made since the run continued.
async fn answer(id: &str, agent: &str, records: &[Record], answer: Value, decision: Option<PermissionDecision>) {
    let is_resumed = |record: &Record| matches!(record.event, Event::RunResumed(_));
    let continued = records.iter().rposition(is_resumed).unwrap_or(0);
    let digest = records[continued..].iter().find_map(|record| match &record.event {
        Event::InputRequested(requested) if *requested.agent == *agent => Some(requested.digest.clone()),
        _ => None,
    });
    let answer = SentQuestionAnswer {
        agent: agent.to_owned(),
        execution: 1,
        asked: records.len() as u64,
        answer,
        decision,
        digest: digest.expect("a request"),
        by: None,
        at: Utc::now(),
        refuses_exhausted: None,
    };
    remote().send_answer(id, &answer).await.expect("it is taken");
}

fn ledger(engine: &Engine, run: &str) -> Vec<String> {
    let text = std::fs::read_to_string(engine.path().join("ledger")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let lines = lines.filter(|(of, _)| of.starts_with(run));
    lines.map(|(_, step)| step.to_owned()).collect()
}

/// The run here, until it waits.
async fn here(runs: &Runs, file: &str) -> Arc<dyn StoredRun> {
    let run = runs
        .start_run(EnsembleRef::from_file_or_name(file), RunOptions::default())
        .await;
    let run = run.expect("it starts");
    let stored = run.stored_run().clone();
    run.wait_and_close().await.expect("it waits");
    stored
}

/// Goes on here with this answer.
async fn resumed(runs: &Runs, run: &Arc<dyn StoredRun>, text: &str) {
    let mut options = RunOptions::default();
    options.answers.insert_file_entry("person", json!(text));
    let run = runs.resume_run(run.id().as_str(), options).await.expect("it goes on");
    run.wait_and_close().await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`persons_inside_are_asked_on_the_engine_as_here` starts it in a network of its own"]
async fn asked_inside() {
    let mut engine = engine().await;
    let runs = engine.runs();
    let id = "aaaa-20261123-080000000";
    let plan = start(&engine, "outer.yaml", id).await;
    let waits = stopped(id, 0).await;
    assert_eq!(reason(&plan, &waits), Some(CompletionReason::WaitingForInput));
    // As on one machine, also in the runs inside.
    let local = here(&runs, "outer.yaml").await;
    let of_local = async || local.read_journal().await.expect("its log").records;
    let records = of_local().await;
    assert_eq!(
        told(&folded(&plan, &waits), &waits),
        told(&folded(&plan, &records), &records)
    );
    let fetched = async || {
        let run = RunId::new(id);
        let copy = remote().copy_run(&run, &MemoryStore::new()).await.expect("a copy");
        nested(copy, &runs).await
    };
    assert_eq!(fetched().await, nested(local.clone(), &runs).await);
    // Who asks is known by its path.
    let request = pending(&plan, &waits);
    let place = format!("{id}/sub/gate-1-1/sub/inner-1-1");
    assert_eq!((&*request.agent, request.execution), ("person", 1));
    assert_eq!(request.address.to_string(), "gate.inner.person");
    assert_eq!(request.question.prompt, "How many?");
    // It is a workflow, which no worker keeps.
    assert!(
        !remote()
            .fetch_records(&place, 0)
            .await
            .expect("its records")
            .lines
            .is_empty()
    );
    engine.kill_worker();
    engine.start_worker();

    // A decision is no answer to a question.
    answer(id, "gate", &waits, Value::Null, Some(PermissionDecision::Once)).await;
    let again = stopped(id, waits.len()).await;
    assert_eq!(reason(&plan, &again), Some(CompletionReason::WaitingForInput));
    answer(id, "gate", &again, json!("21"), None).await;
    let there = stopped(id, again.len()).await;
    assert_eq!(reason(&plan, &there), Some(CompletionReason::Completed));
    assert_eq!(
        json!(**folded(&plan, &there).context())["after"]["of"]["inner"]["twice"]["n"],
        json!(42)
    );
    // What had ended around the question is not repeated.
    let mut steps = ledger(&engine, id);
    steps.sort_unstable();
    assert_eq!(steps, ["beside", "first", "last"]);

    // The same with the answer that it needs, once.
    let id = "abbb-20261123-080000000";
    let plan = start(&engine, "outer.yaml", id).await;
    let waits = stopped(id, 0).await;
    answer(id, "gate", &waits, json!("21"), None).await;
    let there = stopped(id, waits.len()).await;
    let local = here(&runs, "outer.yaml").await;
    resumed(&runs, &local, "21").await;
    let records = local.read_journal().await.expect("its log").records;
    assert_eq!(
        told(&folded(&plan, &there), &there),
        told(&folded(&plan, &records), &records)
    );
    let copy = remote()
        .copy_run(&RunId::new(id), &MemoryStore::new())
        .await
        .expect("a copy");
    assert_eq!(nested(copy, &runs).await, nested(local, &runs).await);

    // Parts ask one after the other, each once, and what they did before is not repeated.
    let id = "bbbb-20261123-080000000";
    let plan = start(&engine, "each.yaml", id).await;
    let mut records = stopped(id, 0).await;
    for n in 1..=3 {
        assert_eq!(reason(&plan, &records), Some(CompletionReason::WaitingForInput));
        let request = pending(&plan, &records);
        assert!(request.address.to_string().starts_with("each["), "{request:?}");
        assert_eq!(request.question.prompt, format!("How many of {n}?"));
        answer(id, "each", &records, json!(format!("{n}0")), None).await;
        records = stopped(id, records.len()).await;
    }
    let state = folded(&plan, &records);
    assert_eq!(reason(&plan, &records), Some(CompletionReason::Completed));
    let items = json!(**state.context())["each"]["items"].clone();
    let said: Vec<&Value> = items
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| &item["person"]["response"])
        .collect();
    assert_eq!(said, [&json!("10"), &json!("20"), &json!("30"), &Value::Null]);
    assert_eq!(ledger(&engine, id), ["first"; 4]);
    // A part goes on when it has its answer, and not with the answers of others.
    let copy = remote()
        .copy_run(&RunId::new(id), &MemoryStore::new())
        .await
        .expect("a copy");
    let mut went_on = Vec::new();
    for name in copy.list_nested_run_names().await.expect("names") {
        let part = copy
            .find_nested_run(&name)
            .await
            .expect("it can be read")
            .expect("it is there");
        let records = part.read_journal().await.expect("its log").records;
        let resumed = records
            .iter()
            .filter(|record| matches!(record.event, Event::RunResumed(_)));
        went_on.push(resumed.count());
    }
    went_on.sort_unstable();
    assert_eq!(went_on, [0, 1, 1, 1]);
    let local = here(&runs, "each.yaml").await;
    let mut options = RunOptions::default();
    options.answers.insert_file_entry("person", json!("10"));
    runs.resume_run(local.id().as_str(), options)
        .await
        .expect("it goes on")
        .wait_and_close()
        .await
        .expect("it ends");
    let here = local.read_journal().await.expect("its log").records;
    let (there, here) = (told(&state, &records), told(&folded(&plan, &here), &here));
    assert_eq!((&there["turns"], &there["ended"]), (&here["turns"], &here["ended"]));

    // A call of a tool inside is permitted in the same way.
    let _ = std::fs::remove_file(engine.path().join("ledger"));
    let called = || {
        std::fs::read_to_string(engine.path().join("ledger"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    let id = "cccc-20261123-080000000";
    let plan = start(&engine, "calls.yaml", id).await;
    let first = stopped(id, 0).await;
    assert!(pending(&plan, &first).address.to_string().starts_with("gate.a/"));
    assert_eq!(called(), 0);
    answer(id, "gate", &first, Value::Null, Some(PermissionDecision::Once)).await;
    let second = stopped(id, first.len()).await;
    assert_eq!(
        (reason(&plan, &second), called()),
        (Some(CompletionReason::WaitingForInput), 1)
    );
    answer(id, "gate", &second, Value::Null, Some(PermissionDecision::Denied)).await;
    let end = stopped(id, second.len()).await;
    assert_eq!((reason(&plan, &end), called()), (Some(CompletionReason::Completed), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_run_that_waits_inside_is_cut_short_and_goes_on` starts it in a network of its own"]
async fn cut_short_inside() {
    let engine = engine().await;
    let id = "aaaa-20261123-080000000";
    let plan = start(&engine, "waits.yaml", id).await;
    // The run inside waits, and an agent beside it goes on: the run itself does not wait yet.
    let process = process_in(&engine.path().join("pid")).await;
    let inside = format!("{id}/sub/gate-1-1");
    stopped(&inside, 0).await;
    let asks = |records: &[Record], _| {
        records
            .iter()
            .any(|record| matches!(record.event, Event::InputRequested(_)))
    };
    records_when(id, asks).await;
    remote().cancel_run(id, "a test").await.expect("it is cancelled");
    let cut = stopped(id, 0).await;
    assert_eq!(reason(&plan, &cut), Some(CompletionReason::Cancelled));
    process.ended().await;
    std::fs::write(engine.path().join("go"), "").expect("a file");
    remote().request_resume(id, Utc::now()).await.expect("it goes on");
    // It asks again.
    let waits = stopped(id, cut.len()).await;
    assert_eq!(reason(&plan, &waits), Some(CompletionReason::WaitingForInput));
    assert!(pending(&plan, &waits).address.to_string().starts_with("gate."));
    answer(id, "gate", &waits, json!("4"), None).await;
    let end = stopped(id, waits.len()).await;
    assert_eq!(reason(&plan, &end), Some(CompletionReason::Completed));
    assert_eq!(json!(**folded(&plan, &end).context())["gate"]["twice"]["n"], json!(8));
    // One run inside, with all that it did.
    let copy = remote()
        .copy_run(&RunId::new(id), &MemoryStore::new())
        .await
        .expect("a copy");
    assert_eq!(copy.list_nested_run_names().await.expect("names"), ["gate-1-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`the_program_answers_questions_of_runs_inside` starts it in a network of its own"]
async fn program_answers() {
    let program = Path::new(env!("CARGO_BIN_EXE_ensemble-restate")).with_file_name("ensemble");
    if !program.is_file() {
        return skipped("`cargo build` makes the program that this test drives");
    }
    let engine = engine().await;
    let clean = |command: &mut Command| {
        command.current_dir(engine.path()).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", engine.path());
    };
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        clean(command.args(arguments).stdin(Stdio::null()));
        let output = command.output().expect("the program starts");
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        (output.status.code(), String::from_utf8(text).expect("text"))
    };
    // An answer and a permission that are given beforehand hold inside, also beside ensembles that ask nobody and have no tools.
    let (code, text) = run(&[
        "run",
        "both.yaml",
        "--on",
        INGRESS,
        "--answer",
        "person=3",
        "--allow-tool",
        "write",
    ]);
    assert_eq!(code, Some(0), "{text}");

    let (code, text) = run(&["run", "outer.yaml", "--on", INGRESS]);
    assert_eq!(code, Some(3), "{text}");
    let hint = format!("--answer gate.inner.person=… --on {INGRESS}");
    assert!(text.contains(&hint), "{text}");
    let (_, listed) = run(&["runs", "list", "--on", INGRESS]);
    assert!(listed.contains("waiting"), "{listed}");
    // An answer for somebody else is none.
    let (code, text) = run(&["resume", "--last", "--on", INGRESS, "--answer", "gate=3"]);
    assert_eq!(code, Some(2), "{text}");
    let (code, text) = run(&["resume", "--last", "--on", INGRESS, "--answer", "person=3"]);
    assert_eq!(code, Some(0), "{text}");

    // A copy of a run that waits inside goes on here.
    let (code, text) = run(&["run", "outer.yaml", "--on", INGRESS]);
    assert_eq!(code, Some(3), "{text}");
    let latest = remote().list_latest_run_ids(1).await.expect("a list").remove(0);
    let (code, text) = run(&["runs", "fetch", latest.as_str(), "--on", INGRESS]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(&["resume", "--last", "--answer", "person=4", "--output", "json"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("\"n\": 8") || text.contains("\"n\":8"), "{text}");
    assert_eq!(
        ledger(&engine, "").iter().filter(|step| *step == "first").count(),
        2,
        "nothing is repeated"
    );

    // A person at a terminal, which `script` is.
    let mut command = Command::new("script");
    let line = format!("{} run each.yaml --on {INGRESS}", program.display());
    clean(command.args(["-qec", &line, "/dev/null"]));
    let Some(mut terminal) = TerminalSession::start(&mut command) else {
        return skipped("there is no `script`, which is a terminal");
    };
    // What is typed before the prompt of a question is not its answer.
    for n in 1..=3 {
        let question = format!("How many of {n}?");
        // The summary of a waiting run contains all questions, and the command that answers them.
        terminal.wait_for(|text| {
            let after = text.rsplit_once(&question).map(|(_, after)| after);
            after.is_some_and(|after| after.contains("> ") && !after.contains("answer with"))
        });
        terminal.type_keys(&format!("{n}\n"));
    }
    let (code, text) = terminal.wait_until_ended();
    assert_eq!(code, Some(0), "{text}");
    for n in 1..=3 {
        assert!(text.contains(&format!("How many of {n}?")), "{text}");
    }
}
