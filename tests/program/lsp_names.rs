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
fn place(text: &str, offset: usize) -> (usize, usize) {
    let line = text[..offset].matches('\n').count();
    let column = text[..offset]
        .rsplit('\n')
        .next()
        .expect("a line")
        .encode_utf16()
        .count();
    (line, column)
}

fn offset(text: &str, position: &Value) -> usize {
    let line = usize::try_from(position["line"].as_u64().expect("a line")).expect("small");
    let column = usize::try_from(position["character"].as_u64().expect("a column")).expect("small");
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    start + column
}

/// The text after the edits.
fn applied(text: &str, edits: &Value) -> String {
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

fn rename(editor: &mut Editor, text: &str, mark: &str, new: &str) -> Result<Value, String> {
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

fn codes(workspace: &Workspace) -> Vec<String> {
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
        ("reviewer", "there is an agent `reviewer` already"),
        ("a b", "`a b` cannot be the name of an agent"),
        ("", "cannot be the name of an agent"),
        ("-x", "cannot be the name of an agent"),
    ] {
        let why = rename(&mut editor, TEXT, "name: wri", new).expect_err(new);
        assert!(why.contains(says), "{new}: {why}");
    }
    let why = rename(&mut editor, TEXT, "model_prof", "x").expect_err("no agent");
    assert_eq!(why, "there is no name of an agent or a tool here");
    // A name in a bracket cannot be written into a plain string inside of braces.
    let text = "name: x\nagents:\n  - {name: a, script: reviewer.rhai}\n  - name: b\n    script: reviewer.rhai\n    \
                dependencies: [{agent_name: a, condition: outputs.a.ok}]\n";
    editor.replace("a.yaml", 2, text);
    let why = rename(&mut editor, text, "name: a", "a-b").expect_err("it would not be YAML");
    assert!(why.contains("without changing the meaning"), "{why}");
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
        message.starts_with("`reviewer.rhai` may name the agent and was not changed"),
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

/// An ensemble that names its tools in every way there is.
const TOOLS: &str = "\
name: tools # files
defaults:
  tools: [search]
agents:
  - name: lookup
    tool: files.read_file # files
    arguments: {path: files, search: 'files.read_file'}
  - name: quoted
    tool: \"files.list\"
  - name: files
    model_profile: m
    prompt: Use files.read_file and search.
    tools:
      - files.read_file
      - 'files'
      - part
  - name: scripted
    model_profile: s
    prompt: '{{ files.response }}'
    depends_on: [files]
tools:
  \"files\":
    description: The files of the project.
    mcp: {command: files --read}
  search: {script: search.rhai, description: it uses search, parameters: {type: object}}
  part: {ensemble: part.yaml, description: a part}
model_profiles:
  m:
    provider: simulated
    replies:
      - tool_calls: [{name: files__read_file, arguments: {name: files}}, {name: search, arguments: {}}]
      - files
  s: {provider: simulated, script: replies.rhai}
";

const OF_TOOLS: &str = "\
ensemble: tools.yaml
cases:
  - name: files
    stubs: {lookup: files, part.inner: [part], \"part.inner2\": part, quoted: x}
    answers: {part.who: part}
    expect:
      outputs: {files: {response: part}}
";

fn with_tools() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("a.yaml", TOOLS);
    workspace.write("search.rhai", "#{ found: \"search\" }");
    workspace.write(
        "replies.rhai",
        "// search\n#{ tool_calls: [#{ name: \"files__read_file\" }] }",
    );
    workspace.write("part.yaml", "name: part\nagents:\n  - {name: inner, input: Who?}\n");
    workspace.write("a.test.yaml", OF_TOOLS.replace("tools.yaml", "a.yaml"));
    workspace
}

#[test]
fn a_renamed_tool_has_its_new_name_wherever_it_is_used_and_nothing_else_changes() {
    let workspace = with_tools();
    let before = codes(&workspace);
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TOOLS);
    let uri = editor.uri("a.yaml");
    let expected = |old_to_new: &[(&str, &str)]| {
        let mut text = TOOLS.to_owned();
        for (old, new) in old_to_new {
            assert!(text.contains(old), "{old}");
            text = text.replace(old, new);
        }
        text
    };
    let of_files = expected(&[
        ("tool: files.", "tool: docs."),
        ("tool: \"files.", "tool: \"docs."),
        ("- files.read_file", "- docs.read_file"),
        ("- 'files'", "- 'docs'"),
        ("  \"files\":", "  docs:"),
        ("{name: files__", "{name: docs__"),
    ]);
    for mark in [
        "\n  \"fi",
        "tool: fi",
        "tool: \"files",
        "- files",
        "- 'fil",
        "{name: fil",
    ] {
        let changes = rename(&mut editor, TOOLS, mark, "docs").expect(mark);
        assert_eq!(applied(TOOLS, &changes[&uri]), of_files, "{mark}");
        assert_eq!(changes.as_object().expect("a map").len(), 1, "{mark}: {changes}");
        let told = editor.wait("a message", |message| message["method"] == "window/showMessage");
        assert_eq!(
            told["params"]["message"],
            "`replies.rhai` may name the tool and was not changed: look for its old name there"
        );
    }
    workspace.write("a.yaml", &of_files);
    assert_eq!(codes(&workspace), before, "{of_files}");
    let of_search = expected(&[
        ("tools: [search]", "tools: [find-it]"),
        ("  search: {", "  find-it: {"),
        ("{name: search,", "{name: find-it,"),
    ]);
    let changes = rename(&mut editor, TOOLS, "tools: [sea", "find-it").expect("it can be renamed");
    assert_eq!(applied(TOOLS, &changes[&uri]), of_search);
    // A name that is a number without quotes.
    let of_numbers = of_files.replace("tool: docs.", "tool: 1.").replace("\"docs.", "\"1.");
    let of_numbers = of_numbers.replace("- docs.", "- 1.").replace("'docs'", "'1'");
    let of_numbers = of_numbers.replace("  docs:", "  \"1\":").replace("docs__", "1__");
    let changes = rename(&mut editor, TOOLS, "tool: fi", "1").expect("it can be renamed");
    assert_eq!(applied(TOOLS, &changes[&uri]), of_numbers);
    let short = TOOLS.replace("files.read_file", "files.5");
    editor.replace("a.yaml", 2, &short);
    let changes = rename(&mut editor, &short, "tool: fi", "1").expect("it can be renamed");
    let changed = applied(&short, &changes[&uri]);
    assert!(
        changed.contains("tool: \"1.5\" #") && changed.contains("- \"1.5\"\n"),
        "{changed}"
    );
    editor.end();
}

/// The agents inside of a tool that is an ensemble are `tool.agent` in test files.
#[test]
fn a_rename_of_a_tool_changes_the_test_files_of_the_ensemble() {
    let workspace = with_tools();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TOOLS);
    let changes = rename(&mut editor, TOOLS, "  - pa", "42").expect("it can be renamed");
    let test = OF_TOOLS.replace("tools.yaml", "a.yaml");
    let changed = applied(&test, &changes[&editor.uri("a.test.yaml")]);
    let expected = test
        .replace("part.inner:", "42.inner:")
        .replace("\"part.inner2\"", "\"42.inner2\"")
        .replace("part.who", "42.who");
    assert_eq!(changed, expected);
    editor.end();
}

