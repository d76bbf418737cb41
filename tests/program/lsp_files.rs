//! `ensemble lsp`: test files, and what configurations say of findings.

use super::lsp::{as_validated, validated};
use crate::support::Workspace;
use crate::support::editor::Editor;
use serde_json::{Value, json};

const TEAM: &str = "\
name: team
agents:
  - name: writer
    script: writer.rhai
  - name: editor
    input: {prompt: Well?}
    depends_on: [writer]
";

const TESTS: &str = "\
cases:
  - name: all is well
    stubs: {writter: a text}
    expect: {order: [writer, nobody], outcom: completed}
  - name: nothing
    stubs:
      editor: yes
    answers: {editor: fine}
  - name: recorded
    from: nowhere
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("writer.rhai", "#{ done: true }");
    workspace.write("team.yaml", TEAM);
    workspace
}

#[test]
fn a_test_file_has_the_findings_of_validate() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    let fine = "cases:\n  - name: it\n    stubs: {writer: a}\n    answers: {editor: b}\n    expect: {order: [writer, nobody]}\n";
    for (name, text, code) in [
        ("team.test.yaml", TESTS, "E010"),
        ("team.test.yml", "cases: []\n", "E0"),
        ("team.test.yaml", &TESTS.replace("outcom:", "outcome:"), "E021"),
        ("team.test.yaml", fine, "E021"),
        ("lonely.test.yaml", fine, "E080"),
        ("team.test.yaml", "cases: [", "E0"),
    ] {
        editor.open(name, text);
        let findings = editor.findings(name, 1);
        workspace.write(name, text);
        let expected = validated(&workspace, name);
        let codes: Vec<&str> = expected.iter().filter_map(|one| one["code"].as_str()).collect();
        assert!(codes.iter().any(|one| one.starts_with(code)), "{name}: {codes:?}");
        assert_eq!(as_validated(&findings), expected, "{name}: {text}");
    }
    editor.end();
}

#[test]
fn the_findings_of_a_test_file_follow_its_ensemble() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    let text = "cases:\n  - name: it\n    stubs: {author: a}\n    answers: {editor: b}\n    expect: {executions: {author: 1}}\n";
    editor.open("team.test.yaml", text);
    assert_eq!(editor.codes("team.test.yaml", 1).len(), 2, "two names");
    workspace.write(
        "team.yaml",
        TEAM.replace("writer", "author").replace("author.rhai", "writer.rhai"),
    );
    let uri = editor.uri("team.yaml");
    editor.tell("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    assert_eq!(editor.codes("team.test.yaml", 1), [""; 0]);
    editor.end();
}

