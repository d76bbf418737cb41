//! `ensemble batch answer`, and what a batch writes about rows that contain secrets.

#![expect(clippy::disallowed_methods, reason = "tests read the files that the program writes")]

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Outcome, Running, Workspace};

const GATED: &str = "name: g
inputs: {ticket: {type: string}}
agents:
  - {name: gate, input: {prompt: 'Refund {{ inputs.ticket }}?', choices: [approve, reject]}}
  - {name: mail, script: ./mail.sh, depends_on: [gate]}
result: {decision: outputs.gate}
";
const MAIL: &str = "#!/bin/sh\ncat > /dev/null\necho \"$ENSEMBLE_RUN_ID\" >> mailed\necho '{\"sent\": true}'\n";

fn gated(table: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("g.yaml", GATED);
    workspace.script("mail.sh", MAIL);
    workspace.write("t.csv", table);
    workspace
}

fn results(workspace: &Workspace, batch: &str) -> Vec<Value> {
    let text = workspace.read(&format!(".ensemble/batches/{batch}/results.jsonl"));
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_row_is_answered_by_its_name_and_the_next_call_adopts_it() {
    let workspace = gated("id,ticket\nT-1,one\nT-2,two\nT-3,three\n");
    let batch = ["batch", "g.yaml", "--data", "t.csv", "--ignore", "id"];
    workspace.run(batch).expect_code(3);
    let open = workspace.run(["batch", "answer", "g-t"]).expect_code(0);
    assert!(open.stdout.starts_with("g-t: 3 rows with open questions\n"), "{open:?}");
    assert!(
        open.stdout
            .contains("  row 2 (T-2)  gate: Refund two? (approve, reject)\n"),
        "{open:?}"
    );
    assert!(
        open.stdout
            .contains("to answer: ensemble batch answer g-t T-1 'gate=approve'\n"),
        "{open:?}"
    );
    for (arguments, ids) in [(&[][..], &["T-1", "T-2", "T-3"][..]), (&["T-2"], &["T-2"])] {
        let command = ["batch", "answer", "g-t"]
            .iter()
            .chain(arguments)
            .chain(&["--output", "json"]);
        let document = workspace.run(command).expect_code(0).json();
        let rows = document["rows"].as_array().expect("rows");
        assert_eq!(
            rows.iter().map(|row| &row["id"]).collect::<Vec<_>>(),
            ids,
            "{document:#}"
        );
        assert!(
            rows.iter().all(|row| row["questions"][0]["address"] == "gate"),
            "{document:#}"
        );
    }
    // A number is no name where the rows have ids.
    workspace.run(["batch", "answer", "g-t", "2"]).expect_code(2);
    // By name, without the agent, and by the id of the run.
    workspace
        .run(["batch", "answer", "g-t", "T-2", "gate=reject"])
        .expect_code(0);
    workspace
        .run(["batch", "answer", "g-t", "T-1", "approve"])
        .expect_code(0);
    let run = results(&workspace, "g-t")[2]["run"].as_str().expect("a run").to_owned();
    workspace
        .run(["batch", "answer", "g-t", &run, "--answer", "gate=approve"])
        .expect_code(0);
    // Lists know it before the next call.
    let listed = workspace.run(["runs", "list"]).expect_code(0);
    assert!(listed.stdout.contains("3 rows · 3 completed"), "{}", listed.stdout);
    let mailed = workspace.read("mailed");
    let next = workspace.run(batch).expect_code(0);
    assert!(next.stdout.contains("3 rows · 3 completed"), "{}", next.stdout);
    assert_eq!(workspace.read("mailed"), mailed, "nothing ran again");
    let decisions: Vec<Value> = results(&workspace, "g-t")
        .iter()
        .map(|line| line["result"]["decision"]["response"].clone())
        .collect();
    assert_eq!(decisions, [json!("approve"), json!("reject"), json!("approve")]);
    let nothing = workspace.run(["batch", "answer", "g-t"]).expect_code(0);
    assert_eq!(nothing.stdout, "g-t: no row waits for an answer\n");
}

#[test]
fn an_answer_that_fits_no_row_or_question_changes_nothing() {
    let workspace = gated("ticket\none\ntwo\n");
    workspace.run(["batch", "g.yaml", "--data", "t.csv"]).expect_code(3);
    let refused = |arguments: &[&str], expected: &str| {
        let refused = workspace
            .run(["batch", "answer"].iter().chain(arguments))
            .expect_code(2);
        assert!(refused.stderr.contains(expected), "{expected}: {}", refused.stderr);
    };
    refused(&["other", "1", "approve"], "there is no batch `other`");
    refused(&["g-t", "3", "approve"], "there is no row `3`");
    refused(&["g-t", "1", "perhaps"], "`perhaps` is not one of the choices");
    refused(&["g-t", "1", "boss=approve"], "boss");
    // The number is the name of a row without another one.
    workspace.run(["batch", "answer", "g-t", "2", "approve"]).expect_code(0);
    refused(&["g-t", "2", "approve"], "row 2 waits for no answer: completed");
    assert_eq!(workspace.read("mailed").lines().count(), 1);
}

#[test]
fn a_table_of_answers_without_their_column_or_with_a_wrong_agent_is_refused() {
    let workspace = gated("id,ticket\nT-1,one\nT-2,two\n");
    let batch = ["batch", "g.yaml", "--data", "t.csv", "--ignore", "id"];
    let questions = batch.into_iter().chain(["--questions", "q.csv"]);
    workspace.run(questions).expect_code(3);
    let filled = workspace.read("q.csv").replace(",\n", ",approve\n");
    for (table, expected) in [
        (
            filled.replace(",answer\n", ",Answer\n"),
            "a.csv:1: the column `answer` is missing",
        ),
        (filled.replace(",gate,", ",boss,"), "boss"),
        ("id,gat\nT-2,approve\n".to_owned(), "gat"),
    ] {
        workspace.write("a.csv", &table);
        let refused = workspace
            .run(batch.into_iter().chain(["--answers", "a.csv"]))
            .expect_code(2);
        assert!(refused.stderr.contains(expected), "{table}\n{}", refused.stderr);
    }
    workspace.write("a.csv", filled);
    workspace
        .run(batch.into_iter().chain(["--answers", "a.csv"]))
        .expect_code(0);
}

/// A key of a service: JSON with a number and a text in it.
const SERVICE: &str = r#"{"pin":4929123456781234,"key":"sk-9f8e7d6c5b4a-quo\"ted"}"#;
const HIDDEN: [&str; 4] = ["4929123456781234", "sk-9f8e7d6c5b4a", "c2stOWY4ZTdk", "736b2d39663865"];

fn run_with_secret(workspace: &Workspace, arguments: &[&str]) -> Outcome {
    let mut command = workspace.command(arguments);
    let command = command.env("SERVICE", SERVICE).stdin(Stdio::null());
    Running(command.spawn().expect("the program starts")).finish()
}

/// Adds the texts of all files in the folder, except those that the user wrote.
fn read_files(folder: &Path, texts: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            read_files(&path, texts);
        } else if !["t.jsonl", "a.yaml"].contains(&name) {
            let text = std::fs::read(&path).unwrap_or_default();
            texts.push((path.display().to_string(), String::from_utf8_lossy(&text).into_owned()));
        }
    }
}

