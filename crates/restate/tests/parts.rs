//! Inner ensembles of agents with `for_each` on the engine itself, which `tests/install.sh restate` installs; without it these tests
//! say that they were skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use ensemble_core::conversation::{CompletionReason, Event, Record};
use ensemble_core::store::{MemoryStore, RunId, StoredRun};
use ensemble_runs::{EnsembleRef, RunOptions};
use serde_json::{Value, json};

use support::compare::{folded, told};
use support::{Engine, PATIENCE, all_records, in_a_network, process_in, records_when, remote, start};

const ONE: &str = "name: one\nagents: [{name: a, script: one.rhai}]\n";

/// The item is a number; the third item fails.
const SCRIPT: &str = "let n = parse_int(`${context.n}`); if n == 3 { throw `no ${n}`; } #{ size: n * n }";

/// Each part says that it began, waits for a file, and says that it has ended.
const STEPS: &str = "name: steps
agents:
  - {name: begin, script: 'cat > /dev/null; echo \"$ENSEMBLE_RUN_ID begin\" >> ledger; echo ok'}
  - {name: wait, script: wait.sh, depends_on: [begin]}
  - {name: end, script: 'cat > /dev/null; echo \"$ENSEMBLE_RUN_ID end\" >> ledger; echo ok', depends_on: [wait]}
";

const WAIT: &str = "n=$(cat | grep -o '\"n\":\"*[0-9]*' | head -1 | grep -o '[0-9]*$')
echo $$ > pid.$n
until [ -e go.$n ]; do sleep 0.05; done
echo waited
";

#[test]
fn parts_with_inner_ensembles_are_workflows_that_run_side_by_side() {
    in_a_network("parts");
}

/// What the parts came to, by their place: their end and attempt.
fn parts_of(records: &[Record]) -> Vec<(u32, u32, String)> {
    let mut parts: Vec<(u32, u32, String)> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::PartEnded(part) => Some((part.part, part.attempt, json!(part.end).to_string())),
            _ => None,
        })
        .collect();
    parts.sort_unstable();
    parts
}

/// The runs inside a run: name, id inside, inputs and outcome.
async fn inside(run: &Arc<dyn StoredRun>) -> Vec<Value> {
    let mut names = run.list_nested_run_names().await.expect("names");
    names.sort_unstable();
    let mut all = Vec::new();
    for name in names {
        let inner = run
            .find_nested_run(&name)
            .await
            .expect("it can be read")
            .expect("it is there");
        let records = inner.read_journal().await.expect("it can be read").records;
        let (Event::RunStarted(first), Event::RunEnded(last)) = (&records[0].event, &records[records.len() - 1].event)
        else {
            panic!("{name} does not begin or end: {records:?}");
        };
        let place = first.run_id.split_once('/').map(|(_, place)| place);
        all.push(json!([
            name,
            place,
            first.inputs,
            first.context,
            last.completion_reason
        ]));
    }
    all
}

#[test]
fn a_part_that_ends_while_its_agent_is_performed_is_not_missed() {
    in_a_network("ends_meanwhile");
}

#[test]
fn a_part_that_had_ended_for_good_does_not_go_on_with_the_run_around_it() {
    in_a_network("ended_for_good");
}

