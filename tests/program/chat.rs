//! Talking with an ensemble, at a terminal and without one.

use crate::support::Workspace;
use crate::support::server::{Part, Server, head};
use crate::support::terminal::Terminal;

fn assistant() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        r#"
name: assistant
description: Answers whatever is said.
agents:
  - name: helper
    model_profile: p
model_profiles:
  p: {provider: simulated, script: answer.rhai}
"#,
    );
    workspace.write("answer.rhai", "`heard ${messages.len()}: ${prompt}`");
    workspace
}

/// What a user says in a journal.
fn said(workspace: &Workspace) -> Vec<String> {
    let journal = workspace.journal();
    let texts = journal.iter().filter_map(|record| match record["event"].as_str() {
        Some("run_started") => record["data"]["input"].as_str(),
        Some("message_added") => record["data"]["text"].as_str(),
        _ => None,
    });
    texts.map(str::to_owned).collect()
}

#[test]
fn lines_of_standard_input_are_messages() {
    let workspace = assistant();
    let lines = "hello\n\n\"\"\"one\ntwo\"\"\"\n/help\n\"\"\"three\"\"\"\n/bye\nnever said\n";
    let outcome = workspace.run_with_stdin(["chat", "a.yaml"], lines).expect_code(0);
    assert_eq!(said(&workspace), ["hello", "one\ntwo", "three"]);
    assert!(outcome.stdout.contains("heard 5: "), "it remembers: {}", outcome.stdout);
    assert!(outcome.stderr.contains("/bye"), "help: {}", outcome.stderr);
}

#[test]
fn a_message_in_quotes_keeps_its_lines_and_ends_with_the_input() {
    let workspace = assistant();
    let lines = "\"\"\"one\n\n  two\n\"\"\"\n\"\"\"three\nfour\n";
    workspace.run_with_stdin(["chat", "a.yaml"], lines).expect_code(0);
    assert_eq!(said(&workspace), ["one\n\n  two", "three\nfour"]);
}

#[test]
fn a_conversation_that_waits_takes_no_message_for_its_next_leg() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: a\nagents: [{name: guest, input: 'Well?'}]\n");
    workspace
        .run_with_stdin(["chat", "a.yaml"], "hello\nanybody?\n")
        .expect_code(3);
    assert_eq!(said(&workspace), ["hello"]);
}

#[test]
fn nothing_said_leaves_nothing_behind() {
    let workspace = assistant();
    workspace.run_with_stdin(["chat", "a.yaml"], "/bye\n").expect_code(0);
    workspace.run_with_stdin(["chat", "a.yaml"], "").expect_code(0);
    assert!(workspace.runs().is_empty());
}

