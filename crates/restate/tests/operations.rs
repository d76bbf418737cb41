//! The operation of workers, on the engine itself, which `tests/install.sh restate` installs; without it these tests say that they were
//! skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ensemble_core::conversation::{CompletionReason, Event, Record};
use ensemble_remote::protocol::PROTOCOL;
use serde_json::{Value, json};

use support::{Engine, INGRESS, PATIENCE, all_records, in_a_network, process_in, records_when, start};

/// A script that waits for a file, and a second one. Each writes a line when it begins.
const CHAIN: &str = "name: chain
agents:
  - {name: pay, script: pay.sh}
  - {name: after, script: after.sh, depends_on: [pay]}
";
const PAY: &str = "cat > /dev/null; echo pay >> ledger; echo $$ > pid; until [ -e go ]; do sleep 0.02; done; echo paid";
const AFTER: &str = "cat > /dev/null; echo after >> ledger; echo done";

const RUN: &str = "aaaa-20261123-080000000";

fn files() -> [(&'static str, &'static str); 4] {
    [
        ("chain.yaml", CHAIN),
        ("pay.sh", PAY),
        ("after.sh", AFTER),
        (
            "late.yaml",
            "name: late\nagents: [{name: a, script: pay.sh}]\nconversation_limits: {timeout_seconds: 2}\n",
        ),
    ]
}

