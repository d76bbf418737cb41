//! Large outputs: each once, in a file of its own beside the journal, and exact.

#![expect(clippy::disallowed_methods, reason = "tests look at files and start programs")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Running, Workspace, binary, records};
use serde_json::Value;

/// Says 100,000 bytes, the same each time, and then how often it was said.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "big.yaml",
        "name: big\nagents:\n\
         \x20 - {name: big, script: big.sh, conversation: {max_turns: 2, trigger: every_turn}}\n\
         \x20 - {name: after, script: after.rhai, depends_on: [big], conversation: {max_turns: 2}}\n",
    );
    workspace.write(
        "big.sh",
        "echo $ENSEMBLE_EXECUTION >> side.txt; printf '{\"text\": \"'; head -c 100000 /dev/zero | tr '\\0' x; printf '\"}'",
    );
    workspace.write("after.rhai", "#{ heard: dependencies.big.text.len() }");
    workspace
}

fn blobs(workspace: &Workspace) -> Vec<PathBuf> {
    let run = workspace.runs().pop().expect("a run");
    let entries = std::fs::read_dir(run.join("blobs")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn id(workspace: &Workspace) -> String {
    let run = workspace.runs().pop().expect("a run");
    run.file_name().expect("an id").to_string_lossy().into_owned()
}

/// The result without what differs from run to run.
fn essence(mut result: Value) -> Value {
    for entry in result["conversation_history"].as_array_mut().expect("a history") {
        for key in ["execution_time", "timestamp", "attempt"] {
            entry[key] = Value::Null;
        }
    }
    result["run_id"] = Value::Null;
    result
}

#[test]
fn a_large_output_stands_once_beside_the_journal_and_is_read_back_exactly() {
    let workspace = workspace();
    let result = workspace
        .run(["run", "big.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    let text = result["final_state"]["text"].as_str().expect("a text");
    assert!(text.len() >= 100_000);
    let blobs = blobs(&workspace);
    assert_eq!(blobs.len(), 1, "two executions said the same: {blobs:?}");
    let mode = |path: &PathBuf| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&blobs[0]), 0o600);
    assert_eq!(mode(&blobs[0].parent().expect("a folder").to_owned()), 0o700);
    let journal = std::fs::read_to_string(workspace.runs()[0].join("journal.jsonl")).expect("a journal");
    assert!(journal.lines().all(|line| line.len() < 2_000), "no line is long");
    let id = id(&workspace);
    let exported = workspace.run(["runs", "export", &id]).expect_code(0).json();
    assert_eq!(exported, result);
    workspace.run(["replay", &id]).expect_code(0);
    let forked = workspace
        .run(["fork", &id, "--at-turn", "2", "--output", "json"])
        .expect_code(0);
    assert_eq!(essence(forked.json()), essence(result));
    workspace.run(["replay", "--last"]).expect_code(0);
    for _ in 0..2 {
        workspace.run(["runs", "rm", &self::id(&workspace)]).expect_code(0);
    }
    assert_eq!(workspace.runs().len(), 0);
}

#[test]
fn events_are_printed_with_all_they_say() {
    let workspace = workspace();
    let outcome = workspace.run(["run", "big.yaml", "--output", "events"]).expect_code(0);
    let long = outcome.stdout.lines().filter(|line| line.len() > 100_000).count();
    assert_eq!(long, 2);
    assert!(!outcome.stdout.contains("\"blobs\""));
}

#[test]
fn a_large_input_and_context_are_kept_likewise() {
    let workspace = workspace();
    workspace.write("input.txt", "x".repeat(70_000));
    workspace.write("more.txt", "y".repeat(70_000));
    workspace.write("context.json", format!("{{\"notes\": \"{}\"}}", "z".repeat(70_000)));
    let arguments = [
        "run",
        "big.yaml",
        "-i",
        "@input.txt",
        "--context",
        "context.json",
        "--then",
        "@more.txt",
    ];
    workspace.run(arguments).expect_code(0);
    let names: Vec<usize> = blobs(&workspace)
        .iter()
        .map(|path| std::fs::read(path).expect("a blob").len())
        .collect();
    assert_eq!(
        names.len(),
        3,
        "the input, the context and an output; `--then` takes a text: {names:?}"
    );
    workspace.run(["continue", &id(&workspace), "@more.txt"]).expect_code(0);
    assert_eq!(blobs(&workspace).len(), 4);
    let result = workspace.run(["runs", "export", &id(&workspace)]).expect_code(0).json();
    assert_eq!(result["input"], "y".repeat(70_000));
    assert_eq!(result["initial_context"]["notes"], "z".repeat(70_000));
}

#[test]
fn a_blob_that_is_missing_or_damaged_is_an_error_with_the_line_that_names_it() {
    let workspace = workspace();
    workspace.run(["run", "big.yaml"]).expect_code(0);
    let (id, blob) = (id(&workspace), blobs(&workspace).remove(0));
    let whole = std::fs::read(&blob).expect("a blob");
    let line = 1 + records(&workspace.runs()[0].join("journal.jsonl"))
        .iter()
        .position(|record| record["blobs"].is_object())
        .expect("a record with a blob");
    let mut damaged = whole.clone();
    damaged[50_000] ^= 1;
    for (bytes, problem) in [(Some(&damaged), "does not match its name"), (None, "cannot read")] {
        match bytes {
            Some(bytes) => std::fs::write(&blob, bytes).expect("written"),
            None => std::fs::remove_file(&blob).expect("removed"),
        }
        for command in [["resume", &id], ["replay", &id]] {
            let refused = workspace.run(command).expect_code(2);
            for part in [format!("journal.jsonl:{line}:").as_str(), problem, "blobs/"] {
                assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
            }
        }
    }
    std::fs::write(&blob, &whole).expect("written");
    workspace.run(["resume", &id]).expect_code(0);
}

#[test]
fn a_blob_that_cannot_be_written_stops_the_run_and_it_goes_on_when_there_is_room() {
    let workspace = workspace();
    // No file may have more than 64 blocks of 512 bytes. The signal that goes with it is left as it is.
    let mut limited = Command::new("sh");
    let template = workspace.command(["run"]);
    limited
        .args(["-c", "ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(binary())
        .args(["run", "big.yaml"])
        .current_dir(workspace.path())
        .env_clear()
        .envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let outcome = Running(limited.spawn().expect("sh starts")).finish().expect_code(1);
    assert!(
        outcome.stderr.contains("cannot write the journal"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("ensemble resume"), "{}", outcome.stderr);
    assert_eq!(blobs(&workspace), Vec::<PathBuf>::new(), "nothing half is left");
    let resumed = workspace.run(["resume", "--last", "--output", "json"]).expect_code(0);
    assert_eq!(resumed.json()["agent_execution_count"]["big"], 2);
    assert_eq!(workspace.read("side.txt"), "1\n1\n2\n");
}

#[test]
fn an_inner_conversation_keeps_its_own() {
    let workspace = workspace();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n- {name: team, ensemble: big.yaml}\n",
    );
    let result = workspace
        .run(["run", "outer.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(blobs(&workspace).len(), 1);
    let inner = workspace.runs()[0].join("sub/team-1-1/blobs");
    assert_eq!(std::fs::read_dir(inner).expect("a folder").count(), 1);
    assert_eq!(
        workspace.run(["runs", "export", &id(&workspace)]).expect_code(0).json(),
        result
    );
}
