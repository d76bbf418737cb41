//! Completion in bash, zsh and fish, each at a real terminal with a real Tab key, in a folder whose names attack the command line.
//!
//! A shell that is not installed is told, and proves nothing.

#![expect(clippy::disallowed_methods, reason = "tests start programs and read files")]

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::support::terminal::Terminal;
use crate::support::{Workspace, binary};

/// Names that a shell must not execute, expand, or take for options. Each begins with a letter of its own, after which there is one Tab.
const NAMES: &[(&str, &str)] = &[
    ("a", "a$(touch PWNED).yaml"),
    ("b", "b; touch PWNED;.yaml"),
    ("c", "c --trust.yaml"),
    ("d", "d`touch PWNED`.yaml"),
    ("e", "e'x; touch PWNED; 'y.yaml"),
    ("f", "f\"x; touch PWNED; \"y.yaml"),
    ("g", "g*.yaml"),
    ("y", "y two words.yaml"),
    ("i", "i|touch PWNED.yaml"),
    ("j", "j>PWNED.yaml"),
    ("k", "k&touch PWNED&.yaml"),
    ("l", "l\ntouch PWNED\n.yaml"),
    ("m", "m!$HOME~.yaml"),
    ("n", "n{1,2}[3]?.yaml"),
    ("o", "o\\$(touch PWNED).yaml"),
    ("p", "p #x.yaml"),
    ("q", "q:touch PWNED:.yaml"),
    ("--t", "--trust-me.yaml"),
    ("~", "~root.yaml"),
    ("=", "=ls.yaml"),
    ("#", "#x.yaml"),
    ("r", "r$(touch PWNED)/x.yaml"),
];

/// A plain name, which every shell completes.
const PLAIN: (&str, &str) = ("z", "zebra.yaml");

/// Says it past the test harness, which would swallow it.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

fn is_installed(shell: &str) -> bool {
    let status = Command::new(shell).args(["-c", "exit 0"]).output();
    status.is_ok_and(|output| output.status.success())
}

/// A folder with the names, the script of the shell, and a program `ensemble` that completes as the real one, and that writes the
/// words that it is started with to `words`.
fn workspace(shell: &str) -> Workspace {
    let workspace = Workspace::new();
    for (_, name) in NAMES.iter().chain([&PLAIN]) {
        workspace.write(name, "name: e\nagents: [{name: a, script: x}]\n");
    }
    let script = workspace.run(["completions", shell]).expect_code(0).stdout;
    workspace.write("home/completions", script);
    let program = format!(
        "#!/bin/sh\nif [ -n \"$ENSEMBLE_COMPLETE\" ]; then exec '{}' \"$@\"; fi\n{{ for word in \"$@\"; do printf '<%s>' \"$word\"; done; \
         echo; }} >\"$HOME/words\"\n",
        binary()
    );
    workspace.write("home/bin/ensemble", program);
    let path = workspace.path().join("home/bin/ensemble");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, executable).expect("it is ours");
    workspace
}

/// Types `ensemble run`, the beginning of a name and Tab, then Enter; returns the words that the program was started with.
fn complete_and_run(shell: &str, arguments: &[&str], setup: &str, typed: &str) -> (Workspace, String) {
    let workspace = workspace(shell);
    let path = format!(
        "{}:/usr/local/bin:/usr/bin:/bin",
        workspace.path().join("home/bin").display()
    );
    let environment = [("PATH", &*path), ("PS1", "$ ")];
    let mut terminal = Terminal::open_program(shell, &workspace, arguments, &environment);
    // The shell echoes what is typed, with the quotes; only its output has none.
    terminal.type_in(&format!("{setup}; echo re''ady\r"));
    terminal.wait_for("ready");
    terminal.type_in(&format!("ensemble run {typed}\t"));
    // The next key is read when the completion has ended.
    terminal.type_in("\r");
    terminal.type_in("echo do''ne\r");
    terminal.wait_for("done");
    terminal.type_in("exit\r");
    terminal.finish();
    let words = std::fs::read_to_string(workspace.path().join("home/words")).unwrap_or_default();
    (workspace, words.trim_end_matches('\n').to_owned())
}

fn is_pwned(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name == "PWNED" || name == "PWNED.yaml"
    })
}

/// Tries all names in a shell.
fn try_names(shell: &str, arguments: &[&str], setup: &str) {
    if !is_installed(shell) {
        return skipped(&format!("{shell} is not installed"));
    }
    let (_, words) = complete_and_run(shell, arguments, setup, PLAIN.0);
    assert_eq!(words, "<run><zebra>", "{shell} completes plain names");
    for (typed, name) in NAMES {
        let (workspace, words) = complete_and_run(shell, arguments, setup, typed);
        assert!(!is_pwned(&workspace.path()), "{shell} executed {name:?}: {words}");
        // One word: the file, the name of its ensemble, its folder, what was typed with or without its meaning, or a comment.
        let folder = format!("{}/", name.split('/').next().unwrap_or_default());
        let home = workspace.path().join("home").display().to_string();
        let one_word = [
            *name,
            name.trim_end_matches(".yaml"),
            folder.as_str(),
            *typed,
            home.as_str(),
        ];
        let is_one_word = words == "<run>" || one_word.iter().any(|word| words == format!("<run><{word}>"));
        assert!(is_one_word, "{shell} made {words} of {name:?}");
    }
}

#[test]
fn a_name_that_tab_inserts_in_bash_is_one_word() {
    try_names("bash", &["--norc", "--noprofile", "-i"], "source ~/completions");
}

#[test]
fn a_name_that_tab_inserts_in_zsh_is_one_word() {
    let setup = "unsetopt nomatch; autoload -U compinit; compinit -u -D; source ~/completions";
    try_names("zsh", &["-f", "-i"], setup);
}

#[test]
fn a_name_that_tab_inserts_in_fish_is_one_word() {
    try_names("fish", &["--no-config", "-i"], "source ~/completions");
}
