//! `ensemble lsp`: hovers, completions, outlines and graphs.

use crate::support::Workspace;
use crate::support::editor::Editor;
use serde_json::{Value, json};

const TEXT: &str = "\
name: tide
agents:
  - name: gauge
    description: Says how high the water is.
    script: gauge.rhai
    dependencies:
      - {agent_name: watch, feedback: true, condition: not output.safe}
    conversation: {max_turns: 3}
  - name: watch
    model_profile: m
    prompt: 'Level: {{ gauge.metres | round }} {{ context.gauge }}'
    depends_on: [gauge]
    on_error: continue
    output_schema:
      type: object
      properties: {safe: {type: boolean}}
      additionalProperties: false
  - name: person
    input: {prompt: Well?}
    dependencies:
      - agent_name: watch
        condition: outputs.gauge.metres > 3 and len(history) > 1 # ensemble: allow(W013) it is so
model_profiles:
  m: {provider: simulated, replies: ['{\"safe\": true}']}
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("gauge.rhai", "#{ metres: 5 }");
    workspace.write(
        ".ensemble/config.yaml",
        "model_profiles:\n  cheap: {provider: simulated, replies: [a]}\n",
    );
    workspace
}

/// The line and column just behind the first occurrence of `mark`, in the line that contains `line`.
fn behind(text: &str, line: &str, mark: &str) -> (usize, usize) {
    let (number, found) = text
        .lines()
        .enumerate()
        .find(|(_, one)| one.contains(line))
        .expect("the line");
    let column = found.find(mark).expect("the mark") + mark.len();
    (number, found[..column].encode_utf16().count())
}

fn hover(editor: &mut Editor, name: &str, at: (usize, usize)) -> String {
    let params = editor.at(name, at.0, at.1);
    let answer = editor.ask("textDocument/hover", params);
    answer["contents"]["value"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn hovers_tell_what_stands_there() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TEXT);
    for (line, mark, says) in [
        ("depends_on: [gauge]", "gau", "the script `gauge.rhai`"),
        ("depends_on: [gauge]", "gau", "Says how high the water is."),
        ("depends_on: [gauge]", "gau", "Depends on `watch`."),
        ("depends_on: [gauge]", "gau", "- `metres`: the number 5"),
        ("agent_name: watch, f", "wat", "a language model, profile `m`"),
        (
            "agent_name: watch, f",
            "feed",
            "the dependency is ignored before the agent's first execution",
        ),
        ("name: gauge", "gau", "**`gauge`**"),
        (
            "on_error",
            "on_err",
            "**`on_error`**\n\nThe effect of a failure of this agent on the run",
        ),
        ("on_error", "contin", "The failure does not change the outcome"),
        ("model_profile: m", "profile: m", "A model profile: `simulated`."),
        ("len(history)", "le", "**`len(x) -> number`**"),
        ("len(history)", "hist", "**`history`**: a list"),
        ("len(history)", "metr", "**`outputs.gauge.metres`**: the number 5"),
        ("len(history)", "outputs.ga", "the script `gauge.rhai`"),
        ("not output.safe", "outp", "- `safe`: true"),
        ("not output.safe", "output.sa", "**`output.safe`**: true"),
        ("Level", "rou", "**`number | round(digits)`**"),
        ("Level", "cont", "**`context`**"),
        ("Level", "{{ gauge.met", "**`gauge.metres`**: the number 5"),
        ("allow(W013)", "W01", "**W013**"),
        ("max_turns", "max_tu", "**`max_turns`**"),
    ] {
        let told = hover(&mut editor, "a.yaml", behind(TEXT, line, mark));
        assert!(told.contains(says), "{line} at {mark}: {told:?}");
    }
    assert_eq!(hover(&mut editor, "a.yaml", (0, 8)), "", "a name without a meaning");
    assert_eq!(hover(&mut editor, "a.yaml", (999, 999)), "", "beyond the end");
    // Broken elsewhere, the last ensemble without errors is what is known.
    editor.replace("a.yaml", 2, &format!("{TEXT}oh no: [\n"));
    let told = hover(&mut editor, "a.yaml", behind(TEXT, "depends_on: [gauge]", "gau"));
    assert!(told.contains("the script `gauge.rhai`"), "{told}");
    editor.end();
}

