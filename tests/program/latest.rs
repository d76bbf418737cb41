//! `--last`: every command that takes a run takes the latest.

#![expect(clippy::disallowed_methods, reason = "a test copies runs")]

use crate::support::{Outcome, Workspace};

const ASKS: &str =
    "name: asks\nagents:\n  - {name: a, script: \"true\"}\n  - {name: guest, input: 'Well?', depends_on: [a]}\n";

/// Two runs: one of another ensemble, and a later one that waits.
fn waiting() -> (Workspace, String) {
    let workspace = Workspace::new();
    workspace.write("first.yaml", "name: first\nagents: [{name: a, script: \"true\"}]\n");
    workspace.write("asks.yaml", ASKS);
    workspace.run(["run", "first.yaml"]).expect_code(0);
    let waits = workspace.run(["run", "asks.yaml", "--output", "json"]).expect_code(3);
    let id = waits.json()["run_id"].as_str().expect("an id").to_owned();
    (workspace, id)
}

/// The run from which a result was forked.
fn origin(outcome: &Outcome, workspace: &Workspace) -> String {
    let id = outcome.json()["run_id"].as_str().expect("an id").to_owned();
    let shown = workspace.run(["runs", "show", &id, "--output", "json"]).expect_code(0);
    shown.json()["forked_from"]["run_id"]
        .as_str()
        .expect("an origin")
        .to_owned()
}

#[test]
fn commands_that_continue_a_run_take_the_latest() {
    let (workspace, id) = waiting();
    let resumed = workspace.run(["resume", "--last", "--answer", "guest=fine", "--output", "json"]);
    assert_eq!(resumed.expect_code(0).json()["run_id"], *id);
    let said = [
        "continue",
        "--last",
        "and now?",
        "--answer",
        "guest=well",
        "--output",
        "json",
    ];
    let continued = workspace.run(said).expect_code(0);
    assert_eq!(continued.json()["run_id"], *id);
    let told = workspace.read(&format!(".ensemble/runs/{id}/journal.jsonl"));
    assert!(told.contains("and now?"), "{told}");
    let forked = workspace.run([
        "fork",
        "--last",
        "--at-turn",
        "1",
        "--answer",
        "guest=x",
        "--output",
        "json",
    ]);
    assert_eq!(origin(&forked.expect_code(0), &workspace), id);
}

#[test]
fn rerun_takes_the_latest() {
    let (workspace, id) = waiting();
    let again = workspace.run([
        "rerun", "--last", "--from", "a@1", "--answer", "guest=x", "--output", "json",
    ]);
    assert_eq!(origin(&again.expect_code(0), &workspace), id);
}

#[test]
fn commands_that_read_a_run_take_the_latest() {
    let (workspace, id) = waiting();
    let first = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let shown = |words: &[&str]| workspace.run(words).stdout;
    assert!(shown(&["runs", "show", "--last"]).contains(&id));
    assert!(shown(&["runs", "export", "--last"]).contains(&id));
    let compared = workspace
        .run(["runs", "diff", &first, "--last", "--output", "json"])
        .expect_code(1);
    assert_eq!(compared.json()["b"]["run_id"], *id);
    assert_eq!(compared.json()["b"]["given"], *id);
    let estimated = workspace
        .run(["estimate", "asks.yaml", "--last", "--output", "json"])
        .expect_code(0);
    assert_eq!(estimated.json()["from"], *id, "{}", estimated.stdout);
    assert!(shown(&["graph", "--last", "--format", "ascii"]).contains("guest (input"));
    workspace.run(["runs", "rm", "--last"]).expect_code(0);
    assert_eq!(workspace.runs().len(), 1);
    assert!(!workspace.path().join(".ensemble/runs").join(id).exists());
}

#[test]
fn a_chat_is_continued_by_the_latest_run() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nagents: [{name: helper, model_profile: p}]\nmodel_profiles: {p: {provider: simulated, script: answer.rhai}}\n",
    );
    workspace.write("answer.rhai", "`heard ${messages.len()}`");
    workspace.run_with_stdin(["chat", "a.yaml"], "hello\n").expect_code(0);
    let more = workspace.run_with_stdin(["chat", "--last"], "more\n").expect_code(0);
    assert!(more.stdout.contains("heard 3"), "{}", more.stdout);
    assert_eq!(workspace.runs().len(), 1);
}

