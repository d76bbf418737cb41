//! `init` through the binary: what it writes runs at once.

mod support;

use support::Workspace;

#[test]
fn what_is_written_is_valid_and_runs_at_once() {
    let workspace = Workspace::new();
    let outcome = workspace.run(["init", "tea"]).expect_code(0);
    assert_eq!(
        outcome.stdout,
        "wrote ensembles/tea.yaml\nwrote ensembles/tea/reviewer.rhai\n"
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

#[test]
fn nothing_is_overwritten() {
    let workspace = Workspace::new();
    workspace.run(["init", "tea"]).expect_code(0);
    workspace.write("ensembles/tea.yaml", "mine");
    let again = workspace.run(["init", "tea"]).expect_code(2);
    assert!(
        again.stderr.contains("ensembles/tea.yaml is there already"),
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
