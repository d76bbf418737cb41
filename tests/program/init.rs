//! `init` through the binary: what it writes runs at once.

use crate::support::Workspace;

#[test]
fn what_is_written_is_valid_and_runs_at_once() {
    let workspace = Workspace::new();
    let outcome = workspace.run(["init", "tea"]).expect_code(0);
    assert_eq!(
        outcome.stdout,
        "wrote ensembles/tea.yaml\nwrote ensembles/tea/reviewer.rhai\nwrote ensembles/ensemble.schema.json\n"
    );
    assert_eq!(outcome.stderr, "\nnext: ensemble run tea\n");
    let validated = workspace
        .run(["validate", "--deny-warnings", "--format", "json"])
        .expect_code(0);
    assert_eq!(validated.json()["diagnostics"], serde_json::json!([]));
    let run = workspace.run(["run", "tea", "--output", "json"]).expect_code(0);
    assert_eq!(run.json()["completion_reason"], "completed");
    assert_eq!(run.sequence(), ["1 writer", "2 reviewer", "3 writer", "4 reviewer"]);
    assert_eq!(run.json()["final_state"]["approved"], true);
}

/// The first line leads an editor to the schema, without a network.
#[test]
fn the_schema_is_where_the_first_line_says() {
    let workspace = Workspace::new();
    workspace.run(["init", "tea"]).expect_code(0);
    let text = workspace.read("ensembles/tea.yaml");
    let first = text.lines().next().unwrap_or_default();
    let file = first
        .strip_prefix("# yaml-language-server: $schema=")
        .expect("the line");
    let schema = workspace.run(["schema"]).expect_code(0).stdout;
    assert_eq!(workspace.read(&format!("ensembles/{file}")), schema);

    // A second ensemble shares it, and one that somebody changed is kept.
    let second = workspace.run(["init", "milk"]).expect_code(0);
    assert_eq!(
        second.stdout,
        "wrote ensembles/milk.yaml\nwrote ensembles/milk/reviewer.rhai\n"
    );
    assert_eq!(second.stderr, "\nnext: ensemble run milk\n");
    workspace.write("ensembles/ensemble.schema.json", "{}");
    let third = workspace.run(["init", "water"]).expect_code(0);
    assert!(
        third.stderr.contains("kept ensembles/ensemble.schema.json"),
        "{}",
        third.stderr
    );
    assert_eq!(workspace.read("ensembles/ensemble.schema.json"), "{}");
}

#[test]
fn nothing_is_overwritten() {
    let workspace = Workspace::new();
    workspace.run(["init", "tea"]).expect_code(0);
    workspace.write("ensembles/tea.yaml", "mine");
    let again = workspace.run(["init", "tea"]).expect_code(2);
    assert!(
        again.stderr.contains("ensembles/tea.yaml already exists"),
        "{}",
        again.stderr
    );
    assert_eq!(workspace.read("ensembles/tea.yaml"), "mine");
    workspace.write("ensembles/milk/reviewer.rhai", "mine");
    workspace.run(["init", "milk"]).expect_code(2);
    assert!(
        !workspace.path().join("ensembles/milk.yaml").exists(),
        "nothing is half done"
    );
}

#[test]
fn the_folder_gives_the_name() {
    let workspace = Workspace::new();
    let folder = workspace.path().join("my tëam!");
    workspace.write("my tëam!/x", "");
    let output = workspace
        .command(["init"])
        .current_dir(&folder)
        .output()
        .expect("it starts");
    assert!(output.status.success());
    assert!(
        workspace
            .read("my tëam!/ensembles/my-t-am.yaml")
            .contains("name: my-t-am\n")
    );
    workspace.run(["init", "no/path"]).expect_code(2);
}