/// Likewise of an agent that is an ensemble; and a judge reads an agent.
#[test]
fn a_rename_of_an_agent_reaches_agents_inside_of_it_and_judges() {
    let workspace = with_tools();
    let text = "name: x\nagents:\n  - {name: outer, ensemble: part.yaml}\n";
    let test = "cases:\n  - name: it\n    live: true\n    stubs: {outer.inner: outer}\n    answers: {outer.inner: x, outer: y}\n    \
                expect:\n      judge: [{criterion: outer, agent: outer, model_profile: m}]\n";
    workspace.write("a.test.yaml", test);
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", text);
    let changes = rename(&mut editor, text, "name: ou", "new").expect("it can be renamed");
    let expected = test.replace("outer.inner", "new.inner").replace("outer: y", "new: y");
    let expected = expected.replace("agent: outer", "agent: new");
    assert_eq!(applied(test, &changes[&editor.uri("a.test.yaml")]), expected);
    editor.end();
}

#[test]
fn a_name_of_a_tool_that_is_taken_or_not_valid_is_refused() {
    let workspace = with_tools();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TOOLS);
    let long = "x".repeat(65);
    for (new, says) in [
        ("search", "there is a tool `search` already"),
        (
            "a.b",
            "`a.b` cannot be the name of a tool: use letters, digits, `_` and `-`, at most 64",
        ),
        ("", "cannot be the name of a tool"),
        (&long, "cannot be the name of a tool"),
    ] {
        let why = rename(&mut editor, TOOLS, "tool: fi", new).expect_err(new);
        assert!(why.contains(says), "{new}: {why}");
    }
    let why = rename(&mut editor, TOOLS, "tool: files.read", "x").expect_err("the server's name");
    assert!(
        why.contains("the name that the server gives to its tool") && why.contains("`files`"),
        "{why}"
    );
    let at = place(TOOLS, TOOLS.find("tool: files.read").expect("it") + 14);
    let params = editor.at("a.yaml", at.0, at.1);
    assert_eq!(editor.ask("textDocument/prepareRename", params), Value::Null);
    let at = place(TOOLS, TOOLS.find("tool: files.read").expect("it") + 8);
    let params = editor.at("a.yaml", at.0, at.1);
    let prepared = editor.ask("textDocument/prepareRename", params);
    assert_eq!(prepared["placeholder"], "files");
    let (start, end) = (&prepared["range"]["start"], &prepared["range"]["end"]);
    assert_eq!((&start["character"], &end["character"]), (&json!(10), &json!(15)));
    editor.end();
}

