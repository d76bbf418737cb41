//! Servers of models and of tools, and journals that somebody has forged: the terminal does not obey them either.

#![expect(clippy::disallowed_methods, reason = "a test forges a journal")]

use serde_json::{Value, json};

use super::shown_safely::{ATTACK, complaints, finished, steers};
use crate::support::server::{Server, answer, events};
use crate::support::terminal::Terminal;
use crate::support::{Workspace, records};

/// Runs the command, and fails if its output steers a terminal or a CI.
#[track_caller]
fn is_safe(workspace: &Workspace, arguments: &[&str]) -> String {
    let mut whole = String::new();
    for (colours, ci) in [("never", "false"), ("always", "true")] {
        let mut command = workspace.command(arguments);
        command.args(["--color", colours]).env("OPENAI_API_KEY", "k");
        let outcome = finished(command.env("GITHUB_ACTIONS", ci));
        let found = complaints(&outcome, ci == "true");
        assert!(found.is_empty(), "{arguments:?} {colours}: {found:?}");
        whole.push_str(&outcome.stdout);
        whole.push_str(&outcome.stderr);
    }
    whole
}

#[test]
fn what_a_server_of_models_says_is_spelt_out() {
    // Each character is a piece of its own.
    let piece = |key: &str, c: char| json!({"choices": [{"delta": {key: c.to_string()}}]}).to_string();
    let mut pieces: Vec<String> = ATTACK.chars().map(|c| piece("reasoning_content", c)).collect();
    pieces.extend(ATTACK.chars().map(|c| piece("content", c)));
    pieces.push(r#"{"choices": [{"delta": {}, "finish_reason": "stop"}]}"#.into());
    pieces.push("[DONE]".into());
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let error = json!({"error": {"message": ATTACK, "type": ATTACK, "code": ATTACK}}).to_string();
    let models = json!({"data": [{"id": ATTACK}]}).to_string();
    let said = events(&pieces);
    let server = Server::new(move |_, asked| match asked.line() {
        line if line.starts_with("GET") => answer("200 OK", &[("content-type", "application/json")], &models),
        line if line.contains("/well/") => said.clone(),
        line if line.contains("/json/") => answer("400 Bad Request", &[("content-type", "application/json")], &error),
        _ => answer("400 Bad Request", &[], ATTACK),
    });
    let workspace = Workspace::new();
    let mut ensemble = "name: e\nagents:\n".to_owned();
    let mut profiles = "model_profiles:\n".to_owned();
    for kind in ["well", "json", "text"] {
        ensemble.push_str(&format!(
            "  - {{name: {kind}, model_profile: {kind}, on_error: continue}}\n"
        ));
        let url = format!("{}/{kind}", server.url().trim_end_matches('/'));
        profiles.push_str(&format!(
            "  {kind}: {{provider: openai, model: m, base_url: '{url}'}}\n"
        ));
    }
    workspace.write("e.yaml", ensemble + &profiles);
    for arguments in [
        &["run", "e.yaml"][..],
        &["run", "e.yaml", "-v"],
        &["run", "e.yaml", "--output", "events", "--live"],
        &["runs", "show", "-v"],
        &["runs", "show", "--messages"],
        &["models", "list", "--remote", "e.yaml"],
        &["models", "check", "e.yaml"],
    ] {
        let whole = is_safe(&workspace, arguments);
        assert!(
            arguments[0] == "models" || whole.contains("u{202e}") || whole.contains("u202e"),
            "{arguments:?} shows it: {whole}"
        );
    }
    let terminal = Terminal::open(&workspace, &["run", "e.yaml", "-v"], &[("OPENAI_API_KEY", "k")]);
    let (_, text) = terminal.finish_whole();
    for theirs in [
        "\u{1b}]",
        "\u{1b}[31mred",
        "\u{9b}",
        "\u{202e}",
        "\u{200b}",
        "\npermission a",
    ] {
        assert!(!text.contains(theirs), "{theirs:?} in {text:?}");
    }
}

#[test]
fn what_a_server_of_tools_says_is_spelt_out() {
    let workspace = Workspace::new();
    let quoted = Value::from(ATTACK).to_string();
    let tools = json!([{"name": "well", "description": ATTACK, "inputSchema": {"type": "object"}},
        {"name": "ill", "description": ATTACK, "inputSchema": {"type": "object"}},
        {"name": ATTACK, "description": ATTACK, "inputSchema": {"type": "object"}}])
    .to_string();
    workspace.write("tools.json", tools);
    workspace.write("attack.json", &quoted);
    workspace.write("attack.txt", ATTACK);
    workspace.script(
        "serve.sh",
        r#"#!/bin/sh
cat attack.txt >&2
say() { printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":$id,$1}"; }
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*) say "\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":$(cat attack.json),\"version\":\"1\"},\"instructions\":$(cat attack.json)}" ;;
    *'"method":"tools/list"'*) say "\"result\":{\"tools\":$(cat tools.json)}" ;;
    *'"name":"well"'*)
        printf '%s\n' "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"error\",\"data\":$(cat attack.json)}}"
        say "\"result\":{\"content\":[{\"type\":\"text\",\"text\":$(cat attack.json)}]}" ;;
    *'"name":"ill"'*) say "\"error\":{\"code\":-32000,\"message\":$(cat attack.json)}" ;;
    esac
