//! Runs on three nodes of the engine and four workers, all of which are killed at random. `tests/install.sh restate` installs
//! the engine; without it this test says that it was skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "a part of the harness is for others")]
mod support;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ensemble_core::conversation::Event;
use ensemble_language::plan::Plan;
use ensemble_runs::Runs;
use futures_util::stream::{self, StreamExt};
use serde_json::Value;

use support::cluster::{Cluster, NODES, WORKERS, patient, start};
use support::compare::{folded, here, told, without_attempts};
use support::{PATIENCE, in_a_network};

/// How many runs; `ENSEMBLE_CAMPAIGN=1000` asks for more.
const USUAL: usize = 20;
/// How many runs are under way at a time.
const SIDE_BY_SIDE: usize = 24;
/// How long a run may take while nodes and workers are killed.
const LONGEST: Duration = Duration::from_secs(300);

/// One step after the other; several at once; and in a circle until a condition holds.
const CHAIN: &str = "name: chain
agents:
  - {name: a, script: step.sh}
  - {name: b, script: step.sh, depends_on: [a]}
  - {name: c, script: step.sh, depends_on: [b]}
  - {name: d, script: step.sh, depends_on: [c]}
";
const WIDE: &str = "name: wide
agents:
  - {name: first, script: step.sh}
  - {name: left, script: step.sh, depends_on: [first]}
  - {name: middle, script: step.sh, depends_on: [first]}
  - {name: right, script: step.sh, depends_on: [first]}
  - {name: last, script: step.sh, depends_on: [left, middle, right]}
";
const LOOP: &str = "name: circle
agents:
  - name: writer
    script: step.sh
    conversation: {max_turns: 4}
    dependencies: [{agent_name: critic, feedback: true, condition: output.n < 3}]
  - name: critic
    script: step.sh
    conversation: {max_turns: 4}
    depends_on: [writer]
";
const FILES: [&str; 3] = ["chain.yaml", "wide.yaml", "circle.yaml"];

/// Each line of the ledger is appended at once. The files on this machine are its clock: what stands above was earlier.
const STEP: &str = "cat > /dev/null
of=\"$ENSEMBLE_RUN_ID $ENSEMBLE_TURN $ENSEMBLE_AGENT_NAME $ENSEMBLE_EXECUTION\"
echo \"begin $of\" >> ledger
sleep 0.0$((ENSEMBLE_EXECUTION % 3 + 3))
echo \"end $of\" >> ledger
echo \"{\\\"n\\\": $ENSEMBLE_EXECUTION}\"
";

#[test]
fn killed_nodes_and_workers_lose_nothing_and_repeat_nothing_that_had_ended() {
    in_a_network("campaign");
}

#[test]
fn a_call_that_comes_to_another_worker_is_not_begun_a_second_time() {
    in_a_network("moved");
}

fn asked() -> usize {
    std::env::var("ENSEMBLE_CAMPAIGN").map_or(USUAL, |asked| asked.parse().expect("a number of runs"))
}

fn id(at: usize) -> String {
    format!("c{at:05}-20261123-080000000")
}

