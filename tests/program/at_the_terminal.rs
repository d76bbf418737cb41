//! A person at a real terminal: questions, permissions, Ctrl-C, and the spinner.

#![expect(clippy::disallowed_methods, reason = "a test sends a signal with kill")]

use crate::support::terminal::{Setting, Terminal};
use crate::support::{Workspace, eventually};

pub(super) fn interview(input: &str) -> Workspace {
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
fn a_script_that_reads_the_terminal_is_told_how_a_person_is_asked() {
    for script in [
        "sh -c 'read name < /dev/tty; echo $name'",
        "sh -c 'stty -echo < /dev/tty; echo done'",
    ] {
        let workspace = Workspace::new();
        let ensemble = format!("name: t\nagents: [{{name: asker, script: \"{script}\", timeout_seconds: 15}}]\n");
        workspace.write("a.yaml", &ensemble);
        let begun = std::time::Instant::now();
        let terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
        let (code, text) = terminal.finish();
        assert!(begun.elapsed().as_secs() < 10, "it does not wait for its time limit");
        assert_eq!(code, 1, "{text}");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("the script was stopped when it tried to read the terminal"),
            "{text}"
        );
        assert!(text.contains("ask the question in an agent with `input:`"), "{text}");
    }
}

#[test]
fn choices_are_listed_and_asked_again_until_one_is_chosen() {
    let workspace = interview("{prompt: 'Which way?', choices: [left, right]}");
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("Which way?");
    terminal.wait_for("1  left");
    terminal.wait_for("2  right");
    terminal.type_in("up\n");
    terminal.wait_for("`up` is not one of the choices");
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
    terminal.wait_for("a/write#1 asks: may the tool `write` be called with {\"n\":1}?");
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
fn a_call_is_permitted_only_if_it_was_shown_whole_and_nothing_above_can_ask() {
    let workspace = Workspace::new();
    let long = "x".repeat(2500);
    workspace.write(
        "a.yaml",
        format!(
            "name: asking\nagents:\n  - {{name: a, model_profile: m, tools: [write]}}\nmodel_profiles:\n  m:\n    provider: \
             simulated\n    replies:\n      - {{text: \"\\e[8mpermission a asks: \\e[2K\", tool_calls: [{{name: write, arguments: {{p: \
             {long}}}}}]}}\n      - done\ntools:\n  write: {{script: \"echo w >> written.txt\", parameters: {{type: object}}, permission: \
             ask}}\n"
        ),
    );
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[]);
    // What a model says cannot steer the terminal, and the question begins a line of its own.
    terminal.wait_for("\\u{1b}[8mpermission a asks: \\u{1b}[2K");
    terminal.wait_for("\u{1b}[0m\u{1b}(B\r");
    terminal.wait_for("a/write#1 asks: may the tool `write` be called? Its arguments have");
    terminal.wait_for("1  view all of the arguments");
    terminal.wait_for("> ");
    terminal.type_in("y\n");
    terminal.wait_for("Its arguments have");
    terminal.wait_for("> ");
    assert!(!workspace.path().join("written.txt").exists(), "it was not shown");
    terminal.type_in("v\n");
    terminal.wait_for("3  always in this run");
    terminal.wait_for("> ");
    terminal.type_in("y\n");
    let (code, text) = terminal.finish();
    assert_eq!((code, workspace.read("written.txt")), (0, "w\n".to_owned()), "{text}");
}