#[test]
fn a_run_and_the_latest_are_not_both_taken_and_one_is_needed() {
    let (workspace, id) = waiting();
    for words in [
        &["fork", &id, "--last", "--at-turn", "1"][..],
        &["continue", &id, "text", "--last"],
        &["runs", "rm", &id, "--last"],
        &["runs", "diff", &id, &id, "--last"],
        &["estimate", "asks.yaml", "--from", &id, "--last"],
        &["fork", "--at-turn", "1"],
        &["continue", "text"],
        &["runs", "rm"],
        &["estimate", "asks.yaml"],
    ] {
        let refused = workspace.run(words).expect_code(2);
        assert!(refused.stderr.contains("Usage:"), "{words:?}: {}", refused.stderr);
    }
    assert_eq!(workspace.runs().len(), 2, "nothing has happened");
}

/// Ids begin with their time, so runs of one day are told apart by their last part.
#[test]
fn a_run_is_named_by_the_last_part_of_its_id() {
    let (workspace, id) = waiting();
    let (day, last) = id.rsplit_once('-').expect("parts");
    let shown = |given: &str| workspace.run(["runs", "show", given, "--output", "json"]);
    assert_eq!(shown(last).expect_code(0).json()["run_id"], *id);
    assert_eq!(shown(&id[..id.len() - 1]).expect_code(0).json()["run_id"], *id);
    let ambiguous = shown(&day[..4]).expect_code(2);
    assert!(ambiguous.stderr.contains(&id), "{}", ambiguous.stderr);
    assert!(
        ambiguous.stderr.contains("2 runs: ")
            && ambiguous.stderr.contains("the last part of an id is enough, such as `"),
        "{}",
        ambiguous.stderr
    );
    shown("-").expect_code(2);
    shown("nothing").expect_code(2);
    let answered = workspace.run(["resume", last, "--answer", "guest=fine", "--output", "json"]);
    assert_eq!(answered.expect_code(0).json()["run_id"], *id);
}

#[test]
fn the_list_marks_what_is_enough_of_an_id() {
    let (workspace, _) = waiting();
    let listed = workspace
        .run(["runs", "list", "--color", "always"])
        .expect_code(0)
        .stdout;
    let plain = workspace.run(["runs", "list"]).expect_code(0).stdout;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    for (line, plain) in listed.lines().zip(plain.lines()) {
        let marked = line
            .split("\u{1b}[1m")
            .nth(1)
            .and_then(|rest| rest.split("\u{1b}[0m").next());
        let marked = marked.unwrap_or_else(|| panic!("{line:?}"));
        assert!(marked.len() < 5, "{line:?}");
        let found = workspace
            .run(["runs", "show", marked, "--output", "json"])
            .expect_code(0)
            .json();
        assert!(plain.starts_with(found["run_id"].as_str().expect("an id")), "{line:?}");
    }
}

/// A text that names many runs is answered with the latest of them.
#[test]
fn many_runs_with_one_beginning_are_not_all_listed() {
    let (workspace, id) = waiting();
    let runs = workspace.path().join(".ensemble/runs");
    for number in 10..20 {
        let copy = runs.join(format!("20200101-0000{number}-zz{number}"));
        std::fs::create_dir(&copy).expect("a folder");
        for file in ["journal.jsonl", "ensemble.yaml"] {
            std::fs::copy(runs.join(&id).join(file), copy.join(file)).expect("a copy");
        }
    }
    let told = workspace.run(["runs", "show", "2020"]).expect_code(2).stderr;
    assert!(
        told.contains("`2020` matches 10 runs: 20200101-000019-zz19, "),
        "{told}"
    );
    assert!(told.contains(", 20200101-000012-zz12 and 2 earlier\n"), "{told}");
    assert!(told.contains("such as `zz19`"), "{told}");
}
