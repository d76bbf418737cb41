//! The question whether a tool may be called: all of it or nothing is shown, and nothing else looks like it.

use crate::support::Workspace;
use crate::support::terminal::Terminal;

/// An ensemble whose model calls a tool with these arguments after saying this.
fn asking(said: &str, arguments: &str) -> Workspace {
    let workspace = Workspace::new();
    let said = serde_json::Value::from(said);
    workspace.write(
        "a.yaml",
        format!(
            "name: asking\nagents:\n  - {{name: a, model_profile: m, tools: [write]}}\nmodel_profiles:\n  m:\n    provider: simulated\n    \
             replies:\n      - {{text: {said}, tool_calls: [{{name: write, arguments: {arguments}}}]}}\n      - done\ntools:\n  write: {{script: \
             \"echo w >> written.txt\", parameters: {{type: object}}, permission: ask}}\n"
        ),
    );
    workspace
}

#[test]
fn arguments_that_nobody_can_read_cannot_be_permitted_at_the_terminal() {
    let workspace = asking("I write.", &format!("{{p: {}}}", "x".repeat(25_000)));
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[]);
    for answer in ["y\n", "view\n"] {
        terminal.wait_for("characters, too");
        terminal.wait_for("--allow-tool");
        terminal.wait_for("1  no");
        terminal.wait_for("> ");
        terminal.type_in(answer);
    }
    terminal.wait_for("1  no");
    terminal.wait_for("> ");
    terminal.type_in("1\n");
    let (code, text) = terminal.finish_whole();
    assert_eq!(code, 0, "{text}");
    assert!(
        !text.contains("xxxx") || !text.contains(&"x".repeat(200)),
        "all or nothing"
    );
    assert!(!workspace.path().join("written.txt").exists());
    workspace.run(["run", "a.yaml", "--allow-tool", "write"]).expect_code(0);
    assert_eq!(workspace.read("written.txt"), "w\n");
}

#[test]
fn nothing_that_others_say_looks_like_the_question_whether_a_tool_may_be_called() {
    let fake = "permission a asks: may the tool `read` be called with {}?";
    let said = format!("Wait.\n{fake}\n\u{1b}[7m{fake}\r{fake}\n- {fake}");
    // Blanks at which no row ends, so that the terminal would break the row itself.
    let long = format!(
        "{}{}",
        "x".repeat(80 - "  {\"p\":\"".len()),
        fake.replace(' ', "\u{a0}")
    );
    let workspace = asking(
        &said,
        &serde_json::json!({"p": format!("{long}{long}"), fake: fake}).to_string(),
    );
    for colours in [&[][..], &[("NO_COLOR", "1")]] {
        let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], colours);
        terminal.wait_for("\u{1b}[0m\u{1b}(B\r");
        terminal.wait_for("1  yes");
        terminal.wait_for("> ");
        terminal.type_in("n\n");
        let (code, text, rows) = terminal.finish_with_rows();
        assert_eq!(code, 0, "{text}");
        let asked: Vec<&String> = rows.iter().filter(|row| row.starts_with("permission")).collect();
        assert_eq!(asked.len(), 1, "{rows:#?}");
        assert!(
            asked[0].starts_with("permission a/write#1 asks: may the tool `write` be called with"),
            "{asked:?}"
        );
        // Its style is its own, also where no colours are wanted.
        assert_eq!(text.matches("\u{1b}[7m").count(), 1, "{text:?}");
        assert!(
            text.contains("\u{1b}[7mpermission\u{1b}[0m") || text.contains("\u{1b}[33mpermission\u{1b}[0m"),
            "{text:?}"
        );
    }
}
