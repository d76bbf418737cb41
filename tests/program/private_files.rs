//! Files that hold what was said are for the user alone.

#![expect(clippy::disallowed_methods, reason = "tests look at files and start programs")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::Workspace;
use crate::support::server::{Server, says};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// The folder, and everything in it.
fn all(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok) {
        match entry.path() {
            inner if inner.is_dir() => found.extend(all(&inner)),
            file => found.push(file),
        }
    }
    found
}

/// A run with an inner run, a large output and a cache, in a process that creates files for everybody.
fn spoken() -> Workspace {
    let server = Server::with(vec![says("A secret.")]);
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents:\n  - {{name: talker, model_profile: m, prompt: Say.}}\n  - {{name: deep, ensemble: inner.yaml}}\n  - \
             {{name: large, script: large.rhai}}\nmodel_profiles:\n  m: {{provider: openai, model: x, base_url: '{}'}}\n",
            server.url()
        ),
    );
    workspace.write(
        "inner.yaml",
        "name: inner\nagents:\n  - {name: large, script: large.rhai}\n",
    );
    workspace.write(
        "large.rhai",
        "let text = \"0123456789\"; for n in 0..13 { text += text; } text",
    );
    let program = crate::support::binary();
    let run = workspace.script(
        "run.sh",
        &format!("#!/bin/sh\numask 022\nexec {program} run a.yaml --cache kept/replies -q\n"),
    );
    let mut command = std::process::Command::new(run);
    let ended = command.current_dir(workspace.path()).output().expect("it starts");
    assert!(ended.status.success(), "{ended:?}");
    workspace
}

#[test]
fn a_run_and_a_cache_are_for_the_user_alone() {
    let workspace = spoken();
    let cached = all(&workspace.path().join("kept"));
    let files = || cached.iter().filter(|path| path.is_file());
    assert_eq!(files().count(), 1, "{cached:?}");
    let runs = all(&workspace.path().join(".ensemble"));
    let has = |name: &str| runs.iter().any(|path| path.to_string_lossy().contains(name));
    assert!(has("/blobs/") && has("/sub/"), "{runs:?}");
    for path in cached.iter().chain(&runs) {
        let expected = match path.is_dir() {
            true => 0o700,
            false => 0o600,
        };
        // Two files that hold nothing that was said.
        let is_plain = path.ends_with(".gitignore") || path.ends_with("lock");
        assert!(is_plain || mode(path) == expected, "{path:?}: {:o}", mode(path));
    }
}

#[test]
fn an_export_is_for_the_user_alone_unless_its_file_was_there() {
    let workspace = spoken();
    let export = |form: &str, file: &str| {
        let program = crate::support::binary();
        let line = format!("umask 022; exec {program} runs export --last --output {form} -o {file}");
        let mut command = std::process::Command::new("sh");
        let ended = command.args(["-c", &line]).current_dir(workspace.path()).output();
        assert!(ended.expect("it starts").status.success(), "{line}");
        mode(&workspace.path().join(file))
    };
    for (form, file) in [("json", "a.json"), ("markdown", "a.md"), ("html", "a.html")] {
        assert_eq!(export(form, file), 0o600, "{file}");
    }
    let shared = workspace.write("shared.html", "before");
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o644)).expect("modes can be set");
    assert_eq!(export("html", "shared.html"), 0o644, "its owner has decided");
    assert!(workspace.read("shared.html").contains("0123456789"));
}
