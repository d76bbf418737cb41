//! Files and folders of other users: they are not used. Only root can make such files, so these tests need root.

#![expect(clippy::disallowed_methods, reason = "tests change owners of files")]

use std::process::Command;

use crate::support::Workspace;

/// A user who is neither the one of the test nor root.
const STRANGER: u32 = 54_321;

/// Gives the file or folder, with all in it, to the stranger; `false` where that cannot be done.
fn given_away(workspace: &Workspace, name: &str) -> bool {
    let path = workspace.path().join(name);
    let changed = Command::new("chown")
        .args(["-R", &STRANGER.to_string()])
        .arg(path)
        .output();
    let is_changed = changed.is_ok_and(|output| output.status.success());
    if !is_changed {
        eprintln!("skipped: only root can give files away");
    }
    is_changed
}

#[test]
fn a_configuration_of_somebody_else_is_left_alone() {
    let workspace = Workspace::new();
    let config = "model_profiles: {fast: {provider: simulated, replies: [x]}}\n";
    workspace.write("shared/.ensemble/config.yaml", config);
    workspace.write("shared/mine/empty", "");
    let list = |folder: &str| workspace.wary(["-C", folder, "models", "list"], &[]).expect_code(0);
    assert!(list("shared/mine").stdout.contains("fast"));
    if !given_away(&workspace, "shared/.ensemble/config.yaml") {
        return;
    }
    for name in ["shared/.ensemble/config.yaml", "shared/.ensemble"] {
        assert!(given_away(&workspace, name));
        let told = list("shared/mine");
        assert_eq!(told.stdout, "");
        assert!(
            told.stderr
                .contains(&format!("{name} belongs to the user 54321, not to you")),
            "{told:?}"
        );
        assert!(told.stderr.contains("chown"), "{told:?}");
    }
    let told = workspace
        .wary(["-C", "shared/mine", "models", "list", "--trust"], &[])
        .expect_code(0);
    assert!(told.stdout.contains("fast"), "{told:?}");
    // The search does not enter a folder of somebody else.
    workspace.write("theirs/.ensemble/config.yaml", config);
    workspace.write("theirs/mine/empty", "");
    let folder = workspace.path().join("theirs");
    std::os::unix::fs::chown(&folder, Some(STRANGER), None).expect("root may do it");
    let told = list("theirs/mine");
    assert_eq!(
        (told.stdout.as_str(), told.stderr.contains("belongs to")),
        ("", false),
        "{told:?}"
    );
}

#[test]
fn an_ensemble_of_somebody_else_is_not_run() {
    let workspace = Workspace::new();
    workspace.write("theirs/one.yaml", "name: one\nagents: [{name: a, script: one.sh}]\n");
    workspace.script("theirs/one.sh", "touch ran");
    if !given_away(&workspace, "theirs/one.yaml") {
        return;
    }
    let refused = |arguments: &[&str]| {
        let told = workspace.wary(arguments, &[]).expect_code(2);
        assert!(
            told.stderr.contains("belongs to the user 54321, not to you"),
            "{told:?}"
        );
    };
    refused(&["run", "theirs/one.yaml"]);
    refused(&["trust", "theirs/one.yaml"]);
    let file = workspace.path().join("theirs/one.yaml");
    std::os::unix::fs::chown(&file, Some(0), None).expect("root may do it");
    std::os::unix::fs::chown(workspace.path().join("theirs"), Some(STRANGER), None).expect("root may do it");
    refused(&["run", "theirs/one.yaml"]);
    assert!(!workspace.path().join("ran").exists() && workspace.runs().is_empty());
    workspace.wary(["validate", "theirs/one.yaml"], &[]).expect_code(0);
    workspace
        .wary(["run", "theirs/one.yaml", "--trust"], &[])
        .expect_code(0);
}
