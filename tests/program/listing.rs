//! `ensemble list`, and commands that need an ensemble and get none.

use crate::support::Workspace;
use serde_json::{Value, json};

fn project() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(".ensemble/config.yaml", "model_profiles: {}\n");
    workspace.write(
        "ensembles/tea.yaml",
        r#"
name: tea-time
description: |
  Serves tea.
  To guests.
default_task: Serve.
inputs:
  pot: {type: string, description: Which pot.}
  cups: {type: integer, default: 2}
agents:
  - {name: kettle, script: "true"}
  - name: guest
    depends_on: [kettle]
    input:
      prompt: |
        Milk
        or lemon?
      choices: [milk, lemon]
      default: milk
"#,
    );
    workspace.write(
        ".ensemble/ensembles/hidden.yml",
        "name: hidden\nagents: [{name: a, script: \"true\"}]\n",
    );
    workspace.write(
        "part/near.yaml",
        "name: near\nagents: [{name: a, scritp: x, retry: 3}]\n",
    );
    workspace.write("part/compose.yaml", "services: {}\n");
    // The nearer file has the name.
    workspace.write(
        "part/ensembles/hidden.yaml",
        "name: nearer\nagents: [{name: b, script: \"true\"}]\n",
    );
    workspace
}

fn names(document: &Value) -> Vec<[&str; 2]> {
    let ensembles = document["ensembles"].as_array().expect("a list");
    ensembles
        .iter()
        .map(|one| {
            [
                one["name"].as_str().expect("a name"),
                one["file"].as_str().expect("a file"),
            ]
        })
        .collect()
}

#[test]
fn ensembles_are_listed_with_what_they_are_and_ask() {
    let workspace = project();
    let listed = workspace.run(["list"]).expect_code(0);
    assert_eq!(
        listed.stdout,
        "hidden\n  .ensemble/ensembles/hidden.yml, 1 agent: a\n\n\
         tea: Serves tea.\n  ensembles/tea.yaml, 2 agents: kettle, guest\n  input pot (string, required): Which pot.\n  \
         input cups (integer, default 2)\n  guest asks: Milk or lemon? (milk, lemon)\n"
    );
    assert_eq!(listed.stderr, "");
    let document = workspace.run(["list", "--json"]).expect_code(0).json();
    assert_eq!(document["version"], 1);
    assert_eq!(
        document["ensembles"][1],
        json!({
            "name": "tea",
            "file": "ensembles/tea.yaml",
            "errors": 0,
            "description": "Serves tea.\nTo guests.\n",
            "default_task": "Serve.",
            "inputs": [
                {"name": "pot", "schema": {"type": "string", "description": "Which pot."}},
                {"name": "cups", "schema": {"type": "integer", "default": 2}},
            ],
            "agents": [{"name": "kettle", "type": "script"}, {"name": "guest", "type": "input"}],
            "asks": [{"agent": "guest", "prompt": "Milk\nor lemon?\n", "choices": ["milk", "lemon"], "default": "milk"}],
        })
    );
}

/// What is listed is what a name means here: in this folder, and in the folders of the project around it.
#[test]
fn every_listed_name_means_the_listed_file() {
    let workspace = project();
    let document = workspace.run(["-C", "part", "list", "--json"]).expect_code(0).json();
    let root = workspace.path();
    let tea = root.join("ensembles/tea.yaml").display().to_string();
    assert_eq!(
        names(&document),
        [
            ["hidden", "ensembles/hidden.yaml"],
            ["near", "near.yaml"],
            ["tea", &tea]
        ]
    );
    for [name, file] in names(&document) {
        let by = |given: &str| {
            workspace
                .run(["-C", "part", "validate", given, "--format", "json"])
                .stdout
        };
        assert_eq!(by(name), by(file), "{name}");
        let drawn = |given: &str| workspace.run(["-C", "part", "graph", given]).stdout;
        assert_eq!(drawn(name), drawn(file), "{name}");
    }
    // One with errors is told, too.
    assert_eq!(document["ensembles"][1]["errors"], 2);
    let text = workspace.run(["-C", "part", "list"]).expect_code(0).stdout;
    assert!(
        text.contains("near\n  2 errors; run `ensemble validate near.yaml` to see all errors\n"),
        "{text}"
    );
}

#[test]
fn where_there_is_none_the_list_says_so() {
    let workspace = Workspace::new();
    let listed = workspace.run(["list"]).expect_code(0);
    assert_eq!(listed.stdout, "");
    assert_eq!(
        listed.stderr,
        "there is no ensemble here; `ensemble init` creates one\n"
    );
    let document = workspace.run(["list", "--json"]).expect_code(0).json();
    assert_eq!(document, json!({"version": 1, "ensembles": []}));
}

#[test]
fn a_command_without_an_ensemble_names_those_that_there_are() {
    let workspace = project();
    for command in ["run", "chat"] {
        let refused = workspace.run([command]).expect_code(2);
        assert_eq!(
            refused.stderr,
            format!(
                "error: no ensemble was named\n  help: write `ensemble {command} NAME` with one of these names: hidden, tea; `ensemble list` describes them\n"
            )
        );
    }
    let alone = Workspace::new().run(["run"]).expect_code(2);
    assert!(
        alone.stderr.contains("create an ensemble with `ensemble init`"),
        "{}",
        alone.stderr
    );
}
