//! `ensemble lsp` in a folder that a stranger has prepared: what `docs/security.md` promises.

#![expect(clippy::disallowed_methods, reason = "tests look at files and at processes")]

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Workspace;
use crate::support::editor::Editor;
use serde_json::{Value, json};

/// The files below a folder, with their texts.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.metadata().expect("it is there") {
            of if of.is_dir() => found.extend(files(&path)),
            of if of.is_file() => drop(found.insert(path.clone(), fs::read(&path).expect("it is read"))),
            _ => drop(found.insert(path, Vec::new())),
        }
    }
    found
}

/// Asks everything that can be asked, at each line.
fn ask_everything(editor: &mut Editor, name: &str, lines: usize) {
    let uri = editor.uri(name);
    for line in 0..lines {
        for column in [8, 14, 22, 30] {
            let mut params = editor.at(name, line, column);
            params["newName"] = json!("other");
            params["context"] = json!({"includeDeclaration": true, "diagnostics": []});
            let end = json!({"line": lines, "character": 0});
            params["range"] = json!({"start": {"line": 0, "character": 0}, "end": end});
            for method in [
                "hover",
                "completion",
                "definition",
                "references",
                "documentHighlight",
                "rename",
                "documentSymbol",
            ] {
                let id = editor.begin(&format!("textDocument/{method}"), params.clone());
                editor.answer(id);
            }
            if column == 8 {
                editor.ask("textDocument/codeAction", params);
            }
        }
    }
    let drawn = json!({"command": "ensemble.graph", "arguments": [uri, "svg"]});
    assert!(editor.ask("workspace/executeCommand", drawn).is_string());
}

/// An ensemble with all that a run would start or call.
fn dangerous(port: u16) -> String {
    format!(
        "name: dangerous\nagents:\n  - name: shell\n    script: touch executed\n  - name: program\n    script: ./run.sh\n  - name: model\n    \
         model_profile: m\n    prompt: '{{{{ shell.response }}}}'\n    depends_on: [shell]\n    tools: [own, server, remote]\n  - name: outside\n    \
         acp: {{command: ./run.sh}}\n    prompt: go\n  - name: asks\n    input: {{prompt: Well?}}\ntools:\n  own: {{script: ./run.sh, description: it runs, parameters: {{type: object}}}}\n  \
         server: {{mcp: {{command: [./run.sh]}}}}\n  remote: {{mcp: {{url: 'http://127.0.0.1:{port}/mcp'}}}}\nmodel_profiles:\n  \
         m: {{provider: openai, model: m, base_url: 'http://127.0.0.1:{port}/v1', api_key_env: OPENAI_API_KEY}}\n"
    )
}

#[test]
fn nothing_is_executed_called_or_written() {
    let workspace = Workspace::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it can be asked");
    let text = dangerous(listener.local_addr().expect("an address").port());
    workspace.script("run.sh", "#!/bin/sh\ntouch executed\n");
    workspace.write("a.yaml", &text);
    let test = "cases:\n  - name: it\n    live: true\n    expect: {order: [shell, nobody]}\n";
    workspace.write("a.test.yaml", test);
    workspace.write(".ensemble/config.yaml", "validate:\n  levels: {W003: off}\n");
    let before = files(&workspace.path());
    let mut command = workspace.command(["lsp"]);
    command
        .env("OPENAI_API_KEY", "sk-of-the-user")
        .env_remove("ENSEMBLE_TRUST");
    let mut editor = Editor::bare(&workspace, command);
    editor.initialize(json!({}));
    editor.open("a.yaml", &text);
    let errors: Vec<Value> = editor
        .findings("a.yaml", 1)
        .into_iter()
        .filter(|one| one["severity"] == 1)
        .collect();
    assert_eq!(errors, [Value::Null; 0], "the checks have read it to the end");
    editor.open("a.test.yaml", test);
    assert_eq!(editor.findings("a.test.yaml", 1).len(), 1);
    editor.tell(
        "textDocument/didSave",
        json!({"textDocument": {"uri": editor.uri("a.yaml")}}),
    );
    ask_everything(&mut editor, "a.yaml", text.lines().count());
    let process = PathBuf::from(format!("/proc/{}", editor.process()));
    if process.is_dir() {
        let threads = fs::read_dir(process.join("task")).expect("its threads").flatten();
        let children: String = threads
            .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default())
            .collect();
        assert_eq!(children, "", "no child process");
        let open = fs::read_dir(process.join("fd")).expect("its files").flatten();
        let open: Vec<PathBuf> = open.filter_map(|file| fs::read_link(file.path()).ok()).collect();
        assert!(
            open.iter().all(|file| !file.to_string_lossy().starts_with("socket:")),
            "{open:?}"
        );
    }
    let called = listener.accept().map(|_| ()).map_err(|error| error.kind());
    assert_eq!(called, Err(ErrorKind::WouldBlock), "nobody has connected");
    let (code, said) = editor.end();
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert_eq!(
        files(&workspace.path()),
        before,
        "no file is new or another, also none in the home folder"
    );
}

#[cfg(unix)]
#[test]
fn pipes_and_large_files_in_place_of_files_are_not_waited_for() {
    let workspace = Workspace::new();
    let pipe = |name: &str| {
        let made = Command::new("mkfifo").arg(workspace.path().join(name)).status();
        assert!(made.expect("mkfifo starts").success());
    };
    workspace.write("sub/x", "");
    for name in ["script.rhai", "beside.yaml", "inner.yaml", "sub/team.yaml"] {
        pipe(name);
    }
    let large = fs::File::create(workspace.path().join("large.rhai")).expect("a file");
    large.set_len(4 << 30).expect("a sparse file");
    workspace.write("own.rhai", "#{ ok: dependencies.a.response }");
    let text = "name: x\nagents:\n  - {name: a, script: script.rhai}\n  - {name: b, script: large.rhai}\n  - {name: c, ensemble: inner.yaml}\n  \
                - name: d\n    script: own.rhai\n    depends_on: [a]\n";
    let mut editor = Editor::start(&workspace);
    editor.open("x.yaml", text);
    let found = editor.codes("x.yaml", 1);
    assert!(found.len() >= 3, "each of them is told of: {found:?}");
    editor.open("sub/team.test.yaml", "cases:\n  - {name: it, expect: {order: [a]}}\n");
    assert_eq!(editor.codes("sub/team.test.yaml", 1), ["E080"]);
    ask_everything(&mut editor, "x.yaml", 3);
    let mut params = editor.at("x.yaml", 2, 12);
    params["newName"] = json!("other");
    let renamed = editor.ask("textDocument/rename", params);
    assert_eq!(renamed["changes"].as_object().expect("edits").len(), 2, "{renamed}");
    editor.end();
}
