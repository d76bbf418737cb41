//! What an editor makes of the schema: the published YAML language server, driven as an editor drives it.
//!
//! `tests/editor/install.sh` installs the server. Where it is not installed, the tests say so and pass.

#![expect(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock")]

#[path = "support/blocks.rs"]
mod blocks;
#[path = "support/files.rs"]
mod files;
#[path = "editor/server.rs"]
mod server;
mod support;

use std::io::Write;
use std::path::PathBuf;

use blocks::blocks;
use files::project;
use serde_json::json;
use server::{Server, address, installed};
use support::Workspace;

/// The server in a project that `ensemble init` has begun, if it is installed.
fn editor() -> Option<(Server, Workspace)> {
    let Some(program) = installed() else {
        // Past the test harness, which would swallow it.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the YAML language server is not installed; tests/editor/install.sh does it"
        );
        return None;
    };
    let workspace = Workspace::new();
    workspace.run(["init", "tea"]).expect_code(0);
    // Files in `plain` have no line that names a schema: the settings name it.
    let schema = address(&workspace.path().join("ensembles/ensemble.schema.json"));
    let server = Server::start(&program, &workspace.path(), json!({schema: "plain/*.yaml"}));
    Some((server, workspace))
}

/// The place of `‸` in a text, and the text without it.
fn caret(text: &str) -> (String, (usize, usize)) {
    let (before, after) = text.split_once('‸').expect("a caret");
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    (format!("{before}{after}"), (line, column))
}

fn in_an_ensemble(text: &str) -> String {
    format!("# yaml-language-server: $schema=ensemble.schema.json\nname: e\nagents:\n{text}")
}

struct Desk {
    server: Server,
    file: PathBuf,
}

impl Desk {
    fn completions(&mut self, text: &str) -> Vec<(String, String)> {
        let (text, place) = caret(&in_an_ensemble(text));
        self.server.show(&self.file, &text);
        self.server.completions(&self.file, place)
    }

