//! Tools of MCP servers: a hostile one of our own, and published ones over stdio and HTTP.

#![expect(clippy::disallowed_methods, reason = "tests start programs and look at files")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::exchange::tool_calls;
use crate::support::files::read;
use crate::support::{Workspace, binary, eventually};
use serde_json::{Value, json};

/// A workspace whose agent `a` calls tools of the hostile server; `replies` is a YAML list.
fn hostile(handshake: &str, terms: &str, replies: &str) -> Workspace {
    let workspace = Workspace::new();
    let script = read("tests/mcp/hostile.sh");
    workspace.write("hostile.sh", script);
    workspace.write(
        "a.yaml",
        format!(
            "name: hostile\nagents:\n  - {{name: a, model_profile: m, tools: [h]}}\nmodel_profiles:\n  m: {{provider: \
             simulated, replies: {replies}}}\ntools:\n  h:\n    mcp: {{command: [sh, hostile.sh], env: {{HANDSHAKE: \
             {handshake}}}}}\n    permission: allow\n    {terms}\n"
        ),
    );
    workspace
}

fn lines(workspace: &Workspace, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(workspace.path().join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Every tool call of the first executions of the only run, in the order of their ends: its name, and its result or error.
fn calls(workspace: &Workspace) -> Vec<(String, Result<Value, String>)> {
    let journal = workspace.journal();
    let finished = journal.iter().filter(|record| record["event"] == "execution_finished");
    let agents = finished.map(|record| record["data"]["agent"].as_str().expect("a name"));
    let calls = agents.flat_map(|agent| tool_calls(&journal, agent, 1).into_iter().flatten());
    calls
        .map(|call| {
            let end = match call.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(call["error"].as_str().expect("an error").to_owned()),
            };
            (call["name"].as_str().expect("a name").to_owned(), end)
        })
        .collect()
}

/// No server that ever began is still there.
#[track_caller]
fn all_gone(workspace: &Workspace) {
    for pid in lines(workspace, "starts.txt") {
        eventually("the server's end", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
        });
    }
}

fn replies(calls: &[&str]) -> String {
    let calls = calls.iter().map(|name| format!("{{tool_calls: [{{name: {name}}}]}}"));
    format!("[{}, done]", calls.collect::<Vec<_>>().join(", "))
}

#[test]
fn a_server_that_dies_is_an_error_to_the_model_and_is_started_once_more() {
    let workspace = hostile("well", "", &replies(&["h__die", "h__garbage", "h__die", "h__garbage"]));
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let calls = calls(&workspace);
    for at in [0, 2] {
        let Err(error) = &calls[at].1 else { panic!("{calls:?}") };
        assert!(
            error.contains("the server closed the connection before it answered"),
            "{error}"
        );
        assert!(error.contains("I die"), "its stderr: {error}");
    }
    assert_eq!(calls[1].1, Ok(json!("after garbage")), "{calls:?}");
    let Err(error) = &calls[3].1 else { panic!("{calls:?}") };
    assert!(error.contains("is not started a third time"), "{error}");
    assert_eq!(lines(&workspace, "starts.txt").len(), 2);
    all_gone(&workspace);
}

#[test]
fn a_handshake_that_fails_is_told_with_the_servers_own_words() {
    for (handshake, terms, says) in [
        ("hang", "timeout_seconds: 1", "did not answer the handshake in time"),
        ("exit", "", "no licence"),
    ] {
        let workspace = hostile(handshake, terms, "[done]");
        let outcome = workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(1);
        let entry = outcome.json()["conversation_history"][0].clone();
        assert_eq!(entry["output_data"]["kind"], "unavailable", "{entry}");
        let error = entry["error"].as_str().expect("an error");
        assert!(error.starts_with("tool `h`: ") && error.contains(says), "{error}");
        all_gone(&workspace);
    }
    let workspace = hostile("garbage", "", &replies(&["h__garbage"]));
    workspace.run(["run", "a.yaml"]).expect_code(0);
    assert_eq!(calls(&workspace)[0].1, Ok(json!("after garbage")));
}

