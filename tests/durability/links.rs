//! Links and other files that are none, in the folder where runs are recorded: nothing is read or written through them.

#![expect(clippy::disallowed_methods, reason = "tests make files")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Outcome, Workspace};

const ENSEMBLE: &str = "
name: links
agents:
  - {name: guest, input: Tea?}
  - {name: large, script: large.rhai, depends_on: [guest]}
  - {name: team, ensemble: team.yaml, depends_on: [guest]}
";

const PRECIOUS: &str = "this file belongs to somebody else\n";

/// A run that waits for an answer; its folder.
fn waiting() -> (Workspace, PathBuf) {
    let workspace = Workspace::new();
    workspace.write("links.yaml", ENSEMBLE);
    workspace.write("team.yaml", "name: team\nagents: [{name: one, script: one.rhai}]\n");
    workspace.write("one.rhai", "#{ one: 1 }");
    workspace.write(
        "large.rhai",
        "let text = \"\"; text.pad(70000, 'x'); #{ content: text }",
    );
    workspace.run(["run", "links.yaml"]).expect_code(3);
    let run = workspace.runs().remove(0);
    (workspace, run)
}

fn resume(workspace: &Workspace, run: &Path) -> Outcome {
    let id = run.file_name().expect("a name").to_string_lossy().into_owned();
    workspace.run(["resume", &id, "--answer", "guest=yes"])
}

/// The name of the file in which the large output is stored.
fn blob() -> String {
    let (workspace, run) = waiting();
    resume(&workspace, &run).expect_code(0);
    let mut blobs = std::fs::read_dir(run.join("blobs")).expect("a folder");
    let blob = blobs.next().expect("a file").expect("a file");
    blob.file_name().into_string().expect("digits")
}

#[test]
fn what_a_link_names_is_never_written() {
    let unfinished = format!("blobs/{}.part", blob());
    let copy = "sub/team-1-1/ensemble.yaml";
    // The code with which the run ends, and whether the link is named.
    let table = [
        ("lock", 1, true),
        ("journal.jsonl", 2, false),
        ("ensemble.yaml", 1, true),
        (&unfinished, 0, false),
        (copy, 0, false),
        ("sub/team-1-1/journal.jsonl", 1, false),
    ];
    for (name, code, is_named) in table {
        let (workspace, run) = waiting();
        let link = run.join(name);
        std::fs::create_dir_all(link.parent().expect("a folder")).expect("made");
        let content = std::fs::read_to_string(&link).unwrap_or(PRECIOUS.to_owned());
        let precious = workspace.write("precious", &content);
        let _ = std::fs::remove_file(&link);
        symlink(&precious, &link).expect("a link");
        let resumed = resume(&workspace, &run);
        assert_eq!(workspace.read("precious"), content, "{name}");
        assert_eq!(resumed.code, code, "{name}: {}{}", resumed.stdout, resumed.stderr);
        let told = format!("{}{}", resumed.stdout, resumed.stderr);
        assert_eq!(told.contains("is a symbolic link"), is_named, "{name}: {told}");
    }
}

#[test]
fn a_folder_that_is_a_link_stays_empty() {
    for name in ["blobs", "sub", "sub/team-1-1"] {
        let (workspace, run) = waiting();
        let elsewhere = workspace.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).expect("made");
        let link = run.join(name);
        std::fs::create_dir_all(link.parent().expect("a folder")).expect("made");
        symlink(&elsewhere, &link).expect("a link");
        let resumed = resume(&workspace, &run).expect_code(1);
        let told = format!("{}{}", resumed.stdout, resumed.stderr);
        assert!(told.contains("is a symbolic link"), "{name}: {told}");
        let entries = std::fs::read_dir(&elsewhere).expect("a folder").count();
        assert_eq!(entries, 0, "{name}");
    }
}

