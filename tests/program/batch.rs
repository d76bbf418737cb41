//! `ensemble batch`: one run for each row, nothing twice, nothing lost.
//!
//! What a row costs, what makes it run again, and answers are in `batch_rows.rs`.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files, count requests and wait for processes"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::providers::ensemble;
use crate::support::server::{Server, says};
use crate::support::{Workspace, eventually};

/// A script that writes each ticket into a ledger, and fails for the ticket `bad`.
const SORT: &str = "#!/bin/sh\nticket=$(sed 's/.*\"ticket\": *\"\\([^\"]*\\)\".*/\\1/')\n[ -n \"$ticket\" ] || exit 1\necho \"$ticket\" >> ledger\n\
     if [ -n \"$PAUSE\" ]; then sleep \"$PAUSE\"; fi\nif [ \"$ticket\" = bad ] && [ ! -e mended ]; then echo broken >&2; exit 3; fi\n\
     echo \"{\\\"label\\\": \\\"of $ticket\\\"}\"\n";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "triage.yaml",
        "name: triage\ninputs:\n  ticket: {type: string}\n  size: {type: integer, default: 1}\n\
         result: {label: outputs.sorter.label, size: inputs.size}\nagents: [{name: sorter, script: sort.sh}]\n",
    );
    workspace.script("sort.sh", SORT);
    workspace
}

fn tickets(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("{}\n", json!({"ticket": name})))
        .collect()
}

/// The number of runs of a batch.
fn runs(workspace: &Workspace, batch: &str) -> usize {
    let folder = workspace.path().join(format!(".ensemble/batches/{batch}/runs"));
    let runs = std::fs::read_dir(folder).expect("runs").flatten();
    runs.filter(|run| run.path().is_dir()).count()
}

/// How often each ticket stands in the ledger.
fn ledger(workspace: &Workspace) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let text = std::fs::read_to_string(workspace.path().join("ledger")).unwrap_or_default();
    text.lines()
        .for_each(|line| *counts.entry(line.to_owned()).or_default() += 1);
    counts
}

fn results(workspace: &Workspace, batch: &str) -> Vec<Value> {
    let text = workspace.read(&format!(".ensemble/batches/{batch}/results.jsonl"));
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    lines.collect()
}

fn outcomes(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["outcome"].as_str().unwrap_or("none"))
        .collect()
}

#[test]
fn each_row_is_run_once_and_never_again() {
    let workspace = workspace();
    workspace.write(
        "t.jsonl",
        tickets(&["a", "bad", "", "a"]).replace("{\"ticket\":\"\"}", ""),
    );
    let command = ["batch", "triage.yaml", "--data", "t.jsonl"];
    let first = workspace.run(command).expect_code(1);
    assert!(
        first.stdout.starts_with("triage-t: 3 rows · 1 failed · 2 completed\n"),
        "{}",
        first.stdout
    );
    assert!(
        first.stderr.contains("row 2 (t.jsonl:2): agent_failed"),
        "{}",
        first.stderr
    );
    let lines = results(&workspace, "triage-t");
    assert_eq!(outcomes(&lines), ["completed", "agent_failed", "completed"]);
    assert_eq!(lines[0]["result"], json!({"label": "of a", "size": 1}));
    assert_eq!(lines[1]["values"], json!({"ticket": "bad"}));

    let again = workspace.run(command).expect_code(1);
    assert!(again.stdout.contains("3 rows had already ended"), "{}", again.stdout);
    assert_eq!(ledger(&workspace), BTreeMap::from([("a".into(), 2), ("bad".into(), 1)]));

    // Another order and a new row: only the new row runs.
    workspace.write("t.jsonl", tickets(&["new", "a", "bad", "a"]));
    workspace.run(command).expect_code(1);
    assert_eq!(ledger(&workspace)["new"], 1);
    assert_eq!(ledger(&workspace)["a"], 2);

    workspace.write("mended", "");
    let tried = workspace
        .run(command.into_iter().chain(["--retry", "failed"]))
        .expect_code(0);
    assert!(tried.stdout.contains("4 rows · 4 completed"), "{}", tried.stdout);
    assert_eq!(ledger(&workspace)["bad"], 2);
    assert_eq!(ledger(&workspace)["a"], 2);

    // The runs are runs like others.
    let run = results(&workspace, "triage-t")[2]["run"]
        .as_str()
        .expect("a run")
        .to_owned();
    assert!(run.ends_with("-try2"), "{run}");
    workspace.run(["replay", &run]).expect_code(0);
    let shown = workspace.run(["runs", "show", &run, "--output", "json"]).expect_code(0);
    assert!(shown.stdout.contains("of bad"), "{}", shown.stdout);
    let listed = workspace.run(["runs", "list"]);
    assert!(!listed.stdout.contains("row-"), "{}", listed.stdout);
}

