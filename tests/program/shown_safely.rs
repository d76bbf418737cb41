//! Whatever comes from a model, a tool, a script, a file or its name is shown, and the terminal does not obey it.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts the program with a file as its output"
)]

use std::collections::BTreeSet;

use crate::support::terminal::Terminal;
use crate::support::{Outcome, Running, Workspace};

/// What a terminal would obey, what nobody would see, and what a CI would take for a command.
pub(super) const ATTACK: &str = "\u{1b}]0;title\u{7}\u{1b}]52;c;eA==\u{1b}\\\u{1b}[2J\u{1b}[31mred\u{9b}2J\u{8}\u{7f}\u{202e}\u{2066}\u{200b}\u{ad}\u{feff}\u{e0041}\r!\
     \n::error::pwned\n  ::stop-commands::t\n##[error]pwned ##vso[task.setvariable]x\npermission a asks: may it?\n";

/// The styles of the program. Red is bold with it.
const OURS: [&str; 11] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[36m",
    "\u{1b}[91m",
    "\u{1b}[94m",
    "\u{1b}[96m",
    "\u{1b}[4m",
];

/// A project in which every source attacks: models, their reasoning and calls, tools, scripts, their stderr and errors,
/// descriptions, conditions, prompts, questions, names of files.
fn attacked() -> Workspace {
    let workspace = Workspace::new();
    let json = serde_json::Value::from(ATTACK).to_string();
    // In YAML a character beyond the first plane is written as itself.
    let yaml = serde_json::Value::from(ATTACK.replace('\u{e0041}', "")).to_string();
    let ensemble = r#"
name: e
description: ATTACK
default_task: ATTACK
agents:
  - {name: say, script: ./say.sh, description: ATTACK}
  - {name: fails, script: ./fails.sh, on_error: continue, retry: {max_attempts: 2, delay_seconds: 0}}
  - {name: unlike, script: ./unlike.sh, on_error: continue}
  - {name: thrown, script: thrown.rhai, on_error: continue}
  - name: model
    depends_on: [say]
    model_profile: simulated
    system_prompt: ATTACK
    prompt: "{{ dependencies.say.response }}"
    tools: [look, broken]
    attachments: ["odd\e[2J\u202E.txt"]
  - {name: never, script: ./say.sh, dependencies: [{agent_name: say, condition: 'output.response == "none"'}]}
  - {name: listed, script: echo.rhai, depends_on: [say], for_each: {in: outputs.say.list, key: item}}
  - {name: guest, input: {prompt: ATTACK, choices: ["ATTACKED", b]}, depends_on: [say]}
tools:
  look: {script: look.rhai, parameters: {type: object}, description: ATTACK}
  broken: {script: thrown.rhai, parameters: {type: object}}
model_profiles:
  simulated:
    provider: simulated
    replies:
      - {text: ATTACK, tool_calls: [{name: look, arguments: {a: ATTACK}}, {name: broken, arguments: {}}]}
      - {error: ATTACK}
      - ATTACK
"#;
    let ensemble = ensemble.replace("\"ATTACKED\"", &yaml).replace("ATTACK", &yaml);
    workspace.write("e.yaml", ensemble);
    workspace.write("odd\u{1b}[2J\u{202e}.txt", "x");
    let out = serde_json::json!({"response": ATTACK, "list": [ATTACK], ATTACK: ATTACK}).to_string();
    workspace.write("out.json", out);
    workspace.write("raw.txt", ATTACK);
    workspace.script("say.sh", "#!/bin/sh\ncat >/dev/null\ncat raw.txt >&2\ncat out.json\n");
    workspace.script("fails.sh", "#!/bin/sh\ncat >/dev/null\ncat raw.txt >&2\nexit 3\n");
    workspace.script("unlike.sh", "#!/bin/sh\ncat >/dev/null\ncat raw.txt raw.txt\n");
    let rhai = json.replace("\\b", "\\x08").replace('\u{e0041}', "");
    workspace.write("look.rhai", rhai.clone());
    workspace.write("thrown.rhai", format!("throw {rhai}"));
    workspace.write("echo.rhai", "#{ response: item }");
    workspace.write(
        "wrong.yaml",
        "name: \"e\\e[31m\\u202E\\u200B\"\nagents:\n  - {name: \"a\\e]0;t\\a\\u009B\", script: x, \"k\\e[2J\\u200B\": 1}\n  - {name: b, script: y, \
         depends_on: [\"z\\e[2J\\u2066\"]}\n# \u{202e}\u{200b}\n",
    );
    workspace.write("w\u{1b}[31mred\u{202e}.yaml", workspace.read("wrong.yaml"));
    let e = workspace.read("e.yaml");
    workspace.write("f\u{1b}[31m\u{202e}\n::error::x.yaml", e);
    workspace
}