#[test]
fn a_batch_writes_no_secret_of_its_rows() {
    let workspace = Workspace::new();
    workspace.write(
        "g.yaml",
        "name: g
inputs: {ticket: {type: string}, pin: {type: integer}, note: {type: string}}
agents:
  - {name: gate, input: {prompt: 'Is {{ inputs.ticket }} {{ inputs.pin }} right?'}}
  - {name: mail, script: ./mail.sh, env: [SERVICE], depends_on: [gate]}
result: {ticket: inputs.ticket, note: inputs.note, decision: outputs.gate}
",
    );
    workspace.script(
        "mail.sh",
        "#!/bin/sh\ncat > /dev/null\necho \"failed with $SERVICE\" >&2\nexit 3\n",
    );
    let lines = "c2stOWY4ZTdk\nNmM1YjRhLXF1byJ0ZWQ=";
    let rows = [
        json!({"id": "sk-9f8e7d6c5b4a-quo\"ted", "ticket": "sk-9f8e7d6c5b4a-quo\"ted", "pin": 4_929_123_456_781_234_u64, "note": lines}),
        json!({"id": "T-2", "ticket": format!("it is {SERVICE}"), "pin": 1, "note": "736b2d3966386537643663356234612d71756f22746564"}),
        json!({"id": "T-3", "ticket": "harmless", "pin": 2, "note": "nothing"}),
    ];
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    workspace.write("t.jsonl", &text);
    let batch = ["batch", "g.yaml", "--data", "t.jsonl", "--ignore", "id"];
    let mut texts = Vec::new();
    let mut run = |more: &[&str], code: i32| {
        let arguments: Vec<&str> = batch.iter().chain(more).copied().collect();
        let outcome = run_with_secret(&workspace, &arguments).expect_code(code);
        texts.push((arguments.join(" "), format!("{}{}", outcome.stdout, outcome.stderr)));
    };
    run(&["--results", "r.csv", "--questions", "q.csv"], 3);
    assert!(workspace.read("q.csv").contains("T-2"), "{}", workspace.read("q.csv"));
    workspace.write("a.yaml", "gate: sk-9f8e7d6c5b4a-quo\"ted\n");
    run(&["--answers", "a.yaml", "--results", "r.jsonl", "--output", "json"], 1);
    run(&["--dry-run", "--questions", "q2.csv"], 0);
    // A row that does not fit is described without its values.
    workspace.write(
        "t.jsonl",
        json!({"ticket": 1, "pin": SERVICE, "note": "sk-9f8e7d6c5b4a-quo\"ted"}).to_string(),
    );
    run(&[], 2);
    let set = format!("pin={SERVICE}");
    let arguments = ["run", "g.yaml", "--set", &set, "--set", "ticket=a", "--set", "note=b"];
    let refused = run_with_secret(&workspace, &arguments).expect_code(2);
    texts.push(("run".to_owned(), format!("{}{}", refused.stdout, refused.stderr)));
    read_files(&workspace.path(), &mut texts);
    for (name, text) in &texts {
        for hidden in HIDDEN {
            assert!(!text.contains(hidden), "{hidden} is in {name}: {text}");
        }
    }
    let results = results(&workspace, "g-t");
    assert_eq!(results[0]["values"]["ticket"], "[secret]");
    assert_eq!(results[0]["values"]["pin"], "[secret]");
    assert_eq!(
        results[2]["values"],
        json!({"ticket": "harmless", "pin": 2, "note": "nothing"})
    );
}
