//! Runs on the engine itself, which `tests/install.sh restate` installs; without it these tests say that they were skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "a part of the harness is for the benchmark")]
mod support;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use chrono::Utc;
use ensemble_core::conversation::{CompletionReason, ConversationState, Event, Record};
use ensemble_core::store::{MemoryStore, RunId};
use ensemble_language::random_ensembles::plan_with_results;
use ensemble_remote::protocol::SentQuestionAnswer;
use ensemble_runs::{EnsembleRef, RunOptions};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use support::compare::{folded, here, nested, told, without_attempts};
use support::random::{FATE, text_of};
use support::{
    Engine, INGRESS, all_records, digest_of_question, in_a_network, process_in, records_when, remote, skipped, start,
};

#[test]
fn runs_on_the_engine_end_as_runs_here_do() {
    in_a_network("same");
}

#[test]
fn questions_cancellation_and_time_limits_work_on_the_engine() {
    in_a_network("questions");
}

#[test]
fn killed_workers_lose_nothing_and_repeat_nothing_that_had_ended() {
    in_a_network("kills");
}

#[test]
fn inner_ensembles_are_workflows_of_their_own() {
    in_a_network("inner");
}

#[test]
fn the_program_drives_runs_on_the_engine() {
    in_a_network("program");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`runs_on_the_engine_end_as_runs_here_do` starts it in a network of its own"]
async fn same() {
    let mut engine = Engine::start(&[("fate.rhai", FATE)]).await;
    let mut random = TestRunner::deterministic();
    let mut texts = Vec::new();
    while texts.len() < 80 {
        let (plan, fate) = plan_with_results()
            .new_tree(&mut random)
            .expect("an ensemble")
            .current();
        let text = text_of(&plan, &fate, |_| Value::Null);
        let file = format!("random{}.yaml", texts.len());
        std::fs::write(engine.path().join(&file), &text).expect("a file");
        // What the loader refuses is nothing to compare.
        if engine
            .runs()
            .prepare_run(EnsembleRef::from_file_or_name(&file), RunOptions::default())
            .is_ok()
        {
            texts.push((file, text));
        }
    }
    // A worker that has known the runs from their start, and one that has to read them.
    let mut plans = HashMap::new();
    for (at, (file, _)) in texts.iter().enumerate() {
        plans.insert(at, start(&engine, file, &format!("r{at:03}-20261123-080000000")).await);
        if at == 40 {
            engine.kill_worker();
            engine.start_worker();
        }
    }
    let mut executions = 0;
    for (at, (file, text)) in texts.iter().enumerate() {
        let records = all_records(&format!("r{at:03}-20261123-080000000")).await;
        let there = without_attempts(told(&folded(&plans[&at], &records), &records));
        let here = without_attempts(here(&engine.runs(), file).await);
        executions += here["ends"].as_array().expect("a list").len();
        assert_eq!(there, here, "{text}");
    }
    assert!(executions > 100, "{executions} executions are too few to compare");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`questions_cancellation_and_time_limits_work_on_the_engine` starts it in a network of its own"]
async fn questions() {
    let engine = Engine::start(&[
        ("ask.yaml", "name: ask\nagents:\n  - {name: person, input: {prompt: How many?}}\n  - {name: twice, script: twice.rhai, depends_on: [person]}\n"),
        ("twice.rhai", "#{ n: parse_int(dependencies.person.response) * 2 }"),
        ("slow.yaml", "name: slow\nagents: [{name: a, script: 'echo $$ > pid; sleep 600'}]\n"),
        ("late.yaml", "name: late\nagents: [{name: a, script: sleep 600}]\nconversation_limits: {timeout_seconds: 1}\n"),
        ("outer.yaml", "name: outer\nagents: [{name: inner, ensemble: inner.yaml}]\n"),
        ("inner.yaml", "name: inner\nagents: [{name: a, script: a.rhai}]\n"),
        ("a.rhai", "#{ n: 7 }"),
    ])
    .await;

    let plan = start(&engine, "ask.yaml", "aaaa-20261123-080000000").await;
    let waits = |records: &[Record], _| matches!(records.last().map(|last| &last.event), Some(Event::RunEnded(_)));
    let records = records_when("aaaa-20261123-080000000", waits).await;
    let state = folded(&plan, &records);
    let reason = |state: &ConversationState| state.run_end().map(|ended| ended.completion_reason);
    assert_eq!(reason(&state), Some(CompletionReason::WaitingForInput));
    let answer = SentQuestionAnswer {
        agent: "person".to_owned(),
        execution: 1,
        asked: records.len() as u64,
        answer: json!("21"),
        decision: None,
        digest: digest_of_question(&records),
        by: None,
        at: Utc::now(),
        refuses_exhausted: None,
    };
    remote()
        .send_answer("aaaa-20261123-080000000", &answer)
        .await
        .expect("it is taken");
    let state = folded(&plan, &all_records("aaaa-20261123-080000000").await);
    assert_eq!(reason(&state), Some(CompletionReason::Completed));
    assert_eq!(
        json!(**state.context())["twice"]["n"],
        json!(42),
        "{:?}",
        state.context()
    );

    let plan = start(&engine, "slow.yaml", "bbbb-20261123-080000000").await;
    let pid = engine.path().join("pid");
    let process = process_in(&pid).await;
    remote()
        .cancel_run("bbbb-20261123-080000000", "a test")
        .await
        .expect("it is cancelled");
    let records = all_records("bbbb-20261123-080000000").await;
    let state = folded(&plan, &records);
    assert_eq!(reason(&state), Some(CompletionReason::Cancelled));
    let detail = state.run_end().and_then(|ended| ended.detail.clone());
    assert!(
        detail.as_ref().is_some_and(|detail| detail.contains("a test")),
        "{detail:?}"
    );
    process.ended().await;

    let plan = start(&engine, "late.yaml", "cccc-20261123-080000000").await;
    let state = folded(&plan, &all_records("cccc-20261123-080000000").await);
    assert_eq!(reason(&state), Some(CompletionReason::Timeout));

    start(&engine, "outer.yaml", "dddd-20261123-080000000").await;
    all_records("dddd-20261123-080000000").await;
    let store = MemoryStore::new();
    let run = remote()
        .copy_run(&RunId::new("dddd-20261123-080000000"), &store)
        .await
        .expect("it can be read");
    let inside = run
        .find_nested_run("inner-1-1")
        .await
        .expect("it can be read")
        .expect("the inner run");
    let records = inside.read_journal().await.expect("it can be read").records;
    assert!(
        matches!(records.last().map(|last| &last.event), Some(Event::RunEnded(_))),
        "{records:?}"
    );

    let listed: Vec<RunId> = remote()
        .list_latest_briefs(10)
        .await
        .expect("a list")
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    let ids = ["aaaa", "bbbb", "cccc", "dddd"].map(|id| RunId::new(format!("{id}-20261123-080000000")));
    assert_eq!(listed, ids);
    assert_eq!(remote().list_latest_briefs(2).await.expect("a list").len(), 2);
    assert_eq!(
        remote().resolve_run_id(Some("bbbb")).await.expect("one").as_str(),
        "bbbb-20261123-080000000"
    );
    let none = remote().resolve_run_id(Some("zzzz")).await.expect_err("none");
    assert_eq!(none.to_string(), format!("there is no run `zzzz` on {INGRESS}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`inner_ensembles_are_workflows_of_their_own` starts it in a network of its own"]
async fn inner() {
    let engine = Engine::start(&[
        ("outer.yaml", "name: outer\nagents:\n  - {name: first, script: one.rhai}\n  - {name: middle, ensemble: middle.yaml, depends_on: [first], config: {k: 3}}\n  - {name: last, script: last.rhai, depends_on: [middle]}\n"),
        ("middle.yaml", "name: middle\nagents:\n  - {name: inner, ensemble: inner.yaml}\n  - {name: again, ensemble: fails.yaml, on_error: continue, retry: {max_attempts: 2, delay_seconds: 0}}\n"),
        ("inner.yaml", "name: inner\nagents: [{name: a, script: one.rhai}]\n"),
        ("fails.yaml", "name: fails\nagents: [{name: a, script: fails.rhai}]\n"),
        ("one.rhai", "#{ n: execution }"),
        ("fails.rhai", "throw `no`"),
        ("last.rhai", "#{ of: dependencies.middle }"),
        ("cut.yaml", "name: cut\nagents: [{name: slow, ensemble: slow.yaml}]\n"),
        ("slow.yaml", "name: slow\nagents: [{name: a, script: 'echo $$ > pid; sleep 600'}]\n"),
        ("late.yaml", "name: late\nagents: [{name: slow, ensemble: slow.yaml}]\nconversation_limits: {timeout_seconds: 2}\n"),
    ])
    .await;
    let id = RunId::new("aaaa-20261123-080000000");
    let plan = start(&engine, "outer.yaml", id.as_str()).await;
    let records = all_records(id.as_str()).await;
    let store = MemoryStore::new();
    let there = remote().copy_run(&id, &store).await.expect("it can be read");
    let runs = engine.runs();
    let run = runs
        .start_run(EnsembleRef::from_file_or_name("outer.yaml"), RunOptions::default())
        .await;
    let run = run.expect("it starts");
    let here = run.stored_run().clone();
    run.wait_and_close().await.expect("it ends");
    let records_here = here.read_journal().await.expect("it can be read").records;
    assert_eq!(
        told(&folded(&plan, &records), &records),
        told(&folded(&plan, &records_here), &records_here)
    );
    let there = nested(there, &engine.runs()).await;
    assert_eq!(there, nested(here, &engine.runs()).await);
    assert_eq!(
        there["middle-1-1"][2].as_object().map(|inside| inside.len()),
        Some(3),
        "{there}"
    );

    // A run inside a run is a workflow, which no list has.
    let inside = format!("{id}/sub/middle-1-1/sub/inner-1-1");
    assert!(remote().fetch_records(&inside, 0).await.expect("its records").is_over);
    assert_eq!(
        remote().list_latest_run_ids(10).await.expect("a list"),
        std::slice::from_ref(&id)
    );

    let ends = |records: &[Record]| records.iter().any(|record| matches!(record.event, Event::RunEnded(_)));

    // Cancellation, and the time limit, reach the runs inside.
    for (file, id, is_cancelled) in [("cut.yaml", "bbbb", true), ("late.yaml", "cccc", false)] {
        let (pid, id) = (engine.path().join("pid"), format!("{id}-20261123-080000000"));
        let _ = std::fs::remove_file(&pid);
        start(&engine, file, &id).await;
        let process = process_in(&pid).await;
        if is_cancelled {
            remote().cancel_run(&id, "a test").await.expect("it is cancelled");
        }
        all_records(&id).await;
        // The run inside it ends too, and with it the script.
        let inside = records_when(&format!("{id}/sub/slow-1-1"), |records, _| ends(records)).await;
        let Some(Event::RunEnded(ended)) = inside.last().map(|last| &last.event) else {
            panic!("{inside:?}");
        };
        assert_eq!(ended.completion_reason, CompletionReason::Cancelled);
        process.ended().await;
        let cut = remote()
            .copy_run(&RunId::new(&*id), &store)
            .await
            .expect("it can be read");
        assert_eq!(cut.list_nested_run_names().await.expect("names"), ["slow-1-1"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`killed_workers_lose_nothing_and_repeat_nothing_that_had_ended` starts it in a network of its own"]
async fn kills() {
    let steps = ["a", "b", "c", "d"];
    let mut chain = String::from("name: chain\nagents:\n");
    for (at, step) in steps.iter().enumerate() {
        let after = if at == 0 {
            String::new()
        } else {
            format!(", depends_on: [{}]", steps[at - 1])
        };
        chain.push_str(&format!("  - {{name: {step}, script: step.sh{after}}}\n"));
    }
    // A line for each begin, appended at once.
    let step = "input=$(cat)\nrun=$ENSEMBLE_RUN_ID\necho \"$run $ENSEMBLE_AGENT_NAME\" >> ledger\nsleep 0.05\n";
    let mut engine = Engine::start(&[("chain.yaml", &chain), ("step.sh", step)]).await;
    let count = 30;
    let id = |at: usize| format!("k{at:03}-20261123-080000000");
    let mut plan = None;
    for at in 0..count {
        plan = Some(start(&engine, "chain.yaml", &id(at)).await);
    }
    let kills = 6;
    for _ in 0..kills {
        // Until something more was begun, so that every kill meets work.
        let ledger = || std::fs::read_to_string(engine.path().join("ledger")).map_or(0, |text| text.lines().count());
        let (before, begun) = (ledger(), Instant::now());
        while ledger() < before + 5 && begun.elapsed() < Duration::from_secs(5) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        engine.kill_worker();
        engine.start_worker();
    }
    let plan = plan.expect("there are runs");
    for at in 0..count {
        let state = folded(&plan, &all_records(&id(at)).await);
        let reason = state.run_end().map(|ended| ended.completion_reason);
        assert_eq!(reason, Some(CompletionReason::Completed), "run {at}");
    }
    let ledger = std::fs::read_to_string(engine.path().join("ledger")).expect("a ledger");
    for at in 0..count {
        let run = id(at);
        let begun: Vec<&str> = ledger
            .lines()
            .filter_map(|line| line.strip_prefix(&*run))
            .map(str::trim)
            .collect();
        // `b` begins when the end of `a` is recorded: from then on `a` never begins again.
        assert!(begun.is_sorted(), "run {run}: {begun:?}");
        let mut once = begun.clone();
        once.dedup();
        assert_eq!(once, steps, "run {run}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`the_program_drives_runs_on_the_engine` starts it in a network of its own"]
async fn program() {
    let program = Path::new(env!("CARGO_BIN_EXE_ensemble-restate")).with_file_name("ensemble");
    if !program.is_file() {
        return skipped("`cargo build` makes the program that this test drives");
    }
    let engine = Engine::start(&[
        ("gate.yaml", "name: gate\nagents:\n  - {name: person, input: {prompt: Print it?}}\n  - {name: says, script: says.rhai, depends_on: [person]}\n"),
        ("says.rhai", "`the person said ${dependencies.person.response}`"),
    ])
    .await;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(engine.path()).env_clear();
        command
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", engine.path())
            .stdin(Stdio::null());
        let output = command.output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = run(&["run", "gate.yaml", "--on", INGRESS, "-q", "--answer", "person=yes"]);
    assert_eq!((code, out.trim()), (Some(0), "the person said yes"), "{err}");

    let (code, out, err) = run(&["run", "gate.yaml", "--on", INGRESS]);
    assert_eq!(code, Some(3), "{out}{err}");
    let hint = format!("--answer person=… --on {INGRESS}");
    assert!(out.contains(&hint) || err.contains(&hint), "{out}{err}");
    let (code, out, err) = run(&["resume", "--last", "--on", INGRESS, "--answer", "person=no", "-q"]);
    assert_eq!((code, out.trim()), (Some(0), "the person said no"), "{err}");

    let (code, out, err) = run(&["run", "gate.yaml", "--on", INGRESS, "--detach"]);
    assert_eq!(code, Some(0), "{err}");
    let id = out.trim().to_owned();
    let (_, out, _) = run(&["runs", "list", "--on", INGRESS]);
    assert_eq!(out.lines().count(), 3, "{out}");
    records_when(&id, |records, _| {
        matches!(records.last().map(|last| &last.event), Some(Event::RunEnded(_)))
    })
    .await;
    let (code, out, err) = run(&["resume", &id, "--on", INGRESS, "--answer", "person=maybe", "-q"]);
    assert_eq!((code, out.trim()), (Some(0), "the person said maybe"), "{err}");

    let batch = |rows: &str| {
        std::fs::write(engine.path().join("rows.jsonl"), rows).expect("a file");
        run(&[
            "batch",
            "gate.yaml",
            "--data",
            "rows.jsonl",
            "--on",
            INGRESS,
            "--answer",
            "person=yes",
            "--output",
            "json",
        ])
    };
    let rows: String = (0..20).map(|row| format!("{{\"n\": {row}}}\n")).collect();
    let (code, out, err) = batch(&rows);
    assert_eq!(code, Some(0), "{out}{err}");
    let (_, listed, _) = run(&["runs", "list", "--on", INGRESS, "--output", "json"]);
    let count = |listed: &str| {
        serde_json::from_str::<Value>(listed).expect("JSON")["runs"]
            .as_array()
            .expect("a list")
            .len()
    };
    assert_eq!(count(&listed), 23, "{listed}");
    // The rows have ended, and one is new.
    let (code, out, err) = batch(&format!("{rows}{{\"n\": 20}}\n"));
    assert_eq!(code, Some(0), "{out}{err}");
    let (_, listed, _) = run(&["runs", "list", "--on", INGRESS, "--output", "json"]);
    assert_eq!(count(&listed), 24, "{listed}");

    let (code, out, err) = run(&["runs", "fetch", &id, "--on", INGRESS]);
    assert_eq!((code, out.trim()), (Some(0), &*id), "{err}");
    let (code, out, err) = run(&["replay", &id]);
    assert_eq!(code, Some(0), "{out}{err}");
    // It goes on here, so a second copy would destroy something.
    let (code, _, err) = run(&["continue", &id, "again", "--answer", "person=yes"]);
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = run(&["runs", "fetch", &id, "--on", INGRESS]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("has been continued here"), "{err}");
}