#[test]
fn a_person_talks_and_goes_on_another_day() {
    let workspace = assistant();
    let mut terminal = Terminal::open(&workspace, &["chat", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("assistant: Answers whatever is said.");
    terminal.wait_for("simulated: no model is called for helper");
    terminal.wait_for("> ");
    terminal.type_in("hello\n");
    terminal.wait_for("helper llm");
    terminal.wait_for("heard 1: ");
    terminal.wait_for("> ");
    terminal.type_in("again\n");
    terminal.wait_for("heard 3: ");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    terminal.wait_for("ensemble chat --run ");
    let (code, rest) = terminal.finish();
    assert_eq!(code, 0);
    let id = rest.split('`').next().expect("has an id").trim().to_owned();

    let mut terminal = Terminal::open(&workspace, &["chat", "--run", &id], &[("NO_COLOR", "1")]);
    terminal.wait_for("> ");
    terminal.type_in("once more\n");
    terminal.wait_for("heard 5: ");
    terminal.wait_for("> ");
    terminal.type_in("/bye\n");
    assert_eq!(terminal.finish().0, 0);
    assert_eq!(said(&workspace), ["hello", "again", "once more"]);
}

#[test]
fn ctrl_c_at_the_prompt_ends_the_chat_and_spoils_nothing() {
    let workspace = assistant();
    let mut terminal = Terminal::open(&workspace, &["chat", "a.yaml"], &[]);
    terminal.wait_for("> ");
    terminal.type_in("hello\n");
    terminal.wait_for("heard 1: ");
    terminal.wait_for("> ");
    terminal.type_in("\u{3}");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("ensemble chat --run"), "{text}");
}

#[test]
fn a_line_is_edited_and_earlier_ones_are_recalled() {
    const UP: &str = "\u{1b}[A";
    const LEFT: &str = "\u{1b}[D";
    let workspace = assistant();
    let mut terminal = Terminal::open(&workspace, &["chat", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("> ");
    terminal.type_in(&format!("helo{LEFT}l\n"));
    terminal.wait_for("heard 1: ");
    terminal.wait_for("> ");
    terminal.type_in("two\n");
    terminal.wait_for("heard 3: ");
    terminal.wait_for("> ");
    terminal.type_in(&format!("{UP}{UP} again\n"));
    terminal.wait_for("heard 5: ");
    terminal.wait_for("> ");
    // What a terminal sends when text of two lines is inserted from the clipboard.
    terminal.type_in("\u{1b}[200~three\rfour\u{1b}[201~\n");
    terminal.wait_for("heard 7: ");
    terminal.wait_for("> ");
    terminal.type_in("\u{12}two\n");
    terminal.wait_for("heard 9: ");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    assert_eq!(said(&workspace), ["hello", "two", "hello again", "three\nfour", "two"]);
}

#[test]
fn ctrl_c_clears_a_message_that_is_half_typed() {
    let workspace = assistant();
    let mut terminal = Terminal::open(&workspace, &["chat", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("> ");
    terminal.type_in("never mind\u{3}");
    terminal.wait_for("never mind");
    terminal.wait_for("> ");
    // A line that was emptied again is not half typed.
    terminal.type_in("this\n");
    terminal.wait_for("heard 1: ");
    terminal.wait_for("> ");
    terminal.type_in("x\u{7f}\u{3}");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("ensemble chat --run"), "{text}");
    assert_eq!(said(&workspace), ["this"]);
}

#[test]
fn lines_typed_ahead_are_the_next_messages() {
    let workspace = assistant();
    let mut terminal = Terminal::open(&workspace, &["chat", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("> ");
    terminal.type_in("one\ntwo\n\"\"\"three\nfour\"\"\"\n");
    terminal.wait_for("heard 5: ");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.finish().0, 0);
    assert_eq!(said(&workspace), ["one", "two", "three\nfour"]);
}

#[test]
fn a_chat_is_edited_also_when_its_replies_go_to_a_file() {
    let workspace = assistant();
    let command = format!("{} chat a.yaml > replies.txt", crate::support::binary());
    let mut terminal = Terminal::open_program("sh", &workspace, &["-c", &command], &[("NO_COLOR", "1")]);
    terminal.wait_for("> ");
    terminal.type_in("helo\u{1b}[Dl\n");
    // The program listens for text from the clipboard again: the next line.
    terminal.wait_for("\u{1b}[?2004h");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.finish().0, 0);
    assert_eq!(said(&workspace), ["hello"]);
    let replies = workspace.read("replies.txt");
    assert!(replies.contains("heard 1: ") && !replies.contains("> "), "{replies:?}");
}

#[test]
fn a_simple_terminal_passes_on_whole_lines() {
    let workspace = assistant();
    let command = format!("{} chat a.yaml > replies.txt", crate::support::binary());
    let mut terminal = Terminal::open_program("sh", &workspace, &["-c", &command], &[("TERM", "dumb")]);
    terminal.wait_for("> ");
    terminal.type_in("hello\n");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    assert_eq!(said(&workspace), ["hello"]);
    let replies = workspace.read("replies.txt");
    assert!(replies.contains("heard 1: ") && !replies.contains("> "), "{replies:?}");
}

#[test]
fn a_failure_is_told_and_the_chat_goes_on() {
    let workspace = assistant();
    workspace.write(
        "answer.rhai",
        "if prompt.contains(\"bad\") { throw \"cannot\" } else { `heard: ${prompt}` }",
    );
    let mut terminal = Terminal::open(&workspace, &["chat", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("> ");
    terminal.type_in("bad\n");
    terminal.wait_for("agent_failed");
    terminal.wait_for("> ");
    terminal.type_in("good\n");
    terminal.wait_for("heard: ");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.finish().0, 0);
}

#[test]
fn only_an_ended_run_is_continued() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: a\nagents: [{name: guest, input: 'Well?'}]\n");
    workspace.run(["run", "a.yaml"]).expect_code(3);
    let id = workspace.runs()[0]
        .file_name()
        .expect("has a name")
        .to_string_lossy()
        .into_owned();
    let outcome = workspace
        .run_with_stdin(["chat", "--run", &id], "hello\n")
        .expect_code(2);
    assert!(
        outcome.stderr.contains("only an ended run can be continued"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_reply_is_shown_before_it_is_whole() {
    let word = |text: &str| {
        format!(
            "data: {}\n\n",
            serde_json::json!({"choices": [{"delta": {"content": text}}]})
        )
    };
    let first = Part::Bytes(word("The first words").into_bytes());
    // The server goes on with blanks for as long as anybody listens; the reply is never whole.
    let rest = Part::Drip(word(" ").into_bytes(), std::time::Duration::from_millis(50));
    let server = Server::with(vec![vec![head("text/event-stream"), first, rest]]);
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents: [{{name: helper, model_profile: m}}]\nmodel_profiles:\n  m: {{provider: openai, model: x, \
             base_url: '{}'}}\n",
            server.url()
        ),
    );
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml", "-i", "x"], &[("NO_COLOR", "1")]);
    terminal.wait_for("helper llm");
    terminal.wait_for("    The first words");
    terminal.type_in("\u{3}");
    let (code, text) = terminal.finish();
    assert_eq!(code, 130, "{text}");
    assert!(text.contains("cancelled"), "{text}");
}
