//! `ensemble mcp --http`: clients on this machine, with a token; no pages of browsers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::support::{Running, Workspace, eventually};
use serde_json::{Value, json};

/// A server, its address and its token.
struct Served {
    running: Running,
    host: String,
    token: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _gone = self.running.0.kill();
        let _status = self.running.0.wait();
    }
}

impl Served {
    fn start(workspace: &Workspace, options: &[&str]) -> Self {
        let words = [&["mcp", "--http", "127.0.0.1:0"], options].concat();
        let mut command = workspace.command(words);
        command.env("MY_TOKEN", "0123456789abcdef");
        let mut running = Running(command.spawn().expect("the program starts"));
        let mut said = BufReader::new(running.0.stderr.take().expect("standard error"));
        let mut line = || {
            let mut line = String::new();
            said.read_line(&mut line).expect("a line");
            line
        };
        assert!(line().starts_with("serving "));
        let address = line();
        let host = address
            .strip_prefix("at http://")
            .and_then(|rest| rest.strip_suffix("/mcp\n"));
        let host = host.unwrap_or_else(|| panic!("{address}")).to_owned();
        let token = match options.contains(&"--token-env") {
            false => line().trim_end().rsplit(' ').next().expect("a token").to_owned(),
            true => "0123456789abcdef".to_owned(),
        };
        Self { running, host, token }
    }

    /// Sends a request with these headers; the head of the answer, and its body.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.host).expect("the server");
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        stream
            .write_all(format!("{request}\r\n{body}").as_bytes())
            .expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), head.to_lowercase(), body.to_owned())
    }

    /// Sends a message as a client does; the message in the answer, and the session.
    fn message(&self, message: &Value, session: Option<&str>) -> (Value, Option<String>) {
        let token = format!("Bearer {}", self.token);
        let mut headers = vec![
            ("Host", &*self.host),
            ("Authorization", &*token),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
        let (status, head, body) = self.send("POST", "/mcp", &headers, &message.to_string());
        assert!((200..300).contains(&status), "{head}\n{body}");
        let session = head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: ").map(str::to_owned));
        let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        (
            messages.rfind(|found| found["id"] == message["id"]).unwrap_or_default(),
            session,
        )
    }

    fn session(&self) -> String {
        let about =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about});
        let (answer, session) = self.message(&initialize, None);
        assert_eq!(answer["result"]["serverInfo"]["name"], "ensemble", "{answer}");
        let session = session.expect("a session");
        self.message(
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            Some(&session),
        );
        session
    }

    fn call(&self, session: &str, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        self.message(&call, Some(session)).0["result"]["structuredContent"].clone()
    }
}

const SLOW: &str = "name: slow\ndefault_task: wait\nagents:\n  - {name: waiter, script: 'echo x >> begun; until [ -e go ]; do sleep 0.05; done; echo done'}\n";

#[test]
fn clients_with_the_token_share_the_runs() {
    let workspace = Workspace::new();
    workspace.write("slow.yaml", SLOW);
    let served = Served::start(&workspace, &["--wait", "1s", "--token-env", "MY_TOKEN"]);
    let (one, other) = (served.session(), served.session());
    assert_ne!(one, other);
    let told = served.call(&one, "slow", &json!({}));
    assert_eq!(told["status"], "running", "{told}");
    workspace.write("go", "");
    let run = json!({"run": told["run"]});
    let told = eventually("the end", || {
        let told = served.call(&other, "await_run", &run);
        (told["status"] != "running").then_some(told)
    });
    assert_eq!(told["status"], "completed");
}

