//! Time limits around inner ensembles, on the engine itself, which `tests/install.sh restate` installs; without it these tests say
//! that they were skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use ensemble_core::conversation::{CompletionReason, Event, Record};
use ensemble_core::store::{MemoryStore, RunId};
use ensemble_language::plan::Plan;
use ensemble_remote::protocol::SentQuestionAnswer;
use ensemble_runs::{EnsembleRef, RunOptions, Runs};
use serde_json::{Value, json};

use support::compare::{folded, told};
use support::{
    Engine, PATIENCE, all_records, digest_of_question, in_a_network, process_in, records_when, remote, start,
};

/// The first time it does not end.
const SLOW: &str = "name: slow\nagents: [{name: a, script: slow.sh}]\n";
const SLOW_ONCE: &str = "cat > /dev/null
if [ -e \"$ENSEMBLE_AGENT_NAME.begun\" ]; then echo '{\"n\": 1}'; exit; fi
echo $$ > pid; touch \"$ENSEMBLE_AGENT_NAME.begun\"; sleep 600
";
const NEVER: &str = "name: never\nagents: [{name: a, script: 'echo $$ > pid; sleep 600'}]\n";
const QUICK: &str = "name: quick\nagents: [{name: a, script: 'cat > /dev/null; echo 1'}]\n";
/// The items are numbers; the run of the second does not end.
const PART: &str = "name: part
agents:
  - {name: a, script: 'cat > /dev/null; echo 1'}
  - {name: b, script: sleep 600, dependencies: [{agent_name: a, condition: context.n == 2}]}
";

#[test]
fn an_attempt_whose_time_is_up_fails_on_the_engine_as_here() {
    in_a_network("late");
}

#[test]
fn a_turn_whose_time_is_up_ends_on_the_engine_as_here() {
    in_a_network("turn_is_up");
}

async fn engine() -> Engine {
    Engine::start(&[
        ("slow.yaml", SLOW),
        ("slow.sh", SLOW_ONCE),
        ("never.yaml", NEVER),
        ("quick.yaml", QUICK),
        ("part.yaml", PART),
        ("person.yaml", "name: person\nagents: [{name: person, input: {prompt: How many?}}]\n"),
        (
            "again.yaml",
            "name: again\nagents: [{name: inner, ensemble: slow.yaml, timeout_seconds: 2, retry: {max_attempts: 2, delay_seconds: 0}}]\n",
        ),
        (
            "fails.yaml",
            "name: fails\nagents:\n  - {name: inner, ensemble: never.yaml, timeout_seconds: 1.5, on_error: continue}\n  - {name: after, script: 'cat > /dev/null; echo 2', dependencies: [{agent_name: inner, on: failure}]}\n",
        ),
        (
            "parts.yaml",
            "name: parts\nagents:\n  - name: each\n    ensemble: part.yaml\n    inputs: {n: '{{ item }}'}\n    timeout_seconds: 2\n    for_each: {in: [1, 2, 3], on_error: collect}\n",
        ),
        (
            "turn.yaml",
            "name: turn
conversation_limits: {turn_timeout_seconds: 3}
agents:
  - {name: inner, ensemble: never.yaml, on_error: continue, retry: {max_attempts: 3, delay_seconds: 0}}
  - {name: each, ensemble: part.yaml, inputs: {n: '{{ item }}'}, for_each: {in: [1, 2, 3], on_error: collect}}
  - {name: quick, ensemble: quick.yaml}
  - {name: script, script: sleep 600, on_error: continue}
  - {name: after, script: 'cat > /dev/null; echo 2', dependencies: [{agent_name: inner, on: failure}]}
",
        ),
        (
            "held.yaml",
            "name: held\nconversation_limits: {turn_timeout_seconds: 1}\nagents: [{name: inner, ensemble: never.yaml, on_error: continue}]\n",
        ),
        (
            "one_by_one.yaml",
            "name: one_by_one
conversation_limits: {turn_timeout_seconds: 2, parallel_agent_limit: 1}
agents:
  - {name: quick, ensemble: quick.yaml}
  - {name: inner, ensemble: never.yaml, on_error: continue}
  - {name: not_begun, ensemble: quick.yaml, on_error: continue}
",
        ),
        ("asks.yaml", "name: asks\nagents: [{name: gate, ensemble: person.yaml, timeout_seconds: 2}]\n"),
        (
            "in_time.yaml",
            "name: in_time\nagents: [{name: inner, ensemble: quick.yaml, timeout_seconds: 3}, {name: after, script: 'cat > /dev/null; sleep 4; echo 2', depends_on: [inner]}]\n",
        ),
    ])
    .await
}

/// The records of the run here.
async fn here(runs: &Runs, file: &str) -> Vec<Record> {
    let run = runs
        .start_run(EnsembleRef::from_file_or_name(file), RunOptions::default())
        .await;
    let run = run.expect("it starts");
    let stored = run.stored_run().clone();
    run.wait_and_close().await.expect("it ends");
    stored.read_journal().await.expect("its log").records
}

fn same(plan: &Arc<Plan>, there: &[Record], here: &[Record]) {
    assert_eq!(told(&folded(plan, there), there), told(&folded(plan, here), here));
    let failures = |records: &[Record]| -> Vec<Value> {
        let failures = records.iter().filter_map(|record| match &record.event {
            Event::AttemptFailed(failed) => Some(json!([failed.attempt, failed.failure, failed.pause])),
            Event::PartEnded(part) => Some(json!([part.part, part.attempt, part.end])),
            Event::ExecutionFinished(end) => Some(json!([end.attempt, end.failure()])),
            _ => None,
        });
        let mut failures: Vec<Value> = failures.collect();
        failures.sort_by_key(ToString::to_string);
        failures
    };
    assert_eq!(failures(there), failures(here));
}

/// The seconds that the execution of an agent took, as its end tells.
fn took(records: &[Record], agent: &str) -> f64 {
    let took = records.iter().find_map(|record| match &record.event {
        Event::ExecutionFinished(end) if *end.agent == *agent => Some(end.execution_time),
        _ => None,
    });
    took.expect("it has ended")
}

async fn inner_of(id: &str, name: &str) -> Option<CompletionReason> {
    let ends = |record: &Record| matches!(record.event, Event::RunEnded(_));
    let inside = format!("{id}/sub/{name}");
    let records = records_when(&inside, |records, _| records.last().is_some_and(ends)).await;
    match records.last().map(|last| &last.event) {
        Some(Event::RunEnded(ended)) => Some(ended.completion_reason),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`an_attempt_whose_time_is_up_fails_on_the_engine_as_here` starts it in a network of its own"]
async fn late() {
    let engine = engine().await;
    let runs = engine.runs();
    let (pid, begun) = (engine.path().join("pid"), engine.path().join("a.begun"));

    // The next attempt is a run of its own, and the late one is stopped.
    let id = "aaaa-20261123-080000000";
    let plan = start(&engine, "again.yaml", id).await;
    let process = process_in(&pid).await;
    let there = all_records(id).await;
    process.ended().await;
    assert_eq!(inner_of(id, "inner-1-1").await, Some(CompletionReason::Cancelled));
    assert_eq!(inner_of(id, "inner-1-2").await, Some(CompletionReason::Completed));
    std::fs::remove_file(&begun).expect("it has begun");
    same(&plan, &there, &here(&runs, "again.yaml").await);
    assert!(
        took(&there, "inner") < 1.5,
        "the time of the attempt that ended: {there:?}"
    );
    let copy = remote()
        .copy_run(&RunId::new(id), &MemoryStore::new())
        .await
        .expect("a copy");
    assert_eq!(
        copy.list_nested_run_names().await.expect("names"),
        ["inner-1-1", "inner-1-2"]
    );

    // The failure is handled as here, and took as long as the limit.
    let id = "bbbb-20261123-080000000";
    let _ = std::fs::remove_file(&pid);
    let plan = start(&engine, "fails.yaml", id).await;
    let there = all_records(id).await;
    process_in(&pid).await.ended().await;
    same(&plan, &there, &here(&runs, "fails.yaml").await);
    let took = took(&there, "inner");
    assert!((1.5..3.0).contains(&took), "{took}");

    // Each part has the whole time.
    let id = "cccc-20261123-080000000";
    let plan = start(&engine, "parts.yaml", id).await;
    let there = all_records(id).await;
    same(&plan, &there, &here(&runs, "parts.yaml").await);
    let failed = json!(**folded(&plan, &there).context())["each"]["failed"].clone();
    assert_eq!(
        failed,
        json!([{"key": "1", "item": 2, "error": "timed out after 2 s", "kind": "timeout"}])
    );

    // The time of a question does not count.
    let id = "dddd-20261123-080000000";
    let plan = start(&engine, "asks.yaml", id).await;
    let ends = |record: &Record| matches!(record.event, Event::RunEnded(_));
    let waits = records_when(id, |records, _| records.last().is_some_and(ends)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let answer = SentQuestionAnswer {
        agent: "gate".to_owned(),
        execution: 1,
        asked: waits.len() as u64,
        answer: json!("21"),
        decision: None,
        digest: digest_of_question(&waits),
        by: None,
        at: Utc::now(),
        refuses_exhausted: None,
    };
    remote().send_answer(id, &answer).await.expect("it is taken");
    let there = all_records(id).await;
    let reason = folded(&plan, &there).run_end().map(|ended| ended.completion_reason);
    assert_eq!(reason, Some(CompletionReason::Completed));
    assert!(
        !remote()
            .fetch_records(&format!("{id}/sub/gate-1-1~2"), 0)
            .await
            .expect("records")
            .lines
            .is_empty()
    );

    // A limit that is reached after the end changes nothing.
    let id = "eeee-20261123-080000000";
    let plan = start(&engine, "in_time.yaml", id).await;
    let there = all_records(id).await;
    same(&plan, &there, &here(&runs, "in_time.yaml").await);
    assert_eq!(inner_of(id, "inner-1-1").await, Some(CompletionReason::Completed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_turn_whose_time_is_up_ends_on_the_engine_as_here` starts it in a network of its own"]
async fn turn_is_up() {
    let engine = engine().await;
    let runs = engine.runs();
    let pid = engine.path().join("pid");
    for (id, file) in [
        ("aaaa-20261123-080000000", "turn.yaml"),
        ("bbbb-20261123-080000000", "one_by_one.yaml"),
    ] {
        let _ = std::fs::remove_file(&pid);
        let plan = start(&engine, file, id).await;
        let process = process_in(&pid).await;
        let there = all_records(id).await;
        process.ended().await;
        // The run inside is a workflow, which is stopped.
        assert_eq!(
            inner_of(id, "inner-1-1").await,
            Some(CompletionReason::Cancelled),
            "{file}"
        );
        same(&plan, &there, &here(&runs, file).await);
        let reason = folded(&plan, &there).run_end().map(|ended| ended.completion_reason);
        assert_eq!(reason, Some(CompletionReason::Completed), "{file}");
    }

    // A worker that says after the turn that an execution waits for a run: none begins.
    let (id, held) = ("cccc-20261123-080000000", engine.path().join("held"));
    std::fs::write(&held, "").expect("a file");
    let plan = start(&engine, "held.yaml", id).await;
    let begun = Instant::now();
    while !engine.path().join("held.reached").exists() {
        assert!(begun.elapsed() < PATIENCE, "no worker performs the agent");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    std::fs::remove_file(&held).expect("it is there");
    let there = tokio::time::timeout(Duration::from_secs(20), all_records(id)).await;
    same(&plan, &there.expect("the turn ends"), &here(&runs, "held.yaml").await);
    let none = remote().fetch_records(&format!("{id}/sub/inner-1-1"), 0).await;
    assert!(none.expect("no records").lines.is_empty());
}
