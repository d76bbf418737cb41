//! What a shell offers after the tabulator key.

#![expect(clippy::disallowed_methods, reason = "a test asks bash")]

use crate::support::{Outcome, Workspace, binary};

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "ensembles/interview.yaml",
        "name: interview\nagents:\n  - {name: guest, input: {prompt: 'Well?'}}\n  - {name: writer, script: 'echo ok', depends_on: \
         [guest]}\n",
    );
    workspace.write(
        "ensembles/other.yaml",
        "name: other\nagents: [{name: solo, script: 'echo ok'}]\n",
    );
    workspace.write("inner/own.yaml", "name: own\nagents: [{name: a, script: 'echo ok'}]\n");
    workspace.write("notes.txt", "no ensemble");
    workspace
}

/// What bash offers for the last of these words, with the script of the program.
fn offered(workspace: &Workspace, words: &[&str]) -> Vec<String> {
    let script = workspace.run(["completions", "bash"]).expect_code(0).stdout;
    workspace.write("completions.bash", script);
    let folder = std::path::Path::new(binary()).parent().expect("a folder");
    let asks = r#"
        PATH="$FOLDER:$PATH"
        source completions.bash
        [[ "$(complete -p ensemble)" == *" -F _clap_complete_ensemble ensemble" ]] || exit 9
        COMP_WORDS=(ensemble "$@") COMP_CWORD=$# COMP_TYPE=9
        _clap_complete_ensemble ensemble "${!#}" ""
        for word in "${COMPREPLY[@]}"; do echo "$word"; done
    "#;
    let mut command = std::process::Command::new("bash");
    command.args(["--norc", "-c", asks, "bash"]).args(words);
    command.current_dir(workspace.path()).env_clear();
    for (name, value) in workspace.command(words).get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let output = command.env("FOLDER", folder).output().expect("bash is there");
    assert!(
        output.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let offered = text.lines().filter(|word| !word.starts_with('-'));
    offered.map(str::to_owned).collect()
}

fn id(outcome: &Outcome) -> String {
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("a result");
    document["run_id"].as_str().expect("an id").to_owned()
}

fn ran(workspace: &Workspace) -> String {
    let arguments = ["run", "interview", "--answer", "guest=fine", "--output", "json"];
    id(&workspace.run(arguments).expect_code(0))
}

#[test]
fn bash_offers_ensembles_by_name_and_by_file() {
    let workspace = workspace();
    for command in ["run", "chat", "validate", "check", "graph", "explain"] {
        assert_eq!(offered(&workspace, &[command, "int"]), ["interview"], "{command}");
    }
    assert_eq!(offered(&workspace, &["run", "inner/"]), ["inner/own.yaml"]);
    assert_eq!(
        offered(&workspace, &["run", ""]),
        ["interview", "other", "ensembles/", "inner/"],
        "files that are no YAML are not offered"
    );
    assert_eq!(offered(&workspace, &["-C", "inner", "run", "o"]), ["own", "own.yaml"]);
    assert_eq!(offered(&workspace, &["ru"]), ["run", "runs"]);
    assert_eq!(offered(&workspace, &["run", "interview", "--output", "j"]), ["json"]);
}

#[test]
fn bash_offers_runs_with_the_latest_first() {
    let workspace = workspace();
    let (one, other) = (ran(&workspace), ran(&workspace));
    for command in [
        &["resume", ""][..],
        &["fork", ""],
        &["replay", ""],
        &["runs", "show", ""],
        &["runs", "rm", ""],
        &["graph", "--run", ""],
        &["chat", "--run", ""],
        &["estimate", "interview", "--from", ""],
    ] {
        assert_eq!(offered(&workspace, command), [&*other, &one], "{command:?}");
    }
    assert_eq!(offered(&workspace, &["replay", &one]), [&*one]);
    assert_eq!(offered(&workspace, &["replay", &one[..4]]), [&*one]);
}

#[test]
fn bash_offers_codes_and_agents() {
    let workspace = workspace();
    assert_eq!(offered(&workspace, &["explain", "E02"])[..2], ["E020", "E021"]);
    assert_eq!(
        offered(&workspace, &["validate", "--allow", "W001,w00"])[0],
        "W001,W001"
    );
    let first = ran(&workspace);
    assert_eq!(offered(&workspace, &["run", "interview", "--answer", ""]), ["guest="]);
    assert_eq!(
        offered(&workspace, &["replay", "--last", "--live", ""]),
        ["guest", "writer"]
    );
    assert_eq!(offered(&workspace, &["rerun", "--last", "--from", "w"]), ["writer@2"]);
    let executions = ["writer@2", "guest@1"];
    assert_eq!(offered(&workspace, &["rerun", "--last", "--from", ""]), executions);
    let arguments = ["run", "other", "--output", "json"];
    let other = id(&workspace.run(arguments).expect_code(0));
    assert_eq!(offered(&workspace, &["rerun", &other, "--from", ""]), ["solo@1"]);
    assert_eq!(offered(&workspace, &["rerun", &first, "--from", ""]), executions);
}

#[test]
fn every_shell_has_a_script_that_asks_the_program() {
    let workspace = workspace();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = workspace.run(["completions", shell]).expect_code(0).stdout;
        assert!(script.contains("ENSEMBLE_COMPLETE"), "{shell}: {script}");
    }
    let mut command = workspace.command(["--", "ensemble", "explain", "E021"]);
    let output = command.env("ENSEMBLE_COMPLETE", "fish").output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let (code, title) = text.trim_end().split_once('\t').expect("a code with its title");
    assert_eq!(code, "E021");
    assert!(!title.is_empty());
}

#[test]
fn a_shell_is_offered_no_name_that_steers_its_terminal() {
    let workspace = Workspace::new();
    for name in ["good.yaml", "bad\u{1b}[2J.yaml", "bad\u{202e}.yaml"] {
        workspace.write(name, "name: e\nagents: [{name: a, script: x}]\n");
    }
    let offered = offered(&workspace, &["run", ""]);
    assert!(offered.contains(&"good.yaml".to_owned()), "{offered:?}");
    assert!(!offered.iter().any(|name| name.contains("bad")), "{offered:?}");
}
