//! `ensemble mcp` with clients that are not ours: the official Python SDK, the inspector, and the official conformance suite.
//!
//! `tests/install.sh mcp_clients` and `tests/install.sh mcp_python` install them. Without them these tests say so and prove nothing.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::{Workspace, binary};

const TOKEN: &str = "0123456789abcdef";
const GATE: &str = "\
name: gate
inputs: {topic: {type: string}}
agents:
  - {name: writer, script: echo a text}
  - {name: editor, input: {prompt: 'Print {{ writer }}?', choices: ['yes', 'no']}, depends_on: [writer]}
result: editor
";

/// What the suite wants of a server and this server does not have, each with the reason.
const EXPECTED: [(&str, &str); 19] = [
    (
        "logging-set-level",
        "no log messages: progress and standard error tell what happens",
    ),
    ("tools-call-image", "a result is one JSON document"),
    ("tools-call-audio", "a result is one JSON document"),
    ("tools-call-embedded-resource", "a result is one JSON document"),
    ("tools-call-mixed-content", "a result is one JSON document"),
    ("tools-call-with-logging", "no log messages"),
    (
        "tools-call-sampling",
        "models of ensembles are those of their profiles, never the client's",
    ),
    (
        "json-schema-2020-12",
        "wants a fixed tool with `$defs`; the schema of each input stands alone",
    ),
    (
        "elicitation-sep1034-defaults",
        "wants a form with five kinds of fields; a question has one answer",
    ),
    (
        "elicitation-sep1330-enums",
        "wants a form with five kinds of choices; a question has one answer",
    ),
    ("resources-read-text", "no resources"),
    ("resources-read-binary", "no resources"),
    ("resources-templates-read", "no resources"),
    ("resources-subscribe", "no resources"),
    ("resources-unsubscribe", "no resources"),
    ("prompts-get-simple", "no prompts"),
    ("prompts-get-with-args", "no prompts"),
    ("prompts-get-embedded-resource", "no prompts"),
    ("prompts-get-with-image", "no prompts"),
];

/// A process that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

fn skip(what: &str) {
    // Past the test harness, which would swallow it.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: tests/install.sh {what} installs what this test needs"
    );
}

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program of the npm packages, if they are installed.
fn package(path: &str) -> Option<PathBuf> {
    // The program stands in target/<profile>/.
    let target = Path::new(binary()).ancestors().nth(2)?;
    let found = target.join("mcp_clients/node_modules/@modelcontextprotocol").join(path);
    let has_node = Command::new("node").arg("--version").output().is_ok();
    if !found.is_file() || !has_node {
        skip("mcp_clients");
        return None;
    }
    Some(found)
}

/// A server over HTTP, and its address.
fn serve(workspace: &Workspace) -> (Served, String) {
    let mut command = workspace.command(["mcp", "--http", "127.0.0.1:0", "--token-env", "MY_TOKEN"]);
    let mut served = Served(command.env("MY_TOKEN", TOKEN).spawn().expect("the program starts"));
    let said = BufReader::new(served.0.stderr.take().expect("standard error"));
    let address = said
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("at http://").map(str::to_owned));
    (served, address.expect("an address").trim_end_matches("/mcp").to_owned())
}

/// Runs a program in the workspace, with the environment of our own program.
fn run(workspace: &Workspace, program: &str, words: &[&str]) -> Output {
    let own = workspace.command([""; 0]);
    let mut command = Command::new(program);
    command.args(words).current_dir(workspace.path()).stdin(Stdio::null());
    for (name, value) in own.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("PYTHONDONTWRITEBYTECODE", "1").output().expect("it starts")
}

#[test]
fn the_official_python_sdk() {
    let site = Path::new(binary())
        .ancestors()
        .nth(2)
        .expect("a target")
        .join("mcp_python/site");
    if !site.with_file_name("requirements.txt").is_file() {
        skip("mcp_python");
        return;
    }
    let client = project().join("tests/mcp_python/client.py").display().to_string();
    let site = site.display().to_string();
    for (mode, version) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        for over_http in [false, true] {
            let workspace = Workspace::new();
            workspace.write("gate.yaml", GATE);
            let folder = workspace.path().display().to_string();
            let served = over_http.then(|| serve(&workspace));
            let address = served.as_ref().map(|(_, address)| format!("http://{address}/mcp"));
            let mut words = vec![client.as_str(), &site, binary(), &folder, mode];
            words.extend(address.as_deref().into_iter().flat_map(|address| [address, TOKEN]));
            let output = run(&workspace, "python3", &words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{mode} {over_http}: {said}");
            let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
            let is = |key: &str, expected: Value| assert_eq!(told[key], expected, "{mode} {over_http} {key}: {told:#}");
            is("version", json!(version));
            assert_eq!(told["tools"][0], "gate");
            is("asked", json!(["editor asks: Print a text?"]));
            is("status", json!("completed"));
            assert_eq!(told["gate"]["result"], json!({"response": "yes"}), "{told:#}");
            let progress = told["progress"].as_array().expect("a list");
            assert!(progress.contains(&json!("turn 1: writer")), "{told:#}");
            assert!(progress.contains(&json!("ended: completed")), "{told:#}");
            is("wrong", json!([true, "the input `topic` is missing (string)"]));
            is("codes", json!(["E018"]));
            assert_eq!(workspace.runs().len(), 1, "one call, one run");
        }
    }
}

