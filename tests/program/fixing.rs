//! `validate --fix`, `--unsafe-fixes` and `--diff` through the binary.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::Workspace;

const WRONG: &str =
    "name: e\nagents:\n  - {name: writer, Script: w.rhai} # kept\n  - {name: b, script: w.rhai, depends_on: [writr]}\n";

fn workspace(text: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("w.rhai", "1");
    workspace.write("e.yaml", text);
    workspace
}

fn read(workspace: &Workspace, name: &str) -> String {
    std::fs::read_to_string(workspace.path().join(name)).expect("a text")
}

#[test]
fn safe_fixes_are_written_and_the_rest_is_reported() {
    let workspace = workspace(WRONG);
    let before = workspace.run(["validate", "e.yaml"]).expect_code(2);
    let last = "; `--fix` can fix 1, with `--unsafe-fixes` 2\n";
    assert!(before.stderr.ends_with(last), "{}", before.stderr);
    let outcome = workspace.run(["validate", "e.yaml", "--fix"]).expect_code(2);
    assert_eq!(read(&workspace, "e.yaml"), WRONG.replace("Script", "script"));
    assert!(outcome.stdout.contains("error[E021]"), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains("= fix: write `writer` (unsafe)"),
        "{}",
        outcome.stdout
    );
    assert!(!outcome.stdout.contains("E010"), "{}", outcome.stdout);
    assert_eq!(
        outcome.stderr,
        "1 file checked: 1 error, 0 warnings, 0 hints; 1 finding fixed in 1 file\n"
    );
    let outcome = workspace
        .run(["validate", "e.yaml", "--fix", "--unsafe-fixes"])
        .expect_code(0);
    assert_eq!(
        read(&workspace, "e.yaml"),
        WRONG.replace("Script", "script").replace("writr", "writer")
    );
    assert_eq!(
        outcome.stderr,
        "1 file checked: 0 errors, 0 warnings, 0 hints; 1 finding fixed in 1 file\n"
    );
    workspace
        .run(["validate", "e.yaml", "--fix", "--unsafe-fixes"])
        .expect_code(0);
    let alone = workspace.run(["validate", "e.yaml", "--unsafe-fixes"]).expect_code(2);
    assert!(alone.stderr.contains("add `--fix`"), "{}", alone.stderr);
}

#[test]
fn differences_are_shown_and_nothing_is_written() {
    let workspace = workspace(WRONG);
    let outcome = workspace.run(["validate", "e.yaml", "--diff"]).expect_code(1);
    assert_eq!(read(&workspace, "e.yaml"), WRONG);
    for line in [
        "--- e.yaml\n+++ e.yaml\n",
        "-  - {name: writer, Script: w.rhai} # kept\n+  - {name: writer, script: w.rhai} # kept\n",
    ] {
        assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains("error["), "{}", outcome.stdout);
    workspace.write("e.yaml", WRONG.replace("Script", "script"));
    let nothing = workspace.run(["validate", "e.yaml", "--diff"]).expect_code(0);
    assert_eq!(nothing.stdout, "");
    let more = workspace
        .run(["validate", "e.yaml", "--diff", "--unsafe-fixes"])
        .expect_code(1);
    assert!(more.stdout.contains("depends_on: [writer]}"), "{}", more.stdout);
}

#[test]
fn layout_links_and_permissions_are_kept() {
    let text = format!("\u{feff}{}", WRONG.replace('\n', "\r\n"));
    let workspace = workspace(&text);
    let path = |name: &str| workspace.path().join(name);
    std::fs::set_permissions(path("e.yaml"), PermissionsExt::from_mode(0o640)).expect("a mode");
    symlink("e.yaml", path("link.yaml")).expect("a link");
    workspace.run(["validate", "link.yaml", "--fix"]).expect_code(2);
    assert_eq!(read(&workspace, "e.yaml"), text.replace("Script", "script"));
    assert!(path("link.yaml").symlink_metadata().expect("data").is_symlink());
    let mode = path("e.yaml").metadata().expect("data").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let names = std::fs::read_dir(workspace.path()).expect("a folder");
    let left = names.filter(|name| {
        let name = name.as_ref().expect("a name").file_name();
        name.to_string_lossy().ends_with(".fix")
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn a_file_that_is_read_only_is_not_written() {
    let workspace = workspace(WRONG);
    let path = workspace.path().join("e.yaml");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).expect("a mode");
    let outcome = workspace.run(["validate", "e.yaml", "--fix"]).expect_code(2);
    assert!(outcome.stderr.contains("e.yaml: it is read-only"), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("error[E010]"),
        "what is still wrong: {}",
        outcome.stdout
    );
    assert_eq!(read(&workspace, "e.yaml"), WRONG);
}

#[test]
fn a_text_from_standard_input_is_printed() {
    let workspace = workspace("");
    let outcome = workspace
        .run_with_stdin(["validate", "-", "--fix"], WRONG)
        .expect_code(2);
    assert_eq!(outcome.stdout, WRONG.replace("Script", "script"));
    assert!(outcome.stderr.contains("error[E021]"), "{}", outcome.stderr);
    let sound = "name: e\nagents: [{name: a, script: w.rhai}]\n";
    let outcome = workspace
        .run_with_stdin(["validate", "-", "--fix"], sound)
        .expect_code(0);
    assert_eq!(outcome.stdout, sound);
}

#[test]
fn what_cannot_be_read_is_a_finding_in_every_format() {
    let workspace = workspace("name: e\nagents: [{name: a, script: w.rhai}]\n");
    workspace.write("e/latin.yaml", b"name: \xff\n");
    workspace.write("e/sound.yaml", "name: e\nagents: [{name: a, script: ../w.rhai}]\n");
    workspace.write("e/.ensemble/config.yaml", "model_profiles: [\n");
    for format in ["human", "json", "github", "sarif", "junit"] {
        let outcome = workspace.run(["validate", "e", "--format", format]).expect_code(2);
        for part in ["E076", "latin.yaml", "it is not UTF-8", "E001", "config.yaml"] {
            assert!(outcome.stdout.contains(part), "{format}: {part}: {}", outcome.stdout);
        }
    }
}