fn read_ledger(engine: &Engine) -> Vec<String> {
    let text = std::fs::read_to_string(engine.path().join("ledger")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn completion_reason(records: &[Record]) -> Option<CompletionReason> {
    match &records.last()?.event {
        Event::RunEnded(ended) => Some(ended.completion_reason),
        _ => None,
    }
}

/// Waits until the condition holds.
async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn the_scripts_of_a_killed_worker_end_with_it() {
    in_a_network("orphans");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`the_scripts_of_a_killed_worker_end_with_it` starts it in a network of its own"]
async fn orphans() {
    let mut engine = Engine::start(&files()).await;
    start(&engine, "chain.yaml", RUN).await;
    let first = process_in(&engine.path().join("pid")).await;
    engine.kill_worker();
    first.ended().await;
    // The other execution is the only one that pays.
    std::fs::remove_file(engine.path().join("pid")).expect("it was written");
    engine.start_worker();
    process_in(&engine.path().join("pid")).await;
    std::fs::write(engine.path().join("go"), "").expect("a file");
    let records = all_records(RUN).await;
    assert_eq!(completion_reason(&records), Some(CompletionReason::Completed));
    assert_eq!(read_ledger(&engine), ["pay", "pay", "after"]);
}

#[test]
fn no_call_is_given_up_and_the_time_limit_of_a_run_holds_without_workers() {
    in_a_network("unlimited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`no_call_is_given_up_and_the_time_limit_of_a_run_holds_without_workers` starts it in a network of its own"]
async fn unlimited() {
    let mut engine = Engine::start(&files()).await;
    for service in ["EnsembleRun", "EnsembleExecution", "EnsembleIndex"] {
        let described = engine.ask_admin("GET", &format!("services/{service}"), None).await;
        // Once every 5 seconds, for centuries.
        let attempts = &described["retry_policy"]["max_attempts"];
        assert_eq!(attempts, &json!(4_294_967_295_u64), "{service}: {described}");
    }
    start(&engine, "late.yaml", RUN).await;
    process_in(&engine.path().join("pid")).await;
    engine.kill_worker();
    // The time passes without workers.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let begun = Instant::now();
    engine.start_worker();
    let ends = |records: &[Record], _| completion_reason(records).is_some();
    let records = records_when(RUN, ends).await;
    assert_eq!(completion_reason(&records), Some(CompletionReason::Timeout));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn a_worker_that_is_terminated_finishes_what_is_running() {
    in_a_network("drains");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_worker_that_is_terminated_finishes_what_is_running` starts it in a network of its own"]
async fn drains() {
    let mut engine = Engine::start(&files()).await;
    let state = engine.ask_worker().await.expect("it answers");
    assert_eq!(
        (&state["draining"], &state["protocol"]),
        (&json!(false), &json!(PROTOCOL)),
        "{state}"
    );
    start(&engine, "chain.yaml", RUN).await;
    process_in(&engine.path().join("pid")).await;
    engine.signal_worker("TERM");
    wait_until("the worker does not say that it stops", async || {
        engine.ask_worker().await.is_some_and(|state| state["draining"] == true)
    })
    .await;
    std::fs::write(engine.path().join("go"), "").expect("a file");
    assert_eq!(engine.wait_for_worker().code(), Some(143));
    assert_eq!(read_ledger(&engine), ["pay"], "nothing new begins");
    engine.start_worker();
    let records = all_records(RUN).await;
    assert_eq!(completion_reason(&records), Some(CompletionReason::Completed));
    assert_eq!(read_ledger(&engine), ["pay", "after"]);
}

#[test]
fn a_worker_waits_for_its_executions_for_a_limited_time() {
    in_a_network("drains_late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_worker_waits_for_its_executions_for_a_limited_time` starts it in a network of its own"]
async fn drains_late() {
    let mut engine = Engine::start_with_options(&files(), &["--drain-seconds", "1"], &[]).await;
    start(&engine, "chain.yaml", RUN).await;
    let script = process_in(&engine.path().join("pid")).await;
    engine.signal_worker("TERM");
    assert_eq!(engine.wait_for_worker().code(), Some(143));
    script.ended().await;
    // A second signal ends a worker at once.
    std::fs::remove_file(engine.path().join("pid")).expect("it was written");
    engine.start_worker();
    let script = process_in(&engine.path().join("pid")).await;
    engine.signal_worker("INT");
    wait_until("the worker does not say that it stops", async || {
        engine.ask_worker().await.is_some_and(|state| state["draining"] == true)
    })
    .await;
    let begun = Instant::now();
    engine.signal_worker("INT");
    assert_eq!(engine.wait_for_worker().code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    script.ended().await;
}

#[test]
fn a_run_continues_only_with_a_worker_that_reads_it() {
    in_a_network("protocols");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_run_continues_only_with_a_worker_that_reads_it` starts it in a network of its own"]
async fn protocols() {
    let mut engine = Engine::start(&files()).await;
    start(&engine, "chain.yaml", RUN).await;
    process_in(&engine.path().join("pid")).await;
    engine.kill_worker();
    // A build that reads other runs takes over the address.
    engine.start_worker_with(&[], &[("ENSEMBLE_FAULT_PROTOCOL", "9")]);
    wait_until("the worker does not refuse the call", async || {
        let query = "SELECT last_failure FROM sys_invocation WHERE last_failure IS NOT NULL";
        let rows = engine.ask_admin("POST", "query", Some(json!({"query": query}))).await;
        rows.to_string()
            .contains(&format!("reads protocol 9, and the run has protocol {PROTOCOL}"))
    })
    .await;
    assert_eq!(
        read_ledger(&engine),
        ["pay"],
        "the other build does not continue the run"
    );
    let error = support::remote()
        .check_workers()
        .await
        .expect_err("it has another protocol");
    assert!(
        error
            .to_string()
            .contains(&format!("has protocol 9, and this program has protocol {PROTOCOL}")),
        "{error}"
    );
    engine.kill_worker();
    engine.start_worker();
    std::fs::write(engine.path().join("go"), "").expect("a file");
    let records = all_records(RUN).await;
    assert_eq!(completion_reason(&records), Some(CompletionReason::Completed));
    assert_eq!(read_ledger(&engine), ["pay", "pay", "after"]);
}

#[test]
fn a_worker_refuses_addresses_that_cannot_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let folder = folder.path().to_str().expect("text");
    let rows: [(&[&str], &str); 8] = [
        (&[file.to_str().expect("text")], "it is not a folder"),
        (&["no-such-folder"], "cannot serve `no-such-folder`"),
        (&[folder, "--listen", &taken], "cannot listen at"),
        (
            &[folder, "--ingress", "localhost:8080"],
            "it must begin with http:// or https://",
        ),
        (
            &[folder, "--ingress", "http://127.0.0.1:9080"],
            "is the address of this worker",
        ),
        (
            &[folder, "--ingress", "http://localhost:9080/"],
            "is the address of this worker",
        ),
        (
            &[folder, "--listen", "127.0.0.1:0", "--advertise", "http://0.0.0.0:9080"],
            "it names all addresses of a machine",
        ),
        (
            &[folder, "--listen", "127.0.0.1:0", "--advertise", "worker"],
            "no worker finds this one",
        ),
    ];
    for (arguments, message) in rows {
        let (status, text) = serve(arguments);
        assert_eq!(status.code(), Some(2), "{arguments:?}: {text}");
        assert!(
            text.contains(message) && text.contains("help: "),
            "{arguments:?}: {text}"
        );
    }
}

/// Runs a worker that ends at once.
fn serve(arguments: &[&str]) -> (ExitStatus, String) {
    let program = Path::new(env!("CARGO_BIN_EXE_ensemble-restate"));
    let mut command = Command::new(program);
    let output = command.arg("serve").args(arguments).stdin(Stdio::null()).output();
    let output = output.expect("the worker starts");
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A run of the program `ensemble` in the folder of the engine: the code, and both outputs.
fn run_program(engine: &Engine, arguments: &[&str]) -> (Option<i32>, String, String) {
    let program = Path::new(env!("CARGO_BIN_EXE_ensemble-restate")).with_file_name("ensemble");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(engine.path()).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", engine.path());
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Whether the program is built that these tests start.
fn has_program() -> bool {
    let is_built = Path::new(env!("CARGO_BIN_EXE_ensemble-restate"))
        .with_file_name("ensemble")
        .is_file();
    if !is_built {
        support::skipped("`cargo build` makes the program that this test drives");
    }
    is_built
}

/// Returns the state of the run in `runs list --on`. The engine adds a run to the index a moment after the start; until then the
/// state is empty.
fn listed_state(engine: &Engine, run: &str) -> String {
    let (code, out, err) = run_program(engine, &["runs", "list", "--on", INGRESS, "--output", "json"]);
    assert_eq!(code, Some(0), "{err}");
    let listed: Value = serde_json::from_str(&out).expect("JSON");
    let runs = listed["runs"].as_array().expect("a list").clone();
    let row = runs.iter().find(|row| row["run_id"] == run);
    row.map_or_else(String::new, |row| row["state"].as_str().expect("a state").to_owned())
}

/// Returns the ids of the calls of a service that have not ended.
async fn list_calls(engine: &Engine, service: &str) -> Vec<String> {
    let query = format!(
        "SELECT id FROM sys_invocation WHERE target_service_name = '{service}' AND status != 'completed' AND target_handler_name IN \
         ('run', 'perform')"
    );
    let reply = engine.ask_admin("POST", "query", Some(json!({"query": query}))).await;
    let rows = reply["rows"].as_array().cloned().unwrap_or_default();
    let ids = rows.iter().filter_map(|row| row["id"].as_str().map(str::to_owned));
    ids.collect()
}

/// Asks the engine to pause all calls of a service.
async fn pause_calls(engine: &Engine, service: &str) {
    for call in list_calls(engine, service).await {
        engine
            .ask_admin("PATCH", &format!("invocations/{call}/pause"), None)
            .await;
    }
}

#[test]
fn a_paused_run_is_shown_and_resumed() {
    in_a_network("paused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_paused_run_is_shown_and_resumed` starts it in a network of its own"]
async fn paused() {
    if !has_program() {
        return;
    }
    let engine = Engine::start(&files()).await;
    let run = RUN;
    start(&engine, "chain.yaml", run).await;
    process_in(&engine.path().join("pid")).await;
    assert_eq!(listed_state(&engine, run), "running");
    // A call that a worker performs is paused when its attempt ends; the call of the run waits, and is paused at once.
    wait_until("the run is not paused", async || {
        pause_calls(&engine, "EnsembleRun").await;
        listed_state(&engine, run) == "paused"
    })
    .await;
    let (code, out, err) = run_program(&engine, &["runs", "show", run, "--on", INGRESS]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("paused by the engine"), "{out}");
    assert!(out.contains(&format!("ensemble resume {run} --on {INGRESS}")), "{out}");
    let (_, out, _) = run_program(&engine, &["runs", "show", run, "--on", INGRESS, "--output", "json"]);
    let shown: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(shown["state"], "paused");
    std::fs::write(engine.path().join("go"), "").expect("a file");
    let (code, out, err) = run_program(&engine, &["resume", run, "--on", INGRESS, "-q"]);
    assert_eq!((code, out.trim()), (Some(0), "done"), "{err}");
    assert!(err.contains("the engine had paused run"), "{err}");
    assert_eq!(listed_state(&engine, run), "completed");
}

#[test]
fn a_detached_run_is_cancelled() {
    in_a_network("cancels");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_detached_run_is_cancelled` starts it in a network of its own"]
async fn cancels() {
    if !has_program() {
        return;
    }
    let engine = Engine::start(&[
        ("chain.yaml", CHAIN),
        ("pay.sh", PAY),
        ("after.sh", AFTER),
        (
            "ask.yaml",
            "name: ask\nagents: [{name: person, input: {prompt: How many?}}]\n",
        ),
    ])
    .await;
    let detach = |file: &str| {
        let (code, out, err) = run_program(&engine, &["run", file, "--on", INGRESS, "--detach"]);
        assert_eq!(code, Some(0), "{err}");
        out.trim().to_owned()
    };
    // One that runs, one that waits, and one that is paused.
    let runs = detach("chain.yaml");
    let script = process_in(&engine.path().join("pid")).await;
    let cancel = |run: &str| run_program(&engine, &["runs", "cancel", run, "--on", INGRESS]);
    let (code, out, err) = cancel(&runs);
    assert_eq!((code, out.trim()), (Some(0), &*runs), "{err}");
    script.ended().await;
    assert_eq!(listed_state(&engine, &runs), "cancelled");
    let (code, _, err) = cancel(&runs);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("its state is `cancelled`"), "{err}");

    let waits = detach("ask.yaml");
    wait_until("the run does not wait", async || {
        listed_state(&engine, &waits) == "waiting"
    })
    .await;
    let (code, _, err) = cancel(&waits);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(listed_state(&engine, &waits), "cancelled");
    let (code, out, err) = run_program(
        &engine,
        &["resume", &waits, "--on", INGRESS, "-q", "--answer", "person=7"],
    );
    assert_eq!((code, out.trim()), (Some(0), "7"), "{err}");

    std::fs::remove_file(engine.path().join("pid")).expect("it was written");
    let paused = detach("chain.yaml");
    process_in(&engine.path().join("pid")).await;
    // The engine refuses to pause a call at which it is just working, and the list may begin with a call that is ending.
    wait_until("the run is not paused", async || {
        pause_calls(&engine, "EnsembleRun").await;
        listed_state(&engine, &paused) == "paused"
    })
    .await;
    let (code, _, err) = cancel(&paused);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(listed_state(&engine, &paused), "cancelled");

    // An operator kills a run: it is neither running nor ended.
    let lost = detach("ask.yaml");
    wait_until("the run does not wait", async || {
        listed_state(&engine, &lost) == "waiting"
    })
    .await;
    let calls = list_calls(&engine, "EnsembleRun").await;
    for call in calls {
        engine
            .ask_admin("PATCH", &format!("invocations/{call}/kill"), None)
            .await;
    }
    wait_until("the run is not lost", async || listed_state(&engine, &lost) == "lost").await;
    let (code, _, err) = cancel(&lost);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("its state is `lost`"), "{err}");
}

#[test]
fn the_program_says_within_ten_seconds_who_does_not_answer() {
    in_a_network("absent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`the_program_says_within_ten_seconds_who_does_not_answer` starts it in a network of its own"]
async fn absent() {
    if !has_program() {
        return;
    }
    let mut engine = Engine::start(&files()).await;
    start(&engine, "chain.yaml", RUN).await;
    process_in(&engine.path().join("pid")).await;
    let commands: [&[&str]; 7] = [
        &["run", "chain.yaml", "--on", INGRESS],
        &["run", "chain.yaml", "--on", INGRESS, "--detach"],
        &["runs", "list", "--on", INGRESS],
        &["runs", "show", RUN, "--on", INGRESS],
        &["runs", "cancel", RUN, "--on", INGRESS],
        &["runs", "fetch", RUN, "--on", INGRESS],
        &["resume", RUN, "--on", INGRESS],
    ];
    let check = |engine: &Engine, who: &str| {
        for command in commands {
            let begun = Instant::now();
            let (code, out, err) = run_program(engine, command);
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "{command:?}: {:?}",
                begun.elapsed()
            );
            assert_eq!(code, Some(1), "{command:?}: {out}{err}");
            assert!(err.contains(who) && err.contains("help: "), "{command:?}: {err}");
        }
    };
    engine.kill_worker();
    check(&engine, "no worker of http://127.0.0.1:8080 answers");
    engine.stop_server();
    check(&engine, "http://127.0.0.1:8080 cannot be reached");
}

#[test]
fn an_answer_for_an_unknown_agent_is_refused_on_the_engine() {
    in_a_network("unknown_agent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`an_answer_for_an_unknown_agent_is_refused_on_the_engine` starts it in a network of its own"]
async fn unknown_agent() {
    if !has_program() {
        return;
    }
    let engine = Engine::start(&[
        ("outer.yaml", "name: outer\nagents: [{name: gate, ensemble: ask.yaml}]\n"),
        (
            "ask.yaml",
            "name: ask\nagents: [{name: person, input: {prompt: How many?}}, {name: boss, input: {prompt: Sure?}, depends_on: [person]}]\n",
        ),
    ])
    .await;
    let (code, out, err) = run_program(&engine, &["run", "outer.yaml", "--on", INGRESS, "--detach"]);
    assert_eq!(code, Some(0), "{err}");
    let run = out.trim();
    wait_until("the run does not wait", async || {
        listed_state(&engine, run) == "waiting"
    })
    .await;
    for given in ["nobody=yes", "gate/nobody=yes", "gate=yes"] {
        let arguments = ["resume", run, "--on", INGRESS, "--answer", given];
        let (code, out, err) = run_program(&engine, &arguments);
        assert_eq!(code, Some(2), "{given}: {out}{err}");
    }
    // The question of the second person is open later.
    let answers = ["--answer", "person=1", "--answer", "boss=yes"];
    let arguments = [&["resume", run, "--on", INGRESS, "-q"][..], &answers].concat();
    let (code, _, err) = run_program(&engine, &arguments);
    assert_eq!(code, Some(0), "{err}");
}

/// A person, and a loop whose writer reaches `max_turns` with work left; or a script that waits for a file instead of the person.
const LIMITED: &str = "name: limited
agents:
  - FIRST
  - name: writer
    script: fact.rhai
    dependencies:
      - {agent_name: first}
      - {agent_name: critic, feedback: true, condition: not output.ok}
    conversation: {max_turns: 2}
  - {name: critic, script: fact.rhai, depends_on: [writer], conversation: {max_turns: 2}}
";

#[test]
fn a_run_on_the_engine_records_what_the_last_command_refuses() {
    in_a_network("refuses");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_run_on_the_engine_records_what_the_last_command_refuses` starts it in a network of its own"]
async fn refuses() {
    if !has_program() {
        return;
    }
    let asks = LIMITED.replace("FIRST", "{name: first, input: {prompt: How many?}}");
    let works = LIMITED.replace("FIRST", "{name: first, script: pay.sh}");
    let engine = Engine::start(&[
        ("asks.yaml", &*asks),
        ("works.yaml", &*works),
        ("fact.rhai", "#{ok: false}"),
        ("pay.sh", PAY),
    ])
    .await;
    let recorded_success = |run: &str| {
        let (code, out, err) = run_program(&engine, &["runs", "show", run, "--on", INGRESS, "--output", "json"]);
        assert_eq!(code, Some(0), "{err}");
        let shown: Value = serde_json::from_str(&out).expect("JSON");
        shown["success"].as_bool()
    };
    let run_until_end = |arguments: &[&str]| {
        let (code, out, err) = run_program(&engine, &[arguments, &["--on", INGRESS, "--output", "json"]].concat());
        let result: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        (code, result["run_id"].as_str().expect("an id").to_owned())
    };
    let refusal = "--fail-on-limit";
    // The command that starts the run, and the command that answers.
    for (first, then, code) in [
        (&[][..], &[][..], 0),
        (&[refusal], &[refusal], 4),
        (&[refusal], &[], 0),
        (&[], &[refusal], 4),
    ] {
        let (waiting, run) = run_until_end(&[&["run", "asks.yaml"], first].concat());
        assert_eq!(waiting, Some(3));
        let answer = ["resume", &run, "--answer", "first=7"];
        let (ended, _) = run_until_end(&[&answer, then].concat());
        assert_eq!(
            (ended, recorded_success(&run)),
            (Some(code), Some(code == 0)),
            "{first:?} {then:?}"
        );
    }
    // The command that starts the run, without a question, and the command that resumes a cancelled run.
    std::fs::write(engine.path().join("go"), "").expect("a file");
    let (ended, run) = run_until_end(&["run", "works.yaml", refusal]);
    assert_eq!((ended, recorded_success(&run)), (Some(4), Some(false)));
    std::fs::remove_file(engine.path().join("go")).expect("it is there");
    std::fs::remove_file(engine.path().join("pid")).expect("it was written");
    let (code, out, err) = run_program(&engine, &["run", "works.yaml", "--on", INGRESS, "--detach"]);
    assert_eq!(code, Some(0), "{err}");
    let run = out.trim();
    let script = process_in(&engine.path().join("pid")).await;
    let (code, _, err) = run_program(&engine, &["runs", "cancel", run, "--on", INGRESS]);
    assert_eq!(code, Some(0), "{err}");
    script.ended().await;
    std::fs::write(engine.path().join("go"), "").expect("a file");
    let (ended, _) = run_until_end(&["resume", run, refusal]);
    assert_eq!((ended, recorded_success(run)), (Some(4), Some(false)));
}
