//! `ensemble lsp`: the life of the server, and findings while somebody types.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use crate::support::Workspace;
use crate::support::editor::{Editor, frame};
use serde_json::{Value, json};

/// It has one error.
const BROKEN: &str = "name: broken\nagents:\n  - name: a\n    script: a.rhai\n    depends_on: [nobody]\n";
const SOUND: &str = "name: sound\nagents:\n  - name: a\n    script: a.rhai\n";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("a.rhai", "#{ done: true }");
    workspace
}

#[test]
fn the_server_lives_and_ends_as_the_protocol_wants_it() {
    let workspace = workspace();
    let mut editor = Editor::bare(&workspace, workspace.command(["lsp"]));
    assert_eq!(
        editor.refused("textDocument/hover", json!({})).0,
        -32002,
        "not initialized"
    );
    let answer = editor.initialize(json!({}));
    assert_eq!(answer["serverInfo"]["name"], "ensemble");
    assert_eq!(answer["capabilities"]["positionEncoding"], "utf-16");
    assert_eq!(answer["capabilities"]["textDocumentSync"]["change"], 2);
    assert_eq!(editor.refused("initialize", json!({"capabilities": {}})).0, -32600);
    let (code, why) = editor.refused("textDocument/inlayHint", json!({}));
    assert_eq!(
        (code, why.as_str()),
        (-32601, "there is no request `textDocument/inlayHint`")
    );
    editor.tell("$/unknown", json!({}));
    editor.ask("shutdown", Value::Null);
    assert_eq!(
        editor.refused("textDocument/hover", json!({})).0,
        -32600,
        "after shutdown"
    );
    editor.tell("exit", Value::Null);
    assert_eq!(editor.ended(), (Some(0), String::new()));
}

#[test]
fn the_exit_code_is_1_without_a_shutdown_and_when_the_editor_is_gone() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.tell("exit", Value::Null);
    assert_eq!(editor.ended(), (Some(1), String::new()), "exit without shutdown");
    let mut editor = Editor::start(&workspace);
    editor.hang_up();
    assert_eq!(editor.ended(), (Some(1), String::new()), "the input ends");
}

#[test]
fn the_server_ends_when_the_process_of_the_editor_ends() {
    let workspace = workspace();
    let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
    let mut editor = Editor::bare(&workspace, workspace.command(["lsp"]));
    editor.ask("initialize", json!({"processId": sleeper.id(), "capabilities": {}}));
    sleeper.kill().expect("it is there");
    sleeper.wait().expect("it ended");
    assert_eq!(editor.ended(), (Some(1), String::new()), "its input is still open");
}

#[test]
fn what_is_no_frame_ends_the_server_with_an_error_that_says_why() {
    let workspace = workspace();
    for (bytes, says) in [
        ("name: x\nagents: []\n", "a header line does not end with CR and LF"),
        ("Content-Length: 4000000000000\r\n\r\n", "is larger than 128 MiB"),
        ("Content-Length: 4\r\n\r\nnope", "a message is not valid"),
    ] {
        let mut editor = Editor::bare(&workspace, workspace.command(["lsp"]));
        editor.write(bytes.as_bytes());
        let (code, said) = editor.ended();
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.starts_with("error: standard input is not valid in the Language Server Protocol")
                && said.contains(says),
            "{said}"
        );
    }
    let outcome = workspace.run(["lsp"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "nobody is there");
}

/// The findings of `validate --output json` about a file, as the server shows them.
pub(super) fn validated(workspace: &Workspace, name: &str) -> Vec<Value> {
    let outcome = workspace.run(["validate", "--output", "json", name]);
    let report = outcome.json();
    let one = |finding: &Value| {
        let help = finding["help"].as_str().map(|help| format!("\nhelp: {help}"));
        json!({
            "code": finding["code"],
            "message": format!("{}{}", finding["message"].as_str().expect("a message"), help.unwrap_or_default()),
            "severity": match finding["severity"].as_str() { Some("error") => 1, Some("warning") => 2, _ => 3 },
            "start": [finding["line"].as_u64().expect("a line") - 1, finding["column"].as_u64().expect("a column") - 1],
        })
    };
    report["diagnostics"]
        .as_array()
        .expect("findings")
        .iter()
        .map(one)
        .collect()
}

pub(super) fn as_validated(findings: &[Value]) -> Vec<Value> {
    let one = |finding: &Value| {
        assert_eq!(finding["source"], "ensemble");
        let start = &finding["range"]["start"];
        json!({
            "code": finding["code"],
            "message": finding["message"],
            "severity": finding["severity"],
            "start": [start["line"], start["character"]],
        })
    };
    findings.iter().map(one).collect()
}

