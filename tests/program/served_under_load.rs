//! Servers under load: clients without the token take nothing from the user.

#![expect(clippy::disallowed_methods, reason = "tests look at the clock")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::ui_chat::workspace;
use crate::support::Workspace;
use crate::support::mcp_client::Client as McpClient;
use crate::support::page::{Page, bearer};

/// More than the connections that may wait without a token.
const MANY: usize = 300;

fn connect(page: &Page, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", page.port)).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    // A connection that the server has closed takes nothing.
    let _ = stream.write_all(text.as_bytes());
    stream
}

#[test]
fn half_requests_and_slow_bodies_without_the_token_do_not_starve_the_page() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let host = format!("host: 127.0.0.1:{}\r\n", page.port);
    let half = format!("GET /api/runs HTTP/1.1\r\n{host}");
    let slow_session = format!("POST /api/session HTTP/1.1\r\n{host}content-length: 4000\r\n\r\n{{");
    let slow_start = format!("POST /api/start HTTP/1.1\r\n{host}content-length: 4000000\r\n\r\n{{");
    for text in [half, slow_session, slow_start] {
        let mut streams: Vec<TcpStream> = (0..MANY).map(|_| connect(&page, &text)).collect();
        let begun = Instant::now();
        assert!(page.get("/api/runs")["runs"].is_array());
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}: {text}",
            begun.elapsed()
        );
        let mut answer = String::new();
        let ended = streams[0].read_to_string(&mut answer);
        let is_open = ended.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        assert!(!is_open, "the oldest is closed: {text}");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
}

#[test]
fn a_large_body_without_the_token_is_not_read() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let host = format!("host: 127.0.0.1:{}\r\n", page.port);
    for (path, authorization, status) in [
        ("/api/start", String::new(), "401"),
        ("/api/session", String::new(), "413"),
        ("/api/start", format!("{}\r\n", bearer()), "413"),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\n{host}{authorization}content-length: 9000000\r\n\r\n");
        let mut stream = connect(&page, &head);
        if status == "413" {
            // The server closes the connection at the limit.
            let _ = stream.write_all(&vec![b' '; 9_000_000]);
        }
        let mut answer = [0; 12];
        let read = stream.read(&mut answer).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer[..read]);
        let is_closed = status == "413" && answer.is_empty();
        assert!(is_closed || answer.ends_with(status), "{path} {status}: {answer}");
    }
}

#[test]
fn a_large_message_of_a_client_is_answered_and_the_connection_goes_on() {
    let workspace = Workspace::new();
    let mut client = McpClient::start(&workspace, &[], json!({}));
    for (size, words) in [(60 << 20, "16 MiB"), (65 << 20, "a message of more than 64 MiB")] {
        let call = client.begin(
            "tools/call",
            json!({"name": "validate", "arguments": {"text": "x".repeat(size)}}),
        );
        let answer = client.answer(call).to_string();
        let end: String = answer.chars().take(2000).collect();
        assert!(answer.contains(words), "{size}: {end}");
    }
    assert!(client.ask("tools/list", json!({}))["tools"].is_array());
}

#[test]
fn a_graph_of_thousands_of_agents_is_drawn_in_time_or_refused() {
    let workspace = Workspace::new();
    let agents = |depends: &dyn Fn(usize) -> String| -> String {
        let lines = (0..3000).map(|at| format!("  - {{name: a{at}, script: echo, depends_on: [{}]}}\n", depends(at)));
        lines.collect()
    };
    let before = |at: usize, distance: usize| (at >= distance && distance > 0).then(|| format!("a{}", at - distance));
    let chain = agents(&|at| before(at, 1).unwrap_or_default());
    let fan = agents(&|at| if at == 0 { String::new() } else { "a0".to_owned() });
    let web = agents(&|at| {
        let all = [before(at, 1), before(at, at / 2), before(at, at / 3)]
            .into_iter()
            .flatten();
        let mut names: Vec<String> = all.collect();
        names.sort();
        names.dedup();
        names.join(", ")
    });
    for (name, text, is_drawn) in [("chain", chain, true), ("fan", fan, true), ("web", web, false)] {
        workspace.write(&format!("{name}.yaml"), format!("name: {name}\nagents:\n{text}"));
        for form in ["svg", "mermaid", "dot", "ascii"] {
            let begun = Instant::now();
            let outcome = workspace.run(["graph", &format!("{name}.yaml"), "--output", form]);
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{name} {form}: {:?}",
                begun.elapsed()
            );
            let (code, words) = match form == "svg" && !is_drawn {
                true => (2, "the graph is too large to be drawn: 3000 agents, "),
                false => (0, ""),
            };
            let outcome = outcome.expect_code(code);
            assert!(outcome.stderr.contains(words), "{name} {form}: {}", outcome.stderr);
        }
    }
}