#[test]
fn another_text_of_the_ensemble_or_another_model_is_another_run() {
    let workspace = Workspace::new();
    let text =
        "name: e\nmodel_profiles: {m: {provider: simulated, replies: [one]}}\nagents: [{name: a, model_profile: m}]\n";
    workspace.write("e.yaml", text);
    workspace.write("t.jsonl", "{\"input\": \"x\"}\n");
    let runs = || runs(&workspace, "e-t");
    let command = ["batch", "e.yaml", "--data", "t.jsonl"];
    workspace.run(command).expect_code(0);
    workspace.run(command).expect_code(0);
    assert_eq!(runs(), 1);
    workspace.write("e.yaml", text.replace("one", "two"));
    workspace.run(command).expect_code(0);
    assert_eq!(runs(), 2);
    assert_eq!(results(&workspace, "e-t")[0]["result"]["response"], "two");
    // The configuration of the project names the model.
    workspace.write("e.yaml", "name: e\nagents: [{name: a, model_profile: m}]\n");
    let config = "model_profiles: {m: {provider: simulated, replies: [uno]}}\n";
    workspace.write(".ensemble/config.yaml", config);
    workspace.run(command).expect_code(0);
    workspace.write(".ensemble/config.yaml", config.replace("uno", "three"));
    workspace.run(command).expect_code(0);
    assert_eq!(runs(), 4);
    // A script, and a script of a nested ensemble.
    workspace.write(
        "e.yaml",
        "name: e\nagents: [{name: a, script: a.rhai}, {name: n, ensemble: n.yaml}]\n",
    );
    workspace.write("n.yaml", "name: n\nagents: [{name: b, script: b.rhai}]\n");
    for (script, text) in [("a.rhai", "1"), ("b.rhai", "1")] {
        workspace.write(script, text);
    }
    workspace.run(command).expect_code(0);
    workspace.run(command).expect_code(0);
    assert_eq!(runs(), 5);
    for script in ["a.rhai", "b.rhai"] {
        workspace.write(script, "2");
        workspace.run(command).expect_code(0);
    }
    assert_eq!(runs(), 7);
}

#[test]
fn all_rows_are_checked_before_the_first_runs() {
    let workspace = workspace();
    let refused = |name: &str, text: &str, more: &[&str], told: &[&str]| {
        workspace.write(name, text);
        let command = ["batch", "triage.yaml", "--data", name];
        let outcome = workspace.run(command.iter().chain(more)).expect_code(2);
        for told in told {
            assert!(outcome.stderr.contains(told), "{told}\n{}", outcome.stderr);
        }
    };
    let rows = "{\"ticket\": \"a\"}\n{\"tiket\": \"b\"}\n{\"ticket\": \"c\", \"size\": \"big\"}\n";
    let told = [
        "t.jsonl:2: the input `ticket` is missing",
        "t.jsonl:2: there is no input `tiket`; did you mean `ticket`?",
        "t.jsonl:3: the input `size` does not match its schema",
    ];
    refused("t.jsonl", rows, &[], &told);
    refused(
        "t.jsonl",
        "{\"ticket\": \"a\"}\n[1]\n{\"ticket\"\n",
        &[],
        &["t.jsonl:2: a row must be a JSON object", "t.jsonl:3:"],
    );
    refused(
        "t.csv",
        "ticket,size\na,1\nb\n",
        &[],
        &["t.csv:3:2: the number of cells is 1, but the first line has 2 columns"],
    );
    // Errors of different kinds, in the order of the table.
    workspace.write("t.csv", "");
    std::fs::write(
        workspace.path().join("t.csv"),
        b"\xef\xbb\xbfticket,size\na,big\nb,1,2\nM\xfcller,1\n\"c,3\nd\n\"e\"x,4\nf,2\n",
    )
    .expect("written");
    let outcome = workspace
        .run(["batch", "triage.yaml", "--data", "t.csv"])
        .expect_code(2);
    let places: Vec<&str> = outcome
        .stderr
        .lines()
        .filter_map(|line| line.trim_start_matches("error:").trim().split(": ").next())
        .collect();
    let expected = [
        "t.csv:2",
        "t.csv:3:5",
        "t.csv:4:2",
        "t.csv:5:1",
        "t.csv:6:2",
        "t.csv:7:4",
    ];
    assert_eq!(places, expected, "{}", outcome.stderr);
    refused(
        "t.csv",
        "ticket,ticket\na,b\n",
        &[],
        &["t.csv:1:8: the column `ticket` occurs twice"],
    );
    refused(
        "t.csv",
        "ticket,no\na,1\n",
        &["--ignore", "on"],
        &["there is no column `on`", "the columns are no, ticket"],
    );
    refused(
        "t.txt",
        "a",
        &[],
        &["cannot determine the format of t.txt", "--data"].map(|told| told.trim_start_matches("--data")),
    );
    refused(
        "t.csv",
        "ticket\na\n",
        &["--name", "../x"],
        &["`../x` is not a valid batch name"],
    );
    assert_eq!(ledger(&workspace), BTreeMap::new());
    assert!(!workspace.path().join(".ensemble").exists(), "nothing was written");
}

