//! `ensemble lsp` with a client that is not ours: pygls, whose types are generated from the protocol's own model.
//!
//! `tests/install.sh lsp` installs it. Without it this test says so and proves nothing.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Workspace, binary};

const TEXT: &str = "\
name: review
agents:
  - name: writer
    script: writer.rhai
    on_error: continue
  - name: reviewer
    script: reviewer.rhai
    dependencies:
      - {agent_name: writer, condition: output.done}
  - name: reader
    script: writer.rhai
    depends_on: [writer]
";

#[test]
fn a_published_client_is_served() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let site = project.join("target/lsp/site");
    if !site.with_file_name("requirements.txt").is_file() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: tests/install.sh lsp installs what this test needs"
        );
        return;
    }
    let workspace = Workspace::new();
    workspace.write("a.yaml", TEXT);
    workspace.write("writer.rhai", "#{ done: true }");
    workspace.write("reviewer.rhai", "#{ ok: dependencies.writer.done }");
    let output = Command::new("python3")
        .arg(project.join("tests/lsp/client.py"))
        .args([site.as_path(), Path::new(binary()), &workspace.path()])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let is = |key: &str, expected: Value| assert_eq!(told[key], expected, "{key}: {told:#}\n{said}");
    is("name", json!("ensemble"));
    is("encoding", json!("utf-16"));
    is("registered", json!(["workspace/didChangeWatchedFiles"]));
    is("opened", json!([]));
    is("changed", json!([["W013", "Warning"]]));
    let hover = told["hover"].as_str().expect("a text");
    assert!(hover.contains("the script `writer.rhai`"), "{hover}");
    is("offered", json!(["fail", "continue", "stop"]));
    is("definition", json!(2));
    is("references", json!(3));
    is("highlights", json!(["Write", "Read", "Read"]));
    is("prepared", json!("writer"));
    is("renamed", json!({"a.yaml": 3, "reviewer.rhai": 1}));
    is("graph", json!("digraph \"review\" {"));
    let refused = told["refused"].as_str().expect("a text");
    assert!(
        refused.contains("an agent `reviewer` already exists; choose another name"),
        "{refused}"
    );
    is("symbols", json!(["writer", "reviewer", "reader"]));
    is("closed", json!([]));
    is("code", json!(0));
    is("errors", json!([]));
}
