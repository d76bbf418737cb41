//! Real child processes, all of them written for `sh`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::test_support::{an_execution, unwatched};
use super::*;
use ensemble_language::data::RunContext;

/// Longer than anything here takes on a busy machine, and short enough to wait for when it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a run id that no other run of these tests has at the same time.
#[cfg(target_os = "linux")]
fn own_run_id(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// Returns a context of about five megabytes in one value.
fn five_megabytes() -> Arc<RunContext> {
    let value = Value::String("0123456789".repeat(500_000));
    Arc::new(RunContext::from_iter([(Arc::from("big"), Arc::new(value))]))
}

/// A folder to run in, and what a script said there.
struct Stage {
    folder: TempDir,
    execution: ExecutionInput,
    bounds: ProcessSettings,
}

impl Stage {
    fn new() -> Self {
        Self {
            folder: TempDir::new().expect("a folder"),
            execution: an_execution(),
            bounds: unwatched(DEFAULT_OUTPUT_CAP),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permitted");
        path
    }

    async fn perform(&self, invocation: &ProgramInvocation) -> Result<JsonMap, ExecutionFailure> {
        let running = run_program(invocation, self.folder.path(), &self.bounds, &self.execution);
        match tokio::time::timeout(PATIENCE, running).await.expect("it ends") {
            AttemptEnd::Finished(observation) => observation.result,
            other => panic!("{other:?}"),
        }
    }

    /// Performs a program that is open for writing when it is started.
    async fn perform_while_written(&self, program: PathBuf) -> Result<JsonMap, ExecutionFailure> {
        let writer = fs::OpenOptions::new().append(true).open(&program).expect("opened");
        let invocation = ProgramInvocation {
            program,
            arguments: Vec::new(),
        };
        let closing = async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            drop(writer);
        };
        tokio::join!(self.perform(&invocation), closing).0
    }

    async fn sh(&self, script: &str) -> Result<JsonMap, ExecutionFailure> {
        self.perform(&sh(script)).await
    }

    async fn output(&self, script: &str) -> Value {
        Value::Object(self.sh(script).await.expect("an output"))
    }

    async fn failure(&self, script: &str) -> ExecutionFailure {
        self.sh(script).await.expect_err("a failure")
    }

    /// Runs the script until it has written its pid file, and drops it there.
    async fn drop_midway(&self, script: &str) -> Vec<i32> {
        let invocation = sh(script);
        tokio::select! {
            observed = run_program(&invocation, self.folder.path(), &self.bounds, &self.execution) => panic!("{observed:?}"),
            pids = pids_after_reads(self.path("pids")) => pids,
        }
    }
}

/// Returns the process ids in the file, after the runtime has read what was in the pipes before: it looks for readable
/// pipes at least once in 100 turns of its tasks.
async fn pids_after_reads(file: PathBuf) -> Vec<i32> {
    let pids = pids(file).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    pids
}

fn sh(script: &str) -> ProgramInvocation {
    ProgramInvocation {
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
    }
}

/// Returns the process ids in the file, as soon as its last line says `done`.
async fn pids(file: PathBuf) -> Vec<i32> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(&file).unwrap_or_default();
        if let Some(numbers) = text.strip_suffix("done\n") {
            return numbers.lines().map(|line| line.parse().expect("a pid")).collect();
        }
        assert!(Instant::now() < deadline, "no pids in {text:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Does the process run? One that has ended and was not yet reaped does not.
fn is_alive(pid: i32) -> bool {
    let ps = Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output();
    let state = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit_once(')').map(|(_, rest)| rest.trim().to_owned()),
        Err(_) if cfg!(target_os = "linux") => None,
        Err(_) => ps
            .ok()
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()),
    };
    state.is_some_and(|state| !state.is_empty() && !state.starts_with(['Z', 'X']))
}