#[test]
fn rows_are_csv_texts_of_a_folder_or_standard_input() {
    let workspace = workspace();
    workspace.write("t.csv", "no,text,size\n1,\"a, b\",3\n2,7,\n");
    let command = [
        "batch",
        "triage.yaml",
        "--data",
        "t.csv",
        "--ignore",
        "no",
        "--map",
        "ticket=text",
    ];
    workspace
        .run(command.into_iter().chain(["--results", "out.csv"]))
        .expect_code(0);
    let lines = results(&workspace, "triage-t");
    assert_eq!(lines[0]["values"], json!({"ticket": "a, b", "size": 3}));
    assert_eq!(
        lines[1]["result"],
        json!({"label": "of 7", "size": 1}),
        "7 is a text, and no size is given"
    );
    let table = workspace.read("out.csv");
    let expected =
        "row,outcome,detail,run,ticket,size,result.label,result.size,requests,input_tokens,output_tokens,cost";
    assert_eq!(table.lines().next(), Some(expected));
    assert!(table.contains("\"a, b\",3,\"of a, b\",3"), "{table}");

    workspace.write("texts/b.txt", "second");
    workspace.write("texts/a.txt", "first");
    workspace.write("texts/.hidden", "no");
    let command = [
        "batch",
        "triage.yaml",
        "--data",
        "texts",
        "--map",
        "ticket=input",
        "--ignore",
        "file",
        "--set",
        "size=5",
    ];
    workspace.run(command).expect_code(0);
    let lines = results(&workspace, "triage-texts");
    let labels: Vec<&Value> = lines.iter().map(|line| &line["result"]).collect();
    assert_eq!(
        labels,
        [
            &json!({"label": "of first", "size": 5}),
            &json!({"label": "of second", "size": 5})
        ]
    );

    let piped = workspace.run_with_stdin(
        ["batch", "triage.yaml", "--data", "-", "--output", "json"],
        &tickets(&["x"]),
    );
    let summary = piped.expect_code(0).json();
    assert_eq!(
        (&summary["batch"], &summary["rows"]),
        (&json!("triage-stdin"), &json!(1))
    );
    assert_eq!(summary["outcomes"], json!({"completed": 1}));
}

#[test]
fn a_run_that_was_killed_before_its_first_record_begins_anew() {
    let workspace = workspace();
    workspace.write("t.jsonl", tickets(&["a"]));
    let command = ["batch", "triage.yaml", "--data", "t.jsonl"];
    workspace.run(command).expect_code(0);
    let run = results(&workspace, "triage-t")[0]["run"]
        .as_str()
        .expect("a run")
        .to_owned();
    let folder = workspace.path().join(".ensemble/batches/triage-t");
    let journal = folder.join("runs").join(run).join("journal.jsonl");
    for left in [None, Some(""), Some("{\"seq\":0,")] {
        std::fs::remove_file(&journal).expect("a journal");
        std::fs::write(folder.join("rows.jsonl"), "{\"id\": \"torn").expect("an index");
        if let Some(left) = left {
            std::fs::write(&journal, left).expect("the beginning of a journal");
        }
        let again = workspace.run(command).expect_code(0);
        assert!(
            again.stdout.starts_with("triage-t: 1 row · 1 completed\n"),
            "{}",
            again.stdout
        );
        assert_eq!(runs(&workspace, "triage-t"), 1);
    }
    assert_eq!(ledger(&workspace)["a"], 4);
}

