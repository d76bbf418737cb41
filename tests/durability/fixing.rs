//! `validate --fix` that cannot write a whole file.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::process::Command;

use crate::support::{Workspace, binary};

/// A file of more than 2,048 bytes with one misspelt key in each agent.
fn text(key: &str) -> String {
    let agents = (0..60).map(|at| format!("  - {{name: a{at}, {key}: w.rhai}} # kept\n"));
    format!("name: e\nagents:\n{}", agents.collect::<String>())
}

#[test]
fn a_fix_that_ends_at_any_block_leaves_the_file_as_it_was() {
    let (before, after) = (text("scrpt"), text("script"));
    for blocks in 0..5 {
        let workspace = Workspace::new();
        workspace.write("w.rhai", "1");
        workspace.write("e.yaml", &before);
        // The system refuses the first byte after so many blocks of 512 bytes.
        let refused = Command::new("sh")
            .args([
                "-c",
                &format!("ulimit -f {blocks}; \"$0\" validate --fix --unsafe-fixes ."),
            ])
            .arg(binary())
            .current_dir(workspace.path())
            .output()
            .expect("the shell starts");
        assert_eq!(refused.status.code(), Some(2), "{blocks} blocks");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("the file was not changed"), "{blocks} blocks: {said}");
        assert!(workspace.read("e.yaml") == before, "{blocks} blocks");
        let names: Vec<_> = std::fs::read_dir(workspace.path()).expect("a folder").collect();
        assert_eq!(names.len(), 2, "{names:?}");
        workspace
            .run(["validate", "--fix", "--unsafe-fixes", "."])
            .expect_code(0);
        assert!(workspace.read("e.yaml") == after, "{blocks} blocks");
    }
}
