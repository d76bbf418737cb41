//! What is shown where: streams, forms, colours.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use crate::support::Workspace;

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
        verbose.stderr.contains("  – critic, never: waiting for writer\n"),
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
fn the_older_spellings_of_form_and_file_are_accepted() {
    let workspace = talk();
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let same = |new: &[&str], old: &[&str]| {
        let said = |arguments: &[&str]| workspace.run(arguments).expect_code(0).stdout;
        let expected = said(new);
        assert!(!expected.is_empty(), "{new:?}");
        assert_eq!(said(old), expected, "{old:?}");
    };
    same(
        &["validate", "a.yaml", "--output", "json"],
        &["validate", "a.yaml", "--format", "json"],
    );
    same(
        &["graph", "a.yaml", "--output", "dot"],
        &["graph", "a.yaml", "--format", "dot"],
    );
    same(
        &["check", "a.yaml", "--output", "json"],
        &["check", "a.yaml", "--format", "json"],
    );
    same(
        &["runs", "show", "--output", "json"],
        &["runs", "show", "--format", "json"],
    );
    same(&["runs", "list", "--output", "json"], &["runs", "list", "--json"]);
    same(&["list", "--output", "json"], &["list", "--json"]);
    workspace.run(["list", "--json", "--output", "human"]).expect_code(2);
    for option in ["-o", "--to", "--out"] {
        let name = format!("run{option}.html");
        workspace
            .run(["runs", "export", "--output", "html", option, &name])
            .expect_code(0);
        assert!(workspace.read(&name).starts_with("<!"), "{option}");
    }
    for option in ["-o", "--to", "--output"] {
        let folder = format!("man{option}");
        workspace.run(["man", option, &folder]).expect_code(0);
        assert!(workspace.path().join(folder).join("ensemble.1").is_file(), "{option}");
    }
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
