//! The language server and an editor: edits and requests in any order; each request is answered once.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "`fuzz_target` writes the file that `RUST_LIBFUZZER_DEBUG_PATH` names"
)]

use std::collections::BTreeMap;
use std::io::{BufReader, Write, pipe};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use ensemble_ide::analysis::findings::ProjectFileChecks;
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::source::SourceText;
use ensemble_lsp::server::{LspServerEnd, LspServerOptions, serve_client};
use ensemble_project::Project;
use libfuzzer_sys::fuzz_target;
use lsp_server::Message;
use serde_json::{Value, json};

#[derive(Debug)]
struct NoChecks;

impl ProjectFileChecks for NoChecks {
    fn check_test_file(&self, _: &SourceText, _: &Path, _: &Project) -> Vec<Diagnostic> {
        Vec::new()
    }
    fn check_configuration(&self, _: &SourceText, _: &Path, _: &Project) -> Vec<Diagnostic> {
        Vec::new()
    }
}

/// The id of the last request.
const LAST: i32 = 9000;

const FILES: [&str; 3] = ["a.yaml", "a.test.yaml", ".ensemble/config.yaml"];
const REQUESTS: [&str; 10] = [
    "textDocument/hover",
    "textDocument/completion",
    "textDocument/definition",
    "textDocument/references",
    "textDocument/documentHighlight",
    "textDocument/prepareRename",
    "textDocument/rename",
    "textDocument/documentSymbol",
    "textDocument/codeAction",
    "workspace/executeCommand",
];

// The text of a file, then acts, each after the byte 1: six digits in base 36 (what, which file, a range) and a text.
fuzz_target!(|input: &str| {
    let ((from, mut editor), (answers, to)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    let services = LspServerOptions {
        project: Project::from_folder("/nowhere"),
        checks: Arc::new(NoChecks),
        version: "0",
        graph: |_, _| Some(String::new()),
    };
    let server = std::thread::spawn(move || serve_client(from, to, services));
    let (sender, received) = channel();
    let reader = std::thread::spawn(move || {
        let mut answers = BufReader::new(answers);
        while let Some(message) = Message::read(&mut answers).expect("a frame") {
            sender.send(message).expect("somebody counts");
        }
    });
    let mut send = |mut message: Value| {
        message["jsonrpc"] = json!("2.0");
        let text = message.to_string();
        write!(editor, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("it is read");
    };
    send(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    let mut parts = input.split('\u{1}');
    let open = |name: &str, text: &str| {
        let item = json!({"uri": format!("file:///nowhere/{name}"), "languageId": "yaml", "version": 0, "text": text});
        json!({"method": "textDocument/didOpen", "params": {"textDocument": item}})
    };
    send(open(FILES[0], parts.next().unwrap_or_default()));
    let mut asked: BTreeMap<i32, usize> = BTreeMap::from([(0, 0)]);
    for (id, act) in (1..).zip(parts.take(60)) {
        let digits: Vec<u32> = act.chars().take(6).map(|c| c.to_digit(36).unwrap_or(99)).collect();
        let [what, file, start_line, start, end_line, end] = digits[..] else {
            continue;
        };
        let text: String = act.chars().skip(6).collect();
        let name = FILES[file as usize % FILES.len()];
        let document = json!({"uri": format!("file:///nowhere/{name}"), "version": id});
        let place = json!({"line": start_line, "character": start});
        let range = json!({"start": place, "end": {"line": end_line, "character": end}});
        match what as usize {
            at if at < REQUESTS.len() => {
                let params = json!({
                    "textDocument": document, "position": place, "range": range, "newName": text, "command": "ensemble.graph",
                    "arguments": [document["uri"]], "context": {"diagnostics": [], "includeDeclaration": true},
                });
                asked.insert(id, 0);
                send(json!({"id": id, "method": REQUESTS[at], "params": params}));
            }
            10 => send(open(name, &text)),
            11 => send(json!({"method": "textDocument/didClose", "params": {"textDocument": document}})),
            12 => send(json!({"method": "$/cancelRequest", "params": {"id": id - 1}})),
            13 => send(json!({"method": "textDocument/didSave", "params": {"textDocument": document}})),
            _ => {
                let params = json!({"textDocument": document, "contentChanges": [{"range": range, "text": text}]});
                send(json!({"method": "textDocument/didChange", "params": params}));
            }
        }
    }
    // One thread answers, in the order of the requests.
    send(json!({"id": LAST, "method": "unknown"}));
    asked.insert(LAST, 0);
    while asked[&LAST] == 0 {
        count(received.recv().expect("the last answer"), &mut asked);
    }
    drop(editor);
    assert_eq!(server.join().expect("no panic"), LspServerEnd::ClientGone);
    reader.join().expect("no panic");
    received.iter().for_each(|message| count(message, &mut asked));
    assert!(asked.values().all(|count| *count == 1), "{asked:?}");
});

fn count(message: Message, asked: &mut BTreeMap<i32, usize>) {
    let Message::Response(response) = message else { return };
    let id: i32 = response.id.to_string().parse().expect("a number");
    *asked.get_mut(&id).expect("it was asked") += 1;
    let code = serde_json::to_value(&response).expect("JSON")["error"]["code"].as_i64();
    assert!(code != Some(-32603), "an error of the server");
}