/// What is offered at `‸` in a text.
fn offered(editor: &mut Editor, version: i32, marked: &str) -> Vec<Value> {
    let at = marked.find('‸').expect("a mark");
    let text = marked.replacen('‸', "", 1);
    let line = text[..at].matches('\n').count();
    let column = text[..at].rsplit('\n').next().expect("a line").encode_utf16().count();
    editor.replace("a.yaml", version, &text);
    let params = editor.at("a.yaml", line, column);
    let answer = editor.ask("textDocument/completion", params);
    answer.as_array().cloned().unwrap_or_default()
}

fn labels(items: &[Value]) -> Vec<&str> {
    items
        .iter()
        .map(|item| item["label"].as_str().expect("a label"))
        .collect()
}

#[test]
fn completions_are_what_can_stand_there() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TEXT);
    let mut version = 1;
    // For each: a text in place of another, with a cursor, what is offered there, and what is not.
    let cases: &[(&str, &str, &[&str], &[&str])] = &[
        (
            "    on_error: continue\n",
            "    ‸\n",
            &["on_error", "retry", "system_prompt"],
            &["depends_on", "name", "script", "agents"],
        ),
        (
            "    on_error: continue\n",
            "    on_e‸\n",
            &["on_error"],
            &["depends_on"],
        ),
        ("on_error: continue", "on_error: ‸", &["fail", "continue"], &["retry"]),
        (
            "depends_on: [gauge]",
            "depends_on: [‸]",
            &["gauge", "person"],
            &["watch"],
        ),
        (
            "depends_on: [gauge]",
            "depends_on: [gauge, ‸",
            &["person"],
            &["watch", "gauge"],
        ),
        (
            "- {agent_name: watch, f",
            "- {agent_name: ‸, f",
            &["watch", "person"],
            &["gauge"],
        ),
        (
            "- {agent_name: watch, feedback: true,",
            "- {agent_name: watch, fe‸,",
            &["feedback", "requires_all"],
            &["agent_name", "name"],
        ),
        ("model_profile: m\n", "model_profile: ‸\n", &["m", "cheap"], &[]),
        (
            "outputs.gauge.metres > 3",
            "outputs.‸",
            &["gauge", "watch"],
            &["len", "context"],
        ),
        ("outputs.gauge.metres > 3", "outputs[\"‸", &["gauge", "watch"], &["len"]),
        ("outputs.gauge.metres > 3", "outputs.gauge.‸", &["metres"], &["gauge"]),
        ("outputs.gauge.metres > 3", "executions.‸", &["gauge"], &["metres"]),
        (
            "outputs.gauge.metres > 3",
            "history[-1].‸",
            &["agent_name", "output_data"],
            &["metres"],
        ),
        (
            "outputs.gauge.metres > 3",
            "history.last().‸",
            &["agent_name"],
            &["metres"],
        ),
        (
            "outputs.gauge.metres > 3",
            "context.‸",
            &["gauge", "metres", "safe"],
            &["turn_count"],
        ),
        (
            "outputs.gauge.metres > 3",
            "‸",
            &["context", "output", "turn_count", "len", "starts_with", "not"],
            &["gauge"],
        ),
        ("outputs.gauge.metres > 3", "output.‸", &["safe"], &["metres"]),
        (
            "{{ gauge.metres | round }}",
            "{{ ‸ }}",
            &["gauge", "input", "context", "transcript"],
            &["watch", "output"],
        ),
        ("{{ gauge.metres | round }}", "{{ gauge.‸ }}", &["metres"], &["input"]),
        (
            "{{ gauge.metres | round }}",
            "{{ gauge.metres | ‸ }}",
            &["round", "default", "tojson"],
            &["gauge"],
        ),
        (
            "{{ gauge.metres | round }}",
            "{{ dependencies.‸",
            &["gauge"],
            &["input"],
        ),
        (
            "'Level: {{ gauge.metres | round }} {{ context.gauge }}'",
            "'Level ‸'",
            &[],
            &["gauge", "input"],
        ),
        ("allow(W013)", "allow(‸)", &["W013", "H001"], &["E021"]),
        (
            "model_profiles:\n",
            "‸\nmodel_profiles:\n",
            &["result", "defaults", "tools"],
            &["agents", "name"],
        ),
        (
            "{provider: simulated",
            "{‸provider: simulated",
            &["provider"],
            &["agents"],
        ),
        (
            "input: {prompt: Well?}",
            "input: {prompt: Well?, ‸}",
            &["choices", "default"],
            &["prompt"],
        ),
        // Brackets that are open: brackets in quotes and in comments do not count, and an apostrophe is not a quote.
        (
            "input: {prompt: Well?}",
            r#"input: {prompt: "Say \"{\" now", ‸"#,
            &["choices", "default"],
            &["prompt"],
        ),
        (
            "input: {prompt: Well?}",
            "input: {prompt: Well?, # [one of\n      ‸",
            &["choices", "default"],
            &["prompt"],
        ),
        (
            "dependencies:\n      - agent_name: watch",
            "dependencies: [ # {all of\n      {agent_name: ‸",
            &["gauge", "watch"],
            &["choices"],
        ),
        (
            "agents:\n",
            "agents:\n  - {name: other, prompt: What's up, depends_on: [‸\n",
            &["gauge", "person"],
            &["other"],
        ),
    ];
    for (old, new, has, lacks) in cases {
        version += 1;
        assert!(TEXT.contains(old), "{old}");
        let items = offered(&mut editor, version, &TEXT.replacen(old, new, 1));
        let labels = labels(&items);
        for label in *has {
            assert!(labels.contains(label), "{new}: {label} is not in {labels:?}");
        }
        for label in *lacks {
            assert!(!labels.contains(label), "{new}: {label} is in {labels:?}");
        }
    }
    editor.end();
}

