//! Models over HTTP against a second server that is not ours: PyPI's `fakellm`, of another author than the first, which
//! speaks the APIs of OpenAI and Anthropic and reads what it is sent in its own way.
//!
//! `tests/install.sh fakellm` installs it. Without it these tests say so and prove nothing.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::Workspace;

const PROVIDERS: [&str; 2] = ["openai", "anthropic"];

/// A server of tools whose only tool gives a picture.
const CAMERA: &str = r#"
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
    case "$line" in
    *'"method":"initialize"'*)
        say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"c","version":"1"}}' ;;
    *'"method":"tools/list"'*)
        say '{"tools":[{"name":"look","description":"d","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
        say '{"content":[{"type":"image","mimeType":"image/gif","data":"R0lGODlhdGlueQ=="}]}' ;;
    esac
done
"#;

/// The server, until it is dropped.
struct Mock {
    process: Child,
    url: String,
}

impl Mock {
    /// Nothing if it is not installed.
    fn start() -> Option<Self> {
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        let site = project.join("target/fakellm/site");
        if !site.with_file_name("requirements.txt").is_file() {
            let mut err = std::io::stderr();
            let told = b"skipped: tests/install.sh fakellm installs what this test needs\n";
            let _ = std::io::Write::write_all(&mut err, told);
            return None;
        }
        let mut process = Command::new("python3")
            .arg(project.join("tests/fakellm/serve.py"))
            .arg(site)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut url = String::new();
        let out = process.stdout.as_mut().expect("it has an output");
        BufReader::new(out).read_line(&mut url).expect("it says where it is");
        let url = url.trim().to_owned();
        assert!(url.starts_with("http://"), "{url}");
        Some(Self { process, url })
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A run with an agent for each provider that is asked for `wish`.
fn run(url: &str, wish: &str, more: &str) -> (Workspace, Value) {
    let workspace = Workspace::new();
    workspace.write("camera.sh", CAMERA);
    workspace.write("add.rhai", "`the sum is ${parameters.a + parameters.b}`");
    let mut text = format!("name: two\ndefault_task: {wish}\nagents:\n");
    for provider in PROVIDERS {
        text.push_str(&format!("  - {{name: {provider}, model_profile: {provider}{more}}}\n"));
    }
    text.push_str("model_profiles:\n");
    for provider in PROVIDERS {
        text.push_str(&format!(
            "  {provider}: {{provider: {provider}, model: {provider}, base_url: '{url}', retry: {{max_attempts: 1}}}}\n"
        ));
    }
    text.push_str(
        "tools:\n  cam: {permission: allow, mcp: {command: [sh, camera.sh]}}\n  add: {script: add.rhai, parameters: {type: object, \
         required: [a, b], properties: {a: {type: integer}, b: {type: integer}}}}\n",
    );
    workspace.write("two.yaml", text);
    let result = workspace.run(["run", "two.yaml", "--output", "json"]).json();
    (workspace, result)
}

fn entry<'r>(result: &'r Value, provider: &str) -> &'r Value {
    let history = result["conversation_history"].as_array().expect("a history");
    let found = history.iter().find(|entry| entry["agent_name"] == provider);
    found.unwrap_or_else(|| panic!("{provider}: {result:#}"))
}

#[test]
fn a_streamed_text_is_whole() {
    let Some(mock) = Mock::start() else { return };
    let (workspace, result) = run(&mock.url, "greet", "");
    for provider in PROVIDERS {
        let entry = entry(&result, provider);
        let said = "Hello — wie geht's? 你好 🌊";
        assert_eq!(entry["output_data"]["response"], said, "{entry:#}");
        assert_eq!(
            (&entry["usage"]["requests"], &entry["stop_reason"]),
            (&json!(1), &json!("end_turn"))
        );
    }
    // This server streams no counts to clients of OpenAI, and says them to those of Anthropic.
    assert_eq!(entry(&result, "openai")["usage"]["estimated"], true);
    assert_eq!(entry(&result, "anthropic")["usage"]["estimated"], false);
    let more = workspace
        .run(["continue", "--last", "again", "--output", "json"])
        .expect_code(0);
    assert!(more.stdout.contains("Once more."), "{}", more.stdout);
}

#[test]
fn a_schema_is_kept() {
    let Some(mock) = Mock::start() else { return };
    let schema = ", output_schema: {type: object, required: [score], properties: {score: {type: integer, maximum: 5}}}";
    let (_, result) = run(&mock.url, "score", schema);
    for provider in PROVIDERS {
        assert_eq!(entry(&result, provider)["output_data"]["score"], 4, "{result:#}");
    }
}

#[test]
fn tools_are_called_and_the_server_finds_their_results() {
    let Some(mock) = Mock::start() else { return };
    let (workspace, result) = run(&mock.url, "sums", ", tools: [add]");
    for provider in PROVIDERS {
        let entry = entry(&result, provider);
        assert_eq!(entry["output_data"]["response"], "They are 3.", "{entry:#}");
        assert_eq!(entry["usage"]["requests"], 2);
        let calls = crate::support::exchange::tool_calls(&workspace.journal(), provider, 1);
        let arguments = json!({"a": 1, "b": 2, "why": "wie geht's? 你好 🌊"});
        assert_eq!(
            calls[0][0]["arguments"], arguments,
            "the pieces of the arguments are joined"
        );
    }
}

#[test]
fn a_result_with_a_picture_is_a_result_for_the_server() {
    let Some(mock) = Mock::start() else { return };
    let (_, result) = run(&mock.url, "picture", ", tools: [cam]");
    for provider in PROVIDERS {
        let entry = entry(&result, provider);
        assert_eq!(entry["output_data"]["response"], "I see a picture.", "{result:#}");
    }
    assert_eq!(result["warnings"], json!([]));
}

#[test]
fn an_error_of_the_server_is_told() {
    let Some(mock) = Mock::start() else { return };
    let (_, result) = run(&format!("{}/nowhere/v1", mock.url), "greet", "");
    assert_eq!(result["completion_reason"], "agent_failed");
    for provider in PROVIDERS {
        let error = entry(&result, provider)["error"].as_str().unwrap_or_default();
        assert!(
            error.contains("404") && error.contains("Not Found"),
            "{provider}: {error}"
        );
    }
}
