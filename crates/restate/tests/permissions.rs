//! Calls that a person must permit, on the engine itself, which `tests/install.sh restate` installs; without it these tests say that
//! they were skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use chrono::Utc;
use ensemble_core::conversation::PermissionDecision;
use ensemble_core::conversation::{CompletionReason, Event, Record};
use ensemble_core::operator::{Operator, OperatorAnswer as Said, PermissionAnswer, PermissionRequest, QuestionRequest};
use ensemble_core::request::AnswerSource;
use ensemble_core::runner::BoxFuture;
use ensemble_remote::protocol::SentQuestionAnswer;
use serde_json::{Value, json};

use support::compare::{folded, here, told, without_attempts};
use support::terminal::TerminalSession;
use support::{Engine, INGRESS, in_a_network, records_when, remote, skipped, start};

/// The second reply begins with the call of the first.
const WRITES: &str = "name: writes
agents: [{name: a, model_profile: m, tools: [write]}]
model_profiles:
  m:
    provider: simulated
    replies:
      - {tool_calls: [{name: write, arguments: {n: 1}}]}
      - {tool_calls: [{name: write, arguments: {n: 1}}, {name: write, arguments: {n: 2}}]}
      - {tool_calls: [{name: write, arguments: {n: 3}}]}
      - done
tools:
  write: {script: write.sh, parameters: {type: object}, permission: ask}
";

const WRITE: &str = "cat >> written; echo >> written; echo '{}'";

#[test]
fn a_call_waits_for_the_decision_of_a_person_on_the_engine() {
    in_a_network("decisions");
}

#[test]
fn the_program_decides_about_calls_on_the_engine() {
    in_a_network("program_decides");
}

/// The numbers with which the tool was called, in their order: calls of one reply are made side by side.
fn written(engine: &Engine) -> Vec<u64> {
    let text = std::fs::read_to_string(engine.path().join("written")).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty());
    let mut numbers: Vec<u64> = lines
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["parameters"]["n"]
                .as_u64()
                .expect("a number")
        })
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Decides one after the other.
struct Scripted(Mutex<Vec<PermissionDecision>>);