#[test]
fn a_completion_replaces_what_was_typed_and_says_what_it_is() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TEXT);
    let items = offered(
        &mut editor,
        2,
        &TEXT.replace("outputs.gauge.metres > 3", "outputs.gauge.me‸"),
    );
    let item = items.iter().find(|item| item["label"] == "metres").expect("the key");
    assert_eq!(item["detail"], "the number 5");
    let edit = &item["textEdit"];
    let (start, end) = (&edit["range"]["start"]["character"], &edit["range"]["end"]["character"]);
    assert_eq!(
        end.as_u64().expect("a column") - start.as_u64().expect("a column"),
        2,
        "`me`"
    );
    let items = offered(&mut editor, 3, &TEXT.replace("outputs.gauge.metres > 3", "sta‸"));
    let item = items
        .iter()
        .find(|item| item["label"] == "starts_with")
        .expect("the function");
    assert_eq!(item["detail"], "starts_with(string, part) -> boolean");
    assert_eq!(
        item["documentation"]["value"],
        "Whether the string begins with the part."
    );
    let items = offered(&mut editor, 4, &TEXT.replace("    on_error: continue", "    on‸"));
    let item = items.iter().find(|item| item["label"] == "on_error").expect("the key");
    assert_eq!(item["textEdit"]["newText"], "on_error: ");
    // Other YAML files are left alone, and an empty file may become an ensemble.
    editor.open("ci.yaml", "jobs:\n  build: [\n");
    let params = editor.at("ci.yaml", 2, 0);
    assert_eq!(editor.ask("textDocument/completion", params), Value::Null);
    editor.open("new.yaml", "");
    let params = editor.at("new.yaml", 0, 0);
    let items = editor.ask("textDocument/completion", params);
    assert!(labels(items.as_array().expect("a list")).contains(&"agents"));
    let config = ".ensemble/config.yaml";
    editor.open(config, "mod");
    let params = editor.at(config, 0, 3);
    let items = editor.ask("textDocument/completion", params);
    assert_eq!(labels(items.as_array().expect("a list")), ["model_profiles"]);
    editor.end();
}