#[test]
fn definitions_references_highlights_and_hovers_of_tools() {
    let workspace = with_tools();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TOOLS);
    // Also at the name of the server's tool.
    for mark in [
        "tool: files.re",
        "tool: fi",
        "- files.read_fi",
        "- 'fi",
        "\n  \"fi",
        "{name: files__r",
    ] {
        let at = place(TOOLS, TOOLS.find(mark).expect(mark) + mark.len());
        let params = editor.at("a.yaml", at.0, at.1);
        let definition = editor.ask("textDocument/definition", params.clone());
        assert_eq!(definition["range"]["start"]["line"], json!(21), "{mark}: {definition}");
        let mut asked = params.clone();
        asked["context"] = json!({"includeDeclaration": true});
        let references = editor.ask("textDocument/references", asked.clone());
        let lines: Vec<u64> = references
            .as_array()
            .expect(mark)
            .iter()
            .map(|one| one["range"]["start"]["line"].as_u64().expect("a line"))
            .collect();
        assert_eq!(lines, [5, 8, 13, 14, 21, 30], "{mark}");
        asked["context"] = json!({"includeDeclaration": false});
        let others = editor.ask("textDocument/references", asked);
        assert_eq!(others.as_array().expect(mark).len(), 5, "{mark}");
        let highlights = editor.ask("textDocument/documentHighlight", params);
        let highlights = highlights.as_array().expect(mark);
        let written = highlights.iter().filter(|one| one["kind"] == 3).count();
        assert_eq!((highlights.len(), written), (6, 1), "{mark}");
    }
    for (mark, expected) in [
        (
            "tool: files.re",
            "**`files.read_file`**: the tool `read_file` of the MCP server `files`, the MCP server `files --read`\n\nThe files of the \
             project.\n\nA person permits each call.",
        ),
        (
            "tool: \"files.l",
            "**`files.list`**: the tool `list` of the MCP server `files`, the MCP server `files --read`\n\nThe files of the \
             project.\n\nA person permits each call.",
        ),
        (
            "\n  \"fi",
            "**`files`**: the MCP server `files --read`\n\nThe files of the project.\n\nA person permits each call.",
        ),
        (
            "tools: [se",
            "**`search`**: the script `search.rhai`\n\nit uses search\n\nCalls are permitted.",
        ),
        (
            "  - pa",
            "**`part`**: the ensemble `part.yaml`\n\na part\n\nCalls are permitted.",
        ),
    ] {
        let at = place(TOOLS, TOOLS.find(mark).expect(mark) + mark.len());
        let params = editor.at("a.yaml", at.0, at.1);
        let hover = editor.ask("textDocument/hover", params);
        assert_eq!(hover["contents"]["value"], expected, "{mark}");
    }
    editor.end();
}