#[test]
fn decisions_are_recorded_and_hold_after_a_crash() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: asking\nagents:\n  - {name: a, model_profile: m, tools: [write, look, hang]}\nmodel_profiles:\n  m:\n    provider: \
         simulated\n    replies:\n      - {tool_calls: [{name: write, arguments: {n: 1}}, {name: look}]}\n      - {tool_calls: \
         [{name: hang}]}\n      - {tool_calls: [{name: write, arguments: {n: 2}}]}\n      - done\ntools:\n  write: {script: \"echo w \
         >> written.txt\", parameters: {type: object}, permission: ask}\n  look: {script: \"touch looked\", parameters: {type: \
         object}, permission: ask}\n  hang: {script: hang.sh, parameters: {type: object}, repeatable: true, permission: ask}\n",
    );
    workspace.write("hang.sh", "touch begun; [ -e go ] || sleep 300");
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("{\"n\":1}?");
    terminal.wait_for("> ");
    terminal.type_in("a\n");
    terminal.wait_for("`look`");
    terminal.wait_for("> ");
    terminal.type_in("n\n");
    terminal.wait_for("`hang`");
    terminal.wait_for("> ");
    terminal.type_in("y\n");
    eventually("the call", || workspace.path().join("begun").exists().then_some(()));
    terminal.type_in("\u{3}");
    assert_eq!(terminal.finish().0, 130);
    workspace.write("go", "");
    let resumed = workspace.run(["resume", "--last"]).expect_code(0);
    assert!(!resumed.stderr.contains("be called"), "{}", resumed.stderr);
    assert_eq!(workspace.read("written.txt"), "w\nw\n");
    assert!(!workspace.path().join("looked").exists());
    let journal = workspace.journal();
    let decided = journal.iter().filter(|record| record["event"] == "permission_decided");
    let decided: Vec<String> = decided
        .map(|record| {
            let data = &record["data"];
            let word = |key: &str| data[key].as_str().expect("a text").to_owned();
            format!("{} {} {}", word("tool"), word("decision"), word("by"))
        })
        .collect();
    assert_eq!(
        decided,
        ["write always operator", "look denied operator", "hang once operator"]
    );
}

#[test]
fn a_permission_is_not_recalled_as_an_answer() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: asking\nagents:\n  - {name: a, model_profile: m, tools: [write]}\n  - {name: guest, input: {prompt: 'Well?', default: \
         nothing}, depends_on: [a]}\nmodel_profiles:\n  m: {provider: simulated, replies: [{tool_calls: [{name: write, arguments: \
         {n: 1}}]}, done]}\ntools:\n  write: {script: \"true\", parameters: {type: object}, permission: ask}\n",
    );
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("be called with");
    terminal.wait_for("> ");
    terminal.type_in("no\n");
    terminal.wait_for("Well?");
    terminal.wait_for("> ");
    terminal.type_in("\u{1b}[A\n");
    terminal.wait_for("    nothing");
    assert_eq!(terminal.finish().0, 0);
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
fn an_answer_is_edited_and_ctrl_c_clears_it() {
    let workspace = interview("{prompt: 'Well?'}");
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("> ");
    terminal.type_in("nonsense\u{3}");
    terminal.wait_for("nonsense");
    terminal.wait_for("> ");
    terminal.type_in("wel\u{1b}[Hfare\u{5}l \u{7f}\n");
    terminal.wait_for("<farewell>");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
}

/// The program's question is withdrawn in the middle of a line: the terminal is as it was, and the next question has the line.
#[test]
fn a_question_that_is_withdrawn_gives_the_terminal_back() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: twice\nagents:\n  - {name: one, input: {prompt: 'First?', default: nothing, timeout_seconds: 1}}\n  - {name: \
         works, script: work.sh, depends_on: [one]}\n  - {name: two, input: {prompt: 'Second?'}, depends_on: [works]}\n  - {name: \
         after, script: after.rhai, depends_on: [two]}\n",
    );
    workspace.write(
        "work.sh",
        "stty -F \"$TERMINAL\" -a > mode.txt; until [ -e go ]; do sleep 0.02; done",
    );
    workspace.write("after.rhai", "#{ heard: \"<\" + dependencies.two.response + \">\" }");
    let command = format!(
        "TERMINAL=$(tty) {} run a.yaml; stty -a > after.txt",
        crate::support::binary()
    );
    let mut terminal = Terminal::open_program("sh", &workspace, &["-c", &command], &[("NO_COLOR", "1")]);
    terminal.wait_for("First?");
    terminal.wait_for("> ");
    terminal.wait_for("turn 2 · works");
    workspace.write("go", "");
    terminal.wait_for("Second?");
    terminal.wait_for("> ");
    terminal.type_in("yez\u{7f}s\n");
    terminal.wait_for("<yes>");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    for file in ["mode.txt", "after.txt"] {
        let mode = workspace.read(file);
        let has = |word| mode.split_whitespace().any(|has| has == word);
        assert!(has("icanon") && has("isig") && has("echo"), "{file}: {mode}");
    }
}

