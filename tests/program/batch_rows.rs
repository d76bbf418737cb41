//! Rows of `ensemble batch`: their cost, what makes them run again, their answers, their report, and their tables.

#![expect(clippy::disallowed_methods, reason = "tests read the files that the program writes")]

use serde_json::{Value, json};

use crate::support::{Workspace, eventually};

/// A model that costs 1 for each word of the prompt, and a script that fails while the file `broken` is there.
const PAID: &str = "name: e
model_profiles: {m: {provider: simulated, replies: [one], cost: {input_per_million: 1000000, output_per_million: 0}}}
agents:
  - {name: a, model_profile: m}
  - {name: b, script: b.sh, depends_on: [a]}
";
const SCRIPT: &str =
    "#!/bin/sh\ncat > /dev/null\nif [ -e broken ]; then echo broken >&2; exit 3; fi\necho '{\"ok\": true}'\n";

/// A gate for each ticket.
const GATED: &str = "name: g
inputs: {ticket: {type: string}}
agents:
  - {name: gate, input: {prompt: 'Refund {{ inputs.ticket }}?', choices: [approve, reject]}}
result: {ticket: inputs.ticket, decision: outputs.gate}
";

fn paid(rows: usize) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("e.yaml", PAID);
    workspace.script("b.sh", SCRIPT);
    let rows: String = (0..rows)
        .map(|row| format!("{}\n", json!({"input": format!("w{row}")})))
        .collect();
    workspace.write("t.jsonl", rows);
    workspace
}

fn gated(tickets: &[&str]) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("g.yaml", GATED);
    let rows: String = tickets
        .iter()
        .map(|ticket| format!("{}\n", json!({"ticket": ticket})))
        .collect();
    workspace.write("t.jsonl", rows);
    workspace
}

const BATCH: [&str; 4] = ["batch", "e.yaml", "--data", "t.jsonl"];
const GATES: [&str; 4] = ["batch", "g.yaml", "--data", "t.jsonl"];

fn with<'a>(command: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    command.iter().chain(more).copied().collect()
}

