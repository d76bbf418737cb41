//! A client of the language server: an editor of our own, which sends and reads frames.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::Workspace;

/// How long an answer may take on a machine that others use too.
const LONGEST: Duration = Duration::from_secs(60);

/// An editor and the server that it has started.
#[derive(Debug)]
pub(crate) struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    received: Receiver<Value>,
    /// Messages that were passed over.
    held: VecDeque<Value>,
    next: i32,
    root: String,
}

impl Editor {
    /// Starts the server in the workspace, and initializes it.
    pub(crate) fn start(workspace: &Workspace) -> Self {
        let mut editor = Self::bare(workspace, workspace.command(["lsp"]));
        editor.initialize(json!({}));
        editor
    }

    /// Starts the server, and says nothing to it.
    pub(crate) fn bare(workspace: &Workspace, mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
        let stdout = child.stdout.take().expect("it has standard output");
        let (sender, received) = channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            while let Some(message) = read_frame(&mut stdout) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            received,
            held: VecDeque::new(),
            next: 1,
            root: format!("file://{}", workspace.path().display()),
        }
    }

    /// Initializes the server with these capabilities of the client; its answer.
    pub(crate) fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({"processId": std::process::id(), "rootUri": self.root, "capabilities": capabilities});
        let answer = self.ask("initialize", params);
        self.tell("initialized", json!({}));
        answer
    }

    /// The id of the server's process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The address of a file of the workspace.
    pub(crate) fn uri(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    /// Writes bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("it is open");
        // A server that has ended does not read.
        let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
    }

    fn send(&mut self, message: &Value) {
        self.write(&frame(message));
    }

    /// Sends a notification.
    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request, and returns its number.
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> i32 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The answer to the request with this number: the whole message.
    pub(crate) fn answer(&mut self, id: i32) -> Value {
        self.wait(&format!("the answer {id}"), |message| {
            message["id"] == json!(id) && message.get("method").is_none()
        })
    }

    /// Sends a request, and waits for its result.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Sends a request that is refused; its code and message.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.begin(method, params);
        let answer = self.answer(id);
        let code = answer["error"]["code"].as_i64();
        let message = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
        (
            code.unwrap_or_else(|| panic!("{method} is not refused: {answer}")),
            message,
        )
    }

    /// The next message of which this is true; others before it are held for later.
    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.held.iter().position(&is_it) {
            return self.held.remove(at).expect("it is there");
        }
        loop {
            match self.received.recv_timeout(LONGEST) {
                Ok(message) if is_it(&message) => return message,
                Ok(message) => self.held.push_back(message),
                Err(RecvTimeoutError::Timeout) => panic!("{what} did not come; held: {:?}", self.held),
                Err(RecvTimeoutError::Disconnected) => panic!("the server ended before {what}; held: {:?}", self.held),
            }
        }
    }

    /// A message with this method that was passed over, the oldest first.
    pub(crate) fn passed_over(&mut self, method: &str) -> Option<Value> {
        let at = self.held.iter().position(|message| message["method"] == method)?;
        self.held.remove(at)
    }

    /// Opens a text.
    pub(crate) fn open(&mut self, name: &str, text: &str) {
        let uri = self.uri(name);
        self.tell(
            "textDocument/didOpen",
            json!({"textDocument": {"uri": uri, "languageId": "yaml", "version": 1, "text": text}}),
        );
    }

    /// Replaces the whole text.
    pub(crate) fn replace(&mut self, name: &str, version: i32, text: &str) {
        self.change(name, version, json!([{"text": text}]));
    }

    /// Changes a text.
    pub(crate) fn change(&mut self, name: &str, version: i32, changes: Value) {
        let uri = self.uri(name);
        self.tell(
            "textDocument/didChange",
            json!({"textDocument": {"uri": uri, "version": version}, "contentChanges": changes}),
        );
    }

    /// The findings that are published next about this version of a text (`None`: about the text without a version).
    #[track_caller]
    pub(crate) fn findings(&mut self, name: &str, version: impl Into<Option<i32>>) -> Vec<Value> {
        let (uri, version) = (self.uri(name), version.into());
        let published = self.wait(&format!("findings about {name} {version:?}"), |message| {
            let params = &message["params"];
            message["method"] == "textDocument/publishDiagnostics"
                && params["uri"] == uri.as_str()
                && params.get("version").and_then(Value::as_i64) == version.map(i64::from)
        });
        published["params"]["diagnostics"].as_array().expect("a list").clone()
    }

    /// Their codes.
    #[track_caller]
    pub(crate) fn codes(&mut self, name: &str, version: impl Into<Option<i32>>) -> Vec<String> {
        let findings = self.findings(name, version);
        let code = |finding: &Value| finding["code"].as_str().unwrap_or_default().to_owned();
        findings.iter().map(code).collect()
    }

    /// The parameters of a request about a place in a text.
    pub(crate) fn at(&self, name: &str, line: usize, character: usize) -> Value {
        json!({"textDocument": {"uri": self.uri(name)}, "position": {"line": line, "character": character}})
    }

    /// Says goodbye as the protocol wants it, and waits for the end of the server: its exit code and standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.ask("shutdown", Value::Null);
        self.tell("exit", Value::Null);
        self.ended()
    }

    /// Closes the server's input.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end of the server: its exit code and standard error.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let mut stderr = self.child.stderr.take().expect("it has standard error");
        let mut said = String::new();
        stderr.read_to_string(&mut said).expect("standard error is UTF-8");
        let status = self.child.wait().expect("the program can be waited for");
        (status.code(), said)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A message as a frame.
pub(crate) fn frame(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

/// The next message; `None` at the end. Whatever else stands in the stream fails the test.
fn read_frame(stdout: &mut impl BufRead) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if stdout.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end_matches("\r\n");
        match line.split_once(": ") {
            _ if line.is_empty() => break,
            Some(("Content-Length", value)) => length = value.parse().ok(),
            _ => return Some(json!({"method": "not a frame", "params": line})),
        }
    }
    let mut content = vec![0; length?];
    stdout.read_exact(&mut content).ok()?;
    serde_json::from_slice(&content).ok()
}