#[test]
fn findings_are_those_of_validate() {
    let workspace = workspace();
    workspace.write(
        ".ensemble/config.yaml",
        "model_profiles:\n  m: {provider: simulated, replies: [a]}\n",
    );
    let text = "name: many\nagents:\n  - name: a\n    script: a.rhai\n  - name: b\n    model_profile: m\n    depends_on: [a]\n  \
                - name: c\n    model_profile: unknown\n    dependencies:\n      - {agent_name: a, condition: output.doen}\n  \
                - name: d\n    script: missing.rhai\n    dependencies: [{agent_name: b, condition: 'True'}]\nmodel_profiles:\n  \
                unused: {provider: simulated, replies: [x]}\n";
    let mut editor = Editor::start(&workspace);
    for (name, text) in [
        ("many.yaml", text),
        ("broken.yaml", BROKEN),
        ("bad.yaml", "name: [\nagents: x"),
    ] {
        editor.open(name, text);
        let findings = editor.findings(name, 1);
        workspace.write(name, text);
        let expected = validated(&workspace, name);
        assert!(!expected.is_empty());
        assert_eq!(as_validated(&findings), expected, "{name}");
    }
    let severities: Vec<Value> = validated(&workspace, "many.yaml")
        .iter()
        .map(|finding| finding["severity"].clone())
        .collect();
    assert!(
        severities.contains(&json!(2)) && severities.contains(&json!(3)),
        "{severities:?}"
    );
    editor.end();
}

#[test]
fn findings_follow_the_text_and_go_with_it() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", BROKEN);
    assert_eq!(editor.codes("a.yaml", 1), ["E021"]);
    // The text of the file is not on disk; it is only in the editor.
    let range = json!({"start": {"line": 4, "character": 17}, "end": {"line": 4, "character": 23}});
    editor.change("a.yaml", 2, json!([{"range": range, "text": ""}]));
    assert_eq!(editor.codes("a.yaml", 2), [""; 0]);
    editor.change("a.yaml", 3, json!([{"range": range, "text": "x"}, {"text": BROKEN}]));
    assert_eq!(editor.codes("a.yaml", 3), ["E021"], "changes are applied in order");
    let uri = editor.uri("a.yaml");
    editor.tell("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    assert_eq!(editor.codes("a.yaml", None), [""; 0], "cleared");
    editor.open("notes.yaml", "name: not an ensemble\nsteps: [1]\n");
    assert_eq!(editor.codes("notes.yaml", 1), [""; 0], "another kind of file");
    editor.end();
}

#[test]
fn columns_are_counted_as_the_client_wants_it() {
    let workspace = workspace();
    let text = "name: x\nagents:\n  - {name: a, description: '𝄞é', script: a.rhai, depends_on: [nobody]}\n";
    let before =
        &text.lines().nth(2).expect("a line")[..text.lines().nth(2).expect("a line").find("nobody").expect("it")];
    for (capabilities, name, column) in [
        (json!({}), "utf-16", before.encode_utf16().count()),
        (
            json!({"general": {"positionEncodings": ["utf-8", "utf-16"]}}),
            "utf-8",
            before.len(),
        ),
    ] {
        let mut editor = Editor::bare(&workspace, workspace.command(["lsp"]));
        let answer = editor.initialize(capabilities);
        assert_eq!(answer["capabilities"]["positionEncoding"], name);
        editor.open("a.yaml", text);
        let findings = editor.findings("a.yaml", 1);
        assert_eq!(findings[0]["range"]["start"]["character"], column, "{name}");
        // Edits too: `nobody` becomes `a`, which cannot depend on itself.
        let range = json!({"start": {"line": 2, "character": column}, "end": {"line": 2, "character": column + 6}});
        editor.change("a.yaml", 2, json!([{"range": range, "text": ""}]));
        assert_eq!(editor.codes("a.yaml", 2), [""; 0], "{name}");
        editor.end();
    }
}

#[test]
fn other_places_of_a_finding_are_shown_to_clients_that_show_them() {
    let workspace = workspace();
    let text = "name: x\nagents:\n  - {name: a, script: a.rhai}\n  - {name: a, script: a.rhai}\n";
    for shows in [true, false] {
        let mut editor = Editor::bare(&workspace, workspace.command(["lsp"]));
        editor.initialize(json!({"textDocument": {"publishDiagnostics": {"relatedInformation": shows}}}));
        editor.open("a.yaml", text);
        let findings = editor.findings("a.yaml", 1);
        let related = findings[0]["relatedInformation"][0]["location"]["range"]["start"]["line"].as_u64();
        assert_eq!(related, shows.then_some(2), "{findings:?}");
        editor.end();
    }
}

