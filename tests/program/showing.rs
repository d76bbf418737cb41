//! What is shown where: streams, forms, colours, and a person at a real terminal.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use crate::support::terminal::{Setting, Terminal};
use crate::support::{Workspace, eventually};

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
    terminal.wait_for("a asks: may the tool `write` be called with {\"n\":1}?");
    terminal.wait_for("3  always in this run");
    terminal.wait_for("> ");
    terminal.type_in("n\n");
    terminal.wait_for("{\"n\":2}?");
    terminal.wait_for("> ");
    assert!(!workspace.path().join("written.txt").exists());
    terminal.type_in("a\n");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    assert!(!text.contains("be called"), "always: {text}");
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

/// A run's rows on a terminal, with what changes from run to run replaced.
fn rows(rows: &[String]) -> Vec<String> {
    let steady = |row: &String| match (row.split_once(" · run "), row.split_once(" ms")) {
        (Some((before, _)), _) => before.to_owned(),
        (_, Some((before, after))) => format!("{} ms{after}", before.trim_end_matches(|c: char| c.is_ascii_digit())),
        _ => match row.split_once("ensemble re") {
            Some((before, _)) => before.trim_end().to_owned(),
            None => row.trim_end().to_owned(),
        },
    };
    rows.iter().map(steady).collect()
}

/// An agent that works for a while, so that the spinner turns; then a question, and one more.
fn spinning() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: spins\nagents:\n  - {name: first, script: work.sh}\n  - {name: guest, input: {prompt: 'Well?'}, depends_on: \
         [first]}\n  - {name: last, script: work.sh, depends_on: [guest]}\n",
    );
    workspace.write(
        "work.sh",
        ": > begun; until [ -e go ] || [ ! -e work.sh ]; do sleep 0.02; done; echo done",
    );
    workspace
}

#[test]
fn nothing_of_the_spinner_remains_after_a_run_with_a_question() {
    let workspace = spinning();
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("turn 1 · first 0s");
    workspace.write("go", "");
    terminal.wait_for("> ");
    terminal.type_in("fine\n");
    let (code, shown) = terminal.finish_on_screen();
    assert_eq!(code, 0, "{shown:#?}");
    assert_eq!(
        rows(&shown),
        [
            "spins · 3 agents",
            "",
            "turn 1",
            "  first script ·  ms",
            "    done",
            "",
            "guest asks: Well?",
            "> fine",
            "",
            "turn 2",
            "  guest input ·  ms",
            "    fine",
            "",
            "turn 3",
            "  last script ·  ms",
            "    done",
            "",
            "✓ completed",
            "  3 turns · 3 executions ·  ms",
            "  recorded:",
        ]
    );
}

#[test]
fn nothing_of_the_spinner_remains_after_a_signal() {
    for (key, code) in [(Some("\u{3}"), 130), (None, 143)] {
        let workspace = spinning();
        let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
        terminal.wait_for("turn 1 · first 0s");
        // A script that has not begun would get the terminal's signal too.
        eventually("the script", || workspace.path().join("begun").exists().then_some(()));
        match key {
            Some(key) => terminal.type_in(key),
            None => {
                let kill = std::process::Command::new("kill")
                    .arg(terminal.process_id().to_string())
                    .status();
                assert!(kill.expect("kill is there").success());
            }
        }
        let (ended, shown) = terminal.finish_on_screen();
        assert_eq!(ended, code, "{shown:#?}");
        let shown = rows(&shown);
        assert_eq!(shown[..2], ["spins · 3 agents", ""], "{shown:#?}");
        assert!(shown[2].starts_with("✗ cancelled: stopped by "), "{shown:#?}");
        assert_eq!(shown.len(), 8, "{shown:#?}");
    }
}