fn results(workspace: &Workspace, batch: &str) -> Vec<Value> {
    let text = workspace.read(&format!(".ensemble/batches/{batch}/results.jsonl"));
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_row_costs_what_all_its_tries_have_cost_over_all_calls() {
    let workspace = paid(2);
    workspace.write("broken", "");
    let json = ["--output", "json"];
    let first = workspace.run(with(&BATCH, &json)).expect_code(1).json();
    let once = first["cost"].as_f64().expect("a cost");
    assert!(once > 0.0);
    for calls in 2..=4_i32 {
        let summary = workspace
            .run(with(&BATCH, &["--retry", "failed", "--output", "json"]))
            .expect_code(1)
            .json();
        let cost = summary["cost"].as_f64().expect("a cost");
        assert!(
            (cost - once * f64::from(calls)).abs() < 1e-9,
            "{cost} after {calls} calls of {once}"
        );
        assert!((summary["call_cost"].as_f64().expect("a cost") - once).abs() < 1e-9);
    }
    let line = &results(&workspace, "e-t")[0];
    assert_eq!(line["tries"], 4);
    let cost = line["usage"]["cost"].as_f64().expect("a cost");
    assert!((cost - once * 2.0).abs() < 1e-9, "{cost}");
    // The index is only a short way to what the journals tell.
    std::fs::remove_file(workspace.path().join(".ensemble/batches/e-t/rows.jsonl")).expect("an index");
    let summary = workspace.run(with(&BATCH, &json)).expect_code(1).json();
    assert!((summary["cost"].as_f64().expect("a cost") - once * 4.0).abs() < 1e-9);
    // Money that is spent holds over calls.
    let most = (once * 4.0).to_string();
    let limited = ["--retry", "failed", "--max-cost", &most, "--output", "json"];
    let summary = workspace.run(with(&BATCH, &limited)).expect_code(6).json();
    assert_eq!(summary["stopped"], "max_cost");
    assert_eq!(summary["call_cost"], 0.0);
}

#[test]
fn a_stop_by_budget_has_its_own_exit_code_beside_failures_and_questions() {
    let workspace = paid(3);
    workspace.write("broken", "");
    let limited = ["--jobs", "1", "--max-cost", "0.000001"];
    let stopped = workspace.run(with(&BATCH, &limited)).expect_code(6);
    assert!(
        stopped.stdout.starts_with("e-t: 3 rows · 1 failed · 2 left\n"),
        "{}",
        stopped.stdout
    );
    let told = "stopped by --max-cost 0.000001: 2 rows did not run";
    assert!(stopped.stdout.contains(told), "{}", stopped.stdout);

    let waiting = Workspace::new();
    let gate = "  - {name: gate, input: {prompt: 'Go on?'}, depends_on: [a]}\n";
    waiting.write(
        "e.yaml",
        PAID.replace("  - {name: b, script: b.sh, depends_on: [a]}\n", gate),
    );
    waiting.write("t.jsonl", "{\"input\": \"x\"}\n{\"input\": \"y\"}\n");
    let stopped = waiting.run(with(&BATCH, &limited)).expect_code(6);
    assert!(
        stopped.stdout.contains("2 rows · 1 waits for gate · 1 left"),
        "{}",
        stopped.stdout
    );
}

#[test]
fn only_what_can_change_a_result_makes_rows_run_again() {
    let workspace = paid(2);
    let first = workspace.run(with(&BATCH, &["--output", "json"])).expect_code(0).json();
    let text = PAID.to_owned();
    let same = [
        format!("# a comment\n{text}"),
        text.replace("input_per_million: 1000000", "input_per_million: 2000000"),
        text.replace("script: b.sh,", "script: b.sh, timeout_seconds: 7,"),
        format!("{text}conversation_limits: {{timeout_seconds: 77}}\n"),
        text.replace("name: e\n", "name: e\ndescription: of no effect\n"),
    ];
    for text in same {
        workspace.write("e.yaml", &text);
        let dry = workspace.run(with(&BATCH, &["--dry-run"])).expect_code(0);
        assert!(
            dry.stdout.starts_with("e-t: 2 rows, 0 to run, 2 finished\n"),
            "{text}\n{}",
            dry.stdout
        );
    }
    workspace.write("e.yaml", &text);
    workspace.script("b.sh", &format!("{SCRIPT}# changed\n"));
    let dry = workspace.run(with(&BATCH, &["--dry-run"])).expect_code(0);
    assert!(dry.stdout.contains("2 rows, 2 to run, 0 finished"), "{}", dry.stdout);
    let why = "2 run again: script `b.sh` of agent `b` has changed; cost until now ";
    assert!(dry.stdout.contains(why), "{}", dry.stdout);
    let paid_again = workspace.run(BATCH).expect_code(0);
    assert!(
        paid_again.stderr.contains(&format!("note: {why}")),
        "{}",
        paid_again.stderr
    );
    let summary = workspace.run(with(&BATCH, &["--output", "json"])).expect_code(0).json();
    let cost = |summary: &Value| summary["cost"].as_f64().expect("a cost");
    assert!(
        (cost(&summary) - 2.0 * cost(&first)).abs() < 1e-9,
        "earlier versions were paid, too"
    );
}

#[test]
fn a_dry_run_says_what_would_run_while_the_batch_runs() {
    let workspace = Workspace::new();
    workspace.write(
        "e.yaml",
        "name: e\ninputs: {n: {type: string}}\nagents: [{name: a, script: a.sh}]\n",
    );
    workspace.script(
        "a.sh",
        "#!/bin/sh\ncat > /dev/null\necho >> begun\nwhile [ ! -e go ]; do sleep 0.05; done\necho '{}'\n",
    );
    workspace.write("t.jsonl", "{\"n\": \"1\"}\n{\"n\": \"2\"}\n");
    let running = workspace.spawn(with(&BATCH, &["--jobs", "1"]));
    eventually("the first row", || {
        workspace.path().join("begun").exists().then_some(())
    });
    let dry = workspace.run(with(&BATCH, &["--dry-run"])).expect_code(0);
    assert!(dry.stdout.contains("2 rows, 1 to run"), "{}", dry.stdout);
    assert!(dry.stdout.contains("  1 is executed by process "), "{}", dry.stdout);
    assert!(dry.stdout.contains("works on the batch now"), "{}", dry.stdout);
    workspace.write("go", "");
    running.finish().expect_code(0);
    assert!(!workspace.path().join(".ensemble/batches/never").exists());
    workspace
        .run(with(&BATCH, &["--dry-run", "--name", "never"]))
        .expect_code(0);
    assert!(
        !workspace.path().join(".ensemble/batches/never").exists(),
        "a dry run writes nothing"
    );
}

#[test]
fn a_row_that_another_process_executes_is_no_success() {
    let workspace = gated(&["T-1", "T-2"]);
    let slow = "  - {name: b, script: b.sh, depends_on: [gate]}\nresult:";
    workspace.write("g.yaml", GATED.replace("result:", slow));
    workspace.script(
        "b.sh",
        "#!/bin/sh\ncat > /dev/null\ntouch begun\nwhile [ ! -e go ]; do sleep 0.05; done\necho '{}'\n",
    );
    workspace.run(GATES).expect_code(3);
    let run = results(&workspace, "g-t")[0]["run"].as_str().expect("a run").to_owned();
    let running = workspace.spawn(["resume", &run, "--answer", "gate=approve"]);
    eventually("the script", || workspace.path().join("begun").exists().then_some(()));
    let dry = workspace.run(with(&GATES, &["--dry-run"])).expect_code(0);
    assert!(
        dry.stdout.starts_with("g-t: 2 rows, 0 to run, 0 finished\n"),
        "{}",
        dry.stdout
    );
    let told = workspace.run(GATES).expect_code(1);
    assert!(
        told.stderr.contains("note: 1 is executed by process "),
        "{}",
        told.stderr
    );
    assert!(
        !told.stdout.contains("already ended"),
        "one runs and one waits: {}",
        told.stdout
    );
    workspace.write("go", "");
    running.finish().expect_code(0);
    let told = workspace.run(GATES).expect_code(3);
    assert!(
        told.stdout
            .starts_with("g-t: 2 rows · 1 waits for gate · 1 completed\n"),
        "{}",
        told.stdout
    );
}

#[test]
fn questions_are_a_table_that_a_person_fills_in() {
    let workspace = gated(&["T-1", "T-2", "T-3"]);
    let waiting = workspace.run(with(&GATES, &["--questions", "q.csv"])).expect_code(3);
    assert!(
        waiting.stdout.contains("3 rows · 3 wait for gate\n"),
        "{}",
        waiting.stdout
    );
    assert!(waiting.stdout.contains("--answers q.csv"), "{}", waiting.stdout);
    let table = workspace.read("q.csv");
    let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "run,id,row,agent,question,choices,answer");
    assert!(lines[1].contains(",gate,Refund T-1?,approve | reject,"), "{}", lines[1]);
    // An answer that is none of the choices is refused before anything runs.
    workspace.write("bad.csv", format!("\u{feff}{}\n{}perhaps\n", lines[0], lines[1]));
    let refused = workspace.run(with(&GATES, &["--answers", "bad.csv"])).expect_code(2);
    assert!(
        refused.stderr.contains("`perhaps` is not one of the choices"),
        "{}",
        refused.stderr
    );

    lines[1].push_str("approve");
    lines[2].push_str("reject");
    workspace.write("q.csv", lines.join("\r\n"));
    let dry = workspace
        .run(with(&GATES, &["--answers", "q.csv", "--dry-run"]))
        .expect_code(0);
    assert!(dry.stdout.contains("2 have an answer and continue"), "{}", dry.stdout);
    let command = with(&GATES, &["--answers", "q.csv", "--questions", "q.csv"]);
    let answered = workspace.run(command).expect_code(3);
    assert!(
        answered.stdout.contains("1 waits for gate · 2 completed"),
        "{}",
        answered.stdout
    );
    let lines = results(&workspace, "g-t");
    let decisions: Vec<String> = lines
        .iter()
        .map(|line| line["result"]["decision"].to_string())
        .collect();
    assert!(
        decisions[0].contains("approve") && decisions[1].contains("reject"),
        "{decisions:?}"
    );
    // The same file again: answered rows are not asked, and the question that is left is in the table.
    assert_eq!(workspace.read("q.csv").lines().count(), 2);
    let all = workspace
        .run(with(&GATES, &["--always-answer", "gate=approve"]))
        .expect_code(0);
    assert!(all.stdout.contains("3 rows · 3 completed"), "{}", all.stdout);
    let folder = workspace.path().join(".ensemble/batches/g-t/runs");
    let folders = std::fs::read_dir(folder).expect("runs").flatten();
    let count = folders.filter(|run| run.path().is_dir()).count();
    assert_eq!(count, 3, "no row has run twice");
}

