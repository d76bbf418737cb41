//! Output that cannot be written: every command ends with exit code 1 and says so.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a test opens a device and starts the program")]

use std::fs::File;
use std::process::Stdio;

use crate::support::{Outcome, Running, Workspace};

/// Each command with words that make it print something to standard output.
const PRINTS: [&[&str]; 56] = [
    &["run", "a.yaml"],
    &["run", "a.yaml", "--output", "json"],
    &["run", "a.yaml", "--output", "events"],
    &["run", "a.yaml", "--quiet"],
    &["run", "a.yaml", "--dry-run"],
    &["batch", "a.yaml", "--data", "rows.jsonl"],
    &["batch", "a.yaml", "--data", "rows.jsonl", "--output", "json"],
    &["batch", "answer", "a-rows"],
    &["batch", "merge", "results.jsonl"],
    &["chat", "a.yaml"],
    &["validate", "a.yaml", "--format", "json"],
    &["validate", "wrong.yaml"],
    &["validate", "wrong.yaml", "--format", "github"],
    &["validate", "a.yaml", "--format", "sarif"],
    &["validate", "a.yaml", "--format", "junit"],
    &["test", "a.yaml"],
    &["test", "a.yaml", "--output", "junit"],
    &["explain", "E021"],
    &["check", "a.yaml"],
    &["check", "a.yaml", "--output", "json"],
    &["graph", "a.yaml"],
    &["graph", "a.yaml", "--format", "svg"],
    &["graph", "--last"],
    &["list"],
    &["list", "--output", "json"],
    &["init", "--list-templates"],
    &["init", "new"],
    &["import", "old.yaml"],
    &["replay", "--last"],
    &["replay", "--last", "--output", "json"],
    &["resume", "--last", "--output", "json"],
    &["continue", "--last", "more"],
    &["continue", "--last", "more", "--output", "json"],
    &["fork", "--last", "--at-turn", "1"],
    &["rerun", "--last", "--from", "it@1"],
    &["estimate", "a.yaml", "--last"],
    &["runs", "list"],
    &["runs", "list", "--output", "json"],
    &["runs", "show", "--last"],
    &["runs", "show", "--last", "--follow"],
    &["runs", "show", "--last", "--output", "json"],
    &["runs", "diff", "RUN", "--last"],
    &["runs", "merge", "RUN", "FORK"],
    &["runs", "export", "--last"],
    &["runs", "export", "--last", "--format", "html"],
    &["runs", "prune", "--keep", "0", "--dry-run"],
    &["models", "check", "a.yaml"],
    &["trust", "a.yaml"],
    &["schema"],
    &["schema", "--skill"],
    &["completions", "bash"],
    &["man"],
    &["man", "--to", "pages"],
    &["help", "run"],
    &["--help"],
    &["--version"],
];

/// The commands that print nothing to standard output that could be lost here: they delete, need a server, or
/// answer a client.
const SILENT: [&str; 8] = [
    "runs rm",
    "runs fetch",
    "runs cancel",
    "models list",
    "lsp",
    "ui",
    "mcp",
    "acp",
];

fn workspace() -> (Workspace, String) {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nmodel_profiles: {p: {provider: simulated, replies: [said]}}\nagents:\n  - {name: it, script: it.rhai}\n  - {name: more, \
         model_profile: p, depends_on: [it]}\n",
    );
    workspace.write("it.rhai", "#{ said: 1 }");
    workspace.write("a.test.yaml", "cases: [{name: said, expect: {outcome: completed}}]\n");
    workspace.write("rows.jsonl", "{\"input\": \"x\"}\n");
    workspace.write("results.jsonl", "{\"row\": 1, \"outcome\": \"completed\"}\n");
    workspace.write("wrong.yaml", "name: wrong\nagents: [{name: it, scritp: it.rhai}]\n");
    workspace.write("old.yaml", "name: old\nagents:\n  - {name: it, script: it.sh}\n");
    let ran = workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(0);
    let id = ran.json()["run_id"].as_str().expect("an id").to_owned();
    (workspace, id)
}

/// Forks the run at its end, adds a message to both runs, and returns the id of the fork.
fn fork_and_continue(workspace: &Workspace, id: &str) -> String {
    let forked = workspace.run(["fork", id, "--at-turn", "2", "--output", "json"]);
    let fork = forked.expect_code(0).json()["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    for run in [id, &fork] {
        workspace.run(["continue", run, "more"]).expect_code(0);
    }
    fork
}

/// Runs the program with a full disk behind standard output; the rest of it.
fn with_full_disk(workspace: &Workspace, words: &[&str], environment: &[(&str, &str)]) -> Outcome {
    use std::io::Write;
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = workspace.command(words);
    command
        .stdout(full)
        .stdin(Stdio::piped())
        .envs(environment.iter().copied());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that does not read its input closes it.
    let _is_closed = stdin.write_all(b"hello\n");
    drop(stdin);
    Running(child).finish()
}

#[test]
fn every_command_says_that_its_output_cannot_be_written() {
    let (workspace, id) = workspace();
    let fork = fork_and_continue(&workspace, &id);
    for words in PRINTS {
        let words: Vec<&str> = words
            .iter()
            .map(|word| match *word {
                "RUN" => &*id,
                "FORK" => &*fork,
                word => word,
            })
            .collect();
        let told = with_full_disk(&workspace, &words, &[]);
        assert_eq!(told.code, 1, "{words:?}: {}", told.stderr);
        let last = told.stderr.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("error: cannot write to standard output: No space left"),
            "{words:?}: {}",
            told.stderr
        );
    }
    let asked = ["--", "ensemble", "explain", "E02"];
    let told = with_full_disk(&workspace, &asked, &[("ENSEMBLE_COMPLETE", "fish")]);
    assert_eq!(told.code, 1, "{}", told.stderr);
}

#[test]
fn no_command_is_forgotten() {
    let workspace = Workspace::new();
    let commands = |words: &[&str]| -> Vec<String> {
        let help = workspace.run([words, &["--help"]].concat()).expect_code(0).stdout;
        let list = help
            .split("Usage:")
            .nth(1)
            .and_then(|rest| rest.split("Options:").next());
        let lines = list.unwrap_or_default().lines();
        let lines = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
        let names = lines.filter_map(|line| line.split_whitespace().next());
        let is_command = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase()) && *name != "help";
        names.filter(is_command).map(str::to_owned).collect()
    };
    let tried = |words: &str| PRINTS.iter().any(|row| row.join(" ").starts_with(words)) || SILENT.contains(&words);
    let all = commands(&[]);
    assert!(all.len() > 15, "{all:?}");
    for command in all {
        let inner = commands(&[&command]);
        match inner.is_empty() {
            true => assert!(tried(&command), "{command}"),
            false => inner
                .iter()
                .for_each(|inner| assert!(tried(&format!("{command} {inner}")), "{command} {inner}")),
        }
    }
}

#[test]
fn what_was_run_is_recorded_also_if_nobody_can_see_it() {
    let (workspace, _) = workspace();
    with_full_disk(&workspace, &["run", "a.yaml", "--output", "events"], &[]);
    let listed = workspace.run(["runs", "list"]).expect_code(0).stdout;
    assert_eq!(
        listed.matches("completed, turns 2, executions 2").count(),
        2,
        "{listed}"
    );
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let (workspace, _) = workspace();
    for words in [
        &["schema"][..],
        &["runs", "show", "--last"],
        &["--help"],
        &["run", "a.yaml"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = workspace.command(words);
        let child = command.stdout(writer).spawn().expect("the program starts");
        drop(command);
        Running(child).finish().expect_code(0);
    }
}