/// Waits until others can see the environment of a process that has just been started: `spawn` may return a little earlier.
async fn has_its_environment(pid: i32) {
    let deadline = Instant::now() + PATIENCE;
    while fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| environment.is_empty()) {
        assert!(Instant::now() < deadline, "{pid} has no environment");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn all_die(pids: &[i32]) {
    let deadline = Instant::now() + PATIENCE;
    while let Some(alive) = pids.iter().find(|pid| is_alive(**pid)) {
        assert!(Instant::now() < deadline, "{alive} of {pids:?} is still alive");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_object_reaches_stdin() {
    let stage = Stage::new();
    let output = stage.output("cat").await;
    assert_eq!(
        output,
        json!({
            "input": "hi \"you\"", "input_data": "hi \"you\"", "inputs": {"topic": "sea"}, "context": {}, "dependencies": {}, "failures": {}, "news": [], "parameters": {},
            "turn_count": 2, "execution": 3, "attempt": 4, "run_id": "run-1", "agent_name": "asker", "request": null, "history": [],
        })
    );
}

#[tokio::test]
async fn five_megabytes_go_through_and_come_back() {
    let mut stage = Stage::new();
    stage.execution.context = five_megabytes();
    let output = stage.output("cat").await;
    assert_eq!(output["context"]["big"].as_str().map(str::len), Some(5_000_000));
}

#[tokio::test]
async fn stdin_may_be_ignored_however_long_it_is() {
    let mut stage = Stage::new();
    stage.execution.context = five_megabytes();
    assert_eq!(stage.output("echo fine").await, json!({"response": "fine"}));
    assert_eq!(
        stage.output("exec 0<&-; echo closed").await,
        json!({"response": "closed"})
    );
    let read_some = "head -c 10 > /dev/null; echo some";
    assert_eq!(stage.output(read_some).await, json!({"response": "some"}));
}

#[tokio::test]
async fn the_ids_are_in_the_environment_and_the_turn_counts_from_one() {
    let script = r#"echo "$ENSEMBLE_RUN_ID $ENSEMBLE_AGENT_NAME $ENSEMBLE_EXECUTION $ENSEMBLE_ATTEMPT $ENSEMBLE_TURN""#;
    assert_eq!(
        Stage::new().output(script).await,
        json!({"response": "run-1 asker 3 4 3"})
    );
}

#[tokio::test]
async fn it_runs_in_the_folder_it_is_given() {
    let stage = Stage::new();
    stage.write("here", "found", 0o644);
    assert_eq!(stage.output("cat here").await, json!({"response": "found"}));
}

#[tokio::test]
async fn stdout_is_one_json_value_or_text() {
    let stage = Stage::new();
    for (script, output) in [
        (r#"echo '{"a": 1}'"#, json!({"a": 1})),
        ("echo '[1, 2]'", json!({"response": [1, 2]})),
        (r"printf 'two\nlines\n'", json!({"response": "two\nlines"})),
        (r#"printf '{"a": '"#, json!({"response": "{\"a\": "})),
        ("true", json!({"response": ""})),
        (r"printf 'a\377b'", json!({"response": "a\u{fffd}b"})),
    ] {
        assert_eq!(stage.output(script).await, output, "{script}");
    }
    let warnings = stage.execution.ledger.take_entries().warnings;
    assert_eq!(warnings.len(), 2, "half a JSON and invalid UTF-8: {warnings:?}");
}

#[tokio::test]
async fn a_script_that_reports_its_failure_has_failed() {
    let failure = Stage::new()
        .failure(r#"echo '{"success": false, "error": "no luck"}'"#)
        .await;
    assert_eq!((failure.kind, &*failure.error), (FailureKind::Reported, "no luck"));
    assert_eq!(failure.exit_code, Some(0));
    assert_eq!(failure.stdout, "{\"success\": false, \"error\": \"no luck\"}\n");
}

#[tokio::test]
async fn an_exit_code_is_a_failure_with_the_ends_of_both_streams() {
    let stage = Stage::new();
    let failure = stage.failure("echo partial; echo 'no such city' >&2; exit 3").await;
    assert_eq!(failure.kind, FailureKind::Exit);
    assert_eq!(
        failure.error,
        "the script ended with exit code 3; stdout ends with:\npartial\nstderr ends with:\nno such city"
    );
    assert_eq!(
        (failure.exit_code, &*failure.stdout, &*failure.stderr),
        (Some(3), "partial\n", "no such city\n")
    );
    assert_eq!(stage.execution.ledger.take_entries().stderr, "no such city\n");

    let failure = stage.failure("exit 1").await;
    assert_eq!(failure.error, "the script ended with exit code 1");
    assert_eq!(
        (failure.exit_code, &*failure.stdout, &*failure.stderr),
        (Some(1), "", "")
    );
}

#[tokio::test]
async fn a_failure_keeps_4_kib_of_each_stream() {
    let stage = Stage::new();
    let failure = stage
        .failure("yes é | head -c 30000; yes no | head -c 30000 >&2; echo last >&2; exit 1")
        .await;
    assert_eq!(failure.stderr.len(), 4096);
    assert!(
        (4095..=4096).contains(&failure.stdout.len()),
        "{}",
        failure.stdout.len()
    );
    assert!(failure.stderr.ends_with("no\nlast\n") && failure.stdout.ends_with("é\n"));
    assert!(failure.error.contains(failure.stdout.trim_end()));
    assert!(failure.error.contains(failure.stderr.trim_end()));
}

#[tokio::test]
async fn a_stopped_script_leaves_its_streams_in_the_ledger() {
    let stage = Stage::new();
    let pids = stage
        .drop_midway("echo so far; echo oh >&2; echo $$ > pids; echo done >> pids; sleep 1000")
        .await;
    all_die(&pids).await;
    let entries = stage.execution.ledger.take_entries();
    let failure = entries.with_process_end(ExecutionFailure::new(FailureKind::Timeout, "timed out"));
    assert_eq!(
        (failure.exit_code, &*failure.stdout, &*failure.stderr),
        (None, "so far\n", "oh\n")
    );
    assert_eq!(
        failure.error,
        "timed out; stdout ends with:\nso far\nstderr ends with:\noh"
    );
}

#[tokio::test]
async fn an_exit_code_with_a_report_says_both() {
    let failure = (Stage::new())
        .failure(r#"echo '{"success": false, "error": "no luck"}'; exit 2"#)
        .await;
    assert_eq!(failure.kind, FailureKind::Exit);
    assert!(
        failure
            .error
            .starts_with("the script ended with exit code 2: no luck; stdout ends with:\n{"),
        "{}",
        failure.error
    );
}

#[tokio::test]
async fn a_signal_is_named() {
    let stage = Stage::new();
    for name in ["KILL", "TERM", "SEGV", "PIPE"] {
        let failure = stage.failure(&format!("echo oh >&2; kill -{name} $$")).await;
        assert_eq!(failure.kind, FailureKind::Signal);
        assert_eq!(
            failure.error,
            format!("the script was killed by SIG{name}; stderr ends with:\noh")
        );
    }
}

#[tokio::test]
async fn stderr_of_a_success_is_kept() {
    let stage = Stage::new();
    stage.output("echo careful >&2").await;
    assert_eq!(stage.execution.ledger.take_entries().stderr, "careful\n");
}

#[tokio::test]
async fn a_dropped_future_leaves_nothing_running() {
    let stage = Stage::new();
    let pids = stage
        .drop_midway("(sleep 1000 & echo $! > pids; wait) & while [ ! -s pids ]; do sleep 0.01; done; echo $! >> pids; echo $$ >> pids; echo done >> pids; wait")
        .await;
    assert_eq!(pids.len(), 3);
    all_die(&pids).await;
}

#[tokio::test]
async fn a_dropped_future_leaves_no_zombie() {
    let stage = Stage::new();
    let pids = stage
        .drop_midway("echo $$ > pids; echo done >> pids; exec sleep 1000")
        .await;
    let deadline = Instant::now() + PATIENCE;
    while rustix::process::test_kill_process(rustix::process::Pid::from_raw(pids[0]).expect("a pid")).is_ok() {
        assert!(Instant::now() < deadline, "{pids:?} was not reaped");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn stderr_is_in_the_notes_while_the_script_runs() {
    let stage = Stage::new();
    let invocation = sh("echo before >&2; sleep 1000");
    let noted = async {
        let deadline = Instant::now() + PATIENCE;
        while stage.execution.ledger.take_entries().stderr != "before\n" {
            assert!(Instant::now() < deadline, "nothing was noted");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        observed = run_program(&invocation, stage.folder.path(), &stage.bounds, &stage.execution) => panic!("{observed:?}"),
        () = noted => {}
    }
}

#[tokio::test]
async fn what_is_left_behind_is_killed_and_not_waited_for() {
    let stage = Stage::new();
    let script = "sleep 1000 & echo $! > pids; echo done >> pids; echo said";
    let started = Instant::now();
    assert_eq!(stage.output(script).await, json!({"response": "said"}));
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    all_die(&pids(stage.path("pids")).await).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_who_left_the_group_and_writes_on_holds_nobody_up() {
    let mut stage = Stage::new();
    stage.execution.run_id = own_run_id("deserter").into();
    let script = "setsid sh -c 'echo $$ > pids; echo done >> pids; while :; do echo on; done' &
        while ! grep -q done pids; do sleep 0.01; done 2> /dev/null; echo said";
    let started = Instant::now();
    let said = stage.output(script).await;
    assert!(said["response"].as_str().is_some_and(|text| text.contains("said")));
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    kill_processes_of_run(&stage.execution.run_id);
    all_die(&pids(stage.path("pids")).await).await;
}

#[tokio::test]
async fn nine_megabytes_arrive_whole() {
    let stage = Stage::new();
    let script = "head -c 9437184 /dev/zero | tr '\\0' x; printf end";
    let output = stage.output(script).await;
    let text = output["response"].as_str().expect("text");
    assert_eq!(text.len(), 9 * 1024 * 1024 + 3);
    assert!(text.ends_with("xend"));
}

#[tokio::test]
async fn what_was_written_just_before_the_end_is_never_lost() {
    let stage = Stage::new();
    let text = "y".repeat(60_000);
    stage.write("text", &text, 0o644);
    for _ in 0..100 {
        assert_eq!(
            stage.output("exec cat text").await["response"].as_str().map(str::len),
            Some(text.len())
        );
    }
}

#[tokio::test]
async fn the_cap_is_the_last_size_that_is_allowed() {
    let mut stage = Stage::new();
    stage.bounds.output_cap = 100_000;
    let exactly = stage.output("head -c 100000 /dev/zero | tr '\\0' x").await;
    assert_eq!(exactly["response"].as_str().map(str::len), Some(100_000));
    let failure = stage.failure("head -c 100001 /dev/zero | tr '\\0' x").await;
    assert_eq!(failure.kind, FailureKind::OutputTooLarge);
}

#[tokio::test]
async fn a_flood_on_stdout_is_stopped() {
    let stage = Stage::new();
    let failure = stage
        .failure("echo $$ > pids; echo done >> pids; yes; echo never > after")
        .await;
    assert_eq!(failure.kind, FailureKind::OutputTooLarge);
    assert!(failure.error.contains("10485760 bytes"), "{}", failure.error);
    all_die(&pids(stage.path("pids")).await).await;
    assert!(!stage.path("after").exists());
}

#[tokio::test]
async fn a_flood_on_stderr_is_drained_and_its_end_kept() {
    let stage = Stage::new();
    let script = "yes noise | head -c 48000000 >&2; echo 'the end' >&2; echo fine";
    assert_eq!(stage.output(script).await, json!({"response": "fine"}));
    let stderr = stage.execution.ledger.take_entries().stderr;
    assert_eq!(stderr.len(), tail::MAX_FOLDED_RUNS);
    assert!(stderr.ends_with("noise\nthe end\n"));
}

#[tokio::test]
async fn one_pipe_does_not_hold_up_another() {
    let mut stage = Stage::new();
    stage.execution.context = five_megabytes();
    // It writes more than a pipe holds on both ends before it reads.
    let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero | tr '\\0' x; wc -c";
    let output = stage.output(script).await;
    let text = output["response"].as_str().expect("text");
    let read: usize = text.trim_start_matches('x').trim().parse().expect("a count");
    assert!(read > 5_000_000, "{read}");
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let stage = Stage::new();
    let whole = |program: &Path| ProgramInvocation {
        program: program.to_owned(),
        arguments: Vec::new(),
    };
    let unix_but_elsewhere = stage.write("bad", "#!/no/such/interpreter -x\n", 0o755);
    let windows = stage.write("crlf", "#!/bin/sh\r\necho hi\r\n", 0o755);
    let plain = stage.write("plain", "echo hi\n", 0o644);
    for (program, expected) in [
        (Path::new("no-such-program-anywhere"), "not installed or not on PATH"),
        (&unix_but_elsewhere, "`/no/such/interpreter`"),
        (&windows, "carriage return"),
        (&plain, "chmod +x"),
    ] {
        let failure = stage.perform(&whole(program)).await.expect_err("a failure");
        assert_eq!(failure.kind, FailureKind::Unavailable, "{failure:?}");
        assert!(failure.error.contains(expected), "{failure:?}");
        assert!(failure.error.contains(&*program.to_string_lossy()), "{failure:?}");
    }
}

#[tokio::test]
async fn a_missing_folder_is_told_from_a_missing_program() {
    let stage = Stage::new();
    let nowhere = stage.path("nowhere");
    let AttemptEnd::Finished(observation) = run_program(&sh("true"), &nowhere, &stage.bounds, &stage.execution).await
    else {
        panic!("it asks nobody");
    };
    let failure = observation.result.expect_err("a failure");
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.error.contains("nowhere`, does not exist"), "{failure:?}");
}

#[tokio::test]
async fn a_program_that_is_still_being_written_is_waited_for() {
    let stage = Stage::new();
    let path = stage.write("tool", "#!/bin/sh\necho ready\n", 0o755);
    let output = stage.perform_while_written(path).await;
    assert_eq!(Value::Object(output.expect("an output")), json!({"response": "ready"}));
}

/// Returns a part of an execution, which is started on another thread.
fn a_part(run_id: &str) -> ExecutionInput {
    ExecutionInput {
        run_id: run_id.into(),
        part: Some(Arc::new(ensemble_core::runner::ExecutionPart {
            item_name: "item".into(),
            item: Arc::new(json!(1)),
            index: 0,
            key: "0".into(),
            variable: Arc::new(json!({"index": 0, "key": "0", "count": 1})),
        })),
        ..an_execution()
    }
}

#[tokio::test]
async fn a_part_waits_for_a_program_that_is_still_being_written_and_leaves_nothing_running() {
    let stage = Stage {
        execution: a_part("run-1"),
        ..Stage::new()
    };
    let path = stage.write("tool", "#!/bin/sh\necho $ENSEMBLE_PART is ready\n", 0o755);
    let output = stage.perform_while_written(path).await;
    assert_eq!(
        Value::Object(output.expect("an output")),
        json!({"response": "0 is ready"})
    );
    let pids = stage
        .drop_midway("sleep 1000 & echo $! > pids; echo $$ >> pids; echo done >> pids; wait")
        .await;
    all_die(&pids).await;
    let missing = ProgramInvocation {
        program: "no-such-program".into(),
        arguments: Vec::new(),
    };
    let failure = stage.perform(&missing).await.expect_err("a failure");
    assert_eq!(failure.kind, FailureKind::Unavailable);
}

/// The process is started on another thread while nobody waits for it any more.
#[cfg(target_os = "linux")]
#[test]
fn a_part_that_is_dropped_while_it_starts_leaves_nothing_running() {
    let run_id = own_run_id("dropped-part");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let stage = Stage::new();
    runtime.block_on(async {
        for _ in 0..20 {
            let (invocation, execution) = (sh("exec sleep 1000"), a_part(&run_id));
            let running = run_program(&invocation, stage.folder.path(), &stage.bounds, &execution);
            tokio::pin!(running);
            assert!(futures_util::poll!(running.as_mut()).is_pending());
        }
    });
    // Waits for the threads.
    drop(runtime);
    let mark = format!("{RUN_ID_VARIABLE}={run_id}");
    let alive = || -> Vec<i32> {
        let pids = fs::read_dir("/proc").expect("processes").flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_ours = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
        };
        pids.filter(|pid| is_ours(pid) && is_alive(*pid)).collect()
    };
    let deadline = Instant::now() + PATIENCE;
    while !alive().is_empty() {
        assert!(Instant::now() < deadline, "{:?} are still alive", alive());
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn leftovers_of_a_run_are_killed_and_nobody_else() {
    let run = own_run_id("leftovers");
    let longer = format!("{run}-2");
    let begin = |run_id: &str| {
        let mut command = Command::new("sh");
        let command = command.args(["-c", "sleep 1000 & wait"]).env(RUN_ID_VARIABLE, run_id);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started")
    };
    let (mut mine, mut other) = (begin(&run), begin(&longer));
    let pid = |child: &std::process::Child| i32::try_from(child.id()).expect("a pid");
    for child in [&mine, &other] {
        has_its_environment(pid(child)).await;
    }
    kill_processes_of_run(&run);
    all_die(&[pid(&mine)]).await;
    assert!(is_alive(pid(&other)));
    kill_processes_of_run(&longer);
    all_die(&[pid(&other)]).await;
    let _statuses = (mine.wait(), other.wait());
}