#[test]
fn answers_for_rows_are_yaml_json_or_csv_and_name_rows_by_their_column() {
    let workspace = Workspace::new();
    workspace.write("g.yaml", GATED);
    workspace.write("t.csv", "\u{feff}no,ticket\nT-1,one\nT-2,two\nT-3,three\n");
    let command = ["batch", "g.yaml", "--data", "t.csv", "--id", "no", "--ignore", "no"];
    let answer = |file: &str, text: &str, name: &str| {
        workspace.write(file, text);
        workspace.run(with(&command, &["--answers", file, "--name", name]))
    };
    let files = [
        ("a.yaml", "\u{feff}T-1: {gate: approve}\nT-2: {gate: reject}\n"),
        (
            "a.json",
            "\u{feff}{\"T-1\": {\"gate\": \"approve\"}, \"T-2\": {\"gate\": \"reject\"}}",
        ),
        ("a.csv", "\u{feff}no,gate\nT-1,approve\nT-2,reject\n"),
    ];
    for (at, (file, text)) in files.into_iter().enumerate() {
        let name = format!("b{at}");
        let told = answer(file, text, &name).expect_code(3);
        assert!(
            told.stdout.contains("3 rows · 1 waits for gate · 2 completed"),
            "{file}: {}",
            told.stdout
        );
        let lines = results(&workspace, &name);
        assert!(lines[1]["result"]["decision"].to_string().contains("reject"), "{file}");
    }
    let refused = answer("a.yaml", "T-9: {gate: approve}\nT-1: {gat: approve}\n", "c").expect_code(2);
    assert!(
        refused.stderr.contains("a.yaml: there is no row `T-9`"),
        "{}",
        refused.stderr
    );
    let refused = answer("a.yaml", "T-1: {gat: approve}\n", "c").expect_code(2);
    assert!(
        refused.stderr.contains("`gat`, which is not an input agent"),
        "{}",
        refused.stderr
    );
    // An answer for all rows still is one.
    answer("a.yaml", "gate: approve\n", "d").expect_code(0);
}