impl Operator for Scripted {
    fn ask_question(&self, _asked: QuestionRequest) -> BoxFuture<'_, Said> {
        Box::pin(async { Said::Nobody })
    }

    fn request_permission(&self, _requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
        let decision = self.0.lock().expect("nobody panics").remove(0);
        Box::pin(async move { PermissionAnswer::from_decision(decision, AnswerSource::Terminal) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_call_waits_for_the_decision_of_a_person_on_the_engine` starts it in a network of its own"]
async fn decisions() {
    let mut engine = Engine::start(&[("writes.yaml", WRITES), ("write.sh", WRITE)]).await;
    let id = "aaaa-20261123-080000000";
    let plan = start(&engine, "writes.yaml", id).await;
    // The records when the run waits, or has ended, after more than these.
    let stopped = async |after: usize| {
        let ends = |record: &Record| matches!(record.event, Event::RunEnded(_));
        records_when(id, |records, _| {
            records.len() > after && records.last().is_some_and(ends)
        })
        .await
    };
    let wanted = |records: &[Record]| {
        let state = folded(&plan, records);
        let request = state.pending_requests().next().expect("a question").clone();
        request.question.permission.expect("it is about a call").arguments["n"].as_u64()
    };
    let answer = async |records: &[Record], answer: Value, decision: Option<PermissionDecision>| {
        let state = folded(&plan, records);
        let request = state.pending_requests().next().expect("a question");
        let asked = records.len() as u64;
        let answer = SentQuestionAnswer {
            digest: request.digest.clone(),
            agent: "a".to_owned(),
            execution: 1,
            asked,
            answer,
            decision,
            by: None,
            at: Utc::now(),
            refuses_exhausted: None,
        };
        remote().send_answer(id, &answer).await
    };

    let first = stopped(0).await;
    assert_eq!(wanted(&first), Some(1));
    // The question is the engine's: no worker keeps it.
    engine.kill_worker();
    engine.start_worker();
    // A text is no decision, whatever it says.
    answer(&first, json!("yes"), None).await.expect("it is taken");
    let again = stopped(first.len()).await;
    assert_eq!((wanted(&again), written(&engine)), (Some(1), vec![]));

    answer(&again, Value::Null, Some(PermissionDecision::Once))
        .await
        .expect("it is taken");
    let second = stopped(again.len()).await;
    // The same call as the first, which was permitted once.
    assert_eq!((wanted(&second), written(&engine)), (Some(1), vec![1]));
    // An answer to the question before is none to this one, and a text brings no earlier decision back.
    let late = answer(&again, Value::Null, Some(PermissionDecision::Always)).await;
    let late = late.expect_err("it is decided").to_string();
    assert!(late.contains("your answer was not used"), "{late}");
    answer(&second, json!("yes"), None).await.expect("it is taken");
    let text = stopped(second.len()).await;
    assert_eq!((wanted(&text), written(&engine)), (Some(1), vec![1]));
    answer(&text, Value::Null, Some(PermissionDecision::Denied))
        .await
        .expect("it is taken");
    let third = stopped(text.len()).await;
    assert_eq!((wanted(&third), written(&engine)), (Some(2), vec![1]));
    answer(&third, Value::Null, Some(PermissionDecision::Always))
        .await
        .expect("it is taken");
    let records = stopped(third.len()).await;
    let state = folded(&plan, &records);
    assert_eq!(
        state.run_end().map(|ended| ended.completion_reason),
        Some(CompletionReason::Completed)
    );
    assert_eq!(written(&engine), [1, 2, 3]);

    let decisions = vec![
        PermissionDecision::Once,
        PermissionDecision::Denied,
        PermissionDecision::Always,
    ];
    let runs = engine.runs().with_operator(Arc::new(Scripted(Mutex::new(decisions))));
    assert_eq!(
        without_attempts(told(&state, &records)),
        without_attempts(here(&runs, "writes.yaml").await)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`the_program_decides_about_calls_on_the_engine` starts it in a network of its own"]
async fn program_decides() {
    let program = Path::new(env!("CARGO_BIN_EXE_ensemble-restate")).with_file_name("ensemble");
    if !program.is_file() {
        return skipped("`cargo build` makes the program that this test drives");
    }
    let engine = Engine::start(&[("writes.yaml", WRITES), ("write.sh", WRITE)]).await;
    let clean = |command: &mut Command| {
        command.current_dir(engine.path()).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", engine.path());
    };
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        clean(command.args(arguments).stdin(Stdio::null()));
        let output = command.output().expect("the program starts");
        // The same command with `-q` tells its output alone.
        match arguments.contains(&"-q") {
            true => (output.status.code(), String::from_utf8(output.stdout).expect("text")),
            false => shown(&output),
        }
    };
    let (code, text) = run(&["run", "writes.yaml", "--on", INGRESS]);
    assert_eq!(code, Some(3), "{text}");
    let hint = format!("--allow-tool 'a/write#1' --on {INGRESS} (or --deny-tool)");
    assert!(text.contains(&hint) && written(&engine).is_empty(), "{text}");
    let (_, listed) = run(&["runs", "list", "--on", INGRESS]);
    assert!(listed.contains("waiting"), "{listed}");
    let (code, text) = run(&["resume", "--last", "--on", INGRESS, "--allow-tool", "other"]);
    assert_eq!((code, written(&engine)), (Some(3), vec![]), "{text}");
    let (code, text) = run(&["resume", "--last", "--on", INGRESS, "--allow-tool", "write", "-q"]);
    assert_eq!((code, text.trim()), (Some(0), "done"));
    assert_eq!(written(&engine), [1, 1, 2, 3]);

    std::fs::remove_file(engine.path().join("written")).expect("it was written");
    let (code, _) = run(&["run", "writes.yaml", "--on", INGRESS]);
    assert_eq!(code, Some(3));
    let denied = [
        "resume",
        "--last",
        "--on",
        INGRESS,
        "--allow-tool",
        "*",
        "--deny-tool",
        "write",
        "-q",
    ];
    let (code, text) = run(&denied);
    assert_eq!((code, text.trim(), written(&engine)), (Some(0), "done", vec![]));

    // A person at a terminal, which `script` is.
    let mut command = Command::new("script");
    let line = format!("{} run writes.yaml --on {INGRESS}", program.display());
    clean(command.args(["-qec", &line, "/dev/null"]));
    let Some(mut terminal) = TerminalSession::start(&mut command) else {
        return skipped("there is no `script`, which is a terminal");
    };
    // One decision for each question: the call that was permitted once is asked about again. What is typed before a question
    // is not its answer.
    let count_questions = |text: &str| text.matches("may the tool").count();
    let mut seen = 0;
    for key in ["y\n", "n\n", "n\n", "a\n"] {
        // The prompt follows the question: what is typed before it is discarded.
        terminal.wait_for(|text| {
            let prompted = text.rsplit_once("may the tool");
            count_questions(text) > seen && prompted.is_some_and(|(_, rest)| rest.contains("> "))
        });
        seen = count_questions(&terminal.text());
        terminal.type_keys(key);
    }
    let (code, text) = terminal.wait_until_ended();
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("may the tool `write` be called with {\"n\":2}?"),
        "{text}"
    );
    assert_eq!(written(&engine), [1, 3], "{text}");
}

fn shown(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8(text).expect("text"))
}