    fn labels(&mut self, text: &str) -> Vec<String> {
        let mut labels: Vec<String> = self.completions(text).into_iter().map(|(label, _)| label).collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    fn hover(&mut self, text: &str) -> String {
        let (text, place) = caret(&in_an_ensemble(text));
        self.server.show(&self.file, &text);
        self.server.hover(&self.file, place)
    }
}

/// Beside the ensemble that `init` wrote, whose first line is all that an editor needs.
fn desk() -> Option<(Desk, Workspace)> {
    let (server, workspace) = editor()?;
    let file = workspace.path().join("ensembles/new.yaml");
    Some((Desk { server, file }, workspace))
}

#[test]
fn keys_and_values_are_completed() {
    let Some((mut desk, _workspace)) = desk() else { return };
    let keys = desk.completions("  - name: a\n    script: a.rhai\n    dep‸");
    let dependencies = keys.iter().find(|(label, _)| label == "dependencies");
    let (_, said) = dependencies.unwrap_or_else(|| panic!("{keys:?}"));
    assert!(said.contains("Agents that this one listens to"), "{said}");
    let labels: Vec<&str> = keys.iter().map(|(label, _)| label.as_str()).collect();
    assert!(labels.contains(&"depends_on"), "{labels:?}");

    let dependency = "  - name: a\n    script: a.rhai\n    dependencies:\n      - agent_name: b\n        ";
    assert_eq!(desk.labels(&format!("{dependency}on: ‸")), ["any", "failure", "success"]);
    assert_eq!(desk.labels(&format!("{dependency}feedback: ‸")), ["false", "true"]);
    let backoff = desk.labels("  - name: a\n    script: a.rhai\n    retry:\n      backoff: ‸");
    assert_eq!(backoff, ["constant", "exponential", "linear"]);
    let keys = desk.labels("  - name: a\n    script: a.rhai\n    conversation:\n      ‸");
    assert_eq!(keys, ["max_turns", "memory", "state_key", "trigger", "triggers_conversation"]);
}

#[test]
fn a_hover_says_what_a_key_means_and_what_holds_without_it() {
    let Some((mut desk, _workspace)) = desk() else { return };
    let said = desk.hover("  - name: a\n    script: a.rhai\n    conversation:\n      max_tu‸rns: 3\n");
    assert!(said.contains("Most executions of this agent in the run"), "{said}");
    assert!(said.contains("Default: `1`"), "{said}");
    let said = desk.hover("  - name: a\n    script: a.rhai\n    on_err‸or: fail\n");
    assert!(said.contains("Default: `fail`"), "{said}");
    assert!(said.contains("`continue`: "), "each value has its meaning: {said}");
    let said = desk.hover("  - name: a\n    script: a.rhai\n    dependencies:\n      - agent_name: b\n        condi‸tion: x\n");
    assert!(said.contains("not output.approved"), "an example: {said}");
}

#[test]
fn a_typo_is_underlined_where_it_stands() {
    let Some((Desk { mut server, file }, _workspace)) = desk() else { return };
    let sound = in_an_ensemble("  - name: a\n    script: a.rhai\n    depends_on: [b]\n  - {name: b, script: b.rhai}\n");
    for (wrong, right, line, word) in [
        ("depend_on", "depends_on", 6, "depend_on"),
        ("scrip: a", "script: a", 5, "scrip"),
        ("agent:", "agents:", 3, "agent"),
    ] {
        server.show(&file, &sound.replacen(right, wrong, 1));
        let found = server.squiggles(&file);
        let there = found.iter().any(|(at, message)| *at == line && message.contains(word));
        assert!(there, "{wrong}: {found:?}");
    }
    server.show(&file, &sound.replace("[b]", "[b]\n    on_error: never"));
    let found = server.squiggles(&file);
    assert!(found.iter().any(|(at, message)| *at == 7 && message.contains("continue")), "{found:?}");
    server.show(&file, &sound);
    assert_eq!(server.squiggles(&file), [], "what is mended is not underlined");
}

#[test]
fn a_new_ensemble_has_no_squiggle() {
    let Some((mut server, workspace)) = editor() else { return };
    let file = workspace.path().join("ensembles/tea.yaml");
    let text = workspace.read("ensembles/tea.yaml");
    server.show(&file, &text);
    assert_eq!(server.squiggles(&file), []);
    // And not because nobody looks.
    server.show(&file, &text.replace("feedback:", "feed_back:"));
    assert_ne!(server.squiggles(&file), []);
}

#[test]
fn nothing_that_is_shipped_or_shown_has_a_squiggle() {
    let Some((mut server, workspace)) = editor() else { return };
    let mut texts: Vec<(String, String)> = Vec::new();
    for entry in std::fs::read_dir(project().join("ensembles")).expect("a folder").flatten() {
        if entry.path().extension().is_some_and(|end| end == "yaml") {
            let text = std::fs::read_to_string(entry.path()).expect("text");
            texts.push((entry.path().display().to_string(), text));
        }
    }
    assert!(texts.len() > 3, "{} ensembles", texts.len());
    for document in ["README.md", "docs/language.md", "docs/architecture.md"] {
        let ensembles = blocks(document).into_iter().filter_map(|block| Some((block.place.clone(), block.ensemble()?)));
        texts.extend(ensembles);
    }
    assert!(texts.len() > 18, "{} texts", texts.len());
    for (at, (place, text)) in texts.iter().enumerate() {
        let file = workspace.path().join(format!("plain/{at}.yaml"));
        server.show(&file, text);
        assert_eq!(server.squiggles(&file), [], "{place}:\n{text}");
    }
    let wrong = workspace.path().join("plain/wrong.yaml");
    server.show(&wrong, "name: e\nagent: []\n");
    assert_ne!(server.squiggles(&wrong), [], "the settings' schema is heeded");
}
