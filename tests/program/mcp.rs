//! Tools of MCP servers: what a user sees of their results, of their questions, and of servers over HTTP that refuse.

use crate::support::Workspace;
use crate::support::exchange::tool_calls;
use crate::support::files::read;
use crate::support::server::{Answer, Asked, Part, Server, nowhere};
use crate::support::terminal::Terminal;
use serde_json::{Value, json};

/// A workspace whose agent `a` calls these tools of the server `h`, one after the other.
fn workspace(server: &str, tools: &[&str]) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/mcp/hostile.sh"));
    let calls: Vec<String> = tools
        .iter()
        .map(|tool| format!("{{tool_calls: [{{name: h__{tool}}}]}}, "))
        .collect();
    workspace.write(
        "a.yaml",
        format!(
            "name: served\nagents:\n  - {{name: a, model_profile: m, tools: [h]}}\nmodel_profiles:\n  m: {{provider: simulated, \
             replies: [{}done]}}\ntools:\n  h: {{permission: allow, timeout_seconds: 3, mcp: {server}}}\n",
            calls.concat()
        ),
    );
    workspace
}

fn stdio(tools: &[&str]) -> Workspace {
    workspace("{command: [sh, hostile.sh]}", tools)
}

/// The results and errors of all calls of the run.
fn ends(workspace: &Workspace) -> Vec<Result<Value, String>> {
    let calls = tool_calls(&workspace.journal(), "a", 1).into_iter().flatten();
    calls
        .map(|call| match call.get("error") {
            Some(error) => Err(error.as_str().expect("a text").to_owned()),
            None => Ok(call["result"].clone()),
        })
        .collect()
}

#[test]
fn results_are_checked_and_nothing_of_them_is_lost() {
    let workspace = stdio(&["future", "json", "right", "wrong"]);
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let ends = ends(&workspace);
    let film = "see\n[content of the kind `video`, video/x, 3 bytes, which cannot be shown here]";
    assert_eq!(ends[0], Ok(json!(film)));
    assert_eq!(ends[1], Ok(json!("{\"n\": 1}")), "a text that is JSON is a text");
    assert_eq!(ends[2], Ok(json!({"n": 1})), "structured content is the result");
    let Err(error) = &ends[3] else { panic!("{ends:?}") };
    assert!(error.contains("does not match its `outputSchema`"), "{error}");
}

#[test]
fn a_person_answers_the_question_of_a_server() {
    let workspace = stdio(&["ask"]);
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("the tool `h.ask` asks a question:");
    terminal.wait_for("| Who are\\u{1b}[2K you?");
    terminal.wait_for("> ");
    // Longer than the call may take: the clocks stand.
    std::thread::sleep(std::time::Duration::from_secs(4));
    terminal.type_in("answer\n");
    for (field, refused, answer) in [
        ("name", Some(("x", "\"x\" is shorter than 2")), "Ada"),
        ("age", Some(("old", "`old` is not a whole number")), ""),
        ("sure", None, ""),
        ("colour", Some(("blue", "`blue` is not one of these")), "2"),
    ] {
        terminal.wait_for(&format!("asks for {field}: "));
        terminal.wait_for("> ");
        if let Some((wrong, why)) = refused {
            terminal.type_in(&format!("{wrong}\n"));
            terminal.wait_for(why);
            terminal.wait_for("> ");
        }
        terminal.type_in(&format!("{answer}\n"));
    }
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    let Ok(Value::String(answer)) = &ends(&workspace)[0] else {
        panic!("{text}")
    };
    let answer: Value = serde_json::from_str(answer).expect("JSON");
    let content = json!({"name": "Ada", "sure": true, "colour": "green"});
    assert_eq!(answer, json!({"action": "accept", "content": content}));
    let calls: Vec<Value> = tool_calls(&workspace.journal(), "a", 1).into_iter().flatten().collect();
    let answers = calls[0]["answers"]
        .as_array()
        .expect("what was answered is in the record");
    let given: Vec<&Value> = answers.iter().map(|one| &one["answer"]).collect();
    assert_eq!(given, ["answer", "Ada", "", "", "2"], "{answers:?}");
    assert_eq!(answers[0]["choices"], json!(["answer", "decline", "cancel"]));
    assert!(answers.iter().all(|one| one["source"] == "terminal"), "{answers:?}");
    let shown = workspace.run(["runs", "show", "--last"]).expect_code(0).stdout;
    assert!(shown.contains("· Ada · answered by the terminal"), "{shown}");
}

#[test]
fn a_question_of_a_server_can_be_refused() {
    for (typed, action) in [("decline\n", "decline"), ("3\n", "cancel")] {
        let workspace = stdio(&["ask"]);
        let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
        terminal.wait_for("2  decline");
        terminal.wait_for("> ");
        terminal.type_in(typed);
        assert_eq!(terminal.finish().0, 0);
        assert_eq!(ends(&workspace)[0], Ok(json!(format!("{{\"action\":\"{action}\"}}"))));
    }
}

#[test]
fn where_nobody_is_there_a_question_of_a_server_is_declined() {
    let workspace = stdio(&["ask", "ask"]);
    let outcome = workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(0);
    assert_eq!(ends(&workspace)[0], Ok(json!("{\"action\":\"decline\"}")));
    let warnings = outcome.json()["warnings"].to_string();
    assert!(
        warnings.contains("the tool `h.ask` asked a question, which was declined"),
        "{warnings}"
    );
}