#[test]
fn ctrl_c_is_a_pause() {
    let workspace = workspace();
    workspace.write(
        "triage.yaml",
        workspace
            .read("triage.yaml")
            .replace("script: sort.sh", "script: sort.sh, env: {PAUSE: '0.2'}"),
    );
    workspace.write("t.jsonl", tickets(&["a", "b", "c", "d", "e", "f"]));
    let command = ["batch", "triage.yaml", "--data", "t.jsonl", "--jobs", "2"];
    let running = workspace.spawn(command);
    eventually("the second pair", || (ledger(&workspace).len() > 2).then_some(()));
    running.signal("INT");
    let paused = running.finish().expect_code(130);
    assert!(
        paused.stdout.contains(" left") && paused.stdout.contains("to continue, repeat the command"),
        "{}",
        paused.stdout
    );
    assert_eq!(results(&workspace, "triage-t").len(), 6);
    let finished = workspace.run(command).expect_code(0);
    assert!(
        finished.stdout.starts_with("triage-t: 6 rows · 6 completed\n"),
        "{}",
        finished.stdout
    );
    let twice: usize = ledger(&workspace).values().map(|count| count - 1).sum();
    assert!(twice <= 2, "{:?}", ledger(&workspace));
}

#[test]
fn shards_are_parts_that_can_be_merged() {
    let workspace = workspace();
    workspace.write("t.jsonl", tickets(&["a", "b", "c", "d", "e", "f", "g"]));
    let mut parts = Vec::new();
    for shard in ["1/3", "2/3", "3/3"] {
        let file = format!("part{}.jsonl", &shard[..1]);
        let command = [
            "batch",
            "triage.yaml",
            "--data",
            "t.jsonl",
            "--name",
            &format!("s{}", &shard[..1]),
        ];
        workspace
            .run(command.into_iter().chain(["--shard", shard, "--results", &file]))
            .expect_code(0);
        parts.push(file);
    }
    assert!(ledger(&workspace).values().all(|count| *count == 1));
    workspace
        .run(["batch", "triage.yaml", "--data", "t.jsonl", "--name", "whole"])
        .expect_code(0);
    let merge = |parts: &[&str]| {
        let command = ["batch", "merge"].into_iter().chain(parts.iter().copied());
        workspace.run(command)
    };
    let merged = merge(&["part3.jsonl", "part1.jsonl", "part2.jsonl"]).expect_code(0);
    assert_eq!(merged.stdout, workspace.read(".ensemble/batches/whole/results.jsonl"));
    assert_eq!(merged.stderr, "7 rows, 7 completed\n");
    let lacking = merge(&["part1.jsonl", "part3.jsonl"]).expect_code(1);
    assert!(
        lacking.stderr.contains("no part contains row 2, 5\n"),
        "{}",
        lacking.stderr
    );
    workspace.write("other.jsonl", workspace.read("part1.jsonl").replace("\"a\"", "\"z\""));
    let mixed = merge(&["part1.jsonl", "other.jsonl"]).expect_code(2);
    assert!(
        mixed
            .stderr
            .contains("other.jsonl:1: another part has row 1 with different values"),
        "{}",
        mixed.stderr
    );
    workspace
        .run(["batch", "triage.yaml", "--data", "t.jsonl", "--shard", "4/3"])
        .expect_code(2);
}

