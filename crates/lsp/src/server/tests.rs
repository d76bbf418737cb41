//! Interruption and answers: what is stale or cancelled is not sent, and each request is answered once. Checks wait until
//! the test lets them go on, so nothing depends on time.

use std::collections::BTreeMap;
use std::io::{BufReader, PipeReader, PipeWriter, Write as _, pipe};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::source::SourceText;
use ensemble_project::project::Project;
use lsp_server::{ErrorCode, Message};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{LspServerEnd, LspServerOptions, serve_client};
use ensemble_ide::analysis::findings::ProjectFileChecks;

const CONFIGURATION: &str = "file:///nowhere/.ensemble/config.yaml";

/// Checks that tell what they are asked, and wait.
#[derive(Debug)]
struct Gate {
    asked: Mutex<Sender<String>>,
    go_on: Mutex<Receiver<()>>,
}

impl ProjectFileChecks for Gate {
    fn check_test_file(&self, source: &SourceText, _: &Path, _: &Project) -> Vec<Diagnostic> {
        assert!(!source.text().contains("panic"), "the text says so");
        Vec::new()
    }

    fn check_configuration(&self, source: &SourceText, _: &Path, _: &Project) -> Vec<Diagnostic> {
        let _gone = self.asked.lock().expect("no panic").send(source.text().to_string());
        let _gone = self.go_on.lock().expect("no panic").recv();
        Vec::new()
    }
}

/// A client in this process.
struct Client {
    to: PipeWriter,
    from: BufReader<PipeReader>,
    thread: JoinHandle<LspServerEnd>,
    asked: Receiver<String>,
    go_on: Sender<()>,
}

