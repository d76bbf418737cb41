//! How fast the language server answers a keystroke: the edit of a file with 300 agents, its findings and a completion, beside
//! `ensemble validate` of the same file, which is what an editor without the server can start after each keystroke.
//!
//! `cargo bench --bench editing`
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use support::{Figures, micros, say, show, time};

const KEYSTROKES: usize = 200;
const VALIDATED: usize = 20;
const AGENTS: usize = 300;
/// The line on which is typed, and the condition before what is typed.
const TYPED: &str = "        condition: outputs.agent0.";

fn main() {
    let folder = tempfile::TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("judge.rhai"), "#{ score: execution * 2 }").expect("a file");
    let text = ensemble();
    std::fs::write(folder.path().join("large.yaml"), &text).expect("a file");
    say(&format!("a file of {AGENTS} agents, {} bytes", text.len()));
    let mut server = Server::start(folder.path());
    let line = text.lines().count() - 1;
    let (mut both, mut findings, mut validated) = (Figures::default(), Figures::default(), Figures::default());
    for keystroke in 0..KEYSTROKES {
        // A letter is typed, and taken back.
        let is_typed = keystroke % 2 == 0;
        let (checked, completed) = server.keystroke(line, is_typed, keystroke + 2);
        findings.add(checked);
        both.add(checked.max(completed));
        if keystroke % (KEYSTROKES / VALIDATED) == 0 {
            let (took, ended) = time(|| validate(folder.path()));
            assert!(ended, "the file is valid");
            validated.add(micros(took) / 1e3);
        }
    }
    let ratio = validated.median() / both.median();
    show("a keystroke: findings and a completion", &both, "ms", "");
    show("  the findings alone", &findings, "ms", "");
    show(
        "beside it: validate, the whole process",
        &validated,
        "ms",
        &format!("{ratio:.1} × (medians)"),
    );
}

fn ensemble() -> String {
    let mut text = "name: large\nagents:\n".to_owned();
    for at in 0..AGENTS {
        let _ = write!(
            text,
            "  - name: agent{at}\n    description: agent {at} of {AGENTS}\n    script: judge.rhai\n    config: {{depth: {at}}}\n"
        );
        if at > 0 {
            let _ = write!(
                text,
                "    dependencies:\n      - agent_name: agent{}\n        condition: output.score > {at} or turn_count > 3\n",
                at - 1
            );
        }
    }
    let _ = write!(
        text,
        "  - name: last\n    script: judge.rhai\n    dependencies:\n      - agent_name: agent0\n{TYPED}score"
    );
    text
}

fn validate(folder: &Path) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble"));
    command.args(["validate", "--quiet", "large.yaml"]).current_dir(folder);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The server, and an editor that waits for it.
struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    uri: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble"));
        command
            .arg("lsp")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut server = Self {
            stdin: child.stdin.take().expect("a pipe"),
            stdout: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
            uri: format!("file://{}/large.yaml", folder.display()),
        };
        server.send(&json!({"id": 1, "method": "initialize", "params": {"capabilities": {}}}));
        server.receive();
        let item = json!({"uri": server.uri, "languageId": "yaml", "version": 1, "text": ensemble()});
        server.send(&json!({"method": "textDocument/didOpen", "params": {"textDocument": item}}));
        server.receive();
        server
    }

    /// Types a letter or takes it back; the milliseconds until the findings and until the completion.
    fn keystroke(&mut self, line: usize, is_typed: bool, version: usize) -> (f64, f64) {
        let column = TYPED.len() + "score".len();
        let start = json!({"line": line, "character": column});
        let end = json!({"line": line, "character": column + usize::from(!is_typed)});
        let change = json!({
            "textDocument": {"uri": self.uri, "version": version},
            "contentChanges": [{"range": {"start": start, "end": end}, "text": if is_typed { "s" } else { "" }}],
        });
        let place = json!({"line": line, "character": TYPED.len()});
        let asked = json!({"textDocument": {"uri": self.uri}, "position": place});
        let begun = std::time::Instant::now();
        self.send(&json!({"method": "textDocument/didChange", "params": change}));
        self.send(&json!({"id": version, "method": "textDocument/completion", "params": asked}));
        let (mut checked, mut completed) = (None, None);
        while checked.is_none() || completed.is_none() {
            let message = self.receive();
            let took = micros(begun.elapsed()) / 1e3;
            if message["method"] == "textDocument/publishDiagnostics" {
                assert_eq!(
                    message["params"]["version"], version,
                    "the findings are about this text"
                );
                checked = Some(took);
            } else {
                let items = message["result"].as_array().expect("completions");
                assert!(
                    items.iter().any(|item| item["label"] == "score"),
                    "the key of the script"
                );
                completed = Some(took);
            }
        }
        (checked.unwrap_or_default(), completed.unwrap_or_default())
    }

    fn send(&mut self, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = json!("2.0");
        let text = message.to_string();
        write!(self.stdin, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("it reads");
    }

    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).expect("it writes");
            match line.trim_end().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().expect("a number"),
                None => break,
            }
        }
        let mut content = vec![0; length];
        self.stdout.read_exact(&mut content).expect("a message");
        serde_json::from_slice(&content).expect("JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