#[test]
fn the_inspector() {
    let Some(inspector) = package("inspector/clients/launcher/build/index.js") else {
        return;
    };
    let inspector = inspector.display().to_string();
    let workspace = Workspace::new();
    workspace.write("gate.yaml", GATE.replace("choices", "default: 'no', choices"));
    let (_served, address) = serve(&workspace);
    let (url, header) = (
        format!("http://{address}/mcp"),
        format!("Authorization: Bearer {TOKEN}"),
    );
    for server in [vec![binary(), "mcp"], vec![&url, "--header", &header]] {
        let inspect = |words: &[&str]| {
            let all = [&[inspector.as_str(), "--cli"], server.as_slice(), words].concat();
            let output = run(&workspace, "node", &all);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{all:?}: {said}");
            serde_json::from_slice::<Value>(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
        };
        let listed = inspect(&["--method", "tools/list"]);
        assert_eq!(listed["tools"][0]["name"], "gate", "{listed}");
        assert_eq!(listed["tools"][0]["inputSchema"]["required"], json!(["topic"]));
        let called = inspect(&[
            "--method",
            "tools/call",
            "--tool-name",
            "gate",
            "--tool-arg",
            "topic=sea",
        ]);
        assert_eq!(called["isError"], false, "{called}");
        let status = called["structuredContent"]["status"].as_str().expect("a status");
        assert!(["completed", "waiting"].contains(&status), "{called}");
    }
    let refused = run(
        &workspace,
        "node",
        &[&inspector, "--cli", &url, "--method", "tools/list"],
    );
    assert!(!refused.status.success(), "without the token");
}

/// What the suite calls, as ensembles.
fn suite(workspace: &Workspace) {
    let one = |name: &str, text: &str| {
        workspace.write(
            &format!("{name}.yaml"),
            format!("name: {name}\ndefault_task: x\n{text}\n"),
        )
    };
    one(
        "test_simple_text",
        "agents: [{name: a, script: 'echo This is a simple text response for testing.'}]",
    );
    one("test_error_handling", "agents: [{name: a, script: 'exit 1'}]");
    one(
        "test_tool_with_progress",
        "agents:\n  - {name: a, script: echo 1}\n  - {name: b, script: echo 2, depends_on: [a]}\n  - {name: c, script: echo 3, depends_on: [b]}",
    );
    one(
        "test_elicitation",
        "inputs: {message: {type: string}}\nagents: [{name: a, input: {prompt: '{{ inputs.message }}'}}]",
    );
}

#[test]
fn the_official_conformance_suite() {
    let Some(conformance) = package("conformance/dist/index.js") else {
        return;
    };
    let workspace = Workspace::new();
    suite(&workspace);
    let (_served, address) = serve(&workspace);
    let proxy = project().join("tests/mcp_clients/proxy.mjs");
    let proxy = Command::new("node")
        .arg(proxy)
        .args([&address, TOKEN])
        .stdout(Stdio::piped())
        .spawn();
    let mut proxy = Served(proxy.expect("node is there"));
    let mut port = String::new();
    let mut said = BufReader::new(proxy.0.stdout.take().expect("standard output"));
    said.read_line(&mut port).expect("a port");
    let url = format!("http://127.0.0.1:{}/mcp", port.trim());
    let conformance = conformance.display().to_string();
    let output = run(
        &workspace,
        "node",
        &[&conformance, "server", "--url", &url, "--suite", "all"],
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, summary) = text.split_once("=== SUMMARY ===").unwrap_or_else(|| panic!("{text}"));
    let names = |mark: &str| -> Vec<String> {
        let lines = summary.lines().filter_map(|line| line.strip_prefix(mark));
        lines
            .filter_map(|line| Some(line.trim().split_once(':')?.0.to_owned()))
            .collect()
    };
    let (passed, mut failed) = (names("✓"), names("✗"));
    let mut expected = EXPECTED.map(|(name, _)| name.to_owned()).to_vec();
    failed.sort();
    expected.sort();
    assert_eq!(failed, expected, "{summary}");
    for name in [
        "server-initialize",
        "tools-call-elicitation",
        "tools-call-with-progress",
        "dns-rebinding-protection",
    ] {
        assert!(passed.iter().any(|passed| passed == name), "{name}: {summary}");
    }
    assert_eq!(passed.len(), 13, "{summary}");
}