#[test]
fn a_message_without_end_ends_the_connection() {
    let workspace = hostile("well", "", &replies(&["h__huge"]));
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let calls = calls(&workspace);
    let Err(error) = &calls[0].1 else { panic!("{calls:?}") };
    assert!(
        error.contains("the server closed the connection before it answered"),
        "{error}"
    );
    all_gone(&workspace);
}

#[test]
fn a_call_that_takes_too_long_is_given_up_and_the_server_is_told() {
    let workspace = hostile("well", "timeout_seconds: 1", &replies(&["h__slow", "h__garbage"]));
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let calls = calls(&workspace);
    let Err(error) = &calls[0].1 else { panic!("{calls:?}") };
    assert!(error.contains("timed out after 1 s"), "{error}");
    assert_eq!(calls[1].1, Ok(json!("after garbage")), "the server is still there");
    let heard = lines(&workspace, "heard.txt");
    assert!(
        heard.iter().any(|line| line.contains("notifications/cancelled")),
        "{heard:?}"
    );
    assert_eq!(lines(&workspace, "starts.txt").len(), 1);
}

#[test]
fn all_pages_of_tools_are_offered_and_new_ones_when_the_server_says_so() {
    let workspace = hostile("well", "", &replies(&["h__new_one", "h__grow", "h__new_one"]));
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let calls = calls(&workspace);
    let Err(error) = &calls[0].1 else { panic!("{calls:?}") };
    assert!(
        error.contains("h__die") && error.contains("h__env"),
        "two pages: {error}"
    );
    assert_eq!(calls[1].1, Ok(json!("grown")));
    assert_eq!(calls[2].1, Ok(json!("as new")));
}

#[test]
fn one_server_serves_all_agents_in_its_own_folder_with_secrets_that_stay_secret() {
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/mcp/hostile.sh"));
    workspace.write("inside/.keep", "");
    workspace.write(
        "a.yaml",
        "name: shared\nagents:\n  - {name: a, model_profile: m, tools: [h.env]}\n  - {name: b, model_profile: m, tools: \
         [h.env]}\n  - {name: c, model_profile: m, tools: [h], depends_on: [a]}\nmodel_profiles:\n  m: {provider: \
         simulated, replies: [{tool_calls: [{name: h__env}]}, done]}\ntools:\n  h:\n    permission: allow\n    mcp:\n      \
         command: sh ../hostile.sh\n      cwd: inside\n      env: {PLANTED: {env: MY_SECRET}, PREFIXED: {env: MY_SECRET, prefix: p-}}\n",
    );
    let child = workspace
        .command(["run", "a.yaml", "--output", "events"])
        .env("MY_SECRET", "s3cr3t")
        .spawn();
    crate::support::Running(child.expect("it starts"))
        .finish()
        .expect_code(0);
    let calls = calls(&workspace);
    assert_eq!(calls.len(), 3, "{calls:?}");
    for (_, end) in calls {
        assert_eq!(end, Ok(json!("s3cr3t p-s3cr3t inside")), "the server says it of itself");
    }
    assert_eq!(lines(&workspace, "inside/starts.txt").len(), 1);

    let unset = workspace.run(["run", "a.yaml"]).expect_code(2);
    assert!(unset.stderr.contains("`MY_SECRET` is not set"), "{}", unset.stderr);
}

#[test]
fn a_tool_that_the_server_does_not_have_is_told_with_those_that_it_has() {
    let workspace = hostile("well", "", "[done]");
    let text = workspace.read("a.yaml").replace("tools: [h]", "tools: [h.grwo]");
    workspace.write("a.yaml", text);
    let outcome = workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(1);
    let entry = outcome.json()["conversation_history"][0].clone();
    let error = entry["error"].as_str().expect("an error");
    assert!(error.contains("has no tool `grwo`; it has: die, huge"), "{error}");
}

