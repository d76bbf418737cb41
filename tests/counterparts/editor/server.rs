//! A small editor: it starts the YAML language server and speaks its protocol over pipes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long the server may take for one answer; the first one loads the schema.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server, and what it has said about each text.
pub(crate) struct Server {
    child: Child,
    pipe: ChildStdin,
    messages: Receiver<Value>,
    requests: u64,
    /// Diagnostics by document and version.
    diagnostics: HashMap<(String, i64), Vec<Value>>,
    /// Versions of the documents that are open.
    open: HashMap<String, i64>,
    settings: Value,
}

/// Where `tests/install.sh` puts the server.
pub(crate) fn installed() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    // The lock comes last, so an installation that was cut short does not count.
    let whole = target.join("editor/package-lock.json").exists();
    let program = target.join("editor/node_modules/yaml-language-server/bin/yaml-language-server");
    let node = Command::new("node").arg("--version").stdout(Stdio::null()).status();
    (whole && program.exists() && node.is_ok_and(|status| status.success())).then_some(program)
}

impl Server {
    /// Starts it in `folder`. `schemas` maps a schema's address to the files that it is for, as an editor's settings do.
    pub(crate) fn start(program: &Path, folder: &Path, schemas: Value) -> Self {
        let mut child = Command::new("node")
            .arg(program)
            .arg("--stdio")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node starts");
        let pipe = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut output = output;
            while let Some(message) = read(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        // No schema store: the server must not reach for the network.
        let settings = json!({
            "validate": true, "hover": true, "completion": true, "schemas": schemas,
            "schemaStore": {"enable": false}, "kubernetesCRDStore": {"enable": false},
        });
        let mut server = Self {
            child,
            pipe,
            messages,
            requests: 0,
            diagnostics: HashMap::new(),
            open: HashMap::new(),
            settings,
        };
        let capabilities = json!({
            "workspace": {"configuration": true, "workspaceFolders": true},
            "textDocument": {
                "publishDiagnostics": {"versionSupport": true},
                "completion": {"completionItem": {"documentationFormat": ["markdown"], "snippetSupport": true}},
                "hover": {"contentFormat": ["markdown"]},
            },
        });
        let uri = address(folder);
        server.request(
            "initialize",
            json!({
                "processId": std::process::id(), "rootUri": uri, "capabilities": capabilities,
                "workspaceFolders": [{"uri": uri, "name": "project"}],
            }),
        );
        server.notify("initialized", json!({}));
        server.notify(
            "workspace/didChangeConfiguration",
            json!({"settings": {"yaml": server.settings}}),
        );
        server
    }

    /// Shows it a text under a file's name, in place of the one that it has seen.
    pub(crate) fn show(&mut self, file: &Path, text: &str) {
        let uri = address(file);
        let version = self.open.get(&uri).copied().unwrap_or(0) + 1;
        self.open.insert(uri.clone(), version);
        if version == 1 {
            let document = json!({"uri": uri, "languageId": "yaml", "version": version, "text": text});
            self.notify("textDocument/didOpen", json!({"textDocument": document}));
        } else {
            let document = json!({"uri": uri, "version": version});
            let change = json!({"textDocument": document, "contentChanges": [{"text": text}]});
            self.notify("textDocument/didChange", change);
        }
    }

    /// What it underlines in the text that it was shown last: line from 1, and message.
    pub(crate) fn squiggles(&mut self, file: &Path) -> Vec<(u64, String)> {
        let uri = address(file);
        let key = (uri.clone(), self.open[&uri]);
        let end = Instant::now() + PATIENCE;
        while !self.diagnostics.contains_key(&key) {
            self.take(end, &format!("diagnostics of {uri}"));
        }
        let line = |one: &Value| one["range"]["start"]["line"].as_u64().expect("a line") + 1;
        let message = |one: &Value| one["message"].as_str().unwrap_or_default().to_owned();
        let found = &self.diagnostics[&key];
        found.iter().map(|one| (line(one), message(one))).collect()
    }

    /// What it offers at a place: labels, each with what is said about it.
    pub(crate) fn completions(&mut self, file: &Path, place: (usize, usize)) -> Vec<(String, String)> {
        let answer = self.request("textDocument/completion", at(file, place));
        let items = answer["items"]
            .as_array()
            .or(answer.as_array())
            .cloned()
            .unwrap_or_default();
        let words = |item: &Value| {
            let said = &item["documentation"];
            let said = said["value"].as_str().or(said.as_str()).unwrap_or_default();
            (item["label"].as_str().unwrap_or_default().to_owned(), said.to_owned())
        };
        items.iter().map(words).collect()
    }

    /// What it shows when the pointer rests on a place.
    pub(crate) fn hover(&mut self, file: &Path, place: (usize, usize)) -> String {
        let answer = self.request("textDocument/hover", at(file, place));
        let said = answer["contents"]["value"].as_str().unwrap_or_default();
        // The server escapes for Markdown; what people see has no backslashes.
        said.replace('\\', "")
    }

    fn request(&mut self, method: &str, parameters: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
        let end = Instant::now() + PATIENCE;
        loop {
            let message = self.take(end, method);
            if message["id"] == id && message["method"].is_null() {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    fn notify(&mut self, method: &str, parameters: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": parameters}));
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        write!(self.pipe, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("the server listens");
        self.pipe.flush().expect("the server listens");
    }

    /// The next message. What the server asks of its editor is answered, and what it finds is kept.
    fn take(&mut self, end: Instant, awaited: &str) -> Value {
        let message = match self
            .messages
            .recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("no {awaited} within {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the server ended before {awaited}"),
        };
        if message["method"] == "textDocument/publishDiagnostics" {
            let about = &message["params"];
            let uri = about["uri"].as_str().unwrap_or_default().to_owned();
            let version = about["version"].as_i64().or(self.open.get(&uri).copied()).unwrap_or(0);
            let found = about["diagnostics"].as_array().cloned().unwrap_or_default();
            self.diagnostics.insert((uri, version), found);
        } else if message["method"].is_string() && !message["id"].is_null() {
            let result = match message["method"].as_str() {
                Some("workspace/configuration") => self.configuration(&message["params"]["items"]),
                _ => Value::Null,
            };
            self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        }
        message
    }

    fn configuration(&self, items: &Value) -> Value {
        let one = |item: &Value| match item["section"].as_str() {
            Some("yaml") => self.settings.clone(),
            _ => Value::Null,
        };
        items.as_array().into_iter().flatten().map(one).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A place in the protocol's words; `place` is a line and a column from 0.
fn at(file: &Path, (line, column): (usize, usize)) -> Value {
    json!({"textDocument": {"uri": address(file)}, "position": {"line": line, "character": column}})
}

/// A file's address.
pub(crate) fn address(file: &Path) -> String {
    format!("file://{}", file.display())
}

/// One message of the stream; `None` at its end.
fn read(output: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().ok()?;
        }
    }
    let mut bytes = vec![0; length];
    output.read_exact(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}