#[test]
fn a_lost_client_ends_no_run() {
    let workspace = Workspace::new();
    workspace.write("slow.yaml", SLOW);
    let served = Served::start(&workspace, &[]);
    let session = served.session();
    let token = format!("Bearer {}", served.token);
    let params = json!({"name": "slow", "arguments": {}});
    let modern = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    // Once with a session, and once with the revision that has none.
    for (headers, meta) in [
        (vec![("Mcp-Session-Id", session.as_str())], None),
        (
            vec![
                ("MCP-Protocol-Version", "2026-07-28"),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "slow"),
            ],
            Some(modern),
        ),
    ] {
        let _old = std::fs::remove_file(workspace.path().join("begun"));
        let mut params = params.clone();
        if let Some(meta) = meta {
            params["_meta"] = meta;
        }
        let body = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}).to_string();
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: {token}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            served.host,
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = TcpStream::connect(&served.host).expect("the server");
        stream
            .write_all(format!("{request}\r\n{body}").as_bytes())
            .expect("it is sent");
        eventually("the script", || workspace.path().join("begun").exists().then_some(()));
        drop(stream);
        let other = served.session();
        let run = served.call(&other, "list_runs", &json!({"limit": 1}))["runs"][0].clone();
        assert_eq!(run["status"], "running", "{run}");
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(
            served.call(&other, "run_status", &json!({"run": run["run"]}))["status"],
            "running"
        );
        served.call(&other, "cancel_run", &json!({"run": run["run"]}));
    }
}

#[test]
fn pages_other_names_and_wrong_tokens_are_refused() {
    let workspace = Workspace::new();
    let served = Served::start(&workspace, &[]);
    assert!(served.token.len() >= 32, "{}", served.token);
    let (host, right) = (served.host.as_str(), format!("Bearer {}", served.token));
    let port = host.rsplit(':').next().expect("a port");
    let (page, local) = (format!("http://{host}"), format!("localhost:{port}"));
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}).to_string();
    let status = |headers: &[(&str, &str)], path: &str| {
        let rest = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let (status, head, _) = served.send("POST", path, &[headers, &rest].concat(), &ping);
        assert!(!head.contains("access-control"), "{head}");
        status
    };
    let token = ("Authorization", right.as_str());
    assert_eq!(status(&[("Host", host), token], "/mcp"), 200);
    assert_eq!(status(&[("Host", &local), token], "/mcp"), 200);
    assert_eq!(status(&[("Host", host), ("Origin", &page), token], "/mcp"), 200);
    assert_eq!(status(&[("Host", host), token], "/"), 404);
    for headers in [
        vec![("Host", "evil.example"), token],
        vec![("Host", "127.0.0.1"), token],
        vec![("Host", "localhost:1"), token],
        vec![token],
        vec![("Host", host), ("Host", host), token],
        vec![("Host", host), ("Origin", "http://evil.example"), token],
        vec![("Host", host), ("Origin", "null"), token],
        vec![("Host", host), ("Origin", "https://localhost"), token],
    ] {
        let told = status(&headers, "/mcp");
        assert!(told == 403 || told == 400, "{headers:?}: {told}");
    }
    let (longer, shorter) = (format!("{right}0"), right[..right.len() - 1].to_owned());
    for wrong in [
        "",
        "Bearer",
        "Bearer ",
        longer.as_str(),
        shorter.as_str(),
        &right.replace("Bearer", "Basic"),
    ] {
        assert_eq!(
            status(&[("Host", host), ("Authorization", wrong)], "/mcp"),
            401,
            "{wrong}"
        );
    }
    assert_eq!(status(&[("Host", host)], "/mcp"), 401);
    let (status, head, _) = served.send(
        "OPTIONS",
        "/mcp",
        &[("Host", host), ("Origin", "http://evil.example")],
        "",
    );
    assert_eq!((status, head.contains("access-control")), (403, false));
}

#[test]
fn addresses_that_others_reach_and_weak_tokens_are_refused() {
    let workspace = Workspace::new();
    let outcome = workspace.run(["mcp", "--http", "0.0.0.0:0"]).expect_code(2);
    assert!(
        outcome.stderr.contains("other machines can reach this address"),
        "{}",
        outcome.stderr
    );
    let outcome = workspace
        .run(["mcp", "--http", "127.0.0.1:0", "--token-env", "NOT_SET"])
        .expect_code(2);
    assert!(
        outcome.stderr.contains("at least 16 visible ASCII characters"),
        "{}",
        outcome.stderr
    );
    workspace.run(["mcp", "--token-env", "X"]).expect_code(2);
}
