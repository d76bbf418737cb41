//! `ensemble ui` as a client of its own sees it: plain HTTP over a socket.

#![expect(clippy::disallowed_methods, reason = "tests look at the clock")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Running, Workspace};

/// The token of the servers in tests.
pub(crate) const TOKEN: &str = "a-token-of-the-tests";

/// A server, until it is dropped.
pub(crate) struct Page {
    pub(crate) server: Running,
    /// The address that it has printed.
    pub(crate) link: String,
    pub(crate) port: u16,
}

/// What a server has answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl Page {
    /// Starts a server at a free port.
    pub(crate) fn start(workspace: &Workspace) -> Self {
        Self::start_at(workspace, 0)
    }

    /// Starts a server at this port.
    pub(crate) fn start_at(workspace: &Workspace, port: u16) -> Self {
        Self::start_with(workspace, &["--port", &port.to_string()])
    }

    /// Starts a server with these options.
    pub(crate) fn start_with(workspace: &Workspace, options: &[&str]) -> Self {
        let mut command = workspace.command([&["ui"], options].concat());
        let mut server = command
            .env("ENSEMBLE_UI_TOKEN", TOKEN)
            .spawn()
            .expect("the program starts");
        let mut link = String::new();
        BufReader::new(server.stdout.as_mut().expect("an output"))
            .read_line(&mut link)
            .expect("an address");
        let link = link.trim().to_owned();
        let port = link
            .split(['/', '#'])
            .find_map(|part| part.rsplit_once(':')?.1.parse().ok());
        Self {
            server: Running(server),
            port: port.unwrap_or_else(|| panic!("an address with a port: {link}")),
            link,
        }
    }

    /// Sends a request with these lines in its head.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, lines: &[&str], body: &str) -> Answer {
        let mut stream = self.send(method, path, lines, body);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8(bytes).expect("UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("a head: {text}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer {
            status: status.unwrap_or_else(|| panic!("a status: {head}")),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// Sends a request, and leaves the answer to whoever reads the stream.
    pub(crate) fn send(&self, method: &str, path: &str, lines: &[&str], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a time limit");
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        if !lines.iter().any(|line| line.to_lowercase().starts_with("host:")) {
            head.push_str(&format!("host: 127.0.0.1:{}\r\n", self.port));
        }
        for line in lines {
            head.push_str(&format!("{line}\r\n"));
        }
        write!(stream, "{head}\r\n{body}").expect("the server reads");
        stream
    }

    /// Asks with the token, and expects an answer.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, &[&bearer()], "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Has something done with the token.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &[&bearer()], &body.to_string())
    }

    /// Likewise, and expects that it was done.
    #[track_caller]
    pub(crate) fn done(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// The body that answers the first request of the run: its address and its digest, with this key.
    #[track_caller]
    pub(crate) fn answering(&self, id: &str, key: &str, answer: &str) -> Value {
        let head = self.get(&format!("/api/run?id={id}"));
        let waiting = &head["waiting"];
        let lists = [&waiting["questions"], &waiting["permissions"], &head["questions"]];
        let request = lists.iter().find_map(|list| list.as_array()?.first());
        let request = request.unwrap_or_else(|| panic!("a request: {head}"));
        serde_json::json!({"id": id, "address": request["address"], "digest": request["digest"], key: answer})
    }

    /// Answers the first question of the run.
    #[track_caller]
    pub(crate) fn answer(&self, id: &str, answer: &str) {
        let body = self.answering(id, "answer", answer);
        self.done("/api/answer", &body);
    }

    /// Follows the file of an ensemble.
    pub(crate) fn watch(&self, file: &str) -> Events {
        let path = format!("/api/design/events?file={}", file.replace('/', "%2F"));
        Events(
            BufReader::new(self.send("GET", &path, &[&bearer()], "")),
            Instant::now(),
        )
    }

    /// Follows a run.
    pub(crate) fn follow(&self, id: &str) -> Events {
        let path = format!("/api/events?id={}", id.replace('/', "%2F"));
        Events(
            BufReader::new(self.send("GET", &path, &[&bearer()], "")),
            Instant::now(),
        )
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.server.0.kill();
        let _ = self.server.0.wait();
    }
}

pub(crate) fn bearer() -> String {
    format!("authorization: Bearer {TOKEN}")
}

/// Server-sent events.
pub(crate) struct Events(BufReader<TcpStream>, Instant);

impl Events {
    /// The next event: its name and its data.
    #[track_caller]
    pub(crate) fn next(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            let length = self.0.read_line(&mut line).expect("an event in time");
            assert!(length > 0, "the stream has ended");
            // The server sends comments while nothing happens.
            assert!(self.1.elapsed().as_secs() < 20, "what was waited for did not happen");
            if let Some(word) = line.strip_prefix("event: ") {
                name = word.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (
                    name,
                    serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")),
                );
            }
        }
    }

    /// Reads events until one is as wanted.
    #[track_caller]
    pub(crate) fn until(&mut self, mut wanted: impl FnMut(&str, &Value) -> bool) -> Value {
        loop {
            let (name, data) = self.next();
            if wanted(&name, &data) {
                return data;
            }
        }
    }

    /// Reads events until the run has this outcome, and is closed.
    #[track_caller]
    pub(crate) fn until_outcome(&mut self, outcome: &str) -> Value {
        self.until(|_, data| data["head"]["outcome"] == outcome && data["head"]["state"] != "running")
    }
}
