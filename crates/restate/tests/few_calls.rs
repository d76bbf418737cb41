//! The number of calls that a run costs, on the engine itself, which `tests/install.sh restate` installs; without it these tests say
//! that they were skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use ensemble_core::conversation::{CompletionReason, Event, ExecutionEnd};

use support::compare::{folded, here, told};
use support::{Engine, all_records, in_a_network, remote, start};

/// Six executions, one after the other.
fn chain(script: &str) -> String {
    let agent = |at: u8| {
        let name = char::from(b'a' + at);
        let after = match at {
            0 => String::new(),
            _ => format!(", depends_on: [{}]", char::from(b'a' + at - 1)),
        };
        format!("  - {{name: {name}, script: {script}{after}}}\n")
    };
    let agents: String = (0..6).map(agent).collect();
    format!("name: chain\nagents:\n{agents}")
}

/// Scripts that compute for so long that they are called, after scripts that do not.
const MIXED: &str = "name: mixed
agents:
  - {name: quick, script: count.rhai}
  - {name: slow, script: slow.rhai, depends_on: [quick]}
  - {name: process, script: echo.sh, depends_on: [slow]}
  - {name: last, script: count.rhai, depends_on: [process]}
";

/// Turns that take longer than the time limit of the run.
const ENDLESS: &str = "name: endless
conversation_limits: {timeout_seconds: 2, max_total_turns: 1000000}
agents:
  - {name: tick, script: busy.rhai, conversation: {trigger: every_turn, max_turns: 1000000}}
";

const COUNT: &str = "#{ n: execution }";
const BUSY: &str = "let n = 0; while n < 300000 { n += 1; } #{ n: n }";
const SLOW: &str = "let n = 0; while n < 30000000 { n += 1; } #{ n: n }";
const ECHO: &str = "cat > /dev/null; echo ok";

#[test]
fn a_run_costs_few_calls() {
    in_a_network("calls");
}

#[test]
fn turns_of_scripts_inside_the_worker_obey_limits() {
    in_a_network("limits");
}

#[test]
fn what_the_engine_cannot_store_and_workers_cannot_execute_is_refused() {
    in_a_network("refusals");
}

