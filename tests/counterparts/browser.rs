//! The page of `ensemble ui` in a real browser: clicks, keys, a reload in the middle, two tabs, a killed server, a long run, and axe's judgement.
//!
//! `tests/install.sh browser` installs Chromium, Playwright and axe. Without them this test says so and proves nothing.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Workspace, binary};

const MARKUP: &str = "\
name: markup
default_task: <i>go</i>
agents: [{name: writer, model_profile: m, prompt: 'Write: {{ input }}'}]
model_profiles: {m: {provider: simulated, replies: ['<img src=x onerror=alert(1)><b>bold</b>']}}
";
const GATE: &str = "\
name: gate
agents:
  - {name: editor, input: {prompt: 'Print it?', choices: ['yes', 'no']}}
  - {name: printer, script: print.rhai, depends_on: [editor]}
";
const LONG: &str = "\
name: long
conversation_limits: {max_total_turns: 10000, timeout_seconds: 600}
agents:
  - {name: one, script: n.rhai, dependencies: [{agent_name: two, feedback: true}], conversation: {max_turns: 5000}}
  - {name: two, script: n.rhai, depends_on: [one], conversation: {max_turns: 5000}}
";

/// The packages of the browser; without them it says so.
pub(super) fn modules() -> Option<PathBuf> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/browser/node_modules");
    if modules.join("playwright-core").is_dir() {
        return Some(modules);
    }
    let told = "skipped: tests/install.sh browser installs what this test needs";
    let _ = writeln!(std::io::stderr(), "{told}");
    None
}