#[test]
fn no_run_begins_when_the_money_is_spent() {
    let workspace = Workspace::new();
    workspace.write(
        "e.yaml",
        "name: e\nmodel_profiles: {m: {provider: simulated, replies: [one], cost: {input_per_million: 1000000, output_per_million: 0}}}\n\
         agents: [{name: a, model_profile: m}]\n",
    );
    workspace.write("t.jsonl", "{\"input\": \"w\"}\n".repeat(5));
    let command = [
        "batch", "e.yaml", "--data", "t.jsonl", "--jobs", "1", "--output", "json",
    ];
    let all = workspace
        .run(command.into_iter().chain(["--name", "all"]))
        .expect_code(0)
        .json();
    let each = all["cost"].as_f64().expect("a cost") / 5.0;
    assert!(each > 0.0);
    // Rows that run count with their expected cost, so that several jobs exceed the amount by less than a row.
    let most = (each * 2.5).to_string();
    let command_of_five = [
        "batch", "e.yaml", "--data", "t.jsonl", "--output", "json", "--name", "several", "--jobs", "5",
    ];
    let several = command_of_five.into_iter().chain(["--max-cost", &most]);
    let summary = workspace.run(several).expect_code(6).json();
    assert_eq!((&summary["left"], &summary["stopped"]), (&json!(2), &json!("max_cost")));
    let most = (each * 1.5).to_string();
    let limited = command.into_iter().chain(["--max-cost", &most]);
    let summary = workspace.run(limited.clone()).expect_code(6).json();
    assert_eq!((&summary["left"], &summary["stopped"]), (&json!(3), &json!("max_cost")));
    // What was spent before counts.
    let summary = workspace.run(limited).expect_code(6).json();
    assert_eq!(summary["left"], 3);
    let summary = workspace.run(command).expect_code(0).json();
    assert_eq!((&summary["left"], &summary["stopped"]), (&json!(0), &Value::Null));
}

#[test]
fn all_runs_of_a_batch_share_the_rate_limit_of_a_profile() {
    let under_way = Arc::new(Mutex::new((0_u32, 0_u32)));
    let counted = Arc::clone(&under_way);
    let server = Server::new(move |_, _| {
        {
            let mut counts = counted.lock().expect("unpoisoned");
            counts.0 += 1;
            counts.1 = counts.1.max(counts.0);
        }
        std::thread::sleep(Duration::from_millis(50));
        counted.lock().expect("unpoisoned").0 -= 1;
        says("ok")
    });
    let workspace = Workspace::new();
    workspace.write("e.yaml", ensemble(&server.url(), ", rate_limit: {concurrent: 2}"));
    let rows: String = (0..10).map(|number| format!("{{\"input\": \"{number}\"}}\n")).collect();
    workspace.write("t.jsonl", rows);
    let mut command = workspace.command(["batch", "e.yaml", "--data", "t.jsonl", "--output", "json"]);
    command.env("OPENAI_API_KEY", "key");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.asked().len(), 10);
    assert_eq!(under_way.lock().expect("unpoisoned").1, 2);
}

#[test]
fn one_process_at_a_time_works_on_a_batch() {
    let workspace = workspace();
    workspace.write(
        "triage.yaml",
        workspace
            .read("triage.yaml")
            .replace("script: sort.sh", "script: sort.sh, env: {PAUSE: '20'}"),
    );
    workspace.write("t.jsonl", tickets(&["a"]));
    let command = ["batch", "triage.yaml", "--data", "t.jsonl"];
    let running = workspace.spawn(command);
    eventually("the first row", || (ledger(&workspace).len() == 1).then_some(()));
    let second = workspace.run(command).expect_code(2);
    assert!(
        second.stderr.contains("works on the batch `triage-t`"),
        "{}",
        second.stderr
    );
    let dry = workspace
        .run(command.into_iter().chain(["--name", "dry", "--dry-run"]))
        .expect_code(0);
    assert!(dry.stdout.contains("1 row, 1 to run, 0 finished"), "{}", dry.stdout);
    running.signal("TERM");
    running.finish().expect_code(143);
}

#[test]
fn rows_that_wait_for_a_person_are_told_and_go_on_with_an_answer() {
    let workspace = Workspace::new();
    workspace.write(
        "e.yaml",
        "name: e\ninputs: {t: {type: string}}\nagents: [{name: boss, input: {prompt: 'Is {{ inputs.t }} right?'}}]\n",
    );
    workspace.write("t.jsonl", "{\"t\": \"x\"}\n");
    let waiting = workspace.run(["batch", "e.yaml", "--data", "t.jsonl"]).expect_code(3);
    assert!(
        waiting.stdout.contains("1 row · 1 waits for boss"),
        "{}",
        waiting.stdout
    );
    let run = results(&workspace, "e-t")[0]["run"].as_str().expect("a run").to_owned();
    // The answered run is taken up without being asked.
    workspace.run(["resume", &run, "--answer", "boss=yes"]).expect_code(0);
    let told = workspace.run(["batch", "e.yaml", "--data", "t.jsonl"]).expect_code(0);
    assert!(told.stdout.contains("1 row · 1 completed"), "{}", told.stdout);
    assert_eq!(runs(&workspace, "e-t"), 1, "the answered run was not run again");
}