done
"#,
    );
    workspace.write(
        "e.yaml",
        "name: e\nagents:\n  - {name: a, model_profile: m, tools: [h]}\nmodel_profiles:\n  m: {provider: simulated, replies: [{tool_calls: \
         [{name: h__well}, {name: h__ill}]}, done]}\ntools:\n  h: {permission: allow, mcp: {command: [./serve.sh]}}\n",
    );
    for arguments in [
        &["run", "e.yaml", "-v"][..],
        &["run", "e.yaml", "--output", "json"],
        &["runs", "show", "-v"],
        &["runs", "show", "--messages"],
        &["runs", "export", "--output", "markdown"],
    ] {
        is_safe(&workspace, arguments);
    }
    let shown = is_safe(&workspace, &["runs", "show", "--messages"]);
    assert!(shown.contains("← h__well") && shown.contains("\\u{202e}"), "{shown}");
    assert!(shown.contains("← h__ill: "), "{shown}");
}

/// CRC-32, as a journal has it.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (0_u32.wrapping_sub(crc & 1)))
        })
    })
}

#[test]
fn a_forged_journal_steers_no_terminal() {
    let workspace = Workspace::new();
    workspace.write(
        "e.yaml",
        "name: e\nagents:\n  - {name: a, script: 'echo MARK', on_error: continue}\n  - {name: q, input: {prompt: MARK}, depends_on: [a]}\n",
    );
    workspace.run(["run", "e.yaml", "--input", "MARK"]).expect_code(3);
    let run = workspace.runs().remove(0);
    let journal = run.join("journal.jsonl");
    let text = std::fs::read_to_string(&journal).expect("a journal");
    // The bytes themselves, as only a forger writes them, in every text and in what is otherwise a name.
    let raw = Value::from(ATTACK).to_string();
    let raw = raw[1..raw.len() - 1].replace("\\u007f", "\u{7f}");
    let mut forged = String::new();
    for line in text.lines() {
        let (body, _) = line.rsplit_once(",\"crc\"").expect("a checksum");
        let body = body
            .replace("MARK", &raw)
            .replace("\"ensemble\":\"e\"", &format!("\"ensemble\":\"{raw}\""));
        let body = body.replace("\"agent\":\"a\"", &format!("\"agent\":\"a{raw}\""));
        forged.push_str(&format!("{body},\"crc\":\"{:08x}\"}}\n", crc(body.as_bytes())));
    }
    std::fs::write(&journal, &forged).expect("it can be written");
    assert!(forged.contains(steers) && records(&journal).len() > 3);
    let name = run.file_name().expect("a name").to_str().expect("text").to_owned();
    for arguments in [
        &["runs", "list"][..],
        &["runs", "list", "--output", "json"],
        &["runs", "show", &name],
        &["runs", "show", &name, "-v"],
        &["runs", "show", &name, "--output", "json"],
        &["runs", "show", &name, "--output", "events"],
        &["runs", "show", &name, "--messages"],
        &["runs", "diff", &name, &name],
        &["runs", "export", &name, "--output", "markdown"],
        &["runs", "export", &name, "--output", "html"],
        &["replay", &name],
        &["resume", &name],
        &["rerun", &name, "--from", "a@1"],
        &["graph", "--run", &name],
        &["estimate", "e.yaml", "--from", &name],
    ] {
        is_safe(&workspace, arguments);
    }
    let shown = is_safe(&workspace, &["runs", "show", &name]);
    assert!(shown.contains("\\u{202e}"), "{shown}");
}
