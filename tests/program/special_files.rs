//! Files of the system in place of scripts and results: nothing without an end is read, and nobody waits for a pipe.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests make files and start programs")]

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::support::{Outcome, Running, Workspace, binary};

/// Runs the program with four seconds of processor time and three gigabytes.
fn limited(workspace: &Workspace, words: &[&str]) -> Outcome {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v 3000000; ulimit -t 4; exec \"$@\"", "sh", binary()])
        .args(words)
        .current_dir(workspace.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running(command.spawn().expect("a shell")).finish()
}

/// A regular file that tells no size and has hundreds of gigabytes.
const ENDLESS: &str = "/proc/self/pagemap";

/// Ensembles that name a script in each place where one is read.
const NAMING: [&str; 4] = [
    "agents: [{name: it, script: odd.rhai}]\n",
    "agents: [{name: it, script: it.rhai}, {name: ask, model_profile: p}]\ntools: {t: {description: d, script: odd.rhai}}\n",
    "agents: [{name: ask, model_profile: p, context_window: {script: odd.rhai}}]\n",
    "agents: [{name: it, script: it.rhai}]\nmodel_profiles: {p: {provider: simulated, response_generator: {script: odd.rhai}}}\n",
];

fn workspace(naming: &str) -> Workspace {
    let workspace = Workspace::new();
    let profiles = match naming.contains("model_profiles") {
        true => "",
        false => "model_profiles: {p: {provider: simulated, replies: [said]}}\n",
    };
    workspace.write("a.yaml", format!("name: a\n{profiles}{naming}"));
    workspace.write("it.rhai", "#{}");
    workspace
}

#[test]
fn a_script_without_an_end_is_not_read_to_its_end() {
    for naming in NAMING {
        for target in [ENDLESS, "/dev/zero"] {
            let workspace = workspace(naming);
            symlink(target, workspace.path().join("odd.rhai")).expect("a link");
            for words in [
                &["validate", "a.yaml"][..],
                &["check", "a.yaml"],
                &["graph", "a.yaml"],
                &["run", "a.yaml"],
            ] {
                let told = limited(&workspace, words);
                assert!(
                    told.code < 3,
                    "{naming} {target} {words:?}: {} {}",
                    told.code,
                    told.stderr
                );
            }
        }
    }
    let workspace = workspace(NAMING[0]);
    workspace.write("odd.rhai", " ".repeat((16 << 20) + 1));
    let told = limited(&workspace, &["run", "a.yaml"]).expect_code(2);
    let wrong = "error[E106]: it: cannot read `odd.rhai`: it is larger than 16 MiB";
    assert!(told.stderr.contains(wrong), "{}", told.stderr);
}

#[test]
fn a_pipe_is_not_waited_for() {
    for (name, words) in [
        ("odd.rhai", &["validate", "a.yaml"][..]),
        ("odd.rhai", &["run", "a.yaml"]),
        ("odd.yaml", &["validate", "odd.yaml"]),
        ("odd.yaml", &["validate", "odd.test.yaml"]),
        ("odd.yaml", &["run", "odd"]),
        ("odd.json", &["replay", "odd.json"]),
    ] {
        let workspace = workspace(NAMING[0]);
        workspace.write("odd.test.yaml", "cases: [{name: it, expect: {order: []}}]\n");
        let made = Command::new("mkfifo").arg(workspace.path().join(name)).status();
        assert!(made.expect("a program").success());
        let told = limited(&workspace, words);
        assert!(told.code < 3, "{name} {words:?}: {}", told.stderr);
    }
}

/// Every other place at which the command line or a file names a file that is read whole.
const WHOLE_FILES: [(&str, &[&str]); 12] = [
    ("odd.yaml", &["validate", "outer.yaml"]),
    ("odd.yaml", &["run", "outer.yaml"]),
    ("odd.yaml", &["check", "outer.yaml"]),
    ("odd.yaml", &["run", "a.yaml", "--context", "odd.yaml"]),
    ("odd.yaml", &["run", "a.yaml", "--answers", "odd.yaml"]),
    ("odd.txt", &["run", "a.yaml", "--input", "@odd.txt"]),
    ("odd.txt", &["run", "a.yaml", "--stub", "it=@odd.txt"]),
    ("odd.json", &["run", "a.yaml", "--mcp-config", "odd.json"]),
    ("odd.jsonl", &["batch", "a.yaml", "--data", "odd.jsonl"]),
    ("odd.jsonl", &["batch", "merge", "odd.jsonl"]),
    ("odd.test.yaml", &["test", "odd.test.yaml"]),
    (".ensemble/config.yaml", &["validate", "a.yaml"]),
];

#[test]
fn every_file_that_is_read_whole_is_a_regular_one() {
    for (name, words) in WHOLE_FILES {
        for kind in ["a pipe", "/dev/zero", "/dev/tty", ENDLESS, "/proc/kmsg"] {
            let workspace = workspace("agents: [{name: it, script: it.rhai}]\n");
            workspace.write("outer.yaml", "name: outer\nagents: [{name: in, ensemble: odd.yaml}]\n");
            workspace.write(".ensemble/keep", "");
            let path = workspace.path().join(name);
            match kind {
                "a pipe" => assert!(Command::new("mkfifo").arg(&path).status().expect("a program").success()),
                target => symlink(target, &path).expect("a link"),
            }
            let told = limited(&workspace, words);
            assert!(
                told.code < 3,
                "{kind} as {name}, {words:?}: {} {}",
                told.code,
                told.stderr
            );
        }
    }
}

#[test]
fn a_result_or_a_journal_without_an_end_is_refused() {
    let workspace = workspace(NAMING[0]);
    for name in ["odd.json", "odd.yaml"] {
        symlink(ENDLESS, workspace.path().join(name)).expect("a link");
    }
    for words in [&["validate", "odd.yaml"][..], &["run", "odd.yaml"], &["list"]] {
        let told = limited(&workspace, words);
        assert!(told.code < 3, "{words:?}: {}", told.stderr);
    }
}

#[test]
fn a_file_that_is_no_ensemble_is_not_quoted() {
    for (text, reason) in [
        ("root:x:0:0:SECRET:/root:/bin/bash\n", "`../secret` is not an ensemble"),
        (
            "password: SECRET\nhosts: [SECRET, b]\n",
            "`../secret` is not an ensemble",
        ),
        ("- SECRET\n- [SECRET\n", "`../secret` is not an ensemble"),
        (
            "agents of SECRET: [\n  SECRET: SECRET\n",
            "error[E001]: The file is not valid YAML",
        ),
    ] {
        let workspace = Workspace::new();
        workspace.write("secret", text);
        workspace.write("in/a.yaml", "name: a\nagents: [{name: it, ensemble: ../secret}]\n");
        workspace.write(
            "in/a.test.yaml",
            "ensemble: ../secret\ncases: [{name: it, expect: {order: []}}]\n",
        );
        workspace.write("in/.ensemble/keep", "");
        for words in [
            &["-C", "in", "validate", "a.yaml"][..],
            &["-C", "in", "validate", "--output", "json", "a.yaml"],
            &["-C", "in", "check", "a.yaml"],
            &["-C", "in", "graph", "a.yaml"],
            &["-C", "in", "run", "a.yaml"],
            &["-C", "in", "test", "a.test.yaml"],
            &["-C", "in", "validate", "a.test.yaml"],
        ] {
            let told = workspace.run(words);
            let all = format!("{}{}", told.stdout, told.stderr);
            assert!(!all.contains("SECRET"), "{words:?}: {all}");
            if words[2] == "run" {
                assert!(all.contains(reason), "{all}");
            }
        }
    }
}