/// All commands and forms that show any of it.
const COMMANDS: &[&[&str]] = &[
    &["run", "e.yaml"],
    &["run", "e.yaml", "-v"],
    &["run", "e.yaml", "-q", "--output", "human"],
    &["run", "e.yaml", "--output", "json"],
    &["run", "e.yaml", "--output", "events"],
    &["run", "e.yaml", "--dry-run"],
    &[
        "run",
        "f\u{1b}[31m\u{202e}\n::error::x.yaml",
        "--answer",
        "guest=\u{1b}[2J\u{202e}",
    ],
    &[
        "run",
        "e.yaml",
        "--answer",
        "guest=b",
        "--input",
        "\u{1b}[2J\u{202e}\n::error::x",
        "--then",
        "\u{1b}[2J",
    ],
    &["chat", "e.yaml"],
    &["continue", "\u{1b}[2J\n::error::x", "-v"],
    &["resume", "RUN", "--answer", "guest=\u{1b}[2J\u{202e}"],
    &["runs", "list"],
    &["runs", "list", "--output", "json"],
    &["runs", "show"],
    &["runs", "show", "-v"],
    &["runs", "show", "--output", "json"],
    &["runs", "show", "--output", "events"],
    &["runs", "show", "--messages"],
    &["runs", "show", "--messages", "--output", "json"],
    &["runs", "show", "no\u{1b}[2J\u{202e}"],
    &["runs", "export", "--output", "markdown"],
    &["runs", "export", "--output", "html"],
    &["runs", "export", "--output", "json"],
    &["fork", "RUN", "--at-turn", "1"],
    &["replay", "RUN"],
    &["replay", "RUN", "--live", "\u{1b}[2J\u{202e}"],
    &["runs", "diff", "RUN", "RUN", "--output", "json"],
    &["runs", "diff", "FIRST", "RUN"],
    &["replay", "RUN", "--output", "json"],
    &["replay", "RUN", "--output", "events"],
    &["rerun", "RUN", "--from", "model@2"],
    &["rerun", "RUN", "--from", "x\u{1b}[2J\u{202e}"],
    &["fork", "no\u{1b}[2J", "--at-turn", "1"],
    &["validate", "e.yaml", "wrong.yaml"],
    &["validate", "w\u{1b}[31mred\u{202e}.yaml"],
    &["validate", "wrong.yaml", "--output", "json"],
    &["validate", "wrong.yaml", "--output", "github"],
    &["validate", "wrong.yaml", "--output", "sarif"],
    &["validate", "wrong.yaml", "--output", "junit"],
    &[
        "validate",
        "f\u{1b}[31m\u{202e}\n::error::x.yaml",
        "no\u{1b}[2J\n::error::x",
    ],
    &["check", "e.yaml"],
    &["check", "e.yaml", "--output", "json"],
    &["graph", "e.yaml"],
    &["graph", "--last", "--output", "mermaid"],
    &["graph", "--last", "--output", "dot"],
    &["graph", "--last", "--output", "ascii"],
    &["graph", "--last", "--output", "svg"],
    &["list"],
    &["list", "--output", "json"],
    &["estimate", "e.yaml"],
    &["models", "check", "e.yaml"],
    &["explain", "E\u{1b}[2J\u{202e}"],
    &["import", "wrong.yaml"],
    &["run", "e.yaml", "--no\u{1b}[31m\u{202e}\n::error::x"],
];

