//! What ended inside an execution is not repeated after the loss of its worker, or after a cancellation, on the engine itself, which
//! `tests/install.sh restate` installs; without it these tests say that they were skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use chrono::Utc;
use ensemble_core::conversation::{CompletionReason, ConversationState, Event, Record};

use support::compare::{folded, here, told, without_attempts};
use support::{Engine, INGRESS, all_records, in_a_network, process_in, records_when, remote, skipped, start};

/// Parts one after the other. Each counts itself; the one that the file `held.part` names waits until the file is gone.
const PARTS: &str = "name: parts
agents:
  - {name: each, script: pay.sh, for_each: {in: [1, 2, 3, 4, 5, 6], max_parallel: 1}}
  - {name: after, script: after.sh, depends_on: [each]}
";

/// Two attempts, the first of which fails.
const RETRY: &str = "name: retry
agents: [{name: flaky, script: flaky.sh, retry: {max_attempts: 3, delay_seconds: 0}}]
";

/// A model that pays several times, side by side in its second reply.
const CALLS: &str = "name: calls
agents: [{name: a, model_profile: m, tools: [pay]}]
model_profiles:
  m:
    provider: simulated
    replies:
      - {tool_calls: [{name: pay, arguments: {n: 1}}]}
      - {tool_calls: [{name: pay, arguments: {n: 2}}, {name: pay, arguments: {n: 3}}]}
      - {tool_calls: [{name: pay, arguments: {n: 4}}]}
      - done
tools:
  pay: {script: pay.sh, parameters: {type: object}}
";

