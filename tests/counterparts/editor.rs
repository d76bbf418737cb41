//! What an editor makes of the schema: the published YAML language server, driven as an editor drives it.
//!
//! `tests/install.sh editor` installs the server. Where it is not installed, the tests say so and pass.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs, read files and look at the clock"
)]

mod server;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::Workspace;
use crate::support::blocks::{Block, blocks};
use crate::support::files::project;
use serde_json::{Value, json};
use server::{Server, address, installed};

/// The server's program; where it is not installed, that is said.
fn program() -> Option<PathBuf> {
    let program = installed();
    if program.is_none() {
        // Past the test harness, which would swallow it.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the YAML language server is not installed; tests/install.sh editor does it"
        );
    }
    program
}

/// The server in a project that `ensemble init` has begun, if it is installed.
fn editor() -> Option<(Server, Workspace)> {
    let program = program()?;
    let workspace = Workspace::new();
    workspace.run(["init", "tea"]).expect_code(0);
    // Some texts of the documents name the schema beside them.
    workspace.write(
        "plain/ensemble.schema.json",
        workspace.read("ensembles/ensemble.schema.json"),
    );
    // Files in `plain` have no line that names a schema: the settings name it.
    let schema = address(&workspace.path().join("ensembles/ensemble.schema.json"));
    // The whole path, since `**` passes over the dot that a temporary folder's name begins with.
    let plain = format!("{}/plain/*.yaml", workspace.path().display());
    let server = Server::start(&program, &workspace.path(), json!({schema: plain}));
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
    assert!(said.contains("The agents that this agent depends on"), "{said}");
    let labels: Vec<&str> = keys.iter().map(|(label, _)| label.as_str()).collect();
    assert!(labels.contains(&"depends_on"), "{labels:?}");

    let dependency = "  - name: a\n    script: a.rhai\n    dependencies:\n      - agent_name: b\n        ";
    assert_eq!(
        desk.labels(&format!("{dependency}on: ‸")),
        ["any", "failure", "success"]
    );
    assert_eq!(desk.labels(&format!("{dependency}feedback: ‸")), ["false", "true"]);
    let backoff = desk.labels("  - name: a\n    script: a.rhai\n    retry:\n      backoff: ‸");
    assert_eq!(backoff, ["constant", "exponential", "linear"]);
    let keys = desk.labels("  - name: a\n    script: a.rhai\n    conversation:\n      ‸");
    assert_eq!(
        keys,
        [
            "history",
            "max_turns",
            "memory",
            "on_resume",
            "state_key",
            "trigger",
            "triggers_conversation"
        ]
    );
}

#[test]
fn a_hover_says_what_a_key_means_and_what_holds_without_it() {
    let Some((mut desk, _workspace)) = desk() else { return };
    let said = desk.hover("  - name: a\n    script: a.rhai\n    conversation:\n      max_tu‸rns: 3\n");
    assert!(said.contains("Maximum number of executions of this agent"), "{said}");
    assert!(said.contains("Default: `1`"), "{said}");
    let said = desk.hover("  - name: a\n    script: a.rhai\n    on_err‸or: fail\n");
    assert!(said.contains("Default: `fail`"), "{said}");
    assert!(said.contains("`continue`: "), "each value has its meaning: {said}");
    let said = desk
        .hover("  - name: a\n    script: a.rhai\n    dependencies:\n      - agent_name: b\n        condi‸tion: x\n");
    assert!(said.contains("not output.approved"), "an example: {said}");
}

#[test]
fn a_typo_is_underlined_where_it_stands() {
    let Some((Desk { mut server, file }, _workspace)) = desk() else {
        return;
    };
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
    assert!(
        found
            .iter()
            .any(|(at, message)| *at == 7 && message.contains("continue")),
        "{found:?}"
    );
    server.show(&file, &sound);
    assert_eq!(server.squiggles(&file), [], "what is mended is not underlined");
}