impl Client {
    fn start() -> Self {
        let ((input, to), (from, output)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
        let ((tell, asked), (go_on, wait)) = (channel(), channel());
        let checks = Arc::new(Gate {
            asked: Mutex::new(tell),
            go_on: Mutex::new(wait),
        });
        let services = LspServerOptions {
            project: Project::from_folder("/nowhere"),
            checks,
            version: "0",
            graph: |_, format| (format == "dot").then(|| "digraph {}".to_owned()),
        };
        let thread = std::thread::spawn(move || serve_client(input, output, services));
        let from = BufReader::new(from);
        let mut client = Self {
            to,
            from,
            thread,
            asked,
            go_on,
        };
        client.ask(0, "initialize", &json!({"capabilities": {}}));
        assert_eq!(client.next()["id"], 0);
        client
    }

    fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        let text = message.to_string();
        write!(self.to, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("it is read");
    }

    fn ask(&mut self, id: i32, method: &str, params: &Value) {
        self.send(json!({"id": id, "method": method, "params": params}));
    }

    fn tell(&mut self, method: &str, params: &Value) {
        self.send(json!({"method": method, "params": params}));
    }

    fn open(&mut self, uri: &str, text: &str) {
        let item = json!({"uri": uri, "languageId": "yaml", "version": 1, "text": text});
        self.tell("textDocument/didOpen", &json!({"textDocument": item}));
    }

    fn replace(&mut self, uri: &str, version: i32, text: &str) {
        let params = json!({"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]});
        self.tell("textDocument/didChange", &params);
    }

    fn next(&mut self) -> Value {
        let message = Message::read(&mut self.from)
            .expect("a message")
            .expect("the server is there");
        serde_json::to_value(&message).expect("JSON")
    }

    /// Waits until the main loop has read all messages so far; the messages that came before.
    fn settle(&mut self, id: i32) -> Vec<Value> {
        self.ask(id, "unknown", &Value::Null);
        std::iter::from_fn(|| Some(self.next()).filter(|message| message["id"] != id)).collect()
    }

    /// Ends the server; the messages that came before.
    fn end(mut self) -> Vec<Value> {
        self.ask(-1, "shutdown", &Value::Null);
        self.tell("exit", &Value::Null);
        let mut messages = Vec::new();
        while let Some(message) = Message::read(&mut self.from).expect("a message") {
            messages.push(serde_json::to_value(&message).expect("JSON"));
        }
        let end = self.thread.join().expect("no panic");
        assert_eq!(end, LspServerEnd::Exit { after_shutdown: true });
        messages
    }
}

fn versions(messages: &[Value]) -> Vec<i64> {
    let published = messages
        .iter()
        .filter(|message| message["method"] == "textDocument/publishDiagnostics");
    published
        .filter_map(|message| message["params"]["version"].as_i64())
        .collect()
}

fn action(uri: &str) -> Value {
    let zero = json!({"line": 0, "character": 0});
    json!({"textDocument": {"uri": uri}, "range": {"start": zero, "end": zero}, "context": {"diagnostics": []}})
}

#[test]
fn a_stale_text_is_not_checked_and_a_stale_result_is_not_sent() {
    let mut client = Client::start();
    client.open(CONFIGURATION, "one");
    assert_eq!(client.asked.recv().expect("a check"), "one", "it is at work");
    for (version, text) in [(2, "two"), (3, "three"), (4, "four")] {
        client.replace(CONFIGURATION, version, text);
    }
    assert_eq!(client.settle(1), [Value::Null; 0]);
    client.go_on.send(()).expect("it waits");
    assert_eq!(
        client.asked.recv().expect("a check"),
        "four",
        "what is between is left out"
    );
    client.go_on.send(()).expect("it waits");
    let published = client.next();
    assert_eq!(versions(&[published]), [4], "nothing is told of the first text");
    assert_eq!(versions(&client.end()), [0; 0]);
}

#[test]
fn nothing_is_told_of_a_text_that_was_closed_while_it_was_checked() {
    let mut client = Client::start();
    client.open(CONFIGURATION, "one");
    client.asked.recv().expect("a check");
    client.replace(CONFIGURATION, 2, "two");
    client.tell(
        "textDocument/didClose",
        &json!({"textDocument": {"uri": CONFIGURATION}}),
    );
    let cleared = client.next();
    assert_eq!(cleared["params"]["diagnostics"], json!([]));
    client.go_on.send(()).expect("it waits");
    client.open("file:///nowhere/a.test.yaml", "fine");
    assert_eq!(versions(&[client.next()]), [1], "of the other text");
    assert!(client.asked.try_recv().is_err(), "the text that waited is not checked");
    assert_eq!(client.end().len(), 1, "the answer to `shutdown`");
}

#[test]
fn a_cancelled_request_is_answered_at_once_and_once() {
    let mut client = Client::start();
    client.open(CONFIGURATION, "text");
    client.asked.recv().expect("a check");
    client.go_on.send(()).expect("it waits");
    assert_eq!(versions(&[client.next()]), [1]);
    client.ask(1, "textDocument/codeAction", &action(CONFIGURATION));
    client.asked.recv().expect("it is at work");
    let place = json!({"textDocument": {"uri": CONFIGURATION}, "position": {"line": 0, "character": 0}});
    client.ask(2, "textDocument/hover", &place);
    client.send(json!({"id": "three", "method": "textDocument/codeAction", "params": action(CONFIGURATION)}));
    // Those that wait, and the one at work. An id of nobody is left alone.
    for id in [json!(2), json!("three"), json!(1), json!(99), json!(2)] {
        client.tell("$/cancelRequest", &json!({"id": id}));
    }
    let cancelled = ErrorCode::RequestCanceled as i32;
    for id in [json!(2), json!("three"), json!(1)] {
        let answer = client.next();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(cancelled)));
    }
    client.go_on.send(()).expect("it waits");
    assert_eq!(client.settle(4), [Value::Null; 0], "no second answer");
    assert!(client.asked.try_recv().is_err(), "what waited is not begun");
    client.tell("$/cancelRequest", &json!({"id": 4}));
    assert_eq!(client.end().len(), 1, "the answer to `shutdown`");
}

#[test]
fn an_error_in_a_check_ends_neither_thread() {
    let mut client = Client::start();
    let uri = "file:///nowhere/a.test.yaml";
    client.open(uri, "panic");
    client.ask(1, "textDocument/codeAction", &action(uri));
    let answer = client.next();
    assert_eq!(answer["error"]["code"], ErrorCode::InternalError as i32, "{answer}");
    client.replace(uri, 2, "fine");
    assert_eq!(versions(&[client.next()]), [2]);
    client.ask(2, "textDocument/codeAction", &action(uri));
    assert_eq!(client.next()["result"], json!([]));
    client.end();
}

/// Something that an editor does: `(what, where, what with)`.
type Act = (u8, (u32, u32), String);

const TEXT: &str = "name: x # é\nagents:\n  - name: a\n    model: ollama/x\n    prompt: '{{ b.text | upper }} 𝄞'\n    depends_on: [b]\n  - \
                    name: b\n    scirpt: b.rhai\nresult: {it: outputs.a.text}\n";

const METHODS: [&str; 9] = [
    "hover",
    "completion",
    "definition",
    "references",
    "documentHighlight",
    "prepareRename",
    "rename",
    "documentSymbol",
    "codeAction",
];

/// Does it; the id, if it is a request.
fn act(client: &mut Client, at: usize, (what, (line, character), text): &Act) -> Option<i32> {
    let uri = ["file:///nowhere/a.yaml", "file:///nowhere/a.test.yaml"][usize::from(what % 2)];
    let id = i32::try_from(at).expect("few") + 1;
    let place = json!({"line": line, "character": character});
    match what / 2 % 16 {
        0 => client.open(uri, text),
        1 => client.tell("textDocument/didClose", &json!({"textDocument": {"uri": uri}})),
        2 => client.tell("$/cancelRequest", &json!({"id": id - 1})),
        3 => client.tell("textDocument/didSave", &json!({"textDocument": {"uri": uri}})),
        other @ 4..=8 => {
            let end = json!({"line": line, "character": character + u32::from(other) - 4});
            let change = json!({"range": {"start": place, "end": end}, "text": text});
            let params = json!({"textDocument": {"uri": uri, "version": id}, "contentChanges": [change]});
            client.tell("textDocument/didChange", &params);
        }
        _ => {
            let mut params = action(uri);
            params["position"] = place;
            params["newName"] = json!(text);
            params["context"]["includeDeclaration"] = json!(what % 2 == 0);
            let method = METHODS[*character as usize % METHODS.len()];
            client.ask(id, &format!("textDocument/{method}"), &params);
            return Some(id);
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn each_request_is_answered_once_whatever_is_typed(
        acts in prop::collection::vec((any::<u8>(), (0u32..12, 0u32..40), "[a-z\u{e9}\u{1d11e}{}\\[\\]'\":#|&*<\n\r -]{0,6}"), 1..40),
    ) {
        let mut client = Client::start();
        client.open("file:///nowhere/a.yaml", TEXT);
        let mut open: BTreeMap<i32, usize> = BTreeMap::new();
        for (at, one) in acts.iter().enumerate() {
            open.extend(act(&mut client, at, one).map(|id| (id, 0)));
        }
        for message in client.settle(1000).iter().chain(&client.end()) {
            let Some(id) = message["id"].as_i64().filter(|id| *id > 0) else { continue };
            *open.get_mut(&i32::try_from(id).expect("small")).expect("it was asked") += 1;
            prop_assert!(message["error"]["code"] != ErrorCode::InternalError as i32, "{message}");
            prop_assert!(message["error"]["code"] != ErrorCode::InvalidParams as i32, "{message}");
        }
        prop_assert!(open.values().all(|count| *count == 1), "{open:?}");
    }
}