/// The lines of the ledger, without those of runs here.
fn ledger(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("ledger")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// What happened.
#[derive(Default)]
struct Count {
    over: AtomicUsize,
    stop: AtomicBool,
}

/// A run from its start to its end, which is noted in the ledger.
async fn one(
    runs: &Runs,
    folder: PathBuf,
    at: usize,
    count: &Count,
) -> (Arc<Plan>, Vec<ensemble_core::conversation::Record>) {
    let (file, id) = (FILES[at % FILES.len()], id(at));
    let plan = start(runs, file, &id).await;
    let remote = patient();
    tokio::time::timeout(LONGEST, remote.wait_for_end_or_question(&id))
        .await
        .unwrap_or_else(|_| panic!("run {id} does not end"))
        .unwrap_or_else(|error| panic!("{id}: {error}"));
    let sent = remote.fetch_records(&id, 0).await.expect("its records");
    assert!(sent.is_over, "run {id} is over");
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(folder.join("ledger"))
        .expect("a ledger");
    file.write_all(format!("over {id}\n").as_bytes())
        .expect("it can be written");
    count.over.fetch_add(1, Ordering::Relaxed);
    (plan, remote.decode_records(&sent.lines).expect("they are records"))
}

/// Kills workers and nodes until all runs are over, each time when something was begun since. How many of each were killed.
async fn kill(cluster: &mut Cluster, count: &Count) -> (usize, usize) {
    let (mut nodes, mut workers) = (0, 0);
    let mut random: u64 = 0x2545_f491_4f6c_dd1d;
    let mut draw = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % 1_000_003).expect("it is small") % below
    };
    while !count.stop.load(Ordering::Relaxed) {
        let (before, begun) = (ledger(&cluster.path()).len(), Instant::now());
        let more = 10 + draw(40);
        while ledger(&cluster.path()).len() < before + more && begun.elapsed() < Duration::from_secs(4) {
            if count.stop.load(Ordering::Relaxed) {
                return (nodes, workers);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let pause = Duration::from_millis(u64::try_from(draw(1_500)).expect("it is small"));
        if draw(3) == 0 {
            cluster.kill_node(draw(NODES), pause).await;
            nodes += 1;
        } else {
            cluster.kill_worker(draw(WORKERS), pause).await;
            workers += 1;
        }
    }
    (nodes, workers)
}

/// Waits until something holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not before the test gave up: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`a_call_that_comes_to_another_worker_is_not_begun_a_second_time` starts it in a network of its own"]
async fn moved() {
    let slow = "name: slow\nagents: [{name: a, script: slow.sh}]\n";
    let script =
        "cat > /dev/null; echo begin >> ledger; until [ -e go ]; do sleep 0.02; done; echo end >> ledger; echo '{}'\n";
    let mut cluster = Cluster::start(&[("slow.yaml", slow), ("slow.sh", script)]).await;
    let (folder, runs, remote) = (cluster.path(), cluster.runs(), patient());
    let given = |at: usize| cluster.balancer.given[at].load(Ordering::SeqCst);

    // The connection is lost and the worker is not: the second one waits for what the first one does.
    cluster.balancer.move_to(0);
    start(&runs, "slow.yaml", &id(0)).await;
    until("the script begins", || ledger(&folder).len() == 1).await;
    let before = given(1);
    cluster.balancer.move_to(1);
    until("the second worker is called", || given(1) > before).await;
    std::fs::write(folder.join("go"), "").expect("a file");
    remote.wait_for_end_or_question(&id(0)).await.expect("it ends");
    assert_eq!(ledger(&folder), ["begin", "end"]);

    // The worker is lost too: the second one begins.
    std::fs::remove_file(folder.join("go")).expect("the file was there");
    std::fs::remove_file(folder.join("ledger")).expect("the file was there");
    cluster.balancer.move_to(0);
    start(&runs, "slow.yaml", &id(1)).await;
    until("the script begins", || ledger(&folder).len() == 1).await;
    let before = given(1);
    cluster.balancer.move_to(1);
    until("the second worker is called", || given(1) > before).await;
    cluster.kill_worker(0, Duration::ZERO).await;
    until("the second worker begins", || ledger(&folder).len() == 2).await;
    std::fs::write(folder.join("go"), "").expect("a file");
    remote.wait_for_end_or_question(&id(1)).await.expect("it ends");
    let sent = remote.fetch_records(&id(1), 0).await.expect("its records");
    assert!(sent.lines.contains("\"completed\""), "{}", sent.lines);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`killed_nodes_and_workers_lose_nothing_and_repeat_nothing_that_had_ended` starts it in a network of its own"]
async fn campaign() {
    let files = [
        ("chain.yaml", CHAIN),
        ("wide.yaml", WIDE),
        ("circle.yaml", LOOP),
        ("step.sh", STEP),
    ];
    let mut cluster = Cluster::start(&files).await;
    let (folder, runs, count) = (cluster.path(), cluster.runs(), Arc::new(Count::default()));
    let mut undisturbed: Vec<Value> = Vec::new();
    for file in FILES {
        undisturbed.push(without_attempts(here(&runs, file).await));
    }
    std::fs::remove_file(folder.join("ledger")).expect("the ledger of the runs here");

    let all = asked();
    let begun = Instant::now();
    let driven = async {
        let ends = stream::iter(0..all).map(|at| {
            let (runs, folder, count) = (runs.clone(), folder.clone(), count.clone());
            async move { one(&runs, folder, at, &count).await }
        });
        let ends: Vec<_> = ends.buffered(SIDE_BY_SIDE).collect().await;
        count.stop.store(true, Ordering::Relaxed);
        ends
    };
    let (ends, (nodes, workers)) = tokio::join!(driven, kill(&mut cluster, &count));
    let took = begun.elapsed();

    // By run: what began and ended, in that order.
    let mut told_of: BTreeMap<String, Vec<(String, u32, String)>> = BTreeMap::new();
    for line in ledger(&folder) {
        let words: Vec<&str> = line.split(' ').collect();
        let entry = match *words.as_slice() {
            ["over", run] => (run, "over", u32::MAX, String::new()),
            [what, run, turn, agent, execution] => {
                let turn = turn.parse().expect("a turn");
                (run, what, turn, format!("{agent}/{execution}"))
            }
            _ => panic!("the ledger has a broken line: {line}"),
        };
        let (run, what, turn, execution) = entry;
        told_of
            .entry(run.to_owned())
            .or_default()
            .push((what.to_owned(), turn, execution));
    }
    let (mut executions, mut begun_again, mut ended_again) = (0, 0, 0);
    for (at, (plan, records)) in ends.iter().enumerate() {
        let run = id(at);
        let there = without_attempts(told(&folded(plan, records), records));
        assert_eq!(there, undisturbed[at % FILES.len()], "run {run} ended as undisturbed");
        let ledger = told_of
            .get(&run)
            .unwrap_or_else(|| panic!("run {run} is not in the ledger"));
        // The executions of a turn have ended in the journal when one of the next begins, or when the run is over.
        let begins = ledger
            .iter()
            .filter(|(what, ..)| what != "end")
            .map(|(_, turn, _)| turn);
        assert!(begins.is_sorted(), "run {run} began again what had ended: {ledger:?}");
        for record in records {
            let Event::ExecutionFinished(end) = &record.event else {
                continue;
            };
            let name = format!("{}/{}", end.agent, end.execution);
            let times = |wanted: &str| {
                ledger
                    .iter()
                    .filter(|(what, _, of)| what == wanted && *of == name)
                    .count()
            };
            let (begins, whole) = (times("begin"), times("end"));
            assert!(begins > 0 && whole > 0, "run {run} lost {name}: {ledger:?}");
            executions += 1;
            begun_again += begins - 1;
            ended_again += whole - 1;
        }
    }
    let given: Vec<usize> = cluster
        .balancer
        .given
        .iter()
        .map(|given| given.load(Ordering::Relaxed))
        .collect();
    say(&format!(
        "{all} runs, {executions} executions in {:.0} s; killed: {workers} workers, {nodes} nodes; executions that were \
         under way and began again: {begun_again}, of which {ended_again} came to their end twice; connections by worker: {given:?}",
        took.as_secs_f64()
    ));
    assert!(workers + nodes > 0, "something was killed");
    assert!(given.iter().all(|given| *given > 0), "every worker had work: {given:?}");
}

#[expect(clippy::print_stderr, reason = "a campaign says what it did")]
fn say(line: &str) {
    eprintln!("{line}");
}