#[test]
fn the_folder_of_runs_is_not_a_link() {
    for name in [".ensemble", ".ensemble/runs"] {
        let (workspace, _) = waiting();
        let (folder, elsewhere) = (workspace.path().join(name), workspace.path().join("elsewhere"));
        std::fs::rename(&folder, &elsewhere).expect("moved");
        symlink(&elsewhere, &folder).expect("a link");
        for words in [
            &["run", "links.yaml"][..],
            &["runs", "list"],
            &["resume", "--last"],
            &["runs", "prune", "--keep", "1"],
        ] {
            let told = workspace.run(words);
            assert_ne!(told.code, 0, "{name} {words:?}");
            let named = format!("{} is a symbolic link", folder.display());
            assert!(told.stderr.contains(&named), "{name} {words:?}: {}", told.stderr);
        }
    }
    // A link that names no file yet.
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: a\nagents: [{name: it, script: it.rhai}]\n");
    workspace.write("it.rhai", "#{}");
    std::fs::create_dir_all(workspace.path().join(".ensemble/runs")).expect("made");
    let made = workspace.path().join("made");
    symlink(&made, workspace.path().join(".ensemble/runs/.gitignore")).expect("a link");
    workspace.run(["run", "a.yaml"]).expect_code(0);
    assert!(!made.exists());
}

#[test]
fn a_pipe_in_place_of_a_file_is_an_error_and_nobody_waits_for_it() {
    for (name, code) in [("lock", 1), ("ensemble.yaml", 1), ("journal.jsonl", 2)] {
        let (workspace, run) = waiting();
        let path = run.join(name);
        std::fs::remove_file(&path).expect("removed");
        assert!(Command::new("mkfifo").arg(&path).status().expect("a program").success());
        let told = resume(&workspace, &run).expect_code(code).stderr;
        assert!(code == 2 || told.contains("neither a regular file"), "{name}: {told}");
    }
}

#[test]
fn removing_a_link_removes_the_link() {
    let (workspace, run) = waiting();
    let elsewhere = workspace.path().join("elsewhere");
    std::fs::rename(&run, &elsewhere).expect("moved");
    let runs = workspace.path().join(".ensemble/runs");
    let is_whole = || {
        ["lock", "journal.jsonl", "ensemble.yaml"]
            .iter()
            .all(|name| elsewhere.join(name).is_file())
    };
    // By its name, by its path, with a slash at its end, and from another folder.
    for (link, given) in [
        (runs.join("link"), "link"),
        (runs.join("link"), ".ensemble/runs/link"),
        (runs.join("link"), ".ensemble/runs/link/"),
        (workspace.path().join("here"), "here"),
        (workspace.path().join("here"), "./here/"),
    ] {
        symlink(&elsewhere, &link).expect("a link");
        let listed = workspace.run(["runs", "list"]).expect_code(0).stdout;
        assert_eq!(listed, "", "a link is no run");
        let told = workspace.run(["runs", "rm", given]).expect_code(0).stderr;
        assert!(told.contains("which was a symbolic link"), "{given}: {told}");
        assert!(!link.is_symlink(), "{given}");
        assert!(is_whole(), "{given}");
    }
    // A link that has nothing to do with runs is left alone.
    let other = workspace.path().join("other");
    symlink(workspace.path(), &other).expect("a link");
    workspace.run(["runs", "rm", "other"]).expect_code(2);
    assert!(other.is_symlink());
}

#[test]
fn removing_through_a_link_removes_nothing() {
    let (other, run) = waiting();
    let name = run.file_name().expect("a name").to_string_lossy().into_owned();
    let workspace = Workspace::new();
    for (link, target) in [
        ("project", other.path()),
        ("runs", other.path().join(".ensemble/runs")),
        ("run", run.clone()),
    ] {
        symlink(target, workspace.path().join(link)).expect("a link");
    }
    for given in [
        format!("project/.ensemble/runs/{name}"),
        format!("./project/.ensemble/runs/{name}/journal.jsonl"),
        format!("runs/{name}"),
        format!("runs/{name}/"),
        format!("runs/../runs/{name}"),
        "run/journal.jsonl".to_owned(),
        workspace.path().join("runs").join(&name).display().to_string(),
    ] {
        let told = workspace.run(["runs", "rm", &given]).expect_code(2).stderr;
        assert!(told.contains("leads through the symbolic link"), "{given}: {told}");
        assert!(run.join("journal.jsonl").is_file(), "{given}");
    }
}
