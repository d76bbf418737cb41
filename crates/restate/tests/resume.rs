//! Runs that were cut short and go on, on the engine itself, which `tests/install.sh restate` installs; without it these tests say
//! that they were skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use ensemble_core::conversation::{CompletionReason, ConversationState, Event, Record};
use ensemble_core::store::{MemoryStore, RunId};
use ensemble_language::plan::Plan;
use ensemble_remote::EngineClientError;
use ensemble_remote::protocol::SentQuestionAnswer;
use serde_json::json;

use support::compare::folded;
use support::{
    Engine, INGRESS, PATIENCE, all_records, digest_of_question, in_a_network, process_in, records_when, remote,
    skipped, start,
};

/// Three agents, one after the other; the middle one waits for a file.
const CHAIN: &str = "name: chain
agents:
  - {name: a, script: step.sh}
  - {name: b, script: waits.sh, depends_on: [a]}
  - {name: c, script: step.sh, depends_on: [b]}
";

/// A line for each begin, appended at once.
const STEP: &str = "cat > /dev/null; echo \"$ENSEMBLE_RUN_ID $ENSEMBLE_AGENT_NAME\" >> ledger; echo done";

/// Says so in the ledger if another one of its run goes on.
const WAITS: &str = "cat > /dev/null
pid=$(echo \"$ENSEMBLE_RUN_ID\" | tr / -).pid
if [ -e \"$pid\" ] && kill -0 \"$(cat \"$pid\")\" 2> /dev/null; then echo \"$ENSEMBLE_RUN_ID twice\" >> ledger; fi
echo $$ > \"$pid\"
echo \"$ENSEMBLE_RUN_ID $ENSEMBLE_AGENT_NAME\" >> ledger
until [ -e go ]; do sleep 0.05; done
echo waited
";

#[test]
fn a_run_that_was_cut_short_goes_on_on_the_engine() {
    in_a_network("goes_on");
}

#[test]
fn a_run_inside_another_goes_on_with_it_on_the_engine() {
    in_a_network("goes_on_inside");
}

#[test]
fn the_program_resumes_runs_on_the_engine() {
    in_a_network("program_resumes");
}

async fn engine(files: &[(&str, &str)]) -> Engine {
    let mut all = vec![("chain.yaml", CHAIN), ("step.sh", STEP), ("waits.sh", WAITS)];
    all.extend(files);
    Engine::start(&all).await
}

/// What began, in its order, of this run alone.
fn ledger(engine: &Engine, run: &str) -> Vec<String> {
    let text = std::fs::read_to_string(engine.path().join("ledger")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter(|(of, _)| *of == run)
        .map(|(_, step)| step.to_owned())
        .collect()
}

fn reason(state: &ConversationState) -> Option<CompletionReason> {
    state.run_end().map(|ended| ended.completion_reason)
}

/// How often a run went on.
fn resumed(records: &[Record]) -> usize {
    let resumed = records
        .iter()
        .filter(|record| matches!(record.event, Event::RunResumed(_)));
    resumed.count()
}

/// Cuts a run short whose middle agent has begun so often, and says how many records it has then. The script may go on for a moment.
async fn cut(engine: &Engine, id: &str, plan: &Arc<Plan>, begun: usize) -> usize {
    begins(engine, id, begun).await;
    let by = format!("canceller {begun}");
    remote().cancel_run(id, &by).await.expect("it is cancelled");
    let records = all_records(id).await;
    let state = folded(plan, &records);
    assert_eq!(reason(&state), Some(CompletionReason::Cancelled));
    let detail = state.run_end().and_then(|ended| ended.detail.clone());
    assert!(detail.as_ref().is_some_and(|detail| detail.contains(&by)), "{detail:?}");
    records.len()
}

/// Waits until the agent `b` has begun so often.
async fn begins(engine: &Engine, id: &str, times: usize) {
    let asked = Instant::now();
    while ledger(engine, id).iter().filter(|step| *step == "b").count() < times {
        assert!(asked.elapsed() < PATIENCE, "{:?}", ledger(engine, id));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Lets a run go on, and waits until it does, which is not before it was asked for.
async fn go_on(id: &str, after: usize) {
    let asked = Utc::now();
    remote().request_resume(id, asked).await.expect("it can go on");
    let records = records_when(id, |records, _| records.len() > after).await;
    assert!(matches!(records[after].event, Event::RunResumed(_)), "{records:?}");
    // Records have microseconds.
    let went_on = records[after].at.timestamp_micros();
    assert!(
        went_on >= asked.timestamp_micros(),
        "it went on by itself: {:?}",
        records[after]
    );
}

fn refused(error: &EngineClientError) -> Option<(u16, &str)> {
    match error {
        EngineClientError::RequestRefused { status, message, .. } => Some((*status, message)),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_run_that_was_cut_short_goes_on_on_the_engine` starts it in a network of its own"]
async fn goes_on() {
    let engine = engine(&[
        ("late.yaml", &format!("{CHAIN}conversation_limits: {{timeout_seconds: 2}}\n")),
        (
            "ask.yaml",
            "name: ask\nagents:\n  - {name: b, script: waits.sh}\n  - {name: again, script: step.sh, conversation: {on_resume: rerun}}\n  - {name: person, input: {prompt: How many?}, depends_on: [b]}\n",
        ),
    ])
    .await;

    // Twice cancelled, and resumed each time; a second request while it goes on changes nothing.
    let id = "aaaa-20261123-080000000";
    let plan = start(&engine, "chain.yaml", id).await;
    for times in 1..=2 {
        let records = cut(&engine, id, &plan, times).await;
        // Whoever cancels a run that is over changes nothing.
        remote().cancel_run(id, "somebody else").await.expect("it is over");
        go_on(id, records).await;
        remote()
            .request_resume(id, Utc::now())
            .await
            .expect("it goes on already");
    }
    begins(&engine, id, 3).await;
    std::fs::write(engine.path().join("go"), "").expect("a file");
    let records = all_records(id).await;
    let state = folded(&plan, &records);
    assert_eq!(reason(&state), Some(CompletionReason::Completed));
    assert_eq!((resumed(&records), state.turn_count()), (2, 3));
    assert_eq!(ledger(&engine, id), ["a", "b", "b", "b", "c"]);
    let again = remote().request_resume(id, Utc::now()).await.expect_err("it has ended");
    assert_eq!(refused(&again), Some((409, "the run has ended and cannot be resumed")));
    let none = remote().request_resume("none-20261123-080000000", Utc::now()).await;
    assert!(matches!(none, Err(EngineClientError::NoRun { .. })), "{none:?}");
    std::fs::remove_file(engine.path().join("go")).expect("it is there");

    // The time limit begins again with the whole time, and may end the run again.
    let id = "bbbb-20261123-080000000";
    let plan = start(&engine, "late.yaml", id).await;
    for times in 0..2 {
        let records = all_records(id).await;
        assert_eq!(reason(&folded(&plan, &records)), Some(CompletionReason::Timeout));
        assert_eq!(resumed(&records), times);
        go_on(id, records.len()).await;
    }
    std::fs::write(engine.path().join("go"), "").expect("a file");
    let state = folded(&plan, &all_records(id).await);
    assert_eq!(reason(&state), Some(CompletionReason::Completed));
    assert_eq!(ledger(&engine, id), ["a", "b", "b", "b", "c"]);
    std::fs::remove_file(engine.path().join("go")).expect("it is there");

    // A question after it. What may be out of date is executed again.
    let id = "cccc-20261123-080000000";
    let plan = start(&engine, "ask.yaml", id).await;
    begins(&engine, id, 1).await;
    let finished = |records: &[Record], _| {
        let mut ends = records.iter();
        ends.any(|record| matches!(&record.event, Event::ExecutionFinished(end) if *end.agent == *"again"))
    };
    records_when(id, finished).await;
    let records = cut(&engine, id, &plan, 1).await;
    std::fs::write(engine.path().join("go"), "").expect("a file");
    go_on(id, records).await;
    let waits = |records: &[Record], _| {
        let last = records.last().map(|last| &last.event);
        matches!(last, Some(Event::RunEnded(ended)) if ended.completion_reason == CompletionReason::WaitingForInput)
    };
    let records = records_when(id, waits).await;
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
    remote().send_answer(id, &answer).await.expect("it is taken");
    let state = folded(&plan, &all_records(id).await);
    assert_eq!(reason(&state), Some(CompletionReason::Completed));
    let mut begun = ledger(&engine, id);
    begun.sort_unstable();
    assert_eq!(begun, ["again", "again", "b", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_run_inside_another_goes_on_with_it_on_the_engine` starts it in a network of its own"]
async fn goes_on_inside() {
    let engine = engine(&[
        ("outer.yaml", "name: outer\nagents: [{name: middle, ensemble: middle.yaml}]\n"),
        ("middle.yaml", "name: middle\nagents: [{name: first, script: step.sh}, {name: inner, ensemble: chain.yaml, depends_on: [first]}]\n"),
    ])
    .await;
    let id = "aaaa-20261123-080000000";
    let [middle, inner] = ["", "/sub/inner-1-1"].map(|inside| format!("{id}/sub/middle-1-1{inside}"));
    let pid = engine.path().join(format!("{}.pid", inner.replace('/', "-")));
    let plan = start(&engine, "outer.yaml", id).await;
    for _ in 0..2 {
        let process = process_in(&pid).await;
        remote().cancel_run(id, "a test").await.expect("it is cancelled");
        let records = all_records(id).await;
        process.ended().await;
        std::fs::remove_file(&pid).expect("the process wrote it");
        // It goes on with the run around it, and not alone.
        let alone = remote().request_resume(&middle, Utc::now()).await;
        assert_eq!(
            refused(&alone.expect_err("it has ended")).map(|(status, _)| status),
            Some(409)
        );
        go_on(id, records.len()).await;
    }
    process_in(&pid).await;
    std::fs::write(engine.path().join("go"), "").expect("a file");
    let records = all_records(id).await;
    let state = folded(&plan, &records);
    assert_eq!(reason(&state), Some(CompletionReason::Completed));
    // The time in which it was cut short, twice three seconds at least, is no time of the execution.
    let whole = (records[records.len() - 1].at - records[0].at).as_seconds_f64();
    let took = records.iter().find_map(|record| match &record.event {
        Event::ExecutionFinished(end) => Some(end.execution_time),
        _ => None,
    });
    assert!(took.is_some_and(|took| took < whole - 5.5), "{took:?} of {whole}");
    // What had ended inside is not repeated, however deep.
    assert_eq!(ledger(&engine, &middle), ["first"]);
    assert_eq!(ledger(&engine, &inner), ["a", "b", "b", "b", "c"]);

    // One copy of each run inside, as after a resume on one machine, with all that it did.
    let store = MemoryStore::new();
    let run = remote()
        .copy_run(&RunId::new(id), &store)
        .await
        .expect("it can be read");
    let mut run = run;
    for name in ["middle-1-1", "inner-1-1"] {
        assert_eq!(run.list_nested_run_names().await.expect("names"), [name]);
        run = run
            .find_nested_run(name)
            .await
            .expect("it can be read")
            .expect("it is there");
        let records = run.read_journal().await.expect("it can be read").records;
        assert_eq!(resumed(&records), 2, "{name}");
        let Some(Event::RunEnded(ended)) = records.last().map(|last| &last.event) else {
            panic!("{name} has no end");
        };
        assert_eq!(ended.completion_reason, CompletionReason::Completed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`the_program_resumes_runs_on_the_engine` starts it in a network of its own"]
async fn program_resumes() {
    let program = Path::new(env!("CARGO_BIN_EXE_ensemble-restate")).with_file_name("ensemble");
    if !program.is_file() {
        return skipped("`cargo build` makes the program that this test drives");
    }
    let engine = engine(&[("rows.jsonl", "{\"n\": 1}\n")]).await;
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(engine.path()).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", engine.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    let told = |output: std::process::Output| {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let run = |arguments: &[&str]| told(command(arguments).output().expect("the program starts"));

    let (_, out, err) = run(&["run", "chain.yaml", "--on", INGRESS, "--detach"]);
    let id = out.trim().to_owned();
    let pid = engine.path().join(format!("{id}.pid"));
    process_in(&pid).await;
    remote()
        .cancel_run(&id, "a test")
        .await
        .unwrap_or_else(|error| panic!("{error}: {err}"));
    let cut = all_records(&id).await.len();
    std::fs::remove_file(&pid).expect("the process wrote it");

    // Ctrl-C cancels it again, also before it goes on.
    let interrupt = |child: &std::process::Child| {
        let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(status.expect("kill").success());
    };
    let mut resume = command(&["resume", &id, "--on", INGRESS]).spawn().expect("it starts");
    let mut first = [0];
    let shown = resume.stdout.as_mut().expect("a pipe").read(&mut first);
    assert_eq!(shown.expect("what it shows"), 1);
    interrupt(&resume);
    let (code, out, err) = told(resume.wait_with_output().expect("it ends"));
    assert_eq!(code, Some(130), "{out}{err}");
    let cancelled = all_records(&id).await;
    assert!(cancelled.len() > cut && resumed(&cancelled) == 1, "{cancelled:?}");
    let _ = std::fs::remove_file(&pid);

    let resume = command(&["resume", &id, "--on", INGRESS]).spawn().expect("it starts");
    let process = process_in(&pid).await;
    interrupt(&resume);
    let (code, out, err) = told(resume.wait_with_output().expect("it ends"));
    assert_eq!(code, Some(130), "{out}{err}");
    let hint = format!("ensemble resume {id} --on {INGRESS}");
    assert!(out.contains(&hint) || err.contains(&hint), "{out}{err}");
    process.ended().await;
    assert_eq!(resumed(&all_records(&id).await), 2);

    std::fs::write(engine.path().join("go"), "").expect("a file");
    let (code, out, err) = run(&["resume", &id, "--on", INGRESS, "-q"]);
    assert_eq!((code, out.trim()), (Some(0), "done"), "{err}");
    // The run that was cancelled at once may have begun the script or not.
    let mut begun = ledger(&engine, &id);
    begun.dedup();
    assert_eq!(begun, ["a", "b", "c"]);
    // It has ended for good: its end is shown again.
    let (code, out, err) = run(&["resume", &id, "--on", INGRESS, "-q"]);
    assert_eq!((code, out.trim()), (Some(0), "done"), "{err}");
    std::fs::remove_file(engine.path().join("go")).expect("it is there");

    // A row whose run somebody has cancelled goes on with the batch.
    let batch = [
        "batch",
        "chain.yaml",
        "--data",
        "rows.jsonl",
        "--on",
        INGRESS,
        "--output",
        "json",
    ];
    let under_way = command(&batch).spawn().expect("the program starts");
    let row = loop {
        let ids = remote().list_latest_run_ids(10).await.expect("a list");
        if let Some(row) = ids.into_iter().find(|other| other.as_str() != id) {
            break row.to_string();
        }
        tokio::task::yield_now().await;
    };
    let pid = engine.path().join(format!("{row}.pid"));
    process_in(&pid).await;
    remote().cancel_run(&row, "a test").await.expect("it is cancelled");
    let (code, out, err) = told(under_way.wait_with_output().expect("it ends"));
    assert_eq!(code, Some(130), "{out}{err}");
    std::fs::write(engine.path().join("go"), "").expect("a file");
    let (code, out, err) = run(&batch);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(ledger(&engine, &row), ["a", "b", "b", "c"]);
}