async fn count_calls(engine: &Engine) -> u64 {
    let state = engine.ask_worker().await.expect("it answers");
    state["calls"].as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_run_costs_few_calls` starts it in a network of its own"]
async fn calls() {
    let (inside, processes) = (chain("count.rhai"), chain("echo.sh"));
    let engine = Engine::start(&[
        ("inside.yaml", &inside),
        ("processes.yaml", &processes),
        ("count.rhai", COUNT),
        ("echo.sh", ECHO),
    ])
    .await;
    // The first run adds the day to the index.
    start(&engine, "inside.yaml", "warm-20261123-080000000").await;
    all_records("warm-20261123-080000000").await;
    // The calls: the run, its id in the index, the records for the client; and each execution that is a process.
    for (file, id, expected) in [
        ("inside.yaml", "aaaa-20261123-080000000", 3),
        ("processes.yaml", "bbbb-20261123-080000000", 9),
    ] {
        let before = count_calls(&engine).await;
        let plan = start(&engine, file, id).await;
        remote().wait_for_end_or_question(id).await.expect("it ends");
        let reply = remote().fetch_records(id, 0).await.expect("records");
        assert!(reply.is_over);
        let records = remote().decode_records(&reply.lines).expect("records");
        let calls = count_calls(&engine).await - before;
        // On a busy machine, the client looks at the run before it has ended.
        assert!((expected..=expected + 2).contains(&calls), "{file}: {calls}");
        let state = folded(&plan, &records);
        assert_eq!(told(&state, &records), here(&engine.runs(), file).await, "{file}");
    }
    // A client that follows a run waits for records, and does not ask in vain.
    let before = count_calls(&engine).await;
    let id = "cccc-20261123-080000000";
    start(&engine, "processes.yaml", id).await;
    let mut next = 0;
    loop {
        let reply = remote().follow_records(id, next).await.expect("records");
        next += reply.lines.lines().count() as u64;
        if reply.is_over {
            break;
        }
    }
    let followed = count_calls(&engine).await - before;
    assert!(followed <= 30, "{followed} calls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`turns_of_scripts_inside_the_worker_obey_limits` starts it in a network of its own"]
async fn limits() {
    let engine = Engine::start(&[
        ("mixed.yaml", MIXED),
        ("endless.yaml", ENDLESS),
        ("count.rhai", COUNT),
        ("slow.rhai", SLOW),
        ("busy.rhai", BUSY),
        ("echo.sh", ECHO),
    ])
    .await;
    let id = "aaaa-20261123-080000000";
    let plan = start(&engine, "mixed.yaml", id).await;
    let records = all_records(id).await;
    let state = folded(&plan, &records);
    assert_eq!(told(&state, &records), here(&engine.runs(), "mixed.yaml").await);

    let id = "bbbb-20261123-080000000";
    let plan = start(&engine, "endless.yaml", id).await;
    let records = all_records(id).await;
    let reason = folded(&plan, &records).run_end().map(|ended| ended.completion_reason);
    assert_eq!(reason, Some(CompletionReason::Timeout));
    let turns = records
        .iter()
        .filter(|record| matches!(record.event, Event::TurnFinished(_)));
    assert!(turns.count() > 2, "turns ended before");

    // A cancelled run ends, too.
    let text = ENDLESS.replace("timeout_seconds: 2", "timeout_seconds: 600");
    std::fs::write(engine.path().join("endless.yaml"), text).expect("a file");
    let id = "cccc-20261123-080000000";
    let plan = start(&engine, "endless.yaml", id).await;
    support::records_when(id, |records, _| records.len() > 10).await;
    remote().cancel_run(id, "test").await.expect("it is cancelled");
    let records = all_records(id).await;
    let reason = folded(&plan, &records).run_end().map(|ended| ended.completion_reason);
    assert_eq!(reason, Some(CompletionReason::Cancelled));
}

const SANDBOX: &str = "name: s\nagents: [{name: a, script: a.sh, sandbox: {}}]\n";
/// Parts with large outputs.
const LARGE: &str = "name: large
agents:
  - name: each
    script: large.sh
    on_error: continue
    for_each: {in: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20], max_parallel: 4}
  - {name: after, script: count.rhai, dependencies: [{agent_name: each, on: failure}]}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`what_the_engine_cannot_store_and_workers_cannot_execute_is_refused` starts it in a network of its own"]
async fn refusals() {
    let engine = Engine::start(&[
        ("large.yaml", LARGE),
        ("large.sh", "cat > /dev/null; head -c 2000000 /dev/zero | tr '\\0' x"),
        ("count.rhai", COUNT),
        ("sandbox.yaml", SANDBOX),
        ("a.sh", ECHO),
    ])
    .await;
    let id = "aaaa-20261123-080000000";
    let plan = start(&engine, "large.yaml", id).await;
    let records = all_records(id).await;
    let failures = records.iter().filter_map(|record| match &record.event {
        Event::ExecutionFinished(finished) => match &finished.end {
            ExecutionEnd::Failed(failure) => Some(failure.error.to_string()),
            _ => None,
        },
        _ => None,
    });
    let failures: Vec<String> = failures.collect();
    assert!(failures[0].contains("the engine stores at most 28 MiB"), "{failures:?}");
    let reason = folded(&plan, &records).run_end().map(|ended| ended.completion_reason);
    assert_eq!(reason, Some(CompletionReason::Completed), "the run continues");

    // A client that does not check sees why the worker refuses, and does not wait.
    let reply = remote().fetch_records(id, 0).await.expect("records");
    let id = "bbbb-20261123-080000000";
    let mut request = reply.start.expect("the start");
    (request.file, request.ensemble) = ("sandbox.yaml".to_owned(), SANDBOX.into());
    request.started.run_id = id.into();
    remote().start_run_once(&request).await.expect("the engine accepts it");
    for _ in 0..2 {
        let refused = remote().wait_for_end_or_question(id).await.expect_err("it is refused");
        let text = refused.to_string();
        assert!(
            text.contains("the worker refuses run") && text.contains("sandbox"),
            "{text}"
        );
    }
}
