//! Agents side by side on a terminal: while the reply of one is shown, the others are not hidden.

use std::time::Duration;

use crate::support::Workspace;
use crate::support::server::{Part, Server, answer, head};
use crate::support::terminal::Terminal;

/// A piece of a reply.
fn word(text: &str) -> Vec<u8> {
    let piece = serde_json::json!({"choices": [{"delta": {"content": text}}]});
    format!("data: {piece}\n\n").into_bytes()
}

/// One agent whose model never ends, one whose model is busy, and two scripts that work until they may go.
fn workspace(model: &Server, busy: &Server) -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents:\n  - {{name: helper, model_profile: m}}\n  - {{name: patient, model_profile: busy}}\n  - {{name: first, \
             script: first.sh}}\n  - {{name: second, script: second.sh}}\nmodel_profiles:\n  m: {{provider: openai, model: x, \
             base_url: '{}'}}\n  busy: {{provider: openai, model: x, base_url: '{}'}}\n",
            model.url(),
            busy.url()
        ),
    );
    for name in ["first", "second"] {
        workspace.write(
            &format!("{name}.sh"),
            format!("until [ -e go-{name} ] || [ ! -e a.yaml ]; do sleep 0.02; done; echo {name} is done"),
        );
    }
    workspace
}

#[test]
fn the_others_are_shown_below_a_reply() {
    let rest = Part::Drip(word("and more "), Duration::from_millis(10));
    let model = Server::with(vec![vec![
        head("text/event-stream"),
        Part::Bytes(word("The first words ")),
        rest,
    ]]);
    let busy = Server::with(vec![answer("429 Too Many Requests", &[("retry-after", "50")], "")]);
    let workspace = workspace(&model, &busy);
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml", "-i", "x"], &[("NO_COLOR", "1")]);
    terminal.wait_for("    The first words");
    terminal.wait_for("turn 1 · patient (again in ");
    terminal.wait_for(" s), first, second");
    workspace.write("go-first", "");
    terminal.wait_for(" s), second · ended: first");
    workspace.write("go-second", "");
    terminal.wait_for(" s) · ended: first, second");
    // Some rows of the reply.
    for _ in 0..120 {
        terminal.wait_for("more");
    }
    terminal.type_in("\u{3}");
    let (code, shown, end) = terminal.finish_on_small_screen(16);
    assert_eq!(code, 130, "{shown:#?}");
    let is_activity = |row: &String| row.contains("ended:") || row.contains("turn 1 ·");
    assert!(!shown.iter().any(is_activity), "{shown:#?}");
    let begin = shown
        .iter()
        .position(|row| row.starts_with("    The first words and more and more "));
    let begin = begin.unwrap_or_else(|| panic!("{shown:#?}"));
    let reply: Vec<&String> = shown[begin..]
        .iter()
        .take_while(|row| row.starts_with("    "))
        .collect();
    assert!(reply.len() > 12, "{shown:#?}");
    let words = reply.iter().flat_map(|row| row.split_whitespace()).skip(3);
    let is_whole = words
        .zip(["and", "more"].iter().cycle())
        .all(|(word, expected)| word.starts_with(expected));
    assert!(is_whole, "the row destroys no word of the reply: {shown:#?}");
    assert_eq!(shown[begin + reply.len()..][1], "    first is done", "{shown:#?}");
    assert_eq!(shown[shown.len() - end.len()..], end, "at the end of a screen, too");
}

#[test]
fn a_pause_is_shown_also_without_a_reply() {
    let model = Server::with(vec![vec![
        head("text/event-stream"),
        Part::Drip(b"\n".to_vec(), Duration::from_millis(50)),
    ]]);
    let busy = Server::with(vec![answer("429 Too Many Requests", &[("retry-after", "50")], "")]);
    let workspace = workspace(&model, &busy);
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml", "-i", "x"], &[("NO_COLOR", "1")]);
    terminal.wait_for("turn 1 · helper, patient (again in ");
    // The time runs.
    terminal.wait_for("patient (again in 48 s), first, second");
    terminal.type_in("\u{3}");
    assert_eq!(terminal.finish().0, 130);
}

#[test]
fn an_agent_or_a_part_that_is_tried_again_says_when() {
    for (for_each, shown) in [
        ("", "turn 1 · flaky (again in "),
        (", for_each: {times: 2}", "turn 1 · flaky 0/2 (again in "),
    ] {
        let workspace = Workspace::new();
        workspace.write(
            "a.yaml",
            format!(
                "name: a\nagents:\n  - {{name: flaky, script: 'sh work.sh', retry: {{max_attempts: 2, delay_seconds: 50}}{for_each}}}\n  - \
                 {{name: other, script: 'sh wait.sh'}}\n"
            ),
        );
        workspace.write("work.sh", "exit 1");
        workspace.write("wait.sh", "until [ ! -e a.yaml ]; do sleep 0.02; done");
        let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
        terminal.wait_for(shown);
        terminal.type_in("\u{3}");
        assert_eq!(terminal.finish().0, 130);
    }
}
