//! `-C DIR`: the program runs as if it had been started in that folder.

use crate::support::Workspace;

fn inner() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "part/ensembles/here.yaml",
        "name: here\nagents: [{name: a, script: pwd}, {name: b, script: s.rhai}]\n",
    );
    workspace.write("part/ensembles/s.rhai", "input");
    workspace.write("part/task.txt", "a task");
    workspace.write(
        "ensembles/here.yaml",
        "name: another\nagents: [{name: a, script: \"true\"}]\n",
    );
    workspace
}

#[test]
fn everything_is_found_and_written_there() {
    let workspace = inner();
    let run = workspace.run(["-C", "part", "run", "here", "-i", "@task.txt", "--output", "json"]);
    let result = run.expect_code(0).json();
    assert_eq!(result["final_state"]["b"]["response"], "a task");
    assert_eq!(
        result["final_state"]["a"]["response"],
        workspace.path().join("part").display().to_string(),
        "children are started there"
    );
    assert!(workspace.path().join("part/.ensemble/runs").is_dir());
    assert!(workspace.runs().is_empty());
    // Paths in what is printed are as they would be there.
    let checked = workspace.run(["validate", "-C", "part"]).expect_code(0);
    assert!(checked.stderr.starts_with("1 file checked"), "{}", checked.stderr);
    workspace.write("part/ensembles/here.yaml", "name: here\nagents: []\n");
    let refused = workspace
        .run(["validate", "-C", "part", "--format", "json"])
        .expect_code(2);
    assert_eq!(refused.json()["diagnostics"][0]["file"], "ensembles/here.yaml");
    workspace.run(["-C", "part", "init", "tea"]).expect_code(0);
    assert!(workspace.path().join("part/ensembles/tea.yaml").is_file());
}

#[test]
fn a_folder_that_is_not_there_is_told() {
    let outcome = inner().run(["-C", "nowhere", "run", "here"]).expect_code(2);
    assert!(
        outcome
            .stderr
            .starts_with("error: cannot change to the folder nowhere: No such file"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_home_folder_is_a_project_root_only_for_a_caller_in_it() {
    let workspace = Workspace::new();
    workspace.write("home/.ensemble/config.yaml", "");
    for folder in ["a", "b"] {
        let file = format!("home/{folder}/deep.yaml");
        workspace.write(&file, "name: deep\nagents: [{name: a, script: pwd}]\n");
    }
    workspace.write("other/.keep", "");
    let path = |name: &str| workspace.path().join(name);
    let run = |folder: &str, file: &str| {
        let outcome = workspace.run(["-C", folder, "run", file, "--output", "json"]);
        let outcome = outcome.expect_code(0);
        let root = outcome.json()["final_state"]["a"]["response"]
            .as_str()
            .map(str::to_owned);
        (root, outcome.stderr)
    };
    // From another folder, and from a folder below, the caller's folder is the root.
    assert_eq!(
        run("other", "../home/b/deep.yaml").0,
        Some(path("other").display().to_string())
    );
    assert_eq!(run("home/a", "deep.yaml").0, Some(path("home/a").display().to_string()));
    assert!(path("other/.ensemble/runs").is_dir() && path("home/a/.ensemble/runs").is_dir());
    assert!(!path("home/.ensemble/runs").exists());
    // In the home folder, it is the home folder.
    assert_eq!(run("home", "b/deep.yaml").0, Some(path("home").display().to_string()));
    assert!(path("home/.ensemble/runs").is_dir());
}
