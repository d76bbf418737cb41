//! A batch that is killed again and again: every row ends once, and nothing that had ended is done again.

#![expect(clippy::disallowed_methods, reason = "tests make files")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Workspace, records};

/// A script with a side effect, a model that reads what it says, and a script that ends the row.
const ENSEMBLE: &str = "name: triage
inputs: {ticket: {type: integer}}
model_profiles: {m: {provider: simulated, replies: ['{\"label\": \"later\"}']}}
agents:
  - {name: sorter, script: ./work.sh}
  - {name: checker, model_profile: m, prompt: 'Check {{ dependencies.sorter.by }}.', depends_on: [sorter]}
  - {name: filer, script: ./work.sh, depends_on: [checker]}
result: {ticket: inputs.ticket, label: outputs.checker.label, by: outputs.filer.by}
";

/// One line for each time that it begins, in one write.
const WORK: &str = "#!/bin/sh\ncat > /dev/null\necho \"$ENSEMBLE_RUN_ID $ENSEMBLE_AGENT_NAME\" >> ledger\necho \"{\\\"by\\\": \\\"$ENSEMBLE_AGENT_NAME\\\"}\"\n";

const JOBS: &str = "4";

/// How long the batch may take between two kills.
const PATIENCE: Duration = Duration::from_secs(600);

/// A number that a variable gives, for long campaigns.
fn asked(variable: &str, usual: usize) -> usize {
    let asked = std::env::var(variable).ok();
    asked.map_or(usual, |asked| {
        asked.parse().unwrap_or_else(|_| panic!("{variable} is a number"))
    })
}

fn workspace(rows: usize) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("triage.yaml", ENSEMBLE);
    workspace.script("work.sh", WORK);
    let rows: String = (0..rows).map(|row| format!("{}\n", json!({"ticket": row}))).collect();
    workspace.write("t.jsonl", rows);
    workspace
}

const COMMAND: [&str; 9] = [
    "batch",
    "triage.yaml",
    "--data",
    "t.jsonl",
    "--jobs",
    JOBS,
    "--durability",
    "none",
    "--quiet",
];

/// How often each script of each run has begun.
fn ledger(workspace: &Workspace) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let text = std::fs::read_to_string(workspace.path().join("ledger")).unwrap_or_default();
    text.lines()
        .for_each(|line| *counts.entry(line.to_owned()).or_default() += 1);
    counts
}

fn batch(workspace: &Workspace) -> PathBuf {
    workspace.path().join(".ensemble/batches/triage-t")
}

/// The journals of the rows that have begun.
fn journals(workspace: &Workspace) -> Vec<PathBuf> {
    let runs = std::fs::read_dir(batch(workspace).join("runs"));
    let journals = runs
        .into_iter()
        .flatten()
        .flatten()
        .map(|run| run.path().join("journal.jsonl"));
    journals.filter(|journal| journal.is_file()).collect()
}

/// The executions whose ends stand in whole lines of a journal, as the ledger names them.
fn ended(journal: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    let run = journal
        .parent()
        .and_then(Path::file_name)
        .expect("a run")
        .to_string_lossy();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let ends = whole.filter(|line| line.contains("\"execution_finished\""));
    let records = ends.map(|line| serde_json::from_str::<Value>(line).expect("a record"));
    records
        .map(|record| format!("{run} {}", record["data"]["agent"].as_str().expect("a name")))
        .collect()
}

/// The table without what differs from run to run.
fn table(workspace: &Workspace) -> Vec<Value> {
    let text = std::fs::read_to_string(batch(workspace).join("results.jsonl")).expect("results");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines
        .map(|line| json!([line["row"], line["values"], line["outcome"], line["result"]]))
        .collect()
}

#[test]
#[expect(clippy::print_stderr, reason = "a long campaign says what it did")]
fn a_batch_killed_again_and_again_ends_as_an_undisturbed_one() {
    let rows = asked("ENSEMBLE_TEST_ROWS", 60);
    let kills = asked("ENSEMBLE_TEST_BATCH_KILLS", 5);
    let undisturbed = workspace(rows);
    undisturbed.run(COMMAND).expect_code(0);
    let workspace = workspace(rows);
    let lines = || std::fs::read_to_string(workspace.path().join("ledger")).map_or(0, |text| text.lines().count());
    // What had ended at a kill, with how often it had begun by then.
    let mut had_ended: BTreeMap<String, usize> = BTreeMap::new();
    for kill in 1..=kills {
        let mut running = workspace.spawn(COMMAND);
        // Spread over all the work, of which each row has two parts.
        let (wanted, begun) = (2 * rows * kill / (kills + 1), Instant::now());
        while lines() < wanted {
            assert!(begun.elapsed() < PATIENCE, "{} of {wanted} were begun", lines());
            std::thread::sleep(Duration::from_millis(2));
        }
        running.signal("KILL");
        running.0.wait().expect("it is ours");
        let counts = ledger(&workspace);
        for name in journals(&workspace).iter().flat_map(|journal| ended(journal)) {
            let count = counts.get(&name).copied().unwrap_or_default();
            let before = *had_ended.entry(name.clone()).or_insert(count);
            assert_eq!(
                before, count,
                "{name} had ended, and was begun again before kill {kill}"
            );
        }
        if kill % 2 == 0 {
            // The index is only a short way to what the journals tell.
            std::fs::remove_file(batch(&workspace).join("rows.jsonl")).expect("an index");
        }
    }
    workspace.run(COMMAND).expect_code(0);

    let table = table(&workspace);
    assert_eq!(table.len(), rows);
    assert!(
        table == self::table(&undisturbed),
        "another table than the undisturbed one"
    );
    let counts = ledger(&workspace);
    // A row has one run, whatever happened.
    let journals = journals(&workspace);
    assert_eq!((journals.len(), counts.len()), (rows, 2 * rows));
    for (name, before) in &had_ended {
        let count = counts.get(name).copied().unwrap_or_default();
        assert_eq!(count, *before, "{name} had ended, and was begun again");
    }
    let mut resumed = 0;
    for journal in &journals {
        let records = records(journal);
        let of = |kind: &str| records.iter().filter(|record| record["event"] == kind).count();
        assert_eq!(
            (of("execution_finished"), of("run_ended")),
            (3, 1),
            "{}",
            journal.display()
        );
        resumed += usize::from(of("run_resumed") > 0);
    }
    let again: usize = counts.values().map(|count| count - 1).sum();
    // What was under way at a kill, and nothing else.
    let jobs: usize = JOBS.parse().expect("a number");
    assert!(again <= kills * jobs, "{again} were begun again");
    eprintln!(
        "{rows} rows, {kills} kills: {resumed} runs resumed, {again} executions begun again, {} had ended and were not",
        had_ended.len()
    );
}
