//! `ensemble lsp`: where agents are named, and renaming them.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use crate::support::Workspace;
use crate::support::editor::Editor;
use serde_json::{Value, json};

/// An ensemble that names `writer` in every way there is.
const TEXT: &str = "\
# The writer writes.
name: review
conversation_limits:
  max_agent_executions: {writer: 5} # not more
agents:
  - name: writer   # writer
    model_profile: m
    prompt: 'Say {{ reviewer.note }} to the writer'
    dependencies:
      - {agent_name: reviewer, feedback: true, condition: 'not output.ok and executions.writer < 4'}
    conversation: {max_turns: 4}
  - name: reviewer
    script: reviewer.rhai
    depends_on:
      - \"writer\"
    dependencies:
      - agent_name: helper
        condition: outputs.writer.response != '' and context[\"writer\"] != None
  - name: helper
    model_profile: m
    prompt: |
      {{ writer.response }} and {{ dependencies[\"writer\"].response }} and {{ context.writer }}
      {% for writing in [1] %}writer{% endfor %}
    depends_on: [writer]
    tools: [ask]
  - name: judge
    model_profile: m
    for_each: {in: \"outputs.writer.response.split()\"}
    dependencies: [{agent_name: writer, condition: \"history.last().agent_name == 'writer'\"}]
tools:
  ask: {agent: writer, description: asks the writer}
model_profiles:
  m: {provider: simulated, replies: [writer]}
result:
  text: outputs.get('writer').response
";

const SCRIPT: &str = "\
// dependencies.writer is the text
let text = dependencies.writer.response;
let again = dependencies[\"writer\"].response + context.writer.response;
#{ ok: text == again, note: \"dependencies.writer\" }
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("reviewer.rhai", SCRIPT);
    workspace.write("a.yaml", TEXT);
    workspace
}

/// The line and column of an offset.
pub(super) fn place(text: &str, offset: usize) -> (usize, usize) {
    let line = text[..offset].matches('\n').count();
    let column = text[..offset]
        .rsplit('\n')
        .next()
        .expect("a line")
        .encode_utf16()
        .count();
    (line, column)
}

pub(super) fn offset(text: &str, position: &Value) -> usize {
    let line = usize::try_from(position["line"].as_u64().expect("a line")).expect("small");
    let column = usize::try_from(position["character"].as_u64().expect("a column")).expect("small");
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    start + column
}

/// The text after the edits.
pub(super) fn applied(text: &str, edits: &Value) -> String {
    let mut edits: Vec<(usize, usize, &str)> = edits
        .as_array()
        .expect("edits")
        .iter()
        .map(|edit| {
            let range = &edit["range"];
            let new = edit["newText"].as_str().expect("a text");
            (offset(text, &range["start"]), offset(text, &range["end"]), new)
        })
        .collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.0));
    let mut text = text.to_owned();
    for (start, end, new) in edits {
        text.replace_range(start..end, new);
    }
    text
}

pub(super) fn rename(editor: &mut Editor, text: &str, mark: &str, new: &str) -> Result<Value, String> {
    let at = place(text, text.find(mark).expect("the mark") + mark.len());
    let mut params = editor.at("a.yaml", at.0, at.1);
    params["newName"] = json!(new);
    let id = editor.begin("textDocument/rename", params);
    let answer = editor.answer(id);
    match answer["error"]["message"].as_str() {
        Some(why) => Err(why.to_owned()),
        None => Ok(answer["result"]["changes"].clone()),
    }
}

pub(super) fn codes(workspace: &Workspace) -> Vec<String> {
    let report = workspace.run(["validate", "--output", "json", "a.yaml"]).json();
    let findings = report["diagnostics"].as_array().expect("a list").clone();
    findings
        .iter()
        .map(|finding| format!("{} {}", finding["code"], finding["line"]))
        .collect()
}

#[test]
fn a_renamed_agent_has_its_new_name_everywhere_and_nothing_else_changes() {
    for new in ["author", "co-author", "input", "42"] {
        let workspace = workspace();
        let before = codes(&workspace);
        let mut editor = Editor::start(&workspace);
        editor.open("a.yaml", TEXT);
        let changes = rename(&mut editor, TEXT, "agent_name: wri", new).expect("it can be renamed");
        let (text, script) = (editor.uri("a.yaml"), editor.uri("reviewer.rhai"));
        let text = applied(TEXT, &changes[&text]);
        let script = applied(SCRIPT, &changes[&script]);
        // What is left of the old name is prose, and the words of others.
        let words = TEXT.replace("writer", "").len();
        assert!(text.len() > words);
        assert_eq!(text.matches("writer").count(), 6, "{text}");
        for left in [
            "# The writer writes.",
            "  # writer",
            "to the writer'",
            "asks the writer",
            "%}writer{%",
            "[writer]}",
        ] {
            assert!(text.contains(left), "{left}: {text}");
        }
        assert_eq!(script.matches("writer").count(), 2, "{script}");
        assert!(script.starts_with("// dependencies.writer is the text\n"), "{script}");
        workspace.write("a.yaml", &text);
        workspace.write("reviewer.rhai", &script);
        assert_eq!(codes(&workspace), before, "{new}: {text}\n{script}");
        editor.end();
    }
}

const CASES: &str = "\
# About the writer.
cases:
  - name: the writer writes
    stubs:
      \"writer\": [writer, {execution: 2, text: writer}]
      reviewer: {ok: true}
    expect:
      turns: [[writer], [reviewer, writer]]
      order: [writer, reviewer]
      never: [writer]
      executions: {writer: 2, reviewer: 1}
      outputs: {writer: {response: writer}}
      not_run: {writer: limit}
      conditions:
        - outputs.writer.response == 'writer' and executions['writer'] > 1 and context.writer != None
";

#[test]
fn a_renamed_input_has_its_new_name_in_conditions_templates_and_scripts() {
    let text = "name: a\ninputs: {topic: {type: string, description: What it is about.}}\nagents:\n  - {name: one, script: one.rhai}\n  - name: two\n    \
                input: 'About {{ inputs.topic }} or {{ context[\"topic\"] }}?'\n    dependencies: [{agent_name: one, condition: \"inputs.topic != ''\"}]\n\
                success: \"'topic' in inputs\"\n";
    let workspace = Workspace::new();
    workspace.write("a.yaml", text);
    workspace.write("one.rhai", "#{ topic: inputs.topic, same: context[\"topic\"] }");
    let before = codes(&workspace);
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", text);
    let changes = rename(&mut editor, text, "inputs.to", "subject").expect("it can be renamed");
    let (own, script) = (editor.uri("a.yaml"), editor.uri("one.rhai"));
    let changed = applied(text, &changes[&own]);
    assert_eq!(
        changed,
        text.replace("{topic: {type", "{subject: {type")
            .replace("inputs.topic", "inputs.subject")
            .replace("[\"topic\"]", "[\"subject\"]")
            .replace("'topic' in", "'subject' in")
    );
    let old = "#{ topic: inputs.topic, same: context[\"topic\"] }";
    assert_eq!(
        applied(old, &changes[&script]),
        "#{ topic: inputs.subject, same: context[\"subject\"] }"
    );
    workspace.write("a.yaml", changed);
    workspace.write("one.rhai", applied(old, &changes[&script]));
    assert_eq!(codes(&workspace), before);
    for (new, part) in [
        ("1st", "cannot be the name of an input"),
        ("a b", "cannot be the name of an input"),
        ("one", "the context already has the key `one`"),
    ] {
        let why = rename(&mut editor, text, "inputs.to", new).expect_err(new);
        assert!(why.contains(part), "{why}");
    }
}

/// Test files name agents, too: those of this ensemble, as the editor has them.
#[test]
fn a_rename_changes_the_test_files_of_the_ensemble() {
    let workspace = workspace();
    workspace.write("a.test.yaml", CASES);
    workspace.write(
        "more.test.yaml",
        format!("ensemble: a.yaml\n{}", CASES.replace("ok: true", "ok: false")),
    );
    workspace.write("other.test.yaml", format!("ensemble: b.yaml\n{CASES}"));
    workspace.write("b.yaml", TEXT);
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TEXT);
    let in_editor = format!("# not saved\n{CASES}");
    editor.open("a.test.yaml", &in_editor);
    let changes = rename(&mut editor, TEXT, "agent_name: wri", "co-author").expect("it can be renamed");
    let changed: Vec<&str> = changes.as_object().expect("a map").keys().map(String::as_str).collect();
    let other = editor.uri("other.test.yaml");
    assert!(!changed.contains(&other.as_str()), "{changed:?}");
    let expected = "\
# About the writer.
cases:
  - name: the writer writes
    stubs:
      co-author: [writer, {execution: 2, text: writer}]
      reviewer: {ok: true}
    expect:
      turns: [[co-author], [reviewer, co-author]]
      order: [co-author, reviewer]
      never: [co-author]
      executions: {co-author: 2, reviewer: 1}
      outputs: {co-author: {response: writer}}
      not_run: {co-author: limit}
      conditions:
        - outputs[\"co-author\"].response == 'writer' and executions['co-author'] > 1 and context[\"co-author\"] != None
";
    let open = applied(&in_editor, &changes[&editor.uri("a.test.yaml")]);
    assert_eq!(open, format!("# not saved\n{expected}"));
    let more = std::fs::read_to_string(workspace.path().join("more.test.yaml")).expect("a text");
    let more = applied(&more, &changes[&editor.uri("more.test.yaml")]);
    assert_eq!(
        more,
        format!("ensemble: a.yaml\n{}", expected.replace("ok: true", "ok: false"))
    );
    editor.end();
}

#[test]
fn a_name_that_is_taken_or_not_valid_is_refused() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TEXT);
    for (new, says) in [
        ("reviewer", "an agent `reviewer` already exists; choose another name"),
        ("a b", "`a b` cannot be the name of an agent"),
        ("", "cannot be the name of an agent"),
        ("-x", "cannot be the name of an agent"),
    ] {
        let why = rename(&mut editor, TEXT, "name: wri", new).expect_err(new);
        assert!(why.contains(says), "{new}: {why}");
    }
    let why = rename(&mut editor, TEXT, "model_prof", "x").expect_err("no agent");
    assert_eq!(why, "no name of an agent, a tool or an input is at this position");
    // A name in a bracket cannot be written into a plain string inside of braces.
    let text = "name: x\nagents:\n  - {name: a, script: reviewer.rhai}\n  - name: b\n    script: reviewer.rhai\n    \
                dependencies: [{agent_name: a, condition: outputs.a.ok}]\n";
    editor.replace("a.yaml", 2, text);
    let why = rename(&mut editor, text, "name: a", "a-b").expect_err("it would not be YAML");
    assert!(why.contains("would change the meaning"), "{why}");
    assert!(rename(&mut editor, text, "name: a", "c").is_ok());
    editor.end();
}

#[test]
fn what_can_be_renamed_is_told_before() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TEXT);
    let at = place(TEXT, TEXT.find("executions.writer").expect("it") + 12);
    let params = editor.at("a.yaml", at.0, at.1);
    let answer = editor.ask("textDocument/prepareRename", params);
    assert_eq!(answer["placeholder"], "writer");
    assert_eq!(answer["range"]["start"]["character"], at.1 - 1);
    let params = editor.at("a.yaml", 0, 8);
    assert_eq!(
        editor.ask("textDocument/prepareRename", params),
        Value::Null,
        "a comment"
    );
    editor.end();
}

#[test]
fn a_script_that_others_use_is_left_to_the_user() {
    let workspace = workspace();
    workspace.write(
        "other.yaml",
        "name: other\nagents:\n  - {name: writer, script: reviewer.rhai}\n",
    );
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TEXT);
    let changes = rename(&mut editor, TEXT, "name: wri", "author").expect("it can be renamed");
    assert_eq!(changes.as_object().expect("a map").len(), 1, "{changes}");
    let told = editor.wait("a message", |message| message["method"] == "window/showMessage");
    let message = told["params"]["message"].as_str().expect("a text");
    assert!(
        message.starts_with("rename did not change `reviewer.rhai`, which might name the agent"),
        "{message}"
    );
    std::fs::remove_file(workspace.path().join("other.yaml")).expect("it is there");
    // A variable of its own with that name: what a read means is not certain.
    workspace.write("reviewer.rhai", format!("let dependencies = dependencies;\n{SCRIPT}"));
    let script = editor.uri("reviewer.rhai");
    editor.tell(
        "workspace/didChangeWatchedFiles",
        json!({"changes": [{"uri": script, "type": 2}]}),
    );
    let changes = rename(&mut editor, TEXT, "name: wri", "author").expect("it can be renamed");
    assert_eq!(changes.as_object().expect("a map").len(), 1, "{changes}");
    editor.end();
}

