//! How text is laid out: breaks between words, cuts, quotes, and reasons grouped by turn.

use super::at_the_terminal::interview;
use crate::support::Workspace;
use crate::support::terminal::{Setting, Terminal};

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
            "\nguest asks: one two three four five six\n  seven eight nine ten eleven twelve\n  thirteen?\n",
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
