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

/// The hook as pre-commit calls it: at every commit, without the names of files.
fn hook() -> String {
    let hooks = yaml(&read(".pre-commit-hooks.yaml"));
    let [hook] = hooks.as_array().expect("a list").as_slice() else {
        panic!("one hook: {hooks}");
    };
    for key in ["id", "name", "description", "entry", "language"] {
        assert!(hook[key].is_string(), "{hook}: {key}");
    }
    assert_eq!(hook["id"], block("hooks")["repos"][0]["hooks"][0]["id"]);
    assert_eq!(
        (&hook["always_run"], &hook["pass_filenames"]),
        (&json!(true), &json!(false))
    );
    let entry = hook["entry"].as_str().expect("a command").to_owned();
    let arguments = hook["args"].as_array().expect("arguments").iter();
    arguments.fold(entry, |command, word| {
        format!("{command} {}", word.as_str().expect("a word"))
    })
}

#[test]
fn the_hook_fails_whatever_file_of_an_ensemble_changes() {
    let workspace = with_shipped_ensembles();
    let team = "name: e\nagents:\n  - {name: a, script: say}\n  - {name: b, model_profile: ours, prompt: x, attachments: [data.txt]}\n";
    workspace.write("tools/ensembles/deep/team.yaml", team);
    workspace.write("tools/ensembles/deep/data.txt", "x");
    workspace.script("tools/ensembles/deep/say", "#!/bin/sh\n");
    workspace.write(
        ".ensemble/config.yaml",
        "model_profiles: {ours: {provider: simulated, replies: [x]}}\n",
    );
    workspace.write(
        ".ensemble/ensembles/named.yml",
        "name: e\nagents: [{name: a, script: \"true\"}]\n",
    );
    // Other YAML is none of its business.
    workspace.write("compose.yaml", "services: {}\n");
    let hook = hook();
    assert_eq!(shell(&workspace, &hook), (0, String::new()));
    for (change, code) in [
        ("rm tools/ensembles/deep/say", "W003"),
        ("chmod -x tools/ensembles/deep/say", "W003"),
        ("rm tools/ensembles/deep/data.txt", "E057"),
        ("rm .ensemble/config.yaml", "W001"),
        (
            "echo 'validate: {levels: {W999: error}}' >> .ensemble/config.yaml",
            "E078",
        ),
        ("echo 'let a = ;' > ensembles/story/storyteller.rhai", "E047"),
        ("echo 'unknown: 1' >> .ensemble/ensembles/named.yml", "E010"),
    ] {
        let before = "tar cf before.tar tools .ensemble ensembles";
        let after = "rm -r tools .ensemble ensembles && tar xf before.tar && rm before.tar";
        assert_eq!(shell(&workspace, &format!("{before} && {change}")).0, 0, "{change}");
        let (exit, said) = shell(&workspace, &hook);
        assert!(
            exit == 2 && said.contains(&format!("[{code}]")),
            "{change}: {exit} {said}"
        );
        assert_eq!(shell(&workspace, after).0, 0);
    }
    assert_eq!(shell(&workspace, &hook), (0, String::new()));
}

#[test]
fn what_a_change_of_the_configuration_hides_is_found_without_it() {
    let workspace = with_shipped_ensembles();
    workspace.write(
        "ensembles/wrong.yaml",
        "name: e\nagents: [{name: a, script: no-such-command}]\n",
    );
    workspace.write(
        ".ensemble/config.yaml",
        "validate: {levels: {W003: 'off'}, exclude: [wrong.yaml]}\n",
    );
    workspace.write(".gitignore", "ensembles/w*\n");
    let step = block("strict")["run"].as_str().expect("a command").to_owned();
    assert_eq!(shell(&workspace, "ensemble validate --deny-warnings ensembles").0, 0);
    let (code, said) = shell(&workspace, &step);
    assert!(code == 2 && said.contains("title=W003"), "{said}");
    workspace.write(
        "ensembles/wrong.yaml",
        "name: e\nagents: [{name: a, script: \"true\"}]\n",
    );
    assert_eq!(shell(&workspace, &step), (0, String::new()));
}

#[test]
fn the_workflow_starts_for_whatever_an_ensemble_can_name() {
    let on = block("workflow")["on"].clone();
    // Scripts and attachments are anywhere, so there are no `paths`.
    assert_eq!(on.get("pull_request"), Some(&Value::Null), "{on}");
}

#[test]
fn our_ci_installs_every_counterpart() {
    let steps = read(".ci/run");
    let folders = std::fs::read_dir(project().join("tests")).expect("a folder").flatten();
    let named = |folder: &Path, name: &str| folder.join(name).is_file();
    let mut installed = 0;
    for folder in folders.map(|entry| entry.path()) {
        if !named(&folder, "package.json") && !named(&folder, "requirements.txt") {
            continue;
        }
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let step = format!("step tests/install.sh {name}\n");
        assert!(steps.contains(&step), ".ci/run does not install tests/{name}");
        installed += 1;
    }
    assert!(installed > 10, "{installed}");
}