#[test]
fn failures_are_named_first_and_grouped_by_cause() {
    let workspace = Workspace::new();
    workspace.write(
        "e.yaml",
        "name: e\ninputs: {n: {type: integer}}\nagents:\n  - {name: a, script: a.sh}\n  - {name: gate, input: {prompt: 'Go on?'}, depends_on: [a]}\n",
    );
    workspace.script(
        "a.sh",
        "#!/bin/sh\nn=$(sed 's/.*\"n\": *\\([0-9]*\\).*/\\1/')\nif [ \"$n\" -le 14 ]; then echo \"HTTP 500: request 99$n$n$n$n\" >&2; exit 1; fi\n\
         if [ \"$n\" -le 15 ]; then echo other >&2; exit 1; fi\necho '{}'\n",
    );
    let rows: String = (1..=20).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    workspace.write("t.jsonl", rows);
    let told = workspace.run(BATCH).expect_code(1);
    assert!(
        told.stdout.starts_with("e-t: 20 rows · 15 failed · 5 wait for gate\n"),
        "{}",
        told.stdout
    );
    let (first, second) = (
        told.stdout.find("  14 × agent_failed: "),
        told.stdout.find("  1 × agent_failed: "),
    );
    assert!(first.is_some() && first < second, "{}", told.stdout);
    assert!(told.stdout.contains("HTTP 500"), "{}", told.stdout);
    assert!(
        told.stdout.contains("(rows 1, 2, 3, 4, 5 and 9 more)"),
        "{}",
        told.stdout
    );
    let summary = workspace.run(with(&BATCH, &["--output", "json"])).expect_code(1).json();
    assert_eq!((&summary["failed"], &summary["waiting"]), (&json!(15), &json!(5)));
    assert_eq!(summary["causes"][0]["count"], 14);
    assert_eq!(summary["waiting_for"], json!({"gate": 5}));
}