const PAY: &str = "n=$(cat | grep -o '\"\\(item\\|n\\)\":\"*[0-9]' | head -1 | grep -o '[0-9]$')
[ -n \"$n\" ] || exit 1
echo \"$ENSEMBLE_RUN_ID $n\" >> ledger
if [ \"$n\" = \"$(cat held.part 2> /dev/null)\" ]; then
  echo $$ > pid
  while [ -e held.part ]; do sleep 0.05; done
fi
echo '{\"paid\": true}'
";

/// Fails the first time in a run.
const FLAKY: &str = "cat > /dev/null
echo \"$ENSEMBLE_RUN_ID $ENSEMBLE_AGENT_NAME\" >> ledger
[ \"$(grep -c \"^$ENSEMBLE_RUN_ID \" ledger)\" -gt 1 ] || exit 1
echo ok
";

const AFTER: &str = "cat > /dev/null; echo \"$ENSEMBLE_RUN_ID after\" >> ledger; echo ok";

const FILES: [(&str, &str); 6] = [
    ("parts.yaml", PARTS),
    ("retry.yaml", RETRY),
    ("calls.yaml", CALLS),
    ("pay.sh", PAY),
    ("flaky.sh", FLAKY),
    ("after.sh", AFTER),
];

#[test]
fn parts_that_ended_are_not_repeated_after_the_loss_of_a_worker() {
    in_a_network("lost_worker");
}

#[test]
fn a_worker_may_die_at_every_record_on_the_engine() {
    in_a_network("every_record");
}

#[test]
fn what_ended_before_ctrl_c_is_not_repeated_on_the_engine() {
    in_a_network("interrupted");
}

/// How often each thing was done in a run.
fn counts(engine: &Engine, run: &str) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(engine.path().join("ledger")).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for (of, what) in text.lines().filter_map(|line| line.split_once(' ')) {
        if of == run {
            *counts.entry(what.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// All done once but this one, if there is one, which was done twice.
fn once_each<'a>(all: &[&'a str], twice: Option<&'a str>) -> BTreeMap<String, usize> {
    let count = |what: &&str| (what.to_string(), 1 + usize::from(Some(*what) == twice));
    all.iter().map(count).collect()
}

/// The attempts of an agent that began, in the order of the journal.
fn attempts(records: &[Record], agent: &str) -> Vec<u32> {
    let starts = records.iter().filter_map(|record| match &record.event {
        Event::ExecutionStarted(started) if *started.agent == *agent => Some(started.attempt),
        _ => None,
    });
    starts.collect()
}

fn reason(state: &ConversationState) -> Option<CompletionReason> {
    state.run_end().map(|ended| ended.completion_reason)
}

const PAYMENTS: [&str; 7] = ["1", "2", "3", "4", "5", "6", "after"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`parts_that_ended_are_not_repeated_after_the_loss_of_a_worker` starts it in a network of its own"]
async fn lost_worker() {
    let mut engine = Engine::start(&FILES).await;
    let (held, pid) = (engine.path().join("held.part"), engine.path().join("pid"));
    let id = "aaaa-20261123-080000000";
    std::fs::write(&held, "4").expect("a file");
    let plan = start(&engine, "parts.yaml", id).await;
    process_in(&pid).await;
    engine.kill_worker();
    std::fs::remove_file(&held).expect("it is there");
    engine.start_worker();
    let records = all_records(id).await;
    let state = folded(&plan, &records);
    assert_eq!(reason(&state), Some(CompletionReason::Completed));
    assert_eq!(counts(&engine, id), once_each(&PAYMENTS, Some("4")));
    assert_eq!(attempts(&records, "each"), [1, 2]);
    let here = without_attempts(here(&engine.runs(), "parts.yaml").await);
    assert_eq!(without_attempts(told(&state, &records)), here);

    // Another worker is lost in the next attempt, and no attempt of it left a record.
    let id = "bbbb-20261123-080000000";
    std::fs::remove_file(&pid).expect("it is there");
    std::fs::write(&held, "1").expect("a file");
    let plan = start(&engine, "parts.yaml", id).await;
    for _ in 0..2 {
        process_in(&pid).await;
        engine.kill_worker();
        std::fs::remove_file(&pid).expect("it is there");
        engine.start_worker();
    }
    process_in(&pid).await;
    std::fs::remove_file(&held).expect("it is there");
    let records = all_records(id).await;
    assert_eq!(reason(&folded(&plan, &records)), Some(CompletionReason::Completed));
    assert_eq!(attempts(&records, "each"), [1, 2, 3]);
    let mut counted = counts(&engine, id);
    assert_eq!(counted.remove("1"), Some(3));
    assert_eq!(counted, once_each(&PAYMENTS[1..], None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_worker_may_die_at_every_record_on_the_engine` starts it in a network of its own"]
async fn every_record() {
    let mut engine = Engine::start(&FILES).await;
    // For each ensemble: an agent, and what is done in a run that nothing disturbs. A part that ended and has no record yet, and the part
    // that began after it, are done once more; the calls of one reply that were under way are not made again.
    let all: [(&str, &str, &[&str]); 3] = [
        ("parts.yaml", "each", &PAYMENTS),
        ("retry.yaml", "flaky", &["flaky"]),
        ("calls.yaml", "a", &["1", "2", "3", "4"]),
    ];
    for (at, (file, agent, done)) in all.into_iter().enumerate() {
        let undisturbed = without_attempts(here(&engine.runs(), file).await);
        let mut deaths = 0;
        loop {
            engine.kill_worker();
            engine.start_worker_that_dies(deaths);
            let id = format!("{at}{deaths:03}-20261123-080000000");
            let plan = start(&engine, file, &id).await;
            let has_died = engine.worker_dies_before(|| remote_is_over(&id)).await;
            if has_died {
                engine.start_worker();
            }
            let records = all_records(&id).await;
            let state = folded(&plan, &records);
            assert_eq!(reason(&state), Some(CompletionReason::Completed), "{file} {deaths}");
            if !has_died {
                assert_eq!(without_attempts(told(&state, &records)), undisturbed, "{file}");
                break;
            }
            let counted = counts(&engine, &id);
            let known: Vec<&str> = counted.keys().map(String::as_str).collect();
            assert!(
                known.iter().all(|what| done.contains(what)),
                "{file} {deaths}: {counted:?}"
            );
            let total: usize = counted.values().sum();
            let surplus = total.abs_diff(done.len() + usize::from(file == "retry.yaml"));
            assert!(surplus <= 2, "{file} {deaths}: {counted:?}");
            match file {
                // A call that was under way is not repeated: nobody knows whether it had an effect.
                "calls.yaml" => assert!(counted.values().all(|count| *count == 1), "{deaths}: {counted:?}"),
                // Each record has two points, before and after it is kept.
                "parts.yaml" => {
                    let kept = known
                        .iter()
                        .filter(|part| part.parse().is_ok_and(|part: u32| part <= deaths.div_ceil(2)));
                    assert!(
                        kept.into_iter().all(|part| counted[*part] == 1),
                        "{deaths}: {counted:?}"
                    );
                }
                _ => {}
            }
            // The attempts are numbered on without a gap.
            let begun = attempts(&records, agent);
            assert_eq!(begun, (1..).take(begun.len()).collect::<Vec<u32>>(), "{file} {deaths}");
            assert!(begun.len() > 1, "{file} {deaths}: {begun:?}");
            deaths += 1;
        }
        assert!(deaths >= 2, "{file} keeps no records");
    }
}

async fn remote_is_over(id: &str) -> bool {
    remote().fetch_records(id, 0).await.is_ok_and(|reply| reply.is_over)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`what_ended_before_ctrl_c_is_not_repeated_on_the_engine` starts it in a network of its own"]
async fn interrupted() {
    let program = Path::new(env!("CARGO_BIN_EXE_ensemble-restate")).with_file_name("ensemble");
    if !program.is_file() {
        return skipped("`cargo build` makes the program that this test drives");
    }
    let engine = Engine::start(&FILES).await;
    let (held, pid) = (engine.path().join("held.part"), engine.path().join("pid"));
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
    // The part and the call that are under way are stopped.
    for (file, agent, done) in [
        ("parts.yaml", "each", &PAYMENTS[..]),
        ("calls.yaml", "a", &["1", "2", "3", "4"]),
    ] {
        std::fs::write(&held, "4").expect("a file");
        let _ = std::fs::remove_file(&pid);
        let child = command(&["run", file, "--on", INGRESS]).spawn().expect("it starts");
        let process = process_in(&pid).await;
        let begun = Instant::now();
        let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(status.expect("kill").success());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        process.ended().await;
        let ids = remote().list_latest_run_ids(10).await.expect("a list");
        let id = ids.last().expect("the run").to_string();
        // What ended is in the journal before the interruption.
        let cut = all_records(&id).await;
        let place = |is_it: fn(&Event) -> bool| cut.iter().rposition(|record| is_it(&record.event));
        let ended = place(|event| matches!(event, Event::PartEnded(_) | Event::ToolCallEnded(_)));
        let interrupted = place(|event| matches!(event, Event::Interrupted(_)));
        assert!(ended.is_some() && ended < interrupted, "{cut:?}");
        std::fs::remove_file(&held).expect("it is there");

        let resumed = command(&["resume", &id, "--on", INGRESS, "-q"])
            .output()
            .expect("it starts");
        assert_eq!(resumed.status.code(), Some(0), "{resumed:?}");
        let is_model = file == "calls.yaml";
        // Nobody knows whether the call that was under way had an effect: the model is told so.
        assert_eq!(
            counts(&engine, &id),
            once_each(done, (!is_model).then_some("4")),
            "{file}"
        );
        let records = all_records(&id).await;
        assert_eq!(attempts(&records, agent), [1, 2], "{file}");
        let plan = engine.runs();
        let ready = plan.prepare_run(ensemble_runs::EnsembleRef::from_file_or_name(file), Default::default());
        let state = folded(&ready.expect("it is sound").prepared_ensemble().plan, &records);
        assert_eq!(reason(&state), Some(CompletionReason::Completed));
        if is_model {
            // Four replies: none was paid twice.
            assert_eq!(state.usage().requests, 4, "{:?}", state.usage());
        }
    }

    // A time limit ends a run in the same way.
    let id = "cccc-20261123-080000000";
    let text = PARTS.replace("name: parts", "name: late\nconversation_limits: {timeout_seconds: 2}");
    std::fs::write(engine.path().join("late.yaml"), text).expect("a file");
    std::fs::write(&held, "3").expect("a file");
    let plan = start(&engine, "late.yaml", id).await;
    let cut = all_records(id).await;
    assert_eq!(reason(&folded(&plan, &cut)), Some(CompletionReason::Timeout));
    assert!(counts(&engine, id).contains_key("3"));
    std::fs::remove_file(&held).expect("it is there");
    remote().request_resume(id, Utc::now()).await.expect("it can go on");
    records_when(id, |records, _| records.len() > cut.len()).await;
    let records = all_records(id).await;
    assert_eq!(reason(&folded(&plan, &records)), Some(CompletionReason::Completed));
    assert_eq!(counts(&engine, id), once_each(&PAYMENTS, Some("3")));
}