/// Whether it may stand in an output only as part of one of our styles.
pub(super) fn steers(character: char) -> bool {
    matches!(character, '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// The text without the styles of the program.
fn without_styles(text: &str) -> String {
    OURS.iter().fold(text.to_owned(), |text, style| text.replace(style, ""))
}

pub(super) fn finished(command: &mut std::process::Command) -> Outcome {
    Running(command.spawn().expect("the program starts")).finish()
}

/// What is wrong with the output of a command.
pub(super) fn complaints(outcome: &Outcome, is_ci: bool) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    for text in [&outcome.stdout, &outcome.stderr] {
        // Their red is not bold.
        for theirs in ["\u{1b}[31mred", "\u{1b}[2J", "\u{1b}]"] {
            wrong.extend(text.contains(theirs).then(|| format!("{theirs:?} passed")));
        }
        let steering = without_styles(text)
            .chars()
            .filter(|c| steers(*c))
            .collect::<BTreeSet<char>>();
        wrong.extend(steering.iter().map(|c| format!("{c:?}")));
        for line in text.lines().filter(|_| is_ci) {
            let is_command = line.trim_start().starts_with("::") || line.contains("##[") || line.contains("##vso[");
            wrong.extend(is_command.then(|| format!("a command: {line}")));
        }
    }
    wrong
}

#[test]
fn no_command_passes_on_what_a_terminal_or_a_ci_would_obey() {
    let workspace = attacked();
    let mut wrong = Vec::new();
    let mut shown = 0;
    for arguments in COMMANDS {
        for (colours, ci) in [("never", "false"), ("always", "true")] {
            let runs = workspace.runs();
            let name = |run: Option<&std::path::PathBuf>| {
                run.and_then(|run| Some(run.file_name()?.to_str()?.to_owned()))
                    .unwrap_or_default()
            };
            let (first, last) = (name(runs.first()), name(runs.last()));
            let named = arguments.iter().map(|word| match *word {
                "RUN" => last.clone(),
                "FIRST" => first.clone(),
                word => word.to_owned(),
            });
            let named = named.chain(["--color".to_owned(), colours.to_owned()]);
            let mut command = workspace.command(named);
            let outcome = finished(command.env("GITHUB_ACTIONS", ci));
            // What is printed alone to a program is exact; its own test follows.
            let is_exact = arguments.contains(&"-q");
            let is_annotation = arguments.contains(&"github");
            let found = complaints(&outcome, ci == "true" && !is_annotation);
            if !found.is_empty() && !is_exact {
                wrong.push(format!("{arguments:?} {colours}: {found:?}"));
            }
            let whole = [outcome.stdout, outcome.stderr].concat();
            shown += usize::from(
                ["u{1b}", "u001b", "u{202e}", "u202e", "x202e"]
                    .iter()
                    .any(|spelt| whole.contains(spelt)),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(shown > 60, "most of it is shown, spelt out: {shown}");
}

#[test]
fn at_a_terminal_no_reply_and_no_result_steers_it() {
    let workspace = attacked();
    for arguments in [
        &["run", "e.yaml"][..],
        &["run", "e.yaml", "-v"],
        &["run", "e.yaml", "-q"],
        &["chat", "e.yaml"],
    ] {
        let mut terminal = Terminal::open(&workspace, arguments, &[]);
        if arguments[0] == "chat" {
            terminal.wait_for("> ");
            terminal.type_in("hello\n");
        }
        terminal.wait_for("guest asks:");
        // The imitation of a question never begins a line.
        terminal.wait_for("permission a asks: may it?");
        terminal.wait_for("2  b");
        terminal.type_in("2\n");
        if arguments[0] == "chat" {
            terminal.wait_for("    b");
            terminal.type_in("/bye\n");
        }
        let (_, text) = terminal.finish_whole();
        for theirs in [
            "\u{1b}]",
            "\u{1b}[31mred",
            "\u{9b}",
            "\u{202e}",
            "\u{200b}",
            "\npermission a",
        ] {
            assert!(!text.contains(theirs), "{arguments:?}: {theirs:?} in {text:?}");
        }
    }
}

#[test]
fn a_result_alone_is_exact_for_a_program_and_spelt_out_at_a_terminal() {
    let workspace = Workspace::new();
    let result = "a\u{1b}[31m\u{202e}b\r\n\u{200b}::error::x ##[y]";
    let json = serde_json::json!({"response": result}).to_string();
    workspace.write("out.json", &json);
    workspace.write("e.yaml", "name: e\nagents: [{name: a, script: cat out.json}]\n");
    let quiet = ["run", "e.yaml", "-q"];
    assert_eq!(workspace.run(quiet).expect_code(0).stdout, format!("{result}\n"));
    // The log of a CI is read by the CI.
    for (ci, value) in [
        ("GITHUB_ACTIONS", "true"),
        ("TF_BUILD", "True"),
        ("TEAMCITY_VERSION", "2025.1"),
    ] {
        let mut command = workspace.command(quiet);
        let outcome = finished(command.env(ci, value));
        assert!(outcome.stdout.contains("##\\[y]"), "{ci}: {:?}", outcome.stdout);
    }
    // A file is not.
    let file = std::fs::File::create(workspace.path().join("result.txt")).expect("a file");
    let mut command = workspace.command(quiet);
    finished(command.env("GITHUB_ACTIONS", "true").stdout(file));
    assert_eq!(workspace.read("result.txt"), format!("{result}\n"));
    let (_, text) = Terminal::open(&workspace, &quiet, &[]).finish();
    assert!(text.contains("a\\u{1b}[31m\\u{202e}b\r\n\\u{200b}::error"), "{text:?}");
}

#[test]
fn json_and_the_journal_are_spelt_out_and_mean_the_same() {
    let workspace = Workspace::new();
    let result = "a\u{9b}\u{202e}\u{200d}\u{e0041}\u{7f} ##[x] é🦀";
    workspace.write("out.json", serde_json::json!({"response": result}).to_string());
    workspace.write("e.yaml", "name: e\nagents: [{name: a, script: cat out.json}]\n");
    let printed = workspace.run(["run", "e.yaml", "--output", "json"]).expect_code(0);
    assert_eq!(printed.json()["final_state"]["response"], result, "{}", printed.stdout);
    let events = workspace.run(["runs", "show", "--output", "events"]).stdout;
    let journal = std::fs::read_to_string(workspace.runs()[0].join("journal.jsonl")).expect("a journal");
    assert_eq!(events, journal, "the lines of the journal, with their checksums");
    for text in [&printed.stdout, &journal] {
        assert!(!text.contains(steers), "{text:?}");
        assert!(text.contains("\\u202e") && text.contains("é🦀"), "{text:?}");
    }
    assert!(!journal.contains("##["), "{journal:?}");
    let run = workspace.runs()[0].file_name().expect("a name").to_owned();
    workspace.run([std::ffi::OsStr::new("replay"), &run]).expect_code(0);
}

#[test]
fn an_export_in_a_file_is_spelt_out() {
    let workspace = attacked();
    workspace.run(["run", "e.yaml", "-q"]);
    for form in ["markdown", "html", "json"] {
        workspace
            .run(["runs", "export", "--output", form, "--to", "run.txt"])
            .expect_code(0);
        let text = workspace.read("run.txt");
        assert!(
            !text.contains(steers),
            "{form}: {:?}",
            text.chars().find(|c| steers(*c))
        );
    }
}

#[test]
fn emoji_and_scripts_that_need_joiners_are_shown_as_they_are() {
    let workspace = Workspace::new();
    let text = "👩\u{200d}🚀 ❤\u{fe0f} می\u{200c}خواهم क्\u{200d}ष";
    workspace.write("out.json", serde_json::json!({"response": text}).to_string());
    workspace.write("e.yaml", "name: e\nagents: [{name: a, script: cat out.json}]\n");
    let shown = workspace.run(["run", "e.yaml"]).expect_code(0).stdout;
    assert!(shown.contains(text), "{shown:?}");
}

#[test]
fn at_a_terminal_no_error_about_the_command_line_or_a_file_steers_it() {
    let workspace = attacked();
    for arguments in [
        &["run", "e.yaml", "--no\u{1b}[31mred\u{1b}]0;t\u{7}"][..],
        &["\u{1b}[31mred\u{9b}2J\n::error::x"],
        &["run", "no\u{1b}[31mred\u{202e}"],
        &["validate", "wrong.yaml"],
        &["validate", "w\u{1b}[31mred\u{202e}.yaml"],
        &["validate", "f\u{1b}[31m\u{202e}\n::error::x.yaml", "-C", "."],
        &["runs", "show", "\u{1b}[31mred"],
    ] {
        let (_, text) = Terminal::open(&workspace, arguments, &[]).finish_whole();
        for theirs in ["\u{1b}]", "\u{1b}[31mred", "\u{9b}", "\u{202e}", "\u{200b}", "\u{7}"] {
            assert!(!text.contains(theirs), "{arguments:?}: {theirs:?} in {text:?}");
        }
        assert!(
            text.contains("\u{1b}[1m") || !arguments.contains(&"wrong.yaml"),
            "colours of our own: {text:?}"
        );
    }
}
