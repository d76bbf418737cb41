//! Bad input gets a clear error within seconds, and nothing runs.

#![expect(clippy::disallowed_methods, reason = "tests look at the clock")]

use std::time::{Duration, Instant};

use crate::support::{Outcome, Workspace};

/// Validates and runs the text; both must end soon, with exit code 2, and without a run.
#[track_caller]
fn refused(text: impl AsRef<[u8]>) -> Outcome {
    let workspace = Workspace::new();
    workspace.write("a.yaml", text);
    let begun = Instant::now();
    let outcome = workspace.run(["validate", "a.yaml"]).expect_code(2);
    workspace.run(["run", "a.yaml"]).expect_code(2);
    // The program under test is not optimised here, and the machine may be busy.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(workspace.runs().is_empty());
    outcome
}

#[track_caller]
fn says(outcome: &Outcome, wanted: &str) {
    let told = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(told.contains(wanted), "{wanted}: {told}");
    assert!(told.len() < 20_000, "{} bytes of complaints", told.len());
    assert!(!told.contains("panicked"), "{told}");
}

const AGENTS: &str = "agents:\n  - {name: it, script: \"true\"}\n";

#[test]
fn alias_bombs() {
    let mut text = String::from("name: bomb\nx0: &x0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..12 {
        let before = level - 1;
        let aliases = vec![format!("*x{before}"); 9].join(", ");
        text.push_str(&format!("x{level}: &x{level} [{aliases}]\n"));
    }
    says(&refused(format!("{text}{AGENTS}")), "alias");
    let config = text
        .replace("name: bomb\n", "")
        .lines()
        .map(|line| format!("      {line}\n"))
        .collect::<String>();
    says(
        &refused(format!(
            "name: b\nagents:\n  - name: it\n    script: \"true\"\n    config:\n{config}"
        )),
        "alias",
    );
}

#[test]
fn a_hundred_megabytes() {
    let mut text = format!("name: large\n{AGENTS}description: ");
    text.push_str(&"x".repeat(100 << 20));
    says(&refused(text), "larger than");
}

#[test]
fn absurd_depth() {
    says(
        &refused(format!(
            "name: deep\n{AGENTS}x: {}{}\n",
            "[".repeat(100_000),
            "]".repeat(100_000)
        )),
        "deep",
    );
    says(
        &refused(format!(
            "name: deep\n{AGENTS}x: {}1{}\n",
            "{a: ".repeat(20_000),
            "}".repeat(20_000)
        )),
        "deep",
    );
    let mut block = String::new();
    for level in 0..3000 {
        block.push_str(&format!("{}a:\n", " ".repeat(level)));
    }
    says(&refused(block), "deep");
}

#[test]
fn what_is_no_utf8_is_named_with_its_place() {
    says(
        &refused(b"name: a\nagents:\n  - {name: \"\xff\", script: x}\n"),
        "line 3, column 13",
    );
    says(&refused(b"\xff\xfen\0a\0m\0e\0"), "line 1, column 1");
}

#[test]
fn duplicate_keys_tabs_and_control_characters() {
    says(&refused(format!("name: a\nname: b\n{AGENTS}")), "a.yaml:2:1");
    says(&refused("name: a\nagents:\n\t- {name: it, script: x}\n"), "tab");
    says(&refused(format!("name: \"a\0b\"\n{AGENTS}")), "a.yaml:1");
    says(
        &refused("name: a\nagents:\n  - {name: it, script: x, config: {k: 1, k: 2}}\n"),
        "a.yaml:3:42",
    );
}

#[test]
fn texts_that_are_no_ensemble() {
    for text in [
        "",
        "\n# only a comment\n",
        "just text",
        "[1, 2]",
        "null",
        "---\n---\n",
        "{",
        "name: a",
        "agents: []\nname: a",
        "&a *a",
        "*unknown",
        "? {a: b}\n: c",
    ] {
        says(&refused(text), "a.yaml");
    }
    says(&refused(format!("name: a\n{AGENTS}---\nname: b\n{AGENTS}")), "document");
}

#[test]
fn a_byte_order_mark_and_carriage_returns_are_fine() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", format!("\u{feff}name: a\n{AGENTS}").replace('\n', "\r\n"));
    workspace.run(["run", "a.yaml"]).expect_code(0);
}