#[test]
fn the_outline_lists_the_agents() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", &format!("{TEXT}result: [\n"));
    let uri = editor.uri("a.yaml");
    let symbols = editor.ask("textDocument/documentSymbol", json!({"textDocument": {"uri": uri}}));
    let symbols = symbols.as_array().expect("a list");
    let told: Vec<String> = symbols
        .iter()
        .map(|one| format!("{} {} {}", one["name"], one["detail"], one["kind"]))
        .collect();
    assert_eq!(
        told,
        [
            "\"gauge\" \"script: gauge.rhai\" 12",
            "\"watch\" \"model_profile: m\" 19",
            "\"person\" \"input\" 24"
        ]
    );
    let lines = |at: usize| {
        (
            &symbols[at]["range"]["start"]["line"],
            &symbols[at]["range"]["end"]["line"],
        )
    };
    assert_eq!(lines(1), (&json!(8), &json!(16)));
    assert_eq!(
        symbols[1]["selectionRange"]["start"],
        json!({"line": 8, "character": 10})
    );
    editor.end();
}

#[test]
fn the_graph_is_that_of_the_command() {
    let workspace = workspace();
    workspace.write("a.yaml", TEXT);
    let mut editor = Editor::start(&workspace);
    let uri = editor.uri("a.yaml");
    let graph = |format: &str| json!({"command": "ensemble.graph", "arguments": [uri, format]});
    for format in ["mermaid", "dot", "svg", "ascii"] {
        let printed = workspace
            .run(["graph", "a.yaml", "--output", format])
            .expect_code(0)
            .stdout;
        let told = editor.ask("workspace/executeCommand", graph(format));
        assert_eq!(told, printed, "{format}, from the disk");
    }
    editor.open("a.yaml", &TEXT.replace("name: person", "name: visitor"));
    let drawn = editor.ask(
        "workspace/executeCommand",
        json!({"command": "ensemble.graph", "arguments": [uri]}),
    );
    assert!(
        drawn.as_str().expect("a text").contains("visitor"),
        "the text that is open, as mermaid: {drawn}"
    );
    let (code, why) = editor.refused("workspace/executeCommand", graph("png"));
    assert_eq!(
        (code, why.as_str()),
        (-32602, "there is no format `png`; expected mermaid, ascii, dot or svg")
    );
    assert_eq!(
        editor
            .refused("workspace/executeCommand", json!({"command": "other"}))
            .0,
        -32602
    );
    editor.replace("a.yaml", 2, "agents: []");
    let (code, why) = editor.refused("workspace/executeCommand", graph("dot"));
    assert_eq!(
        (code, why.as_str()),
        (-32803, "the ensemble has errors, so it has no graph")
    );
    editor.end();
}

#[test]
fn a_request_that_is_cancelled_is_answered_so() {
    let workspace = workspace();
    let mut text = "name: large\nagents:\n".to_owned();
    for at in 0..400 {
        text.push_str(&format!("  - {{name: a{at}, script: gauge.rhai}}\n"));
    }
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", &text);
    let uri = editor.uri("a.yaml");
    // The thread is at work for a while, so the next request waits.
    let first = editor.begin(
        "workspace/executeCommand",
        json!({"command": "ensemble.graph", "arguments": [uri, "svg"]}),
    );
    let params = editor.at("a.yaml", 2, 12);
    let second = editor.begin("textDocument/hover", params);
    editor.tell("$/cancelRequest", json!({"id": second}));
    let answer = editor.answer(second);
    assert_eq!(answer["error"]["code"], -32800, "{answer}");
    assert!(editor.answer(first)["result"].is_string(), "the other one is answered");
    editor.tell("$/cancelRequest", json!({"id": first}));
    editor.end();
}