#[test]
fn a_test_file_is_completed_with_the_agents_of_its_ensemble() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    let cases: [(&str, &[&str], &[&str]); 10] = [
        ("stubs: {‸}", &["writer", "editor"], &["text", "name"]),
        ("stubs: {writer: a, ‸}", &["editor"], &["writer"]),
        ("answers:\n      ‸", &["editor"], &["name"]),
        ("stubs: {writer: {‸}}", &["text", "json", "fail"], &["writer"]),
        ("expect: {order: [‸]}", &["writer", "editor"], &[]),
        ("expect: {turns: [writer, [‸]]}", &["editor"], &[]),
        ("expect: {executions: {‸}}", &["writer"], &["outcome"]),
        ("expect: {outcome: ‸}", &["completed", "agent_failed"], &["writer"]),
        ("expect: {‸}", &["outcome", "never", "most_turns"], &["writer", "name"]),
        ("expect: {conditions: ['outputs.writer.‸']}", &["done"], &["writer"]),
    ];
    for (version, (line, has, lacks)) in (1..).zip(cases) {
        let marked = format!("ensemble: team.yaml\ncases:\n  - name: it\n    {line}\n");
        let at = marked.find('‸').expect("a mark");
        let (before, text) = (&marked[..at], marked.replace('‸', ""));
        match version {
            1 => editor.open("sub/other.test.yaml", &text.replace("team.yaml", "../team.yaml")),
            _ => editor.replace(
                "sub/other.test.yaml",
                version,
                &text.replace("team.yaml", "../team.yaml"),
            ),
        }
        let place = (
            before.matches('\n').count(),
            before.rsplit('\n').next().expect("a line").len(),
        );
        let params = editor.at("sub/other.test.yaml", place.0, place.1);
        let items = editor.ask("textDocument/completion", params);
        let labels: Vec<&str> = items
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|item| item["label"].as_str())
            .collect();
        for label in has {
            assert!(labels.contains(label), "{line}: {label} is not in {labels:?}");
        }
        for label in lacks {
            assert!(!labels.contains(label), "{line}: {label} is in {labels:?}");
        }
    }
    // The agents of a text that is open and not saved.
    editor.open("team.yaml", &TEAM.replace("editor", "reader"));
    editor.open("team.test.yaml", "cases:\n  - name: it\n    expect: {never: []}\n");
    let params = editor.at("team.test.yaml", 2, 21);
    let items = editor.ask("textDocument/completion", params);
    assert_eq!(
        (&items[0]["label"], &items[1]["label"]),
        (&json!("writer"), &json!("reader"))
    );
    let params = editor.at("team.test.yaml", 2, 6);
    let hover = editor.ask("textDocument/hover", params);
    let hover = hover["contents"]["value"].as_str().expect("a text");
    assert!(hover.contains("What is expected."), "{hover}");
    editor.end();
}

#[test]
fn the_settings_of_a_configuration_count() {
    let workspace = workspace();
    let config = ".ensemble/config.yaml";
    let text = "name: x\nagents:\n  - {name: a, script: no-such-program}\n  - {name: q, input: {prompt: Well?}}\nmodel_profiles:\n  m: {provider: simulated, replies: [x]}\n";
    let mut editor = Editor::start(&workspace);
    workspace.write("x.yaml", text);
    editor.open("x.yaml", text);
    let before = editor.findings("x.yaml", 1);
    assert_eq!(as_validated(&before), validated(&workspace, "x.yaml"));
    assert!(before.len() >= 2, "{before:?}");
    for settings in [
        "levels: {W003: off}",
        "levels: {W003: error}",
        "ci: true",
        "levels: {H010: off, W026: error}",
    ] {
        workspace.write(config, format!("validate:\n  {settings}\n"));
        let uri = editor.uri(config);
        editor.tell(
            "workspace/didChangeWatchedFiles",
            json!({"changes": [{"uri": uri, "type": 2}]}),
        );
        let findings = editor.findings("x.yaml", 1);
        assert_eq!(as_validated(&findings), validated(&workspace, "x.yaml"), "{settings}");
        if !settings.contains("H010") {
            assert_ne!(as_validated(&findings), as_validated(&before), "{settings}");
        }
    }
    editor.end();
}

#[test]
fn a_configuration_has_the_findings_of_validate() {
    let workspace = workspace();
    let config = ".ensemble/config.yaml";
    let mut editor = Editor::start(&workspace);
    for (version, settings) in (1..).zip([
        "levels: {E021: off, W999: off}",
        "exclude: ['a[']",
        "wrong: 1",
        "levels: {W003: off}\n  ci: maybe",
    ]) {
        let text = format!("validate:\n  {settings}\n");
        match version {
            1 => editor.open(config, &text),
            _ => editor.replace(config, version, &text),
        }
        let findings = editor.findings(config, version);
        workspace.write(config, &text);
        let expected = validated(&workspace, config);
        assert!(!expected.is_empty(), "{settings}");
        assert_eq!(as_validated(&findings), expected, "{settings}");
    }
    let uri = editor.uri(config);
    editor.tell("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    assert_eq!(editor.findings(config, None), [Value::Null; 0]);
    // It is told of also if only an ensemble is open.
    editor.open("team.yaml", TEAM);
    let findings = editor.findings(config, None);
    assert_eq!(as_validated(&findings), validated(&workspace, config));
    editor.end();
}
