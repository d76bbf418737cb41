//! Recorded runs: the program reads their journals, decides them again and continues them. A journal of another format is
//! refused.
//!
//! `tests/fixtures/format-N` contains what the first program of format N wrote: a run that waits for an answer, and the
//! same run after the answer and another message, with its result.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::path::{Path, PathBuf};

use crate::support::{Workspace, records};
use serde_json::Value;

/// The folder in which the fixtures were made.
const MADE_IN: &str = "/home/you/errand";

/// The id of the runs of that format.
fn id(format: &Path) -> String {
    let first = records(&format.join("complete/journal.jsonl")).remove(0);
    first["data"]["run_id"].as_str().expect("an id").to_owned()
}

fn fixtures() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let entries = std::fs::read_dir(all)
        .expect("fixtures")
        .flatten()
        .map(|entry| entry.path());
    let mut formats: Vec<PathBuf> = entries
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("format-"))
        })
        .collect();
    formats.sort();
    assert!(!formats.is_empty());
    formats
}

/// The project of the fixture with this run in it, as if it had been made there.
fn with_run(format: &Path, run: &str) -> Workspace {
    let id = id(format);
    let workspace = Workspace::new();
    copy(&format.join("project"), &workspace.path());
    let folder = workspace.path().join(".ensemble/runs").join(&id);
    copy(&format.join(run), &folder);
    moved(&folder.join("journal.jsonl"), &workspace.path());
    workspace
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// The first record names the folder of the project.
fn moved(journal: &Path, project: &Path) {
    let text = std::fs::read_to_string(journal).expect("a journal");
    let (first, rest) = text.split_once('\n').expect("lines");
    let first = first.replace(MADE_IN, &project.display().to_string());
    std::fs::write(journal, format!("{}\n{rest}", with_checksum(&first))).expect("written");
}

/// The line with the checksum of its content.
fn with_checksum(line: &str) -> String {
    let (body, _) = line.rsplit_once(",\"crc\"").expect("a checksum");
    format!("{body},\"crc\":\"{:08x}\"}}", crc32fast::hash(body.as_bytes()))
}

fn recorded(format: &Path) -> Value {
    let text = std::fs::read_to_string(format.join("complete/result.json")).expect("a result");
    serde_json::from_str(&text).expect("JSON")
}

/// Does the result still say what it said then? It may say more by now.
fn says(now: &Value, then: &Value, place: &str) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            for (key, value) in then {
                says(now.get(key).unwrap_or(&Value::Null), value, &format!("{place}.{key}"));
            }
        }
        (Value::Array(now), Value::Array(then)) => {
            assert_eq!(now.len(), then.len(), "{place}");
            let pairs = now.iter().zip(then).enumerate();
            pairs.for_each(|(at, (now, then))| says(now, then, &format!("{place}[{at}]")));
        }
        _ => assert_eq!(now, then, "{place}"),
    }
}

/// The result without times and numbers of attempts.
fn essence(mut result: Value) -> Value {
    for entry in result["conversation_history"].as_array_mut().expect("a history") {
        for key in ["execution_time", "timestamp", "attempt"] {
            entry[key] = Value::Null;
        }
    }
    result
}

#[test]
fn a_whole_recorded_run_is_read_and_decided_again() {
    for format in fixtures() {
        let id = id(&format);
        let workspace = with_run(&format, "complete");
        let exported = workspace.run(["runs", "export", &id]).expect_code(0).json();
        says(&exported, &recorded(&format), &format.display().to_string());
        workspace.run(["runs", "show", &id]).expect_code(0);
        let replayed = workspace.run(["replay", &id]).expect_code(0);
        assert_eq!(replayed.stdout, "✓ the same: 12 decisions in 10 turns\n");
        let inner = workspace.path().join(".ensemble/runs").join(&id).join("sub/team-1-1");
        workspace
            .run(["runs", "show", &inner.display().to_string()])
            .expect_code(0);
        workspace
            .run(["fork", &id, "--at-turn", "5", "--always-answer", "you=yes"])
            .expect_code(0);
        workspace
            .run(["rerun", &id, "--from", "talk@4", "--always-answer", "you=yes"])
            .expect_code(0);
    }
}

#[test]
fn a_waiting_recorded_run_is_continued() {
    for format in fixtures() {
        let id = id(&format);
        let workspace = with_run(&format, "waiting");
        let journal = workspace.path().join(".ensemble/runs").join(&id).join("journal.jsonl");
        let number = records(&journal)[0]["data"]["format"].clone();
        assert!(format.ends_with(format!("format-{number}")), "{}", format.display());
        workspace.run(["resume", &id, "--answer", "you=yes"]).expect_code(0);
        let resumed = workspace.run([
            "continue",
            &id,
            "and tomorrow?",
            "--answer",
            "you=no",
            "--output",
            "json",
        ]);
        let now = essence(resumed.expect_code(0).json());
        says(&now, &essence(recorded(&format)), &format.display().to_string());
        assert_eq!(records(&journal)[0]["data"]["format"], number);
        workspace.run(["replay", &id]).expect_code(0);
    }
}

#[test]
fn a_journal_of_another_format_is_refused() {
    let format = fixtures().remove(0);
    let id = id(&format);
    let workspace = with_run(&format, "complete");
    let journal = workspace.path().join(".ensemble/runs").join(&id).join("journal.jsonl");
    let text = std::fs::read_to_string(&journal).expect("a journal");
    for other in [0, 2, 4] {
        let changed = text.replacen("\"format\":1", &format!("\"format\":{other}"), 1);
        let (first, rest) = changed.split_once('\n').expect("lines");
        std::fs::write(&journal, format!("{}\n{rest}", with_checksum(first))).expect("written");
        let error = format!("journal format {other} is not supported; this program reads format 1");
        for command in ["show", "export"] {
            let shown = workspace.run(["runs", command, &id]).expect_code(2);
            assert!(shown.stderr.contains(&error), "{}", shown.stderr);
        }
        let continued = workspace.run(["continue", &id, "and tomorrow?"]).expect_code(2);
        assert!(continued.stderr.contains(&error), "{}", continued.stderr);
    }
}
