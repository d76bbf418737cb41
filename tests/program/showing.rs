//! What is shown where: streams, forms, colours, and a person at a real terminal.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use crate::support::Workspace;
use crate::support::terminal::Terminal;

fn talk() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        r#"
name: talk
agents:
  - name: writer
    model_profile: p
    prompt: Write.
  - name: critic
    script: critic.sh
    depends_on: [writer]
  - name: never
    script: critic.sh
    dependencies: [{agent_name: writer, condition: "output.response == 'x'"}]
model_profiles:
  p: {provider: simulated, replies: ["a fine draft"]}
"#,
    );
    workspace.write("critic.sh", "echo 'thinking aloud' >&2; echo '{\"verdict\": \"good\"}'");
    workspace
}

#[test]
fn the_story_is_on_stdout_and_everything_else_on_stderr() {
    let outcome = talk().run(["run", "a.yaml"]).expect_code(0);
    for says in [
        "turn 1",
        "writer",
        "llm",
        "a fine draft",
        "turn 2",
        "critic",
        "script",
        "verdict: good",
    ] {
        assert!(outcome.stdout.contains(says), "{says}: {}", outcome.stdout);
    }
    for says in [
        "completed",
        "2 turns",
        "2 executions",
        "1 model request",
        "simulated",
        "never never ran: condition false on writer",
        "ensemble replay",
    ] {
        assert!(outcome.stderr.contains(says), "{says}: {}", outcome.stderr);
    }
    assert!(!outcome.stderr.contains("thinking aloud"), "{}", outcome.stderr);
}

#[test]
fn quiet_says_the_last_word_only_and_verbose_says_all() {
    let quiet = talk().run(["run", "a.yaml", "-q"]).expect_code(0);
    assert_eq!(quiet.stdout, "verdict: good\n\n".replace("\n\n", "\n"));
    assert_eq!(quiet.stderr, "");
    let verbose = talk().run(["run", "a.yaml", "--verbose"]).expect_code(0);
    assert!(verbose.stderr.contains("thinking aloud"), "{}", verbose.stderr);
    assert!(
        verbose.stderr.contains("critic does not run: waiting for writer"),
        "{}",
        verbose.stderr
    );
    talk().run(["run", "a.yaml", "-q", "-v"]).expect_code(2);
}

#[test]
fn the_events_are_the_journals_lines() {
    let workspace = talk();
    let outcome = workspace.run(["run", "a.yaml", "--output", "events"]).expect_code(0);
    let journal = std::fs::read_to_string(workspace.runs()[0].join("journal.jsonl")).expect("a journal");
    assert_eq!(outcome.stdout, journal);
    let names: Vec<String> = workspace
        .journal()
        .iter()
        .map(|record| record["event"].as_str().unwrap_or_default().to_owned())
        .collect();
    let turn = [
        "turn_started",
        "execution_started",
        "execution_finished",
        "turn_finished",
    ];
    let expected = [&["run_started"][..], &turn, &turn, &["run_ended"]].concat();
    assert_eq!(names, expected);
}

#[test]
fn the_events_come_while_they_happen() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: a\nagents:\n  - {name: it, script: it.sh}\n");
    workspace.write("it.sh", "until [ -e go ]; do sleep 0.02; done");
    let mut running = workspace.spawn(["run", "a.yaml", "--output", "events"]);
    let mut stdout = std::io::BufReader::new(running.0.stdout.take().expect("standard output"));
    let mut line = String::new();
    while !line.contains("execution_started") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut stdout, &mut line).expect("a line") > 0);
    }
    workspace.write("go", "");
    running.finish().expect_code(0);
}

#[test]
fn nothing_is_coloured_where_nobody_sees_it() {
    for arguments in [
        vec!["run", "a.yaml"],
        vec!["run", "a.yaml", "-v"],
        vec!["run", "missing.yaml"],
        vec!["validate", "a.yaml"],
    ] {
        let outcome = talk().run(arguments.clone());
        assert!(
            !outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'),
            "{arguments:?}"
        );
    }
    let always = talk().run(["run", "a.yaml", "--color", "always"]).expect_code(0);
    assert!(always.stdout.contains('\u{1b}') && always.stderr.contains('\u{1b}'));
}

#[test]
fn a_reader_that_has_seen_enough_stops_nothing() {
    let workspace = talk();
    let mut running = workspace.spawn(["run", "a.yaml", "--output", "events"]);
    drop(running.0.stdout.take());
    running.finish().expect_code(0);
    assert_eq!(workspace.journal().last().expect("records")["event"], "run_ended");
}

