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

#[test]
fn two_characters_name_one_of_two_runs() {
    let workspace = Workspace::new();
    workspace.write("asks.yaml", ASKS);
    let ran = || {
        let waits = workspace.run(["run", "asks.yaml", "--output", "json"]).expect_code(3);
        waits.json()["run_id"].as_str().expect("an id").to_owned()
    };
    let (first, mut other) = (ran(), ran());
    while other[..2] == first[..2] {
        workspace.run(["runs", "rm", &other]).expect_code(0);
        other = ran();
    }
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    for id in [&first, &other] {
        let (begin, time) = id.split_once('-').expect("a time");
        assert!(begin.len() == 4 && begin.chars().all(is_plain), "{id}");
        assert!(begin.starts_with(|c: char| c.is_ascii_lowercase()), "{id}");
        assert_eq!(time.len(), "20261122-001902365".len(), "{id}");
        for command in [&["runs", "show"][..], &["runs", "export", "--format", "json"]] {
            let told = workspace.run([command, &[&id[..2]]].concat()).expect_code(0).stdout;
            assert!(told.contains(&**id), "{command:?}: {told}");
        }
        let compared = ["runs", "diff", &id[..2], id, "--output", "json"];
        assert_eq!(workspace.run(compared).expect_code(0).json()["a"]["run_id"], **id);
        workspace.run(["replay", &id[..2]]).expect_code(0);
    }
    let answered = ["resume", &other[..2], "--answer", "guest=fine", "--output", "json"];
    assert_eq!(workspace.run(answered).expect_code(0).json()["run_id"], *other);
    workspace.run(["runs", "rm", &other[..2]]).expect_code(0);
    assert_eq!(workspace.runs().len(), 1);
    for unknown in ["-", "nothing", &first[5..9]] {
        workspace.run(["runs", "show", "--", unknown]).expect_code(2);
    }
}

/// Copies a run, with another id.
fn copy(workspace: &Workspace, run: &str, id: &str) {
    let runs = workspace.path().join(".ensemble/runs");
    let folder = runs.join(id);
    std::fs::create_dir(&folder).expect("a folder");
    for file in ["journal.jsonl", "ensemble.yaml"] {
        std::fs::copy(runs.join(run).join(file), folder.join(file)).expect("a copy");
    }
}

#[test]
fn an_ambiguous_beginning_says_which_runs_it_could_mean() {
    let (workspace, id) = waiting();
    copy(&workspace, &id, "2z2z-20260101-000000000");
    copy(&workspace, &id, "2z4z-20260101-000000001");
    for command in [&["runs", "show"][..], &["runs", "rm"], &["resume"], &["replay"]] {
        let told = workspace.run([command, &["2z"]].concat()).expect_code(2).stderr;
        let runs = "`2z` matches 2 runs: 2z4z-20260101-000000001, 2z2z-20260101-000000000\n";
        assert!(told.contains(runs), "{command:?}: {told}");
        assert!(
            told.contains("`2z4` selects the latest of these runs; "),
            "{command:?}: {told}"
        );
    }
}

#[test]
fn runs_are_listed_by_the_times_in_their_ids() {
    let (workspace, id) = waiting();
    let old = "zz9b-20200101-000000000";
    copy(&workspace, &id, old);
    for given in ["zz9", "zz9b", old] {
        let told = workspace.run(["runs", "show", given, "--output", "events"]);
        assert_eq!(
            told.expect_code(0).stdout,
            workspace.read(&format!(".ensemble/runs/{old}/journal.jsonl"))
        );
    }
    let listed = workspace.run(["runs", "list"]).expect_code(0).stdout;
    let ids: Vec<&str> = listed.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!((ids.len(), ids[0], ids[2]), (3, old, &*id), "by their time");
    let columns: Vec<Option<usize>> = listed.lines().map(|line| line.find(" 20")).collect();
    assert!(columns.iter().all(|column| *column == Some(24)), "{listed}");
    let later = "aa9b-20990101-000000000";
    copy(&workspace, &id, later);
    let latest = workspace.runs().pop().expect("a run");
    assert!(latest.ends_with(later), "{latest:?}");
    workspace.run(["runs", "rm", "--last"]).expect_code(0);
    assert!(!latest.exists(), "it was the latest");
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
    for number in 10..20 {
        copy(
            &workspace,
            &id,
            &format!("2b{}z-20200101-000000{number:03}", 29 - number),
        );
    }
    let told = workspace.run(["runs", "show", "2b"]).expect_code(2).stderr;
    assert!(
        told.contains("`2b` matches 10 runs: 2b10z-20200101-000000019, "),
        "{told}"
    );
    assert!(told.contains(", 2b17z-20200101-000000012 and 2 earlier\n"), "{told}");
    assert!(told.contains("`2b10` selects the latest of these runs"), "{told}");
}