#[test]
fn without_a_terminal_a_line_says_from_time_to_time_what_is_done() {
    let workspace = Workspace::new();
    workspace.write(
        "e.yaml",
        "name: e\ninputs: {n: {type: string}}\nagents: [{name: a, script: a.sh}]\n",
    );
    workspace.script(
        "a.sh",
        "#!/bin/sh\nif grep -q wait; then while [ ! -e go ]; do sleep 0.05; done; fi\necho '{}'\n",
    );
    workspace.write("t.jsonl", "{\"n\": \"1\"}\n{\"n\": \"wait\"}\n");
    let mut command = workspace.command(with(&BATCH, &["--log-every", "50ms"]));
    let log = std::fs::File::create(workspace.path().join("log")).expect("a file");
    command.stderr(log).stdout(std::process::Stdio::null());
    let mut running = command.spawn().expect("it starts");
    let line = eventually("a line of the log", || {
        let text = workspace.read("log");
        text.lines()
            .find(|line| line.contains("1 of 2 rows done"))
            .map(str::to_owned)
    });
    assert!(
        line.contains("  1 of 2 rows done · 0 failed · 0 waiting · about "),
        "{line}"
    );
    assert!(line.starts_with("20"), "it begins with the time: {line}");
    workspace.write("go", "");
    assert!(running.wait().expect("it ends").success());
}

#[test]
fn a_cell_stays_what_it_is() {
    let workspace = Workspace::new();
    workspace.write(
        "e.yaml",
        "name: e\ninputs: {id: {type: string}, any: {}, size: {type: integer}}\nresult: {id: inputs.id, any: inputs.any, size: inputs.size}\nagents: [{name: a, script: a.rhai}]\n",
    );
    workspace.write("a.rhai", "#{}");
    workspace.write("t.csv", "id,any,size\n007,1e5,3\n\" x \",true,4\n1e5,null,5\n");
    let command = ["batch", "e.yaml", "--data", "t.csv"];
    workspace.run(command).expect_code(0);
    let lines = results(&workspace, "e-t");
    let given: Vec<&Value> = lines.iter().map(|line| &line["result"]).collect();
    assert_eq!(
        given,
        [
            &json!({"id": "007", "any": "1e5", "size": 3}),
            &json!({"id": " x ", "any": "true", "size": 4}),
            &json!({"id": "1e5", "any": "null", "size": 5}),
        ]
    );
    let refused = |bytes: &[u8], told: &[&str]| {
        workspace.write("t.csv", bytes);
        let outcome = workspace.run(command).expect_code(2);
        for told in told {
            assert!(outcome.stderr.contains(told), "{told}\n{}", outcome.stderr);
        }
    };
    refused(b"id,any,size\na,b,\"3\n", &["t.csv:2:5: this quote is not closed"]);
    refused(
        b"id;any;size\na;b;3\n",
        &["t.csv:1:3: the first line contains a semicolon"],
    );
    refused(
        b"id\tany\tsize\na\tb\t3\n",
        &["t.csv:1:3: the first line contains a tab"],
    );
    refused(b"id,,size\na,b,3\n", &["t.csv:1:4: this column has no name"]);
    refused(
        b"id,any,size\n\xe9,b,3\na,\xe9,3\n",
        &["t.csv:2:1: the byte 0xE9", "t.csv:3:3: the byte 0xE9"],
    );
    refused(
        b"id,any,size\na,b,x\na,b\na,b,3,4\n",
        &[
            "t.csv:3:4: the number of cells is 2",
            "t.csv:4:7: the number of cells is 4",
        ],
    );
    refused(
        b"id,any,size\na,b,x\na,b,12345678901234567890123\na,b,3\n",
        &[
            "t.csv:2: the input `size`",
            "t.csv:3: the input `size`: the number `12345678901234567890123`",
        ],
    );
}