#[test]
fn nothing_of_the_spinner_remains_after_an_error() {
    // An agent that fails, and a journal that cannot be written.
    for (script, file_blocks, end) in [
        (
            "exit 3",
            None,
            "✗ agent_failed: first failed: the script ended with exit code 3",
        ),
        (
            "head -c 90000 /dev/zero | tr '\\0' x",
            Some(64),
            "error: cannot write the journal",
        ),
    ] {
        let workspace = spinning();
        workspace.write(
            "work.sh",
            format!("until [ -e go ] || [ ! -e work.sh ]; do sleep 0.02; done; {script}"),
        );
        let setting = Setting {
            file_blocks,
            ..Setting::default()
        };
        let mut terminal = Terminal::open_with(&setting, &workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
        terminal.wait_for("turn 1 · first 0s");
        workspace.write("go", "");
        let (code, shown) = terminal.finish_on_screen();
        assert_eq!(code, 1, "{shown:#?}");
        assert!(shown.iter().any(|row| row.starts_with(end)), "{shown:#?}");
        assert!(!shown.iter().any(|row| row.contains("first 0s")), "{shown:#?}");
    }
}

#[test]
fn many_agents_at_work_take_one_row_of_the_spinner() {
    let workspace = spinning();
    let agents: String = (0..40)
        .map(|number| format!("  - {{name: worker-{number}, script: work.sh}}\n"))
        .collect();
    workspace.write("a.yaml", format!("name: many\nagents:\n{agents}"));
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("turn 1 · worker-0, worker-1, ");
    workspace.write("go", "");
    let (code, shown) = terminal.finish_on_screen();
    assert_eq!(code, 0, "{shown:#?}");
    assert!(
        !shown.iter().any(|row| row.contains("turn 1 ·") || row.contains('…')),
        "{shown:#?}"
    );
    assert_eq!(shown.len(), 3 + 2 * 40 + 4, "{shown:#?}");
}

const WORDS: &str = "one two three four five six seven eight nine ten eleven twelve thirteen";

/// A model that says a text of a few kinds of lines, a script with a long value, and an agent that never runs.
fn wordy() -> Workspace {
    let workspace = Workspace::new();
    let reply = format!(
        "{WORDS}\\n- {WORDS}\\n\\n```\\n{WORDS}\\n```\\n    {WORDS}\\n漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字"
    );
    workspace.write(
        "a.yaml",
        format!(
            "name: wordy\nagents:\n  - {{name: writer, model_profile: p}}\n  - {{name: critic, script: critic.rhai, depends_on: \
             [writer]}}\n  - {{name: never, script: critic.rhai, dependencies: [{{agent_name: critic, condition: \
             \"output.verdict == 'a rather long one'\"}}]}}\nmodel_profiles:\n  p: {{provider: simulated, replies: \
             [\"{reply}\"]}}\n"
        ),
    );
    workspace.write("critic.rhai", format!("#{{ verdict: \"{WORDS}\" }}"));
    workspace
}

#[test]
fn text_is_broken_between_words_at_the_width_of_the_terminal() {
    let workspace = wordy();
    let setting = Setting {
        columns: 48,
        ..Setting::default()
    };
    let shell = |arguments: &[&str]| {
        let terminal = Terminal::open_with(&setting, &workspace, arguments, &[("NO_COLOR", "1")]);
        let (code, shown) = terminal.finish_on_screen();
        assert_eq!(code, 0, "{shown:#?}");
        shown.join("\n")
    };
    let told = [shell(&["run", "a.yaml"]), shell(&["runs", "show"])];
    for part in [
        "    one two three four five six seven eight nine\n    ten eleven twelve thirteen\n",
        "    - one two three four five six seven eight\n      nine ten eleven twelve thirteen\n\n    ```\n",
        "    verdict: one two three four five six seven\n      eight nine ten eleven twelve thirteen\n",
        "  never never ran: condition false on critic:\n    output.verdict == 'a rather long one'\n    (output.verdict = ",
    ] {
        for told in &told {
            assert!(told.contains(part), "{part}\nin\n{told}");
        }
    }
    assert!(
        told[0].contains("    漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字\n"),
        "44 columns fit: {}",
        told[0]
    );
    // What is preformatted goes on where the terminal begins a row.
    assert!(told[0].contains(&format!("\n    {}\n", &WORDS[..44])), "{}", told[0]);
}

#[test]
fn a_question_and_where_two_runs_part_are_broken_between_words_too() {
    let setting = Setting {
        columns: 40,
        ..Setting::default()
    };
    let workspace = interview(&format!("{{prompt: '{WORDS}?', choices: [yes, '{WORDS}']}}"));
    let mut ids = Vec::new();
    for answer in ["1\n", "2\n"] {
        let mut terminal = Terminal::open_with(&setting, &workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
        terminal.wait_for("> ");
        terminal.type_in(answer);
        let (code, shown) = terminal.finish_on_screen();
        assert_eq!(code, 0, "{shown:#?}");
        let shown = shown.join("\n");
        for part in [
            "\nguest asks: one two three four five six\nseven eight nine ten eleven twelve\nthirteen?\n",
            "\n  2  one two three four five six seven\n    eight nine ten eleven twelve\n    thirteen\n",
        ] {
            assert!(shown.contains(part), "{shown}");
        }
        let run = workspace
            .runs()
            .last()
            .and_then(|run| Some(run.file_name()?.to_owned()));
        ids.push(run.expect("a run").to_string_lossy().into_owned());
    }
    let terminal = Terminal::open_with(
        &setting,
        &workspace,
        &["runs", "diff", &ids[0], &ids[1]],
        &[("NO_COLOR", "1")],
    );
    let (code, shown) = terminal.finish_on_screen();
    assert_eq!(code, 1, "{shown:#?}");
    let shown = shown.join("\n");
    assert!(
        shown.contains("  interview\n  completed, turns 2, executions 2\n"),
        "{shown}"
    );
    assert!(
        shown.contains("\n    + one two three four five six seven \neight nine"),
        "a value stays as it is: {shown}"
    );
}

#[test]
fn what_is_piped_is_not_broken() {
    let workspace = wordy();
    let told = workspace.run(["run", "a.yaml"]).expect_code(0);
    for line in [format!("    {WORDS}\n"), format!("    verdict: {WORDS}\n")] {
        assert!(told.stdout.contains(&line), "{line} in {}", told.stdout);
    }
    assert!(
        told.stderr
            .lines()
            .any(|line| line.starts_with("  never never ran:") && line.len() > 80),
        "{}",
        told.stderr
    );
    let told = workspace.run(["runs", "show"]).expect_code(0);
    assert!(
        told.stdout.contains(&format!("    verdict: {WORDS}\n")),
        "{}",
        told.stdout
    );
}

#[test]
fn what_is_cut_says_how_all_of_it_is_seen() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: long\nagents:\n  - {name: it, script: it.rhai}\n");
    let value = "value ".repeat(60) + "end";
    workspace.write("it.rhai", format!("#{{ long: \"{value}\" }}"));
    let told = workspace.run(["run", "a.yaml"]).expect_code(0);
    assert!(
        told.stdout.contains('…') && !told.stdout.contains("end"),
        "{}",
        told.stdout
    );
    let hint = |text: &str| {
        let line = text
            .lines()
            .find_map(|line| line.split_once("show everything with: ensemble "));
        line.map(|(_, command)| command.split(' ').map(str::to_owned).collect::<Vec<_>>())
    };
    let command = hint(&told.stderr).expect("a command");
    let shown = workspace.run(["runs", "show"]).expect_code(0);
    assert_eq!(hint(&shown.stdout).as_ref(), Some(&command));
    let whole = workspace.run(&command).expect_code(0);
    assert!(
        whole.stdout.contains(&value) && hint(&whole.stdout).is_none(),
        "{}",
        whole.stdout
    );
    let verbose = workspace.run(["run", "a.yaml", "-v"]).expect_code(0);
    assert!(verbose.stdout.contains(&value) && hint(&verbose.stderr).is_none());
    let quiet = workspace.run(["run", "a.yaml", "-q"]).expect_code(0);
    assert_eq!(
        quiet.stdout,
        format!("long: {value}\n"),
        "where nothing can be said of it, nothing is cut"
    );
}

#[test]
fn a_text_that_could_be_taken_for_something_else_is_in_quotes() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: texts\nagents:\n  - {name: it, script: it.rhai}\n");
    workspace.write(
        "it.rhai",
        "#{ approved: \"false\", count: \"3\", number: 3, note: \"\", word: \"fine\", x: \"null\", y: \" a\" }",
    );
    let expected = "    approved: \"false\"\n    count: \"3\"\n    note: \"\"\n    number: 3\n    word: fine\n    x: \"null\"\n    y: \" a\"\n";
    for arguments in [["run", "a.yaml"], ["runs", "show"]] {
        let told = workspace.run(arguments).expect_code(0);
        assert!(told.stdout.contains(expected), "{}", told.stdout);
    }
}

#[test]
fn a_verbose_run_groups_the_reasons_by_turn_as_its_story_does() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: groups\nagents:\n  - {name: a, script: s.rhai}\n  - {name: b, script: s.rhai, depends_on: [a]}\n  - {name: c, \
         script: s.rhai, depends_on: [a]}\n  - {name: d, script: s.rhai, dependencies: [{agent_name: b, on: failure}]}\n",
    );
    workspace.write("s.rhai", "#{ n: 1 }");
    let told = workspace.run(["run", "a.yaml", "-v"]).expect_code(0);
    let reasons = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("  – "));
        lines.map(str::to_owned).collect()
    };
    let found = reasons(&told.stderr);
    assert_eq!(found[0], "  – b, c: waiting for a");
    assert_eq!(found, reasons(&workspace.run(["runs", "show"]).expect_code(0).stdout));
}
