//! `import` of a folder.

use crate::support::Workspace;

fn project() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("old/one.yaml", "name: one\nagents:\n  - {name: a, script: echo a}\n");
    workspace.write(
        "old/deep/two.yml",
        "name: two\nagents:\n  - {name: b, script: echo b, mood: calm}\n",
    );
    workspace.write(
        "old/deep/uses.yaml",
        "name: uses\nagents:\n  - {name: c, ensemble: ./inner.yaml}\n",
    );
    workspace.write(
        "old/deep/inner.yaml",
        "name: inner\nagents:\n  - {name: d, script: echo d}\n",
    );
    workspace.write("old/other.yaml", "name: a workflow of another program\n");
    workspace.write("old/notes.txt", "mine\n");
    workspace.write(
        "old/.hidden/three.yaml",
        "name: three\nagents:\n  - {name: a, script: echo a}\n",
    );
    workspace
}

#[test]
fn sub_folders_are_kept_and_other_files_left_alone() {
    let workspace = project();
    let imported = workspace.run(["import", "old", "-o", "new"]).expect_code(1);
    assert_eq!(
        imported.stdout,
        "wrote new/deep/inner.yaml\nwrote new/deep/two.yml\nwrote new/deep/uses.yaml\nwrote new/one.yaml\n\
         4 files imported, 1 of them with things to check; 2 files skipped: no ensembles\n"
    );
    assert!(
        imported.stderr.contains("warning: `mood` is not converted")
            && imported.stderr.contains("--> old/deep/two.yml:3:31")
            && !imported.stderr.contains("there is no ensemble"),
        "{}",
        imported.stderr
    );
    for file in ["new/one.yaml", "new/deep/two.yml", "new/deep/uses.yaml"] {
        workspace.run(["validate", file]).expect_code(0);
    }
    assert!(!workspace.path().join("new/.hidden").exists());
    assert!(!workspace.path().join("new/other.yaml").exists());
}

#[test]
fn nothing_is_written_if_one_file_would_be_overwritten() {
    let workspace = project();
    workspace.write("new/one.yaml", "mine\n");
    let refused = workspace.run(["import", "old", "-o", "new"]).expect_code(2);
    assert!(
        refused
            .stderr
            .contains("nothing was written, because these files exist: new/one.yaml"),
        "{}",
        refused.stderr
    );
    assert_eq!(workspace.read("new/one.yaml"), "mine\n");
    assert!(!workspace.path().join("new/deep").exists());
    workspace.run(["import", "old", "-o", "new", "--force"]).expect_code(1);
    assert!(workspace.read("new/one.yaml").starts_with("name: one\n"));
}

#[test]
fn a_broken_file_does_not_stop_the_others() {
    let workspace = Workspace::new();
    workspace.write("old/good.yaml", "name: good\nagents:\n  - {name: a, script: echo a}\n");
    workspace.write("old/bad.yaml", "agents:\n  - name: [\n");
    let imported = workspace.run(["import", "old", "-o", "new"]).expect_code(1);
    assert_eq!(
        imported.stdout,
        "wrote new/good.yaml\n1 file imported; 1 file not imported\n"
    );
    assert!(imported.stderr.contains("error[E001]"), "{}", imported.stderr);
}

#[test]
fn a_folder_needs_a_folder_to_go_to() {
    let workspace = project();
    let refused = workspace.run(["import", "old"]).expect_code(2);
    assert!(refused.stderr.contains("-o FOLDER"), "{}", refused.stderr);
    workspace.write("file", "mine\n");
    workspace.run(["import", "old", "-o", "file"]).expect_code(2);
    workspace.write("empty/notes.txt", "mine\n");
    let refused = workspace.run(["import", "empty", "-o", "new"]).expect_code(2);
    assert!(refused.stderr.contains("no ensemble in empty"), "{}", refused.stderr);
}
