//! `ensemble lsp`: the names of tools, where they are used, and what a rename changes.

use serde_json::{Value, json};

use super::lsp_names::{applied, codes, place, rename};
use crate::support::Workspace;
use crate::support::editor::Editor;

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
            "rename did not change `replies.rhai`, which might name the tool: search for the old name"
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
        ("search", "a tool `search` already exists; choose another name"),
        (
            "a.b",
            "`a.b` cannot be the name of a tool: use at most 64 letters, digits, `_` and `-`",
        ),
        ("", "cannot be the name of a tool"),
        (&long, "cannot be the name of a tool"),
    ] {
        let why = rename(&mut editor, TOOLS, "tool: fi", new).expect_err(new);
        assert!(why.contains(says), "{new}: {why}");
    }
    let why = rename(&mut editor, TOOLS, "tool: files.read", "x").expect_err("the server's name");
    assert!(
        why.contains("the server defines this name") && why.contains("`files`"),
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
             project.\n\nEach call needs the permission of a person.",
        ),
        (
            "tool: \"files.l",
            "**`files.list`**: the tool `list` of the MCP server `files`, the MCP server `files --read`\n\nThe files of the \
             project.\n\nEach call needs the permission of a person.",
        ),
        (
            "\n  \"fi",
            "**`files`**: the MCP server `files --read`\n\nThe files of the project.\n\nEach call needs the permission of a person.",
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