#[test]
fn findings_as_json_have_a_version_and_places() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: it, script: \"true\", descripton: x}\n",
    );
    let outcome = workspace.run(["validate", "a.yaml", "--format", "json"]).expect_code(2);
    let document = outcome.json();
    assert_eq!(document["version"], 1);
    let finding = &document["diagnostics"][0];
    for (key, value) in [
        ("severity", serde_json::json!("error")),
        ("file", "a.yaml".into()),
        ("line", 3.into()),
        ("column", 32.into()),
        ("end_line", 3.into()),
        ("end_column", 42.into()),
    ] {
        assert_eq!(finding[key], value, "{key}: {finding}");
    }
    assert!(finding["code"].is_string() && finding["message"].is_string() && finding["help"].is_string());
    let human = workspace.run(["validate", "a.yaml"]).expect_code(2);
    assert!(human.stdout.contains("a.yaml:3:32"), "{}", human.stdout);
    assert!(human.stdout.contains("^^^^^^^^^^"), "{}", human.stdout);
}

#[test]
fn help_version_and_completions_print_to_stdout() {
    let workspace = Workspace::new();
    for (arguments, says) in [
        (vec!["--help"], "Usage: ensemble"),
        (vec!["run", "--help"], "--answer"),
        (vec!["--version"], env!("CARGO_PKG_VERSION")),
        (vec!["completions", "bash"], "_ensemble"),
    ] {
        let outcome = workspace.run(arguments).expect_code(0);
        assert!(outcome.stdout.contains(says), "{says}: {}", outcome.stdout);
        assert_eq!(outcome.stderr, "");
    }
}

fn interview(input: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        format!("name: interview\nagents:\n  - {{name: guest, input: {input}}}\n  - {{name: after, script: after.rhai, depends_on: [guest]}}\n"),
    );
    workspace.write("after.rhai", "#{ heard: \"<\" + dependencies.guest.response + \">\" }");
    workspace
}

#[test]
fn a_person_at_the_terminal_is_asked_and_answers() {
    let workspace = interview("{prompt: 'Your name?'}");
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[]);
    terminal.wait_for("guest asks: Your name?");
    terminal.wait_for("> ");
    terminal.type_in("Ada Lovelace\n");
    terminal.wait_for("<Ada Lovelace>");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("completed"), "{text}");
    assert!(text.contains("\u{1b}[1m"), "a terminal sees colours: {text:?}");
}

#[test]
fn choices_are_listed_and_asked_again_until_one_is_chosen() {
    let workspace = interview("{prompt: 'Which way?', choices: [left, right]}");
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("Which way?");
    terminal.wait_for("1  left");
    terminal.wait_for("2  right");
    terminal.type_in("up\n");
    terminal.wait_for("`up` is none of the choices");
    terminal.wait_for("> ");
    terminal.type_in("2\n");
    terminal.wait_for("<right>");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    assert!(
        !text.contains("\u{1b}[1m") && !text.contains("\u{1b}[32m"),
        "NO_COLOR: {text:?}"
    );
}

#[test]
fn an_empty_line_is_the_default_and_so_is_silence() {
    for answer in ["\n", ""] {
        let workspace = interview("{prompt: 'Well?', default: nothing, timeout_seconds: 2}");
        let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[]);
        terminal.wait_for("(Enter: nothing)");
        terminal.type_in(answer);
        terminal.wait_for("<nothing>");
        assert_eq!(terminal.finish().0, 0);
    }
}

#[test]
fn a_person_at_the_terminal_is_asked_before_a_tool_is_called() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: asking\nagents:\n  - {name: a, model_profile: m, tools: [write]}\nmodel_profiles:\n  m:\n    provider: \
         simulated\n    replies:\n      - {tool_calls: [{name: write, arguments: {n: 1}}]}\n      - {tool_calls: [{name: \
         write, arguments: {n: 2}}, {name: write, arguments: {n: 3}}]}\n      - {tool_calls: [{name: write, arguments: {n: \
         4}}]}\n      - done\ntools:\n  write: {script: \"echo w >> written.txt\", parameters: {type: object}, permission: ask}\n",
    );
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[]);
    terminal.wait_for("a asks: may I use the tool `write` with {\"n\":1}?");
    terminal.wait_for("3  always in this run");
    terminal.wait_for("> ");
    terminal.type_in("n\n");
    terminal.wait_for("{\"n\":2}?");
    terminal.wait_for("> ");
    assert!(!workspace.path().join("written.txt").exists());
    terminal.type_in("a\n");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    assert!(!text.contains("may I use"), "always: {text}");
    assert_eq!(workspace.read("written.txt"), "w\nw\nw\n");
}

#[test]
fn ctrl_c_at_the_question_ends_the_run_and_resume_asks_again() {
    let workspace = interview("{prompt: 'Well?'}");
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[]);
    terminal.wait_for("> ");
    terminal.type_in("\u{3}");
    let (code, text) = terminal.finish();
    assert_eq!(code, 130, "{text}");
    let mut terminal = Terminal::open(&workspace, &["resume", "--last"], &[]);
    terminal.wait_for("Well?");
    terminal.wait_for("> ");
    terminal.type_in("again\n");
    terminal.wait_for("<again>");
    assert_eq!(terminal.finish().0, 0);
}

#[test]
fn the_end_of_the_input_at_the_question_leaves_the_run_waiting() {
    let workspace = interview("{prompt: 'Well?'}");
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[]);
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    let (code, text) = terminal.finish();
    assert_eq!(code, 3, "{text}");
}