fn ledger(engine: &Engine, step: &str) -> Vec<String> {
    let text = std::fs::read_to_string(engine.path().join("ledger")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let mut runs: Vec<String> = lines
        .filter(|(_, what)| *what == step)
        .map(|(run, _)| run.rsplit_once('/').map_or(run, |(_, name)| name).to_owned())
        .collect();
    runs.sort_unstable();
    runs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`parts_with_inner_ensembles_are_workflows_that_run_side_by_side` starts it in a network of its own"]
async fn parts() {
    let each = |ensemble: &str, more: &str, for_each: &str| {
        format!(
            "name: each\nagents:\n  - {{name: each, ensemble: {ensemble}, inputs: {{n: '{{{{ item }}}}'}}{more}, for_each: {{in: [1, 2, 3, 4, 5], {for_each}}}}}\n  - {{name: after, script: after.rhai, depends_on: [each]}}\n"
        )
    };
    let collect = each(
        "one.yaml",
        ", retry: {max_attempts: 2, delay_seconds: 0}",
        "max_parallel: 2, on_error: collect, combine: {best: output.size}",
    );
    let fails = each("one.yaml", "", "max_parallel: 2");
    let steps = each("steps.yaml", "", "max_parallel: 3, on_error: collect");
    let first = each("steps.yaml", "", "combine: {first: 'true'}");
    let engine = Engine::start(&[
        ("collect.yaml", &collect),
        ("fails.yaml", &fails),
        ("each_steps.yaml", &steps),
        ("first.yaml", &first),
        ("one.yaml", ONE),
        ("one.rhai", SCRIPT),
        ("after.rhai", "#{ of: dependencies.each }"),
        ("steps.yaml", STEPS),
        ("wait.sh", WAIT),
    ])
    .await;

    // The same as here, with an attempt more, and with an execution that fails.
    for (at, file) in ["collect.yaml", "fails.yaml"].into_iter().enumerate() {
        let id = format!("a{at:03}-20261123-080000000");
        let plan = start(&engine, file, &id).await;
        let there = all_records(&id).await;
        let run = engine
            .runs()
            .start_run(EnsembleRef::from_file_or_name(file), RunOptions::default())
            .await;
        let run = run.expect("it starts");
        let stored = run.stored_run().clone();
        run.wait_and_close().await.expect("it ends");
        let here = stored.read_journal().await.expect("its log").records;
        assert_eq!(
            told(&folded(&plan, &there), &there),
            told(&folded(&plan, &here), &here),
            "{file}"
        );
        let copy = remote()
            .copy_run(&RunId::new(&*id), &MemoryStore::new())
            .await
            .expect("a copy");
        if file == "collect.yaml" {
            // Of a failed execution, it is not certain which parts were stopped.
            assert_eq!(parts_of(&there), parts_of(&here));
            assert_eq!(inside(&copy).await, inside(&stored).await);
            assert_eq!(inside(&copy).await.len(), 6);
        }
    }

    // Side by side, and no more than may be; a part that ends lets the next one begin.
    let id = "bbbb-20261123-080000000";
    let plan = start(&engine, "each_steps.yaml", id).await;
    let mut processes = Vec::new();
    for n in 1..=3 {
        processes.push(process_in(&engine.path().join(format!("pid.{n}"))).await);
    }
    assert_eq!(ledger(&engine, "begin").len(), 3);
    std::fs::write(engine.path().join("go.2"), "").expect("a file");
    process_in(&engine.path().join("pid.4")).await;
    assert_eq!(ledger(&engine, "begin").len(), 4);
    assert_eq!(ledger(&engine, "end"), ["each-1.1-1"]);

    // Cut short and resumed: a part that had ended is not repeated, nor is what had ended in one that had not.
    remote().cancel_run(id, "a test").await.expect("it is cancelled");
    let cut = all_records(id).await;
    assert_eq!(
        folded(&plan, &cut).run_end().map(|ended| ended.completion_reason),
        Some(CompletionReason::Cancelled)
    );
    processes.remove(1);
    for process in processes {
        process.ended().await;
    }
    for n in 1..=5 {
        std::fs::write(engine.path().join(format!("go.{n}")), "").expect("a file");
    }
    remote().request_resume(id, Utc::now()).await.expect("it can go on");
    records_when(id, |records, _| records.len() > cut.len()).await;
    let records = all_records(id).await;
    let state = folded(&plan, &records);
    assert_eq!(
        state.run_end().map(|ended| ended.completion_reason),
        Some(CompletionReason::Completed)
    );
    let all: Vec<String> = (0..5).map(|part| format!("each-1.{part}-1")).collect();
    assert_eq!((ledger(&engine, "begin"), ledger(&engine, "end")), (all.clone(), all));
    std::fs::remove_file(engine.path().join("ledger")).expect("it is there");

    // Parts that cannot change the result any more are stopped.
    for n in 1..=5 {
        std::fs::remove_file(engine.path().join(format!("go.{n}"))).expect("it is there");
        let _ = std::fs::remove_file(engine.path().join(format!("pid.{n}")));
    }
    let id = "cccc-20261123-080000000";
    let plan = start(&engine, "first.yaml", id).await;
    let second = process_in(&engine.path().join("pid.2")).await;
    std::fs::write(engine.path().join("go.1"), "").expect("a file");
    let records = all_records(id).await;
    let state = folded(&plan, &records);
    assert_eq!(
        state.run_end().map(|ended| ended.completion_reason),
        Some(CompletionReason::Completed)
    );
    second.ended().await;
    assert_eq!(ledger(&engine, "end"), ["each-1.0-1"]);
    // A part takes as long as its run.
    let took = records.iter().find_map(|record| match &record.event {
        Event::PartEnded(part) => Some(part.execution_time),
        _ => None,
    });
    let copy = remote()
        .copy_run(&RunId::new(id), &MemoryStore::new())
        .await
        .expect("a copy");
    let first = copy
        .find_nested_run("each-1.0-1")
        .await
        .expect("it can be read")
        .expect("it is there");
    let run = first.read_journal().await.expect("its records").records;
    let needed = (run[run.len() - 1].at - run[0].at).as_seconds_f64();
    assert!(took.is_some_and(|took| took >= needed), "{took:?} of {needed}");
}

/// Two parts that are runs of `steps.yaml`, and an ensemble around them.
const TWO: &str = "name: two
agents:
  - {name: each, ensemble: steps.yaml, inputs: {n: '{{ item }}'}, for_each: {in: [1, 2]}}
";

async fn engine_of_two() -> Engine {
    Engine::start(&[
        ("two.yaml", TWO),
        (
            "around.yaml",
            "name: around\nagents: [{name: two, ensemble: two.yaml}]\n",
        ),
        ("steps.yaml", STEPS),
        ("wait.sh", WAIT),
    ])
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_part_that_ends_while_its_agent_is_performed_is_not_missed` starts it in a network of its own"]
async fn ends_meanwhile() {
    let engine = engine_of_two().await;
    let (go, held) = (
        |n: u32| engine.path().join(format!("go.{n}")),
        engine.path().join("held"),
    );
    let id = "aaaa-20261123-080000000";
    let plan = start(&engine, "two.yaml", id).await;
    for n in 1..=2 {
        process_in(&engine.path().join(format!("pid.{n}"))).await;
    }
    // The first part ends, and the worker that hears of it does not answer until the second one has ended.
    std::fs::write(&held, "").expect("a file");
    std::fs::write(go(1), "").expect("a file");
    let begun = Instant::now();
    while !engine.path().join("held.reached").exists() {
        assert!(begun.elapsed() < PATIENCE, "the agent is not performed again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    std::fs::write(go(2), "").expect("a file");
    all_records(&format!("{id}/sub/each-1.1-1")).await;
    // The run hears of it, which nobody else can see.
    tokio::time::sleep(Duration::from_millis(500)).await;
    std::fs::remove_file(&held).expect("it is there");
    let records = tokio::time::timeout(Duration::from_secs(20), all_records(id)).await;
    let state = folded(&plan, &records.expect("the run goes on"));
    assert_eq!(
        state.run_end().map(|ended| ended.completion_reason),
        Some(CompletionReason::Completed)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_part_that_had_ended_for_good_does_not_go_on_with_the_run_around_it` starts it in a network of its own"]
async fn ended_for_good() {
    let engine = engine_of_two().await;
    let id = "aaaa-20261123-080000000";
    let plan = start(&engine, "around.yaml", id).await;
    let parts = [0, 1].map(|part| format!("{id}/sub/two-1-1/sub/each-1.{part}-1"));
    process_in(&engine.path().join("pid.1")).await;
    let second = process_in(&engine.path().join("pid.2")).await;
    std::fs::write(engine.path().join("go.1"), "").expect("a file");
    let ended = all_records(&parts[0]).await;
    // The run around the parts is cut short, and driven by another workflow when it goes on, which knows no ends.
    remote().cancel_run(id, "a test").await.expect("it is cancelled");
    let cut = all_records(id).await;
    second.ended().await;
    std::fs::write(engine.path().join("go.2"), "").expect("a file");
    remote().request_resume(id, Utc::now()).await.expect("it can go on");
    records_when(id, |records, _| records.len() > cut.len()).await;
    let records = all_records(id).await;
    let state = folded(&plan, &records);
    assert_eq!(
        state.run_end().map(|ended| ended.completion_reason),
        Some(CompletionReason::Completed)
    );
    // Another workflow has taken over the part that had ended, and added nothing.
    assert_eq!(all_records(&format!("{}~2", parts[0])).await, ended);
    assert_eq!(ledger(&engine, "begin"), ["each-1.0-1", "each-1.1-1"]);
    assert_eq!(ledger(&engine, "end"), ["each-1.0-1", "each-1.1-1"]);
    let second = all_records(&format!("{}~2", parts[1])).await;
    let resumed = second
        .iter()
        .filter(|record| matches!(record.event, Event::RunResumed(_)));
    assert_eq!(resumed.count(), 1);
}