#[test]
fn files_that_change_on_disk_lead_to_other_findings() {
    let workspace = workspace();
    workspace.write("inner.yaml", SOUND);
    let text = "name: x\nagents:\n  - {name: a, script: a.rhai}\n  - {name: i, ensemble: inner.yaml}\n  - name: b\n    script: a.rhai\n    \
                dependencies: [{agent_name: a, condition: output.done}]\n";
    let mut editor = Editor::bare(&workspace, workspace.command(["lsp"]));
    editor.initialize(json!({"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": true}}}));
    let asked = editor.wait("a registration", |message| {
        message["method"] == "client/registerCapability"
    });
    assert_eq!(
        asked["params"]["registrations"][0]["method"],
        "workspace/didChangeWatchedFiles"
    );
    editor.open("x.yaml", text);
    assert_eq!(editor.codes("x.yaml", 1), [""; 0]);
    workspace.write("a.rhai", "#{ finished: true }");
    let (script, inner) = (editor.uri("a.rhai"), editor.uri("inner.yaml"));
    editor.tell(
        "workspace/didChangeWatchedFiles",
        json!({"changes": [{"uri": script, "type": 2}]}),
    );
    assert_eq!(editor.codes("x.yaml", 1), ["W013"]);
    workspace.write("a.rhai", "#{ done: true }");
    workspace.write("inner.yaml", BROKEN);
    editor.tell("textDocument/didSave", json!({"textDocument": {"uri": inner}}));
    assert_eq!(editor.findings("x.yaml", 1).len(), 1);
    editor.end();
}

#[test]
fn a_configuration_is_checked_in_its_own_text_and_on_disk() {
    let workspace = workspace();
    let wrong = "model_profiles:\n  m: {provider: simulated}\n";
    let mut editor = Editor::start(&workspace);
    editor.open(".ensemble/config.yaml", wrong);
    assert_eq!(editor.codes(".ensemble/config.yaml", 1), ["E030"], "while it is typed");
    let uri = editor.uri(".ensemble/config.yaml");
    editor.tell("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    editor.codes(".ensemble/config.yaml", None);
    workspace.write(".ensemble/config.yaml", wrong);
    editor.open("a.yaml", SOUND);
    editor.codes("a.yaml", 1);
    assert_eq!(
        editor.codes(".ensemble/config.yaml", None),
        ["E030"],
        "around an ensemble"
    );
    workspace.write(".ensemble/config.yaml", "model_profiles: {}\n");
    editor.tell(
        "workspace/didChangeWatchedFiles",
        json!({"changes": [{"uri": uri, "type": 2}]}),
    );
    assert_eq!(editor.codes(".ensemble/config.yaml", None), [""; 0]);
    editor.end();
}

/// An ensemble with many agents, of which each depends on the one before it.
fn large(agents: usize) -> String {
    let mut text = "name: large\nagents:\n".to_owned();
    for at in 0..agents {
        text.push_str(&format!("  - name: a{at}\n    script: a.rhai\n"));
        if at > 0 {
            text.push_str(&format!(
                "    dependencies: [{{agent_name: a{}, condition: output.done}}]\n",
                at - 1
            ));
        }
    }
    text
}

#[test]
fn the_newest_text_wins() {
    let workspace = workspace();
    let text = large(300);
    let mut editor = Editor::start(&workspace);
    let mut bytes = Vec::new();
    let uri = editor.uri("a.yaml");
    let item = json!({"uri": uri, "languageId": "yaml", "version": 1, "text": text});
    bytes.extend(frame(
        &json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": item}}),
    ));
    let line = text.lines().count();
    for version in 2..=200 {
        let at = json!({"line": line, "character": 0});
        let added = if version == 200 { "x: 1" } else { "" };
        let params = json!({
            "textDocument": {"uri": uri, "version": version},
            "contentChanges": [{"range": {"start": at, "end": at}, "text": added}],
        });
        bytes.extend(frame(
            &json!({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": params}),
        ));
    }
    editor.write(&bytes);
    assert_eq!(editor.codes("a.yaml", 200), ["E010"]);
    // Only a few of the others were worth the work.
    let uri = editor.uri("a.yaml");
    let id = editor.begin("unknown", json!({}));
    editor.answer(id);
    let mut published = 0;
    let mut last = 0;
    while let Some(message) = editor.passed_over("textDocument/publishDiagnostics") {
        assert_eq!(message["params"]["uri"], uri.as_str());
        let version = message["params"]["version"].as_i64().expect("a version");
        assert!(version > last && version < 200, "{version} after {last}");
        last = version;
        published += 1;
    }
    assert!(
        published < 100,
        "{published} of 199 older texts were checked to the end"
    );
    editor.end();
}

#[test]
fn standard_output_carries_nothing_but_frames() {
    let workspace = workspace();
    // A profile that needs trust and has none is told of, by other commands on standard error.
    workspace.write(
        ".ensemble/config.yaml",
        "model_profiles:\n  m: {provider: openai, model: m, base_url: 'https://example.com'}\n",
    );
    let mut command = workspace.command(["lsp"]);
    command.env_remove("ENSEMBLE_TRUST");
    let mut editor = Editor::bare(&workspace, command);
    editor.initialize(json!({}));
    editor.open("a.yaml", BROKEN);
    assert_eq!(editor.codes("a.yaml", 1), ["E021"]);
    assert!(editor.passed_over("not a frame").is_none());
    let (code, said) = editor.end();
    assert_eq!((code, said.as_str()), (Some(0), ""));
}