#[test]
fn a_new_ensemble_has_no_squiggle() {
    let Some((mut server, workspace)) = editor() else {
        return;
    };
    let file = workspace.path().join("ensembles/tea.yaml");
    let text = workspace.read("ensembles/tea.yaml");
    server.show(&file, &text);
    assert_eq!(server.squiggles(&file), []);
    // And not because nobody looks.
    server.show(&file, &text.replace("feedback:", "feed_back:"));
    assert_ne!(server.squiggles(&file), []);
}

/// Every shipped ensemble and every one of the documents, each with its place.
fn sound_texts() -> Vec<(String, String)> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for entry in std::fs::read_dir(project().join("ensembles"))
        .expect("a folder")
        .flatten()
    {
        let is_test = entry.path().to_string_lossy().ends_with(".test.yaml");
        if entry.path().extension().is_some_and(|end| end == "yaml") && !is_test {
            let text = std::fs::read_to_string(entry.path()).expect("text");
            texts.push((entry.path().display().to_string(), text));
        }
    }
    assert!(texts.len() > 3, "{} ensembles", texts.len());
    for document in [
        "README.md",
        "docs/getting-started.md",
        "docs/reference",
        "docs/architecture.md",
    ] {
        let shown = |block: Block| Some((block.place.clone(), block.ensemble()?));
        texts.extend(blocks(document).into_iter().filter_map(shown));
    }
    assert!(texts.len() > 18, "{} texts", texts.len());
    texts
}

#[test]
fn nothing_that_is_shipped_or_shown_has_a_squiggle() {
    let Some((mut server, workspace)) = editor() else {
        return;
    };
    let texts = sound_texts();
    for (at, (place, text)) in texts.iter().enumerate() {
        let file = workspace.path().join(format!("plain/{at}.yaml"));
        server.show(&file, text);
        assert_eq!(server.squiggles(&file), [], "{place}:\n{text}");
    }
    let wrong = workspace.path().join("plain/wrong.yaml");
    server.show(&wrong, "name: e\nagent: []\n");
    assert_ne!(server.squiggles(&wrong), [], "the settings' schema is heeded");
}

/// Ajv judges as the validator of `tests/project/schema.rs` does.
#[test]
fn a_second_validator_agrees() {
    let Some(program) = program() else { return };
    let mut values: Vec<Value> = sound_texts()
        .iter()
        .map(|(place, text)| serde_yaml::from_str(text).unwrap_or_else(|error| panic!("{place}: {error}")))
        .collect();
    let mut expected = vec![true; values.len()];
    let workspace = Workspace::new();
    let validator = jsonschema::validator_for(&workspace.run(["schema"]).json()).expect("a schema");
    for line in workspace.run(["explain"]).expect_code(0).stdout.lines() {
        let code = line.split_whitespace().next().expect("a code");
        let text = workspace.run(["explain", code]).expect_code(0).stdout;
        for example in text
            .split("```yaml\n")
            .skip(1)
            .filter_map(|rest| rest.split("```\n").next())
        {
            if let Ok(value) = serde_yaml::from_str(example) {
                expected.push(validator.is_valid(&value));
                values.push(value);
            }
        }
    }
    assert!(expected.iter().filter(|valid| !**valid).count() > 10, "{expected:?}");
    let modules = program.ancestors().nth(3).expect("the folder of modules");
    let mut node = Command::new("node")
        .args([project().join("tests/editor/ajv.js").as_path(), modules])
        .arg(project().join("docs/schema/ensemble.schema.json"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let mut pipe = node.stdin.take().expect("a pipe");
    pipe.write_all(&serde_json::to_vec(&values).expect("JSON"))
        .expect("it reads");
    drop(pipe);
    let output = node.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let judged: Vec<bool> = serde_json::from_slice(&output.stdout).expect("a list");
    for (at, value) in values.iter().enumerate() {
        assert_eq!(judged[at], expected[at], "{value}");
    }
}
