//! What teams put into CI: the workflow of `docs/ci.md`, and the hooks for pre-commit.

#![expect(clippy::disallowed_methods, reason = "tests start programs and read files")]

use std::path::Path;
use std::process::Command;

use crate::support::blocks::blocks;
use crate::support::files::{project, read};
use crate::support::{Workspace, binary};
use serde_json::{Value, json};

const PAGE: &str = "docs/ci.md";

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

fn block(word: &str) -> Value {
    let block = blocks(PAGE).into_iter().find(|block| block.is(word));
    let block = block.unwrap_or_else(|| panic!("{PAGE} has no {word}"));
    let for_ci = block.language == "yaml" && block.value("file").is_none() && block.ensemble().is_none();
    assert!(for_ci, "{} is no file for CI", block.place);
    yaml(&block.text)
}

/// Runs a command as a server does: in the repository, with the program on the path.
fn shell(workspace: &Workspace, command: &str) -> (i32, String) {
    let folder = Path::new(binary()).parent().expect("the binary is in a folder");
    let output = Command::new("sh")
        .args(["-e", "-c", command])
        .current_dir(workspace.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("HOME", workspace.path().join("home"))
        .output()
        .expect("sh is there");
    let text = String::from_utf8(output.stdout).expect("text");
    (output.status.code().unwrap_or(-1), text)
}

fn with_shipped_ensembles() -> Workspace {
    let workspace = Workspace::new();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(project().join("ensembles"))
        .arg(workspace.path())
        .status();
    assert!(copied.expect("cp is there").success());
    workspace
}

/// The commands of the workflow that call the program.
fn steps() -> Vec<String> {
    let workflow = block("workflow");
    let steps = workflow["jobs"]["validate"]["steps"].as_array().expect("steps").clone();
    let runs = steps.iter().filter_map(|step| step["run"].as_str());
    runs.filter(|run| run.starts_with("ensemble "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_workflow_passes_what_is_right() {
    let workspace = with_shipped_ensembles();
    let steps = steps();
    assert_eq!(steps.len(), 2, "{steps:?}");
    for step in steps {
        assert_eq!(shell(&workspace, &step), (0, String::new()), "{step}");
    }
    let sarif: Value = serde_json::from_str(&workspace.read("ensembles.sarif")).expect("JSON");
    assert_eq!(sarif["runs"][0]["results"], json!([]));
}

#[test]
fn the_workflow_stops_what_is_wrong_and_uploads_it() {
    let workspace = with_shipped_ensembles();
    workspace.write("ensembles/wrong.yaml", "name: e\nagents: [{name: a, scrip: x}]\n");
    let steps = steps();
    let (code, said) = shell(&workspace, &steps[0]);
    assert_eq!(code, 2);
    assert!(said.starts_with("::error file=ensembles/wrong.yaml,line=2,"), "{said}");
    assert_eq!(shell(&workspace, &steps[1]).0, 2);
    let workflow = block("workflow");
    let list = workflow["jobs"]["validate"]["steps"].as_array().expect("steps").clone();
    let upload = list.last().expect("a step");
    let file = upload["with"]["sarif_file"].as_str().expect("a file");
    let sarif: Value = serde_json::from_str(&workspace.read(file)).expect("JSON");
    assert!(!sarif["runs"][0]["results"].as_array().expect("results").is_empty());
    // The step before it fails, so without this nothing would be uploaded.
    assert_eq!(upload["if"], "always()");
    assert_eq!(workflow["permissions"]["security-events"], "write");
}

#[test]
fn hooks_check_ensembles_and_nothing_else() {
    let hooks = yaml(&read(".pre-commit-hooks.yaml"));
    let shown = block("hooks")["repos"][0]["hooks"][0]["id"].clone();
    let ids: Vec<&Value> = hooks
        .as_array()
        .expect("a list")
        .iter()
        .map(|hook| &hook["id"])
        .collect();
    assert_eq!(ids, [&shown]);
    let workspace = with_shipped_ensembles();
    workspace.write(
        "ensembles/warned.yaml",
        "name: e\nagents: [{name: a, script: gone.sh}]\n",
    );
    for hook in hooks.as_array().expect("a list") {
        for key in ["id", "name", "description", "entry", "language", "files"] {
            assert!(hook[key].is_string(), "{hook}: {key}");
        }
        let pattern = jsonschema::validator_for(&json!({"pattern": hook["files"]})).expect("a pattern");
        for (file, checked) in [
            ("ensembles/story.yaml", true),
            (".ensemble/ensembles/a.yml", true),
            ("tools/ensembles/deep/a.yaml", true),
            ("ensembles/story/storyteller.rhai", false),
            ("my-ensembles/a.yaml", false),
            ("config.yaml", false),
        ] {
            assert_eq!(pattern.is_valid(&json!(file)), checked, "{file}");
        }
        // The hook gets the names of files as arguments.
        let entry = hook["entry"].as_str().expect("a command");
        let good = format!("{entry} ensembles/story.yaml ensembles/debugging.yaml");
        assert_eq!(shell(&workspace, &good), (0, String::new()));
        let (code, said) = shell(
            &workspace,
            &format!("{entry} ensembles/story.yaml ensembles/warned.yaml"),
        );
        assert!(code == 2 && said.contains("warning[W003]"), "{code} {said}");
    }
}
