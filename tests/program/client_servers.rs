//! `mcp: client`: servers of tools that the client of `ensemble acp`, or the command line, gives to a run.

use serde_json::{Value, json};

use crate::support::acp_client::Client;
use crate::support::files::read;
use crate::support::mcp_client::Client as McpClient;
use crate::support::page::Page;
use crate::support::{Outcome, Workspace};

/// What the client gives the server, and nobody else may see.
const TOKEN: &str = "token-of-the-client-0123456789";

/// A workspace whose agent calls a tool of the client's server `h`; `more`: keys of that tool.
fn workspace(more: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/mcp/hostile.sh"));
    workspace.write(
        "a.yaml",
        format!("name: a\nagents:\n  - {{name: a, tool: h.env}}\ntools:\n  h: {{mcp: client{more}}}\n"),
    );
    workspace
}

/// The server as clients name it.
fn server(workspace: &Workspace, name: &str) -> Value {
    json!({
        "name": name,
        "command": "sh",
        "args": [workspace.path().join("hostile.sh")],
        "env": [{"name": "PLANTED", "value": "planted"}, {"name": "API_TOKEN", "value": TOKEN}, {"name": "PREFIXED", "value": TOKEN}],
    })
}

fn session(client: &mut Client, workspace: &Workspace, servers: &[Value]) -> String {
    let answer = client.ask("session/new", json!({"cwd": workspace.path(), "mcpServers": servers}));
    let id = answer["result"]["sessionId"].as_str();
    id.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn config(workspace: &Workspace) {
    let file = json!({"mcpServers": {"h": {"command": "sh", "args": ["hostile.sh"], "env": {"PLANTED": "${LEAF:-oak}", "PREFIXED": "x"}}}});
    workspace.write(".mcp.json", file.to_string());
}

fn output(outcome: &Outcome) -> Value {
    outcome.json()["conversation_history"][0]["output_data"].clone()
}

#[test]
fn an_agent_calls_a_tool_of_the_server_that_the_client_names() {
    let workspace = workspace("");
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    assert_eq!(
        client.initialized["agentCapabilities"]["mcpCapabilities"],
        json!({"http": true})
    );
    let servers = [server(&workspace, "h"), server(&workspace, "other")];
    let session = session(&mut client, &workspace, &servers);
    let prompt = client.begin_prompt(&session, "go");
    client.permit();
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    let told = client.told("agent_message_chunk");
    assert!(
        told.starts_with("The ensemble uses none of the MCP servers of the client: other."),
        "{told}"
    );
    assert!(told.contains("planted"), "the server has its environment: {told}");
    let journal = workspace.journal();
    let text = format!("{journal:?}");
    assert!(
        text.contains("planted") && !text.contains(TOKEN),
        "a secret in the journal: {text}"
    );

    let prompt = client.begin_prompt(&session, "again");
    client.permit();
    client.answer(prompt);
    assert!(
        !client.told("agent_message_chunk").contains("No tool"),
        "it is told once"
    );
}

#[test]
fn a_run_that_goes_on_is_given_the_servers_again() {
    let workspace = workspace("");
    let servers = [server(&workspace, "h")];
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = session(&mut client, &workspace, &servers);
    client.begin_prompt(&session, "go");
    client.asked();
    client.kill();

    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let load = |client: &mut Client, servers: Value| {
        let named = json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": servers});
        client.ask("session/load", named);
        client.updates.clear();
        client.begin_prompt(&session, "/resume")
    };
    let prompt = load(&mut client, json!([]));
    let refused = client.answer(prompt)["error"]["message"].clone();
    let refused = refused.as_str().expect("an error");
    assert!(
        refused.contains("tool `h`: the client of `ensemble acp` must provide its server, but provides no servers"),
        "{refused}"
    );
    let prompt = load(&mut client, json!(servers));
    client.permit();
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(client.told("agent_message_chunk").contains("planted"));
}

#[test]
fn a_server_of_a_kind_that_was_not_offered_is_refused() {
    let workspace = workspace("");
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let events = json!({"type": "sse", "name": "h", "url": "http://127.0.0.1:1", "headers": []});
    let answer = client.ask("session/new", json!({"cwd": workspace.path(), "mcpServers": [events]}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let said = answer.to_string();
    assert!(
        said.contains("the MCP server `h` has a type that `initialize` does not offer"),
        "{said}"
    );
}

#[test]
fn the_command_line_gives_servers_by_a_file() {
    let workspace = workspace(", permission: allow");
    let refused = workspace.run(["run", "a.yaml"]).expect_code(2);
    assert!(
        refused.stderr.contains("a.yaml:3:21") && refused.stderr.contains("--mcp-config .mcp.json"),
        "{}",
        refused.stderr
    );
    assert_eq!(workspace.runs().len(), 0, "no run was begun");
    workspace.run(["validate", "a.yaml"]).expect_code(0);

    config(&workspace);
    let run = ["run", "a.yaml", "--mcp-config", ".mcp.json", "--output", "json"];
    let outcome = workspace.run(run).expect_code(0);
    let folder = workspace
        .path()
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert_eq!(output(&outcome)["response"], format!("oak x {folder}"));

    workspace.write(".mcp.json", "{\"mcpServers\": {\"h\": {\"command\": \"${MISSING}\"}}}");
    let refused = workspace.run(run).expect_code(2);
    assert!(
        refused.stderr.contains(
            "--mcp-config .mcp.json: the server `h` needs the environment variable `MISSING`, which is not set"
        ),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_file_that_is_not_trusted_calls_nothing_of_the_client_without_asking() {
    for (file, line) in [
        (
            "name: a\nagents:\n  - {name: a, tool: h.env}\ntools:\n  h: {mcp: client, permission: allow}\n",
            "tool `h` calls tools of the server of this name in your client, without asking",
        ),
        (
            "name: a\nagents:\n  - {name: a, acp: {command: sh, args: [acp.sh, plain]}, tools: [h]}\ntools:\n  h: {mcp: client}\n",
            "agent `a` passes the server `h` of your client, with its keys, to the program `sh`",
        ),
    ] {
        let workspace = workspace("");
        workspace.write("acp.sh", read("tests/acp/hostile.sh"));
        workspace.write("a.yaml", file);
        config(&workspace);
        workspace.wary(["trust", ".mcp.json", "--yes"], &[]).expect_code(0);
        let run = ["run", "a.yaml", "--mcp-config", ".mcp.json"];
        let refused = workspace.wary(run, &[]).expect_code(2);
        assert!(refused.stderr.contains("is not trusted"), "{}", refused.stderr);
        let shown = workspace.wary(["trust", "a.yaml", "--yes"], &[]).expect_code(0);
        let shown = format!("{}{}", shown.stdout, shown.stderr);
        assert!(shown.contains(line), "{shown}");
        workspace.wary(run, &[]).expect_code(0);
    }
    // A person is asked, so this needs no trust.
    let workspace = workspace("");
    config(&workspace);
    workspace.wary(["trust", ".mcp.json", "--yes"], &[]).expect_code(0);
    let run = ["run", "a.yaml", "--mcp-config", ".mcp.json", "--allow-tool", "h"];
    workspace.wary(run, &[]).expect_code(0);
}

/// What the program of an external agent was told of servers.
fn servers_of_program(workspace: &Workspace) -> Value {
    let told = workspace.read("sessions.txt");
    let told: Value = serde_json::from_str(told.lines().next().expect("a session")).expect("JSON");
    told["params"]["mcpServers"].clone()
}

#[test]
fn the_program_of_an_external_agent_is_given_servers() {
    let workspace = Workspace::new();
    workspace.write("acp.sh", read("tests/acp/hostile.sh"));
    let file = |mode: &str| {
        format!(
            "name: a\nagents:\n  - {{name: a, acp: {{command: sh, args: [acp.sh, {mode}]}}, tools: [own, far, h]}}\ntools:\n  \
             own: {{mcp: {{command: [sh, -c, exit], env: {{A: b}}}}}}\n  \
             far: {{mcp: {{url: 'https://far.example/mcp', headers: {{X: y}}}}}}\n  h: {{mcp: client}}\n"
        )
    };
    workspace.write("a.yaml", file("http"));
    config(&workspace);
    let run = ["run", "a.yaml", "--mcp-config", ".mcp.json", "--output", "json"];
    assert_eq!(output(&workspace.run(run).expect_code(0))["response"], "done");
    let servers = servers_of_program(&workspace);
    let own = &servers[0];
    assert_eq!(own["name"], "own", "{servers}");
    assert_eq!(
        (&own["args"], &own["env"]),
        (&json!(["-c", "exit"]), &json!([{"name": "A", "value": "b"}]))
    );
    assert_eq!(
        servers[1],
        json!({"type": "http", "name": "far", "url": "https://far.example/mcp", "headers": [{"name": "X", "value": "y"}]})
    );
    assert_eq!(servers[2]["name"], "h");

    // A program that reaches no servers over HTTP.
    workspace.write("a.yaml", file("plain"));
    let failed = output(&workspace.run(run).expect_code(1));
    assert_eq!(failed["kind"], "unavailable", "{failed}");
    let error = failed["error"].as_str().expect("an error");
    assert!(
        error.contains("it does not support MCP servers over HTTP, and `far` is one"),
        "{error}"
    );
}

#[test]
fn an_ensemble_that_is_the_agent_of_another_is_given_its_servers() {
    let workspace = workspace(", permission: allow");
    workspace.write(
        "outer.yaml",
        format!(
            "name: outer\nagents:\n  - {{name: inner, acp: {{command: '{}', args: [--trust, acp, a.yaml]}}, tools: [h]}}\ntools:\n  \
             h: {{mcp: {{command: [sh, hostile.sh], env: {{PLANTED: through, PREFIXED: both}}}}}}\n",
            crate::support::binary()
        ),
    );
    let outcome = workspace.run(["run", "outer.yaml", "--output", "json"]).expect_code(0);
    let said = output(&outcome)["response"].clone();
    assert!(
        said.as_str().is_some_and(|said| said.starts_with("through both ")),
        "{said}"
    );
}

#[test]
fn the_page_and_the_mcp_server_give_servers_by_a_file() {
    let workspace = workspace(", permission: allow");
    config(&workspace);
    let page = Page::start_with(&workspace, &["--port", "0", "--mcp-config", ".mcp.json"]);
    let started = page.done("/api/start", &json!({"ensemble": "a", "input": "go"}));
    page.follow(started["id"].as_str().expect("an id"))
        .until_outcome("completed");

    let mut client = McpClient::start(&workspace, &["--mcp-config", ".mcp.json"], json!({}));
    let result = client.document("a", json!({"input": "go"}));
    assert!(result.to_string().contains("oak x "), "{result}");
}

#[test]
fn servers_that_an_inner_ensemble_may_use_are_not_told_to_be_unused() {
    let workspace = workspace("");
    workspace.write("inner.yaml", "name: inner\nagents: [{name: i, script: echo inner}]\n");
    let tool = "name: t\nmodel_profiles: {p: {provider: simulated, replies: [said]}}\nagents: [{name: t, model_profile: p, tools: [i]}]\ntools: {i: {ensemble: inner.yaml}}\n";
    for (text, said) in [
        ("name: o\nagents: [{name: o, ensemble: inner.yaml}]\n", false),
        (tool, false),
        ("name: s\nagents: [{name: s, script: echo said}]\n", true),
    ] {
        workspace.write("a.yaml", text);
        let mut client = Client::start(&workspace, "a.yaml", json!({}));
        let session = session(&mut client, &workspace, &[server(&workspace, "other")]);
        client.prompt(&session, "go");
        let told = client.told("agent_message_chunk");
        assert_eq!(told.contains("of the client: other."), said, "{text}: {told}");
    }
}

#[test]
fn what_is_written_wrong_is_told_with_what_was_meant() {
    let workspace = workspace("");
    let file = workspace.read("a.yaml").replace("mcp: client", "mcp: clent");
    workspace.write("a.yaml", file);
    let found = workspace.run(["validate", "a.yaml"]).expect_code(2);
    let all = format!("{}{}", found.stdout, found.stderr);
    assert!(all.contains("did you mean `client`?"), "{all}");
    config(&workspace);
    let refused = workspace.run([
        "run",
        "a.yaml",
        "--mcp-config",
        ".mcp.json",
        "--on",
        "http://127.0.0.1:1",
    ]);
    assert!(
        refused.code == 2 && refused.stderr.contains("cannot be used with"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_run_that_waits_is_answered_with_the_servers_of_the_session() {
    let workspace = workspace("");
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: you, input: {prompt: Now?}}\n  - {name: a, tool: h.env, depends_on: [you]}\ntools:\n  h: {mcp: client, permission: allow}\n",
    );
    config(&workspace);
    workspace
        .run(["run", "a.yaml", "--mcp-config", ".mcp.json"])
        .expect_code(3);
    let id = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let named = json!({"sessionId": id, "cwd": workspace.path(), "mcpServers": [server(&workspace, "h")]});
    client.ask("session/load", named);
    client.updates.clear();
    assert_eq!(client.prompt(&id, "yes")["result"]["stopReason"], "end_turn");
    assert!(client.told("agent_message_chunk").contains("planted"));
}

#[test]
fn values_of_the_environment_in_a_file_of_servers_need_trust() {
    let workspace = workspace(", permission: allow");
    workspace.write("hostile.sh", format!("touch started\n{}", read("tests/mcp/hostile.sh")));
    let run = ["run", "a.yaml", "--mcp-config", ".mcp.json"];
    let variables = [("MY_TOKEN", TOKEN)];
    // The ensemble calls a server of the user without asking, which needs trust, too.
    workspace.wary(["trust", "a.yaml", "--yes"], &[]).expect_code(0);
    for (server, line) in [
        (
            json!({"command": "sh", "args": ["hostile.sh"], "env": {"PREFIXED": "${MY_TOKEN}"}}),
            "server `h` gives the value of MY_TOKEN to the program `sh hostile.sh`, as PREFIXED",
        ),
        (
            json!({"command": "sh", "args": ["hostile.sh", "${MY_TOKEN:-x}"]}),
            "server `h` gives the value of MY_TOKEN to the program `sh hostile.sh ${MY_TOKEN:-x}`, in an argument",
        ),
        (
            json!({"command": "sh", "args": ["hostile.sh", "${HOME}"]}),
            "server `h` gives the value of HOME to the program `sh hostile.sh ${HOME}`, in an argument",
        ),
        (
            json!({"url": "https://${MY_TOKEN}.invalid/mcp"}),
            "server `h` gives the value of MY_TOKEN to https://${MY_TOKEN}.invalid/mcp, in the address",
        ),
        (
            json!({"url": "https://somewhere.invalid/mcp", "headers": {"X": "Bearer ${MY_TOKEN}"}}),
            "server `h` gives the value of MY_TOKEN to https://somewhere.invalid/mcp, in the header X",
        ),
    ] {
        workspace.write(".mcp.json", json!({"mcpServers": {"h": server}}).to_string());
        for arguments in [
            &run[..],
            &["mcp", "--mcp-config", ".mcp.json"],
            &["ui", "--mcp-config", ".mcp.json"],
        ] {
            let told = workspace.wary(arguments, &variables);
            assert_eq!(told.code, 2, "{arguments:?}: {told:?}");
            assert!(told.stderr.contains(line), "{line}: {told:?}");
        }
        assert!(!workspace.path().join("started").exists(), "{line}");
    }
    let server = json!({"command": "sh", "args": ["hostile.sh"], "env": {"PREFIXED": "${MY_TOKEN}"}});
    workspace.write(".mcp.json", json!({"mcpServers": {"h": server}}).to_string());
    let trusted = workspace.wary(["trust", ".mcp.json", "--yes"], &[]).expect_code(0);
    assert!(trusted.stdout.contains("gives the value of MY_TOKEN"), "{trusted:?}");
    workspace.wary(run, &variables).expect_code(0);
    assert!(workspace.path().join("started").exists());
    // Trust is bound to what was shown.
    let other = json!({"command": "sh", "args": ["hostile.sh", "more"], "env": {"PREFIXED": "${MY_TOKEN}"}});
    workspace.write(".mcp.json", json!({"mcpServers": {"h": other}}).to_string());
    workspace.wary(run, &variables).expect_code(2);
}

#[test]
fn values_of_the_environment_are_not_sent_over_plain_http_to_another_machine() {
    let workspace = workspace("");
    for server in [
        json!({"url": "http://192.0.2.1/mcp", "headers": {"X": "${MY_TOKEN}"}}),
        json!({"url": "http://192.0.2.1/${MY_TOKEN}"}),
    ] {
        workspace.write(".mcp.json", json!({"mcpServers": {"h": server}}).to_string());
        let mut command = workspace.command(["run", "a.yaml", "--mcp-config", ".mcp.json"]);
        let child = command.env("MY_TOKEN", TOKEN).spawn().expect("the program starts");
        let told = crate::support::Running(child).finish().expect_code(2);
        assert!(told.stderr.contains("begins with `http://`"), "{told:?}");
        assert!(!told.stderr.contains(TOKEN), "{told:?}");
    }
}
