//! A client of `ensemble mcp`: one JSON message in a line.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::Workspace;

/// How long a message may take on a machine that others use too.
const LONGEST: Duration = Duration::from_secs(60);

/// A client and the server that it has started.
#[derive(Debug)]
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    received: Receiver<Value>,
    /// Messages that were passed over.
    held: VecDeque<Value>,
    next: i64,
    /// What is added to each request.
    meta: Value,
}

impl Client {
    /// Starts the server in the workspace with these options, for a client with these capabilities.
    pub(crate) fn start(workspace: &Workspace, options: &[&str], capabilities: Value) -> Self {
        let words = [&["mcp"], options].concat();
        let mut client = Self::bare(workspace.command(words));
        let about = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}});
        let answer = client.ask("initialize", about);
        assert_eq!(answer["serverInfo"]["name"], "ensemble", "{answer}");
        client.tell("notifications/initialized", json!({}));
        client
    }

    /// Likewise, for a client that speaks the revision without a handshake.
    pub(crate) fn modern(workspace: &Workspace, options: &[&str], capabilities: Value) -> Self {
        let words = [&["mcp"], options].concat();
        let mut client = Self::bare(workspace.command(words));
        client.meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        client
    }

    /// Starts a server, and says nothing to it. Each line that it prints must be a message.
    pub(crate) fn bare(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
        let stdout = child.stdout.take().expect("it has standard output");
        let (sender, received) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({"not a message": line}));
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
            meta: json!({}),
        }
    }

    /// Writes a line as it is.
    pub(crate) fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it is open");
        // A server that has ended does not read.
        let _ = stdin
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| stdin.flush());
    }

    fn send(&mut self, message: &Value) {
        self.write(&message.to_string());
    }

    /// Sends a notification.
    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers a request of the server.
    pub(crate) fn reply(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Sends a request, and returns its number.
    pub(crate) fn begin(&mut self, method: &str, mut params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        if self.meta.as_object().is_some_and(|meta| !meta.is_empty()) {
            params["_meta"] = self.meta.clone();
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Begins a call of a tool, which wants progress.
    pub(crate) fn begin_call(&mut self, tool: &str, arguments: Value) -> i64 {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
        self.begin("tools/call", params)
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
                Err(error) => panic!("{what} did not come ({error}); held: {:?}", self.held),
            }
        }
    }

    /// The answer to the request with this number: the whole message.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: i64) -> Value {
        self.wait(&format!("the answer {id}"), |message| {
            message["id"] == json!(id) && message.get("method").is_none()
        })
    }

    /// The next request or notification with this method.
    #[track_caller]
    pub(crate) fn hear(&mut self, method: &str) -> Value {
        self.wait(method, |message| message["method"] == method)
    }

    /// Sends a request, and waits for its result.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The result of a call of a tool.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin_call(tool, arguments);
        self.answer(id)["result"].clone()
    }

    /// The document that a call of a tool gives, which is its text, too.
    #[track_caller]
    pub(crate) fn document(&mut self, tool: &str, arguments: Value) -> Value {
        document(&self.call(tool, arguments))
    }

    /// The text with which a call of a tool is refused.
    #[track_caller]
    pub(crate) fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The messages of progress that were passed over.
    pub(crate) fn progress(&mut self) -> Vec<String> {
        let is_progress = |message: &&Value| message["method"] == "notifications/progress";
        let told: Vec<String> = self
            .held
            .iter()
            .filter(is_progress)
            .map(|message| message["params"]["message"].as_str().unwrap_or_default().to_owned())
            .collect();
        self.held.retain(|message| !is_progress(&message));
        told
    }

    /// Kills the server at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is there");
        self.child.wait().expect("it ended");
    }

    /// Ends the input, and waits for the end of the server: its exit code and standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let code = self.child.wait().expect("it ended").code();
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        (code, said)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The document in the result of a call.
#[track_caller]
pub(crate) fn document(result: &Value) -> Value {
    let document = result["structuredContent"].clone();
    assert!(document.is_object(), "{result}");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().expect("a text")).expect("JSON");
    assert_eq!(text, document);
    document
}
