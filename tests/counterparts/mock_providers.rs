//! Models over HTTP against a server that is not ours: npm's `@copilotkit/aimock`, which speaks all four dialects.
//!
//! `tests/install.sh mock` installs it. Without it these tests say so and prove nothing.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::Workspace;
use ensemble_agents::agent::BoxFuture;
use ensemble_agents::agent::chat::{Dialogue, ModelTools};
use ensemble_core::thread::{Thread, ToolCall, ToolCallEnd};
use ensemble_language::ensemble::ModelProfile;
use ensemble_models::{Model, ModelNetwork, ToolSpec};

const PROVIDERS: [&str; 4] = ["openai", "anthropic", "gemini", "ollama"];

/// The server, until it is dropped.
struct Mock {
    process: Child,
    url: String,
}

impl Mock {
    /// Nothing if it is not installed.
    fn start() -> Option<Self> {
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        let package: PathBuf = project.join("target/mock/node_modules/@copilotkit/aimock");
        if !package.join("dist/index.js").is_file() {
            let mut err = std::io::stderr();
            let _ = std::io::Write::write_all(
                &mut err,
                b"skipped: tests/install.sh mock installs what this test needs\n",
            );
            return None;
        }
        let mut process = Command::new("node")
            .arg(project.join("tests/mock/serve.mjs"))
            .arg(package)
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
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

/// An agent for each provider, side by side, that is asked for `wish`.
fn ensemble(mock: &Mock, wish: &str, more: &str) -> String {
    let mut text = format!("name: all\ndefault_task: {wish}\nagents:\n");
    for provider in PROVIDERS {
        text.push_str(&format!("  - {{name: {provider}, model_profile: {provider}{more}}}\n"));
    }
    text.push_str("model_profiles:\n");
    for provider in PROVIDERS {
        text.push_str(&format!(
            "  {provider}: {{provider: {provider}, model: {provider}, base_url: '{}', \
             retry: {{max_attempts: 2, delay_seconds: 0}}}}\n",
            mock.url
        ));
    }
    text
}

fn run(mock: &Mock, wish: &str, more: &str) -> Value {
    let workspace = Workspace::new();
    workspace.write("all.yaml", ensemble(mock, wish, more));
    workspace.run(["run", "all.yaml", "--output", "json"]).json()
}

fn entry<'r>(result: &'r Value, provider: &str) -> &'r Value {
    let history = result["conversation_history"].as_array().expect("a history");
    let found = history.iter().find(|entry| entry["agent_name"] == provider);
    found.unwrap_or_else(|| panic!("{provider}: {result:#}"))
}

#[test]
fn text_comes_in_every_dialect() {
    let Some(mock) = Mock::start() else { return };
    let result = run(&mock, "greet", "");
    for provider in PROVIDERS {
        let entry = entry(&result, provider);
        assert_eq!(
            entry["output_data"]["response"], "Hello — wie geht's? 你好 🌊",
            "{entry:#}"
        );
        assert_eq!(entry["usage"]["requests"], 1);
    }
    let usage = &entry(&result, "openai")["usage"];
    assert_eq!(
        (&usage["input_tokens"], &usage["output_tokens"], &usage["estimated"]),
        (&json!(12), &json!(5), &json!(false))
    );
    let result = run(&mock, "shorten", "");
    // The server does not tell it in Ollama's dialect.
    for provider in ["openai", "anthropic", "gemini"] {
        assert!(
            result["warnings"]
                .to_string()
                .contains(&format!("{provider}: the model's reply was cut off")),
            "{result:#}"
        );
    }
}

#[test]
fn a_schema_is_kept_in_every_dialect() {
    let Some(mock) = Mock::start() else { return };
    let schema = ", output_schema: {type: object, required: [score], properties: {score: {type: integer, maximum: 5}}}";
    let result = run(&mock, "score", schema);
    for provider in PROVIDERS {
        assert_eq!(entry(&result, provider)["output_data"]["score"], 4, "{result:#}");
    }
}

#[test]
fn refusals_and_cut_streams_are_asked_again_in_every_dialect() {
    let Some(mock) = Mock::start() else { return };
    for (wish, expected) in [("busy", "Thanks for waiting."), ("cut", "This is whole.")] {
        let result = run(&mock, wish, "");
        for provider in PROVIDERS {
            let entry = entry(&result, provider);
            assert_eq!(entry["output_data"]["response"], expected, "{result:#}");
            assert_eq!(entry["usage"]["requests"], 2, "{provider}");
        }
    }
}

#[test]
fn what_never_works_fails_in_every_dialect() {
    let Some(mock) = Mock::start() else { return };
    for (wish, expected) in [
        ("gone", "broke off"),
        ("garbled", "is malformed"),
        ("dropped", "answered 500"),
    ] {
        let result = run(&mock, wish, "");
        assert_eq!(result["completion_reason"], "agent_failed");
        for provider in PROVIDERS {
            let entry = entry(&result, provider);
            let error = entry["error"].as_str().unwrap_or_default();
            assert!(error.contains(expected), "{provider} {wish}: {error}");
            assert_eq!(entry["usage"]["requests"], 2, "{provider}");
        }
    }
}

#[test]
fn models_are_checked_in_every_dialect() {
    let Some(mock) = Mock::start() else { return };
    let workspace = Workspace::new();
    workspace.write("all.yaml", ensemble(&mock, "greet", ""));
    let told = workspace.run(["models", "check", "all.yaml"]);
    // Nothing is prepared for the word that is asked for, so every server says so.
    assert_eq!(told.stdout.matches('✗').count(), 4, "{told:?}");
}

/// Adds, and keeps what it was asked.
#[derive(Default)]
struct Adder(Mutex<Vec<Value>>);

impl ModelTools for Adder {
    fn list_specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        let number = json!({"type": "integer"});
        let spec = ToolSpec {
            name: "add".into(),
            description: "Adds two numbers.".into(),
            parameters: json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}),
        };
        Box::pin(async move { Ok([spec].into()) })
    }

    fn call_tool(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        let sum = call.arguments["a"].as_i64().unwrap_or_default() + call.arguments["b"].as_i64().unwrap_or_default();
        self.0.lock().expect("unpoisoned").push(call.arguments.clone());
        Box::pin(async move { call.with_end(ToolCallEnd::Result(json!(sum)), 0.0) })
    }
}

#[tokio::test]
async fn tools_are_called_side_by_side_in_every_dialect() {
    let Some(mock) = Mock::start() else { return };
    for provider in PROVIDERS {
        let profile = ModelProfile {
            provider: provider.into(),
            model: provider.into(),
            base_url: Some(mock.url.clone()),
            ..ModelProfile::default()
        };
        let tools = Arc::new(Adder::default());
        let model = Model::from_profile_with_network(profile, &ModelNetwork::default()).expect("a model");
        let dialogue = Dialogue::new(model).with_tools(tools.clone());
        let ended = dialogue
            .say_with_max_requests(Thread::default(), "sums", 3)
            .await
            .expect("an end");
        assert_eq!(ended.text, "They are 3 and 7.", "{provider}");
        let asked = tools.0.lock().expect("unpoisoned").clone();
        assert_eq!(asked, [json!({"a": 1, "b": 2}), json!({"a": 3, "b": 4})], "{provider}");
        let called = &ended.thread.iterations()[0].tool_calls;
        let ids: Vec<&str> = called.iter().map(|call| &*call.id).collect();
        assert!(
            ids.len() == 2 && ids[0] != ids[1] && !ids[0].is_empty(),
            "{provider}: {ids:?}"
        );
        assert_eq!(ended.usage.requests, 2, "{provider}");
    }
}