#[test]
fn a_run_that_is_stopped_or_killed_leaves_no_server() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("KILL", 137)] {
        let workspace = hostile("well", "timeout_seconds: 600", &replies(&["h__stubborn"]));
        // It does not even notice that its standard input has ended.
        let running = workspace.spawn(["run", "a.yaml"]);
        eventually("the call", || {
            let heard = lines(&workspace, "heard.txt");
            heard.iter().any(|line| line.contains("tools/call")).then_some(())
        });
        running.signal(signal);
        running.finish().expect_code(code);
        all_gone(&workspace);
    }
}

/// The published server; where it is not installed, that is said.
fn everything() -> Option<PathBuf> {
    // The program stands in target/<profile>/.
    let target = Path::new(binary()).ancestors().nth(2)?;
    let path = target.join("mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let has_node = Command::new("node").arg("--version").output().is_ok();
    let found = path.is_file() && has_node;
    if !found {
        // Past the test harness, which would swallow it.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the published MCP server is not installed; tests/install.sh mcp does it"
        );
    }
    found.then_some(path)
}

/// The tool calls that both transports are tried with.
const EVERYTHING: &str = "\
    [{tool_calls: [{name: e__echo, arguments: {message: hé}}, {name: e__get-sum, arguments: {a: 2, b: 3}}, \
    {name: e__get-structured-content, arguments: {location: Chicago}}, {name: e__get-tiny-image}, \
    {name: e__get-resource-links, arguments: {count: 1}}, \
    {name: e__get-resource-reference, arguments: {resourceType: Text, resourceId: 1}}, \
    {name: e__echo, arguments: {}}, {name: e__get-annotated-message, arguments: {messageType: wrong}}]}, done]";

fn speaks_with_everything(workspace: &Workspace, mcp: &str) {
    workspace.write(
        "a.yaml",
        format!(
            "name: everything\nagents:\n  - {{name: a, model_profile: m, tools: [e]}}\nmodel_profiles:\n  m: {{provider: \
             simulated, replies: {EVERYTHING}}}\ntools:\n  e: {{permission: allow, mcp: {mcp}}}\n"
        ),
    );
    let outcome = workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(0);
    assert_eq!(outcome.json()["completion_reason"], "completed");
    let ends: Vec<Result<Value, String>> = calls(workspace).into_iter().map(|(_, end)| end).collect();
    assert_eq!(ends[0], Ok(json!("Echo: hé")));
    assert_eq!(ends[1], Ok(json!("The sum of 2 and 3 is 5.")));
    assert!(
        ends[2].as_ref().is_ok_and(|value| value["temperature"].is_number()),
        "{:?}",
        ends[2]
    );
    let says = |at: usize, what: &str| {
        let text = ends[at].as_ref().expect("a result").as_str().expect("a text");
        assert!(text.contains(what), "{text}");
    };
    says(3, "[an image, image/png, ");
    says(4, "demo://resource/");
    says(5, "Resource 1");
    assert!(
        ends[6]
            .as_ref()
            .is_err_and(|error| error.contains("\"message\" is a required"))
    );
    assert!(ends[7].is_err(), "{:?}", ends[7]);
}

#[test]
fn the_published_server_over_stdio() {
    let Some(server) = everything() else { return };
    let workspace = Workspace::new();
    speaks_with_everything(
        &workspace,
        &format!("{{command: [node, '{}', stdio]}}", server.display()),
    );
}

/// A server process that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn the_published_server_over_http() {
    let Some(server) = everything() else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a port")
        .port();
    let child = Command::new("node")
        .arg(server)
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _served = Served(child.expect("node is there"));
    eventually("the server's port", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    });
    let workspace = Workspace::new();
    let address = format!("http://127.0.0.1:{port}/mcp");
    speaks_with_everything(&workspace, &format!("{{url: '{address}', headers: {{X-Test: a}}}}"));

    workspace.write("b.yaml", workspace.read("a.yaml").replace("/mcp'", "/nowhere'"));
    let outcome = workspace.run(["run", "b.yaml", "--output", "json"]).expect_code(1);
    let entry = outcome.json()["conversation_history"][0].clone();
    let error = entry["error"].as_str().expect("an error");
    assert!(error.contains("cannot connect to http://127.0.0.1:"), "{error}");
}