fn response(status: &str, headers: &str, body: &str) -> Answer {
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
        body.len()
    );
    vec![Part::Bytes(text.into_bytes())]
}

/// The answers of a server with the tool `greet`, to whoever has the token.
fn speaks(asked: &Asked) -> Answer {
    if asked.header("authorization") != Some("Bearer s3cr3t") {
        let challenge = "www-authenticate: Bearer resource_metadata=\"http://x/y\"\r\n";
        return response("401 Unauthorized", challenge, "");
    }
    let result = match asked.body["method"].as_str() {
        Some("initialize") => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
        }
        Some("tools/list") => json!({"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]}),
        Some("tools/call") => json!({"content": [{"type": "text", "text": "hello"}]}),
        None => return response("405 Method Not Allowed", "", ""),
        Some(_) => return response("202 Accepted", "", ""),
    };
    let body = json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": result});
    response("200 OK", "content-type: application/json\r\n", &body.to_string())
}

/// The error of the only execution of a run with the server at this address.
fn failure(url: &str, headers: &str) -> String {
    let workspace = workspace(&format!("{{url: '{url}'{headers}}}"), &["greet"]);
    let outcome = workspace
        .command(["run", "a.yaml", "--output", "json"])
        .env("TOKEN", "wrong")
        .output()
        .expect("it runs");
    assert_eq!(outcome.status.code(), Some(1));
    let result: Value = serde_json::from_slice(&outcome.stdout).expect("JSON");
    let error = result["conversation_history"][0]["error"].as_str().expect("an error");
    for name in ["::", "Transport", "rmcp", "reqwest", "Error(", "Some("] {
        assert!(!error.contains(name), "{name}: {error}");
    }
    error.to_owned()
}

#[test]
fn a_token_opens_a_server_over_http() {
    let server = Server::new(|_, asked| speaks(asked));
    let token = "headers: {Authorization: {env: TOKEN, prefix: 'Bearer '}}";
    let workspace = workspace(&format!("{{url: '{}/mcp', {token}}}", server.url()), &["greet"]);
    let outcome = workspace
        .command(["run", "a.yaml"])
        .env("TOKEN", "s3cr3t")
        .output()
        .expect("it runs");
    assert_eq!(outcome.status.code(), Some(0));
    assert_eq!(ends(&workspace), [Ok(json!("hello"))]);

    let missing = failure(&format!("{}/mcp", server.url()), "");
    assert!(
        missing.contains("(HTTP 401)") && missing.contains("OAuth") && missing.contains("`headers: {Authorization:"),
        "{missing}"
    );
    let wrong = failure(&format!("{}/mcp", server.url()), &format!(", {token}"));
    assert!(wrong.contains("rejected the `Authorization` header"), "{wrong}");
}

#[test]
fn a_server_that_is_elsewhere_is_not_followed_but_named() {
    for status in [
        "301 Moved",
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let server = Server::new(move |_, _| response(status, "location: /mcp/?key=s3cr3t\r\n", ""));
        let error = failure(&format!("{}/mcp", server.url()), "");
        let told = format!(
            "the server redirects to {}/mcp/; write this address as `url`",
            server.url()
        );
        assert!(error.contains(&told) && !error.contains("s3cr3t"), "{status}: {error}");
        assert_eq!(server.asked().len(), 1, "{status}");
    }
    let server = Server::with(vec![response("302 Found", "location: http://login.example/\r\n", "")]);
    let error = failure(&format!("{}/mcp", server.url()), "");
    assert!(
        error.contains("on another host") && error.contains("login page"),
        "{error}"
    );
}

#[test]
fn servers_over_http_that_refuse_are_told_in_words() {
    let html = "content-type: text/html\r\n";
    for (status, headers, body, says) in [
        ("403 Forbidden", "", "", "refused access (HTTP 403)"),
        (
            "403 Forbidden",
            "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"files:read\"\r\n",
            "",
            "the token needs the scope files:read",
        ),
        (
            "404 Not Found",
            html,
            "<html>",
            "no MCP endpoint there (HTTP 404); is the path in `url` right?",
        ),
        ("500 Internal Server Error", "", "", "answered with HTTP 500"),
        (
            "429 Too Many Requests",
            "retry-after: 7\r\n",
            "",
            "HTTP 429; retry after: 7",
        ),
        ("400 Bad Request", "", "no\nsession", "HTTP 400 Bad Request: no session"),
        (
            "200 OK",
            html,
            "<html>",
            "answered with text/html, not with a message of the protocol",
        ),
        (
            "200 OK",
            "content-type: application/json\r\n",
            "{}",
            "does not match the protocol",
        ),
    ] {
        let server = Server::with(vec![response(status, headers, body)]);
        let error = failure(&format!("{}/mcp", server.url()), "");
        assert!(error.contains(says), "{status}: {error}");
    }
    let error = failure(&format!("{}/mcp?key=s3cr3t", nowhere()), "");
    assert!(error.contains("refused") && !error.contains("s3cr3t"), "{error}");
}