#[test]
fn the_wrong_types_everywhere() {
    for (text, place) in [
        ("name: [a]\n", "a.yaml:1:7"),
        ("name: a b\n", "a.yaml:1:7"),
        ("name: a\nconversation_limits: 7\n", "a.yaml:2:22"),
        ("name: a\nconversation_limits: {max_total_turns: 0}\n", "a.yaml:2:40"),
        ("name: a\nconversation_limits: {max_total_turns: -1}\n", "a.yaml:2:40"),
        ("name: a\nconversation_limits: {max_total_turns: 1.5}\n", "a.yaml:2:40"),
        (
            "name: a\nconversation_limits: {max_total_turns: 99999999999999999999}\n",
            "a.yaml:2:40",
        ),
        ("name: a\nconversation_limits: {timeout_seconds: .nan}\n", "a.yaml:2:40"),
        ("name: a\nconversation_limits: {timeout_seconds: .inf}\n", "a.yaml:2:40"),
        ("name: a\nconversation_limits: {timeout_seconds: -5}\n", "a.yaml:2:40"),
        (
            "name: a\nconversation_limits: {max_agent_executions: {nobody: 1}}\n",
            "a.yaml:2:46",
        ),
        (
            "name: a\nmodel_profiles: {p: {provider: simulated, replies: []}}\n",
            "a.yaml:2:",
        ),
    ] {
        says(&refused(format!("{text}{AGENTS}")), place);
    }
}

fn with_condition(condition: &str) -> String {
    let quoted = serde_json::to_string(condition).expect("a text");
    format!(
        "name: a\nagents:\n  - {{name: one, script: \"true\"}}\n  - name: two\n    script: \"true\"\n    dependencies:\n      - agent_name: one\n        condition: {quoted}\n"
    )
}

#[test]
fn conditions_that_would_never_end_or_eat_all_memory_end_soon() {
    let nested = format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000));
    let nots = "not ".repeat(10_000) + "1";
    let chain = "1 + ".repeat(50_000) + "1";
    for condition in [
        "while true {}",
        "loop {}",
        "x = 1",
        "fn f() { f() }",
        nested.as_str(),
        nots.as_str(),
    ] {
        says(&refused(with_condition(condition)), "a.yaml:8:");
    }
    for condition in [
        "('x' * 1000000000) == ''",
        "len('x' + 'x' * 100000000) > 0",
        "len([0] * 1000000000) > 0",
        "range(1000000000) == []",
        chain.as_str(),
    ] {
        let workspace = Workspace::new();
        workspace.write("a.yaml", with_condition(condition));
        let begun = Instant::now();
        let outcome = workspace.run(["run", "a.yaml"]);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert!([1, 2].contains(&outcome.code), "{}", outcome.stderr);
        says(&outcome, "a.yaml:8:");
    }
}

#[test]
fn a_text_that_doubles_with_every_turn_meets_the_conditions_limit() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: one, script: grow.rhai}\n  - name: two\n    script: grow.rhai\n    dependencies:\n      - agent_name: one\n        condition: \"len(output.text + output.text + output.text) > 0\"\n",
    );
    workspace.write(
        "grow.rhai",
        "let s = \"x\"; while s.len() < 600_000 { s += s; } #{ text: s }",
    );
    let outcome = workspace.run(["run", "a.yaml"]).expect_code(1);
    assert!(
        outcome.stderr.contains("condition_failed"),
        "{}",
        &outcome.stderr[..outcome.stderr.len().min(2000)]
    );
    assert!(outcome.stderr.len() < 100_000, "{} bytes", outcome.stderr.len());
}

#[test]
fn answers_and_contexts_are_read_with_the_same_care() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", format!("name: a\n{AGENTS}"));
    workspace.write("bad.yaml", "a: 1\na: 2\n");
    workspace.write("list.yaml", "[1]\n");
    workspace.write("bytes.yaml", b"a: \xff\n");
    for file in ["bad.yaml", "list.yaml", "bytes.yaml", "missing.yaml", "."] {
        for option in ["--context", "--answers"] {
            let outcome = workspace.run(["run", "a.yaml", option, file]).expect_code(2);
            assert!(outcome.stderr.contains(file), "{option} {file}: {}", outcome.stderr);
        }
    }
    assert!(workspace.runs().is_empty());
}

#[test]
fn records_that_are_none() {
    let workspace = Workspace::new();
    for (name, text) in [
        ("empty.jsonl", ""),
        ("text.jsonl", "hello\nworld\n"),
        ("empty.json", ""),
        ("list.json", "[]"),
        ("other.json", "{\"conversation_history\": 7}"),
        ("deep.json", &"[".repeat(200_000)),
    ] {
        workspace.write(name, text);
        let outcome = workspace.run(["replay", name]).expect_code(2);
        assert!(outcome.stderr.contains(name), "{}", outcome.stderr);
    }
}