#[test]
fn batches_are_among_the_runs_and_their_rows_are_runs() {
    let workspace = paid(3);
    workspace.run(BATCH).expect_code(0);
    let listed = workspace.run(["runs", "list"]).expect_code(0);
    let line = listed
        .stdout
        .lines()
        .find(|line| line.starts_with("batch e-t "))
        .expect("a line");
    assert!(line.contains("3 rows · 3 completed · cost "), "{line}");
    let document = workspace.run(["runs", "list", "--output", "json"]).json();
    assert_eq!(document["batches"][0]["batch"], "e-t");
    assert_eq!(document["batches"][0]["completed"], 3);
    let rows = workspace
        .run(["runs", "list", "--batch", "e-t", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(rows["runs"].as_array().expect("rows").len(), 3);
    let run = rows["runs"][1]["run"].as_str().expect("a run").to_owned();
    assert!(workspace.run(["runs", "list", "--batch", "e-t"]).stdout.contains(&run));
    // The beginning of an id is enough.
    workspace.run(["runs", "show", &run[..14]]).expect_code(0);

    let replayed = workspace.run(["replay", "e-t"]).expect_code(0);
    assert!(
        replayed.stdout.contains("✓ e-t: 3 rows replayed, the same"),
        "{}",
        replayed.stdout
    );
    workspace.write(
        "f.yaml",
        PAID.replace("depends_on: [a]", "conversation: {max_turns: 1}"),
    );
    let diverged = workspace.run(["replay", "e-t", "--ensemble", "f.yaml"]).expect_code(5);
    assert!(
        diverged.stdout.contains("row 1: diverged in turn 1"),
        "{}",
        diverged.stdout
    );

    let estimate = workspace
        .run(["estimate", "e.yaml", "--from", "e-t", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(
        (&estimate["row"]["requests"], &estimate["rows_ended"]),
        (&json!(1), &json!(3))
    );
    workspace.script("b.sh", &format!("{SCRIPT}# changed\n"));
    let estimate = workspace.run(["estimate", "e.yaml", "--from", "e-t"]).expect_code(0);
    assert!(
        estimate.stdout.contains("script `b.sh` of agent `b`"),
        "{}",
        estimate.stdout
    );

    workspace.run(with(&BATCH, &["--name", "other"])).expect_code(0);
    let same = workspace.run(["runs", "diff", "e-t", "other"]).expect_code(0);
    assert!(same.stdout.contains("3 rows with the same result"), "{}", same.stdout);
    workspace.write("broken", "");
    workspace
        .run(with(&BATCH, &["--name", "other", "--set", "x=1", "--dry-run"]))
        .expect_code(0);
    workspace.script("b.sh", SCRIPT);
    workspace.run(with(&BATCH, &["--name", "worse"])).expect_code(1);
    let worse = workspace.run(["runs", "diff", "e-t", "worse"]).expect_code(1);
    assert!(
        worse.stdout.contains("row 1: completed → agent_failed"),
        "{}",
        worse.stdout
    );
    workspace.run(["runs", "diff", "e-t", &run]).expect_code(2);
}

#[test]
fn prune_deletes_old_and_large_batches_and_never_one_that_is_worked_on() {
    let workspace = paid(2);
    workspace.run(BATCH).expect_code(0);
    let folder = workspace.path().join(".ensemble/batches/e-t");
    workspace.run(["runs", "prune", "--older-than", "1d"]).expect_code(0);
    assert!(folder.exists());
    workspace.run(["runs", "prune", "--max-size", "1GB"]).expect_code(0);
    assert!(folder.exists());
    let dry = workspace
        .run(["runs", "prune", "--max-size", "10B", "--dry-run"])
        .expect_code(0);
    assert!(dry.stdout.contains("batch e-t  2 completed"), "{}", dry.stdout);
    assert!(dry.stderr.contains("would delete 0 runs and 1 batch"), "{}", dry.stderr);
    assert!(folder.exists());
    workspace.run(["runs", "prune", "--max-size", "x"]).expect_code(2);

    let gates = gated(&["T-1"]);
    gates.run(GATES).expect_code(3);
    let waiting = gates.path().join(".ensemble/batches/g-t");
    let kept = gates.run(["runs", "prune", "--keep", "0"]).expect_code(0);
    assert!(
        kept.stderr.contains("kept batch g-t: 1 waits for gate"),
        "{}",
        kept.stderr
    );
    assert!(waiting.exists());
    gates
        .run(["runs", "prune", "--outcome", "waiting", "--resumable"])
        .expect_code(0);
    assert!(!waiting.exists());

    workspace.script(
        "b.sh",
        "#!/bin/sh\ncat > /dev/null\ntouch begun\nwhile [ ! -e go ]; do sleep 0.05; done\necho '{}'\n",
    );
    let running = workspace.spawn(BATCH);
    eventually("the first row", || {
        workspace.path().join("begun").exists().then_some(())
    });
    let kept = workspace
        .run(["runs", "prune", "--older-than", "0s", "--resumable"])
        .expect_code(0);
    assert!(kept.stderr.contains("works on it"), "{}", kept.stderr);
    assert!(folder.exists());
    workspace.write("go", "");
    running.finish().expect_code(0);
    workspace.run(["runs", "prune", "--older-than", "0s"]).expect_code(0);
    assert!(!folder.exists());
}