#[test]
fn a_person_uses_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(modules) = modules() else { return };
    let workspace = Workspace::new();
    for (name, text) in [("markup", MARKUP), ("gate", GATE), ("long", LONG)] {
        workspace.write(&format!("ensembles/{name}.yaml"), text);
    }
    workspace.write("ensembles/print.rhai", "#{ printed: dependencies.editor.response }");
    workspace.write("ensembles/n.rhai", "#{ n: execution }");
    workspace
        .run(["run", "long", "--durability", "none", "-q"])
        .expect_code(0);
    workspace.run(["run", "markup"]).expect_code(0);
    let mut visit = Command::new("node");
    visit.arg(root.join("tests/browser/visit.mjs"));
    visit.args([&modules, Path::new(binary()), &workspace.path()]);
    visit.args(std::env::var_os("ENSEMBLE_PICTURES"));
    let output = visit.env("ENSEMBLE_TRUST", "1").output().expect("node starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let is = |key: &str, expected: Value| assert_eq!(seen[key], expected, "{key}: {seen:#}\n{said}");
    is("failed", Value::Null);
    is("errors", json!([]));
    is("axe", json!([]));
    is("stranger", json!("This page needs its token"));
    is("address", json!("http://127.0.0.1:PORT/#/"));
    is("listed", json!(["markup", "long"]));
    is("filtered", json!(1));
    is(
        "markup",
        json!({"row": "<img src=x onerror=alert(1)><b>bold</b>", "images": 0}),
    );
    is("prompt", json!("Write: <i>go</i>"));
    is("earlier", json!("After turn 0 of 1"));
    is("replayed", json!("The same: 2 decisions."));
    is("deep", json!("writer"));
    is("answered", json!("gate completed"));
    is("interrupted", json!("gate interrupted"));
    is("stopped", json!("gate cancelled"));
    is("ground", json!("rgb(21, 24, 28)"));
    is("wide", json!(false));
    is(
        "last",
        json!("completed; `one` reached `max_turns: 5000` while it still had work"),
    );
    assert!(
        seen["lost"]
            .as_str()
            .is_some_and(|told| told.contains("The run is not harmed")),
        "{seen:#}"
    );
    assert!(seen["rows"].as_u64().is_some_and(|rows| rows < 100), "{seen:#}");
    // A machine that others use too: a few times what `docs/performance.md` tells.
    assert!(seen["opened"].as_u64().is_some_and(|opened| opened < 8000), "{seen:#}");
}

const BAD: &str = "\
name: bad
agents:
  - {name: fetch, script: fetch.rhai}
  - {name: parse, script: parse.rhai, depends_on: [fetch], retry: {max_attempts: 2, delay_seconds: 0}}
  - {name: report, script: fetch.rhai, depends_on: [parse]}
";
const SHAPED: &str = "\
name: shaped
agents: [{name: fetch, script: fetch.rhai}]
result: {first: 'outputs.fetch.rows[0]'}
";
const ASKED: &str = "\
name: asked
inputs: {topic: {type: string}, rounds: {type: integer, maximum: 5}}
agents: [{name: fetch, script: fetch.rhai}]
";

#[test]
fn a_person_sees_what_happened_and_what_to_do_next() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(modules) = modules() else { return };
    let workspace = Workspace::new();
    for (name, text) in [("bad", BAD), ("shaped", SHAPED), ("asked", ASKED), ("gate", GATE)] {
        workspace.write(&format!("ensembles/{name}.yaml"), text);
    }
    workspace.write("ensembles/fetch.rhai", "#{ rows: [\"r1\", \"r2\"], total: 2 }");
    workspace.write("ensembles/parse.rhai", "throw \"the column is missing\"");
    workspace.write("ensembles/print.rhai", "#{ printed: dependencies.editor.response }");
    workspace.write(
        "rows.jsonl",
        "{\"topic\": \"a\", \"rounds\": 1}\n{\"topic\": \"b\", \"rounds\": 2}\n",
    );
    workspace.run(["run", "bad", "-q"]).expect_code(1);
    workspace.run(["run", "shaped", "-q"]).expect_code(0);
    workspace.run(["batch", "asked", "--data", "rows.jsonl"]).expect_code(0);
    let mut visit = Command::new("node");
    visit.arg(root.join("tests/browser/facts.mjs"));
    visit.args([&modules, Path::new(binary()), &workspace.path()]);
    visit.args(std::env::var_os("ENSEMBLE_PICTURES"));
    let output = visit.env("ENSEMBLE_TRUST", "1").output().expect("node starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let is = |key: &str, expected: Value| assert_eq!(seen[key], expected, "{key}: {seen:#}\n{said}");
    is("failed", Value::Null);
    is("errors", json!([]));
    is("axe", json!([]));
    is("failed_runs", json!("1 of 2 runs"));
    is("shaped_runs", json!("1 of 2 runs"));
    let batch = seen["batch"].as_str().unwrap_or_default();
    assert!(batch.contains("2 completed"), "{batch}");
    is("batch_rows", json!(3));
    is("result", json!("Result first r1"));
    is("structured", json!("rows [ \"r1\", \"r2\" ] total 2"));
    let failure = seen["failure"].as_str().unwrap_or_default();
    assert_eq!(failure.matches("the column is missing").count(), 1, "{failure}");
    assert!(
        failure.starts_with("parse failed in turn 2 after 2 attempts"),
        "{failure}"
    );
    is("first", json!("Retry from the failure"));
    is("message_is_hidden", json!(true));
    is("attempts", json!(["attempt 1 failed", "attempt 2 failed"]));
    is("never", json!(""));
    for key in ["zoomed", "fitted", "focused"] {
        is(key, json!(true));
    }
    is("retried", json!("Output of report"));
    let fields = seen["field_errors"].as_array().expect("two fields");
    assert!(
        fields[0]
            .as_str()
            .is_some_and(|told| told.contains("`topic` is missing")),
        "{fields:?}"
    );
    assert!(
        fields[1]
            .as_str()
            .is_some_and(|told| told.contains("`rounds` does not match")),
        "{fields:?}"
    );
    is("waiting", json!("gate waiting"));
    let row = seen["asking_row"].as_str().unwrap_or_default();
    assert!(row.starts_with("waits for you"), "{row}");
    is("asking_node", json!("waits for an answer"));
    is("ticking", json!(0));
    is("wide", json!([false, false]));
}

const STEPS: &str = "\
name: steps
conversation_limits: {timeout_seconds: 300}
agents:
  - {name: first, input: {prompt: 'First?', choices: [go on]}}
  - {name: second, script: n.rhai, depends_on: [first]}
  - {name: third, input: {prompt: 'Third?', choices: [go on]}, depends_on: [second]}
  - {name: fourth, script: n.rhai, depends_on: [third]}
  - {name: fifth, input: {prompt: 'Fifth?', choices: [go on]}, depends_on: [fourth]}
  - {name: last, script: n.rhai, depends_on: [fifth]}
";
const INNER: &str = "\
name: inner
agents: [{name: gate, input: {prompt: 'Pay?', choices: ['yes', 'no']}}]
";
const MANY: &str = "\
name: many
agents:
  - {name: noisy, script: 'echo a note >&2; echo done'}
  - {name: each, script: n.rhai, depends_on: [noisy], for_each: {in: ['red', 'blue'], key: item}}
";
const SLOW: &str = "\
name: slow
agents:
  - {name: fetch, script: n.rhai}
  - {name: work, script: 'tail -f /dev/null', depends_on: [fetch]}
";

#[test]
fn a_person_uses_the_views_with_mouse_and_keyboard_in_wide_and_narrow_windows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(modules) = modules() else { return };
    let workspace = Workspace::new();
    for (name, text) in [
        ("steps", STEPS),
        ("inner", INNER),
        ("slow", SLOW),
        ("many", MANY),
        ("gate", GATE),
    ] {
        workspace.write(&format!("ensembles/{name}.yaml"), text);
    }
    workspace.write(
        "ensembles/outer.yaml",
        "name: outer\nagents: [{name: inner, ensemble: inner}]\n",
    );
    workspace.write("ensembles/n.rhai", "#{ n: execution }");
    workspace.write("ensembles/print.rhai", "#{ printed: dependencies.editor.response }");
    workspace.write("rows.jsonl", "{\"input\": \"a\"}\n{\"input\": \"b\"}\n");
    workspace.run(["batch", "gate", "--data", "rows.jsonl"]).expect_code(3);
    workspace.run(["run", "many", "-q"]).expect_code(0);
    let mut visit = Command::new("node");
    visit.arg(root.join("tests/browser/views.mjs"));
    visit.args([&modules, Path::new(binary()), &workspace.path()]);
    visit.args(std::env::var_os("ENSEMBLE_PICTURES"));
    let output = visit.env("ENSEMBLE_TRUST", "1").output().expect("node starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let is = |key: &str, expected: Value| assert_eq!(seen[key], expected, "{key}: {seen:#}\n{said}");
    is("failed", Value::Null);
    is("errors", json!([]));
    is("axe", json!([]));
    is("wide", json!([]));
    for key in ["wheel", "drag", "stayed", "moved_by_key", "fitted"] {
        is(key, json!(true));
    }
    is("opened_by_drag", json!(false));
    is("followed", json!([true, false]));
    is("kept_name", json!("Ada"));
    let answered = seen["answered"].as_str().unwrap_or_default();
    assert!(
        answered.starts_with("answered “go on” by the page (Ada) · ") && answered.ends_with("choices: go on"),
        "{answered}"
    );
    is("execution_by_key", json!("first"));
    is("shared", json!(1));
    is("inside", json!(1));
    let parts = seen["parts"].as_array().expect("parts");
    assert!(
        parts[0].as_str().is_some_and(|part| part.starts_with("red done")),
        "{parts:?}"
    );
    assert_eq!((parts.len(), &seen["stderr"]), (2, &json!("a note\n")));
    is("turn", json!("in turn 2 · 1 execution ended"));
    is("live_buttons", json!(["Continue after turn 1"]));
    let label = seen["labels"].as_str().unwrap_or_default();
    assert!(label.starts_with("\"Standing\""), "{label}");
    is("light", json!("rgb(255, 255, 255)"));
    is("dark", json!("rgb(21, 24, 28)"));
}
