//! `ensemble lsp`: fixes of findings as actions, and edits as an editor sends them.

use crate::support::Workspace;
use crate::support::editor::Editor;
use serde_json::{Value, json};

/// Keys in another spelling, and an agent that is misspelt: only the former can be mended without a look.
const TEXT: &str = "\
name: x # 𝄞
agents:
  - name: writer
    Script: a.rhai
    on-error: continue
  - name: reader
    script: a.rhai
    depends_on: [wrtier]
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("a.rhai", "#{ done: true }");
    workspace
}

fn actions(editor: &mut Editor, lines: (usize, usize), only: Option<&str>) -> Vec<Value> {
    let uri = editor.uri("a.yaml");
    let mut context = json!({"diagnostics": []});
    if let Some(only) = only {
        context["only"] = json!([only]);
    }
    let range = json!({"start": {"line": lines.0, "character": 0}, "end": {"line": lines.1, "character": 99}});
    let params = json!({"textDocument": {"uri": uri}, "range": range, "context": context});
    let answer = editor.ask("textDocument/codeAction", params);
    answer.as_array().cloned().unwrap_or_default()
}

/// The change that an action is, as an editor sends it.
fn change(editor: &Editor, action: &Value) -> Value {
    let edits = &action["edit"]["changes"][&editor.uri("a.yaml")];
    let mut edits = edits.as_array().expect("edits of the text").clone();
    // From the end, so that each range is still right.
    edits.reverse();
    edits
        .iter()
        .map(|edit| json!({"range": edit["range"], "text": edit["newText"]}))
        .collect()
}

#[test]
fn a_finding_that_can_be_mended_has_an_action() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TEXT);
    let before = editor.codes("a.yaml", 1);
    assert_eq!(before.len(), 3, "{before:?}");
    let offered = actions(&mut editor, (4, 4), Some("quickfix"));
    assert_eq!(offered.len(), 1, "{offered:?}");
    assert_eq!(offered[0]["diagnostics"][0]["code"], "E010");
    assert_eq!(
        (&offered[0]["kind"], &offered[0]["isPreferred"]),
        (&json!("quickfix"), &json!(true))
    );
    let mended = change(&editor, &offered[0]);
    editor.change("a.yaml", 2, mended);
    assert_eq!(editor.codes("a.yaml", 2).len(), 2);
    let guess = actions(&mut editor, (7, 7), Some("quickfix"));
    assert_eq!(
        guess[0]["isPreferred"], false,
        "a name can be mistaken for another: {guess:?}"
    );
    let none = actions(&mut editor, (0, 0), Some("quickfix"));
    assert_eq!(none, [Value::Null; 0]);
    editor.end();
}

#[test]
fn all_safe_fixes_are_one_action() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", TEXT);
    editor.codes("a.yaml", 1);
    for only in ["source", "source.fixAll", "source.fixAll.ensemble"] {
        let offered = actions(&mut editor, (0, 99), Some(only));
        assert_eq!(offered.len(), 1, "{only}: {offered:?}");
        assert_eq!(offered[0]["kind"], "source.fixAll.ensemble");
    }
    assert_eq!(actions(&mut editor, (0, 0), Some("source.organizeImports")).len(), 0);
    assert_eq!(
        actions(&mut editor, (0, 99), None).len(),
        4,
        "three fixes and the one for all safe ones"
    );
    let all = actions(&mut editor, (0, 0), Some("source.fixAll")).remove(0);
    let mended = change(&editor, &all);
    editor.change("a.yaml", 2, mended);
    assert_eq!(editor.codes("a.yaml", 2), ["E021"], "the guess is left");
    assert_eq!(
        actions(&mut editor, (0, 0), Some("source.fixAll")).len(),
        0,
        "nothing is left to do"
    );
    editor.end();
}

#[test]
fn a_fix_that_makes_others_possible_is_followed_by_them() {
    let workspace = workspace();
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", "name: x\nAgents:\n- name: a\n  Script: a.rhai\n");
    editor.codes("a.yaml", 1);
    let all = actions(&mut editor, (0, 0), Some("source.fixAll")).remove(0);
    let mended = change(&editor, &all);
    editor.change("a.yaml", 2, mended);
    assert_eq!(editor.codes("a.yaml", 2), [""; 0]);
    editor.end();
}

/// Text pieces with which edits are made.
const PIECES: [&str; 12] = [
    "x",
    "\n",
    "  - ",
    "é",
    "𝄞",
    ": ",
    "agents:",
    "{",
    "]",
    "\r\n",
    "# ensemble: allow(W013) x\n",
    "",
];

#[test]
fn edits_lead_to_the_findings_of_the_final_text() {
    let workspace = workspace();
    for (seed, encoding) in [(1, "utf-16"), (2, "utf-8"), (3, "utf-16"), (4, "utf-8")] {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut editor = Editor::bare(&workspace, workspace.command(["lsp"]));
        editor.initialize(json!({"general": {"positionEncodings": [encoding]}}));
        editor.open("a.yaml", TEXT);
        let mut text = TEXT.to_owned();
        let mut version = 1;
        for _ in 0..40 {
            let mut ends = [random.usize(..=text.len()), 0].map(|at| text.floor_char_boundary(at));
            ends[1] = text.floor_char_boundary((ends[0] + random.usize(..6)).min(text.len()));
            let units = |text: &str| {
                if encoding == "utf-8" {
                    text.len()
                } else {
                    text.encode_utf16().count()
                }
            };
            let place = |at: usize| {
                let before = &text[..at];
                let start = before.rfind('\n').map_or(0, |found| found + 1);
                json!({"line": before.matches('\n').count(), "character": units(&before[start..])})
            };
            // A position between `\r` and `\n` is none.
            if ends.iter().any(|at| text[..*at].ends_with('\r')) {
                continue;
            }
            let piece = PIECES[random.usize(..PIECES.len())];
            version += 1;
            let range = json!({"start": place(ends[0]), "end": place(ends[1])});
            editor.change("a.yaml", version, json!([{"range": range, "text": piece}]));
            text.replace_range(ends[0]..ends[1], piece);
        }
        let edited = editor.findings("a.yaml", version);
        editor.open("b.yaml", &text);
        let opened = editor.findings("b.yaml", 1);
        assert_eq!(edited, opened, "seed {seed}: {text}");
        editor.end();
    }
}
