//! Inner ensembles of agents with `for_each` on the engine itself, which `tests/install.sh restate` installs; without it these tests
//! say that they were skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use std::sync::Arc;

use chrono::Utc;
use ensemble_core::conversation::{CompletionReason, Event, Record};
use ensemble_core::store::{MemoryStore, RunId, StoredRun};
use ensemble_runs::{EnsembleRef, RunOptions};
use serde_json::{Value, json};

use support::compare::{folded, told};
use support::{Engine, all_records, in_a_network, process_in, records_when, remote, start};

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
    let mut names = run.names_inside().await.expect("names");
    names.sort_unstable();
    let mut all = Vec::new();
    for name in names {
        let inner = run.inside(&name).await.expect("it can be read").expect("it is there");
        let records = inner.read_all().await.expect("it can be read").records;
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
            .start(EnsembleRef::file(file), RunOptions::default())
            .await;
        let run = run.expect("it starts");
        let stored = run.stored().clone();
        run.finish().await.expect("it ends");
        let here = stored.read_all().await.expect("its log").records;
        assert_eq!(
            told(&folded(&plan, &there), &there),
            told(&folded(&plan, &here), &here),
            "{file}"
        );
        let copy = remote()
            .fetch(&RunId::new(&*id), &MemoryStore::new())
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
    remote().cancel(id, "a test").await.expect("it is cancelled");
    let cut = all_records(id).await;
    assert_eq!(
        folded(&plan, &cut).ended().map(|ended| ended.completion_reason),
        Some(CompletionReason::Cancelled)
    );
    processes.remove(1);
    for process in processes {
        process.ended().await;
    }
    for n in 1..=5 {
        std::fs::write(engine.path().join(format!("go.{n}")), "").expect("a file");
    }
    remote().resume(id, Utc::now()).await.expect("it can go on");
    records_when(id, |records, _| records.len() > cut.len()).await;
    let records = all_records(id).await;
    let state = folded(&plan, &records);
    assert_eq!(
        state.ended().map(|ended| ended.completion_reason),
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
        state.ended().map(|ended| ended.completion_reason),
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
        .fetch(&RunId::new(id), &MemoryStore::new())
        .await
        .expect("a copy");
    let first = copy
        .inside("each-1.0-1")
        .await
        .expect("it can be read")
        .expect("it is there");
    let run = first.read_all().await.expect("its records").records;
    let needed = (run[run.len() - 1].at - run[0].at).as_seconds_f64();
    assert!(took.is_some_and(|took| took >= needed), "{took:?} of {needed}");
}