#[test]
fn definitions_references_and_highlights_are_the_places_of_the_name() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TEXT);
    let at = place(TEXT, TEXT.find("outputs.writer.response !=").expect("it") + 10);
    let params = editor.at("a.yaml", at.0, at.1);
    let definition = editor.ask("textDocument/definition", params.clone());
    assert_eq!(definition["range"]["start"], json!({"line": 5, "character": 10}));
    let mut asked = params.clone();
    asked["context"] = json!({"includeDeclaration": true});
    let references = editor.ask("textDocument/references", asked.clone());
    let references = references.as_array().expect("a list").clone();
    let lines: Vec<u64> = references
        .iter()
        .map(|one| one["range"]["start"]["line"].as_u64().expect("a line"))
        .collect();
    assert_eq!(lines, [3, 5, 9, 14, 17, 17, 21, 21, 21, 23, 27, 28, 28, 30, 34]);
    for one in &references {
        let range = &one["range"];
        assert_eq!(
            &TEXT[offset(TEXT, &range["start"])..offset(TEXT, &range["end"])],
            "writer"
        );
    }
    asked["context"] = json!({"includeDeclaration": false});
    assert_eq!(
        editor
            .ask("textDocument/references", asked)
            .as_array()
            .expect("a list")
            .len(),
        14
    );
    let highlights = editor.ask("textDocument/documentHighlight", params);
    let written: Vec<&Value> = highlights
        .as_array()
        .expect("a list")
        .iter()
        .filter(|one| one["kind"] == 3)
        .collect();
    assert_eq!((highlights.as_array().expect("a list").len(), written.len()), (15, 1));
    editor.end();
}