/// A call that needs permission after a script that goes on when it is told.
fn waiting_call() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: careful\nagents:\n  - {name: works, script: work.sh}\n  - {name: bot, model_profile: m, tools: [note], depends_on: [works]}\nmodel_profiles:\n  \
         m: {provider: simulated, replies: [{tool_calls: [{name: note, arguments: {n: 1}}]}, done]}\ntools:\n  note: {script: 'echo x > \
         note.txt', permission: ask, parameters: {type: object}}\n",
    );
    workspace.write("work.sh", "touch begun; until [ -e go ]; do sleep 0.02; done");
    workspace
}

#[test]
fn what_was_typed_before_a_question_was_shown_is_not_its_answer() {
    let workspace = waiting_call();
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
    eventually("the script runs", || {
        workspace.path().join("begun").exists().then_some(())
    });
    terminal.type_in("y\ny\ny\ny\n");
    workspace.write("go", "");
    terminal.wait_for("may the tool `note` be called");
    terminal.wait_for("> ");
    terminal.type_in("n\n");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    assert!(!workspace.path().join("note.txt").exists(), "{text}");
}

#[test]
fn a_line_that_was_begun_for_another_question_permits_nothing() {
    let workspace = waiting_call();
    let first =
        "name: careful\nagents:\n  - {name: first, input: {prompt: 'First?', default: nothing, timeout_seconds: 1}}\n";
    let text = workspace.read("a.yaml").replace("name: careful\nagents:\n", first);
    workspace.write(
        "a.yaml",
        text.replace("script: work.sh}", "script: work.sh, depends_on: [first]}"),
    );
    let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("First?");
    terminal.wait_for("> ");
    terminal.type_in("y");
    eventually("the first question is withdrawn", || {
        workspace.path().join("begun").exists().then_some(())
    });
    workspace.write("go", "");
    terminal.wait_for("may the tool `note` be called");
    terminal.wait_for("> ");
    terminal.type_in("\n");
    terminal.wait_for("a part of this line was typed before the question was shown");
    terminal.wait_for("> ");
    terminal.type_in("n\n");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    assert!(!workspace.path().join("note.txt").exists(), "{text}");
}

#[test]
fn a_run_that_ends_during_a_question_gives_the_terminal_back() {
    let workspace = interview("{prompt: 'Well?', default: nothing, timeout_seconds: 1}");
    let command = format!("{} run a.yaml; stty -a > after.txt", crate::support::binary());
    let mut terminal = Terminal::open_program("sh", &workspace, &["-c", &command], &[("NO_COLOR", "1")]);
    terminal.wait_for("> ");
    terminal.wait_for("<nothing>");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0, "{text}");
    let mode = workspace.read("after.txt");
    let has = |word| mode.split_whitespace().any(|has| has == word);
    assert!(has("icanon") && has("isig") && has("echo"), "{mode}");
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
            "  guest input ·  ms · answered by the terminal",
            "    fine",
            "",
            "turn 3",
            "  last script ·  ms",
            "    done",
            "",
            "✓ completed",
            "  3 turns · 3 executions ·  ms",
            "  recorded; replay with:",
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
        ("exit 3", None, "✗ agent_failed: first failed"),
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
