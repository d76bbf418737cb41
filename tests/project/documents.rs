//! The documents are true: their blocks validate and run, their commands do what they say, their lists are whole.

#![expect(clippy::disallowed_methods, reason = "tests read the project's own sources")]

use std::collections::BTreeSet;

use crate::support::Workspace;
use crate::support::blocks::{Block, blocks};
use crate::support::files::{pages, project, read};
use crate::support::tables::{code_in, table};
use ensemble_language::vocabulary::FileSection;
use serde_json::Value;

const LANGUAGE: &str = "docs/reference";
const ARCHITECTURE: &str = "docs/architecture.md";
const README: &str = "README.md";
const GETTING_STARTED: &str = "docs/getting-started.md";
const EXAMPLES: &str = "docs/examples.md";
const TESTING: &str = "docs/testing.md";
const TESTS: &str = "docs/tests.md";

/// A folder with the files that a document's blocks name.
fn workspace_of(document: &str) -> Workspace {
    let workspace = Workspace::new();
    for block in blocks(document) {
        if let Some(name) = block.value("file") {
            workspace.write(name, &block.text);
        }
    }
    workspace
}

/// The ensembles among a document's blocks.
fn ensembles(document: &str) -> Vec<(Block, String)> {
    let shown = |block: Block| block.ensemble().map(|text| (block, text));
    blocks(document).into_iter().filter_map(shown).collect()
}

/// Writes a script that says nothing for every one that is named and not shown.
fn fill_in_scripts(workspace: &Workspace, ensemble: &str) {
    for (at, _) in ensemble.match_indices("script: ") {
        let rest = &ensemble[at + "script: ".len()..];
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || "._-/".contains(*c))
            .collect();
        if name.ends_with(".rhai") && !workspace.path().join(&name).exists() {
            // Its text does not tell what it puts out, as that of the script which is meant here might.
            workspace.write(&name, "let said = #{}; said");
        }
    }
}

fn ensembles_hold(document: &str) {
    let workspace = workspace_of(document);
    // Servers in examples are started with it, and not every machine has it.
    workspace.script("npx", "#!/bin/sh\n");
    for (block, text) in ensembles(document) {
        fill_in_scripts(&workspace, &text);
        let file = block.value("file").unwrap_or("example.yaml").to_owned();
        workspace.write(&file, &text);
        let checked = workspace.run(["validate", "--deny-warnings", &file]);
        assert_eq!(checked.code, 0, "{}:\n{}", block.place, checked.stdout);
        let Some(sequence) = block.value("sequence") else {
            continue;
        };
        let ran = workspace.run(["run", &file, "--output", "json"]);
        let outcome = block.value("outcome").unwrap_or("completed");
        let code = match outcome {
            "completed" => 0,
            "unsuccessful" | "agent_failed" | "condition_failed" => 1,
            _ => 4,
        };
        assert_eq!(ran.code, code, "{}:\n{}{}", block.place, ran.stdout, ran.stderr);
        let result = ran.json();
        assert_eq!(result["completion_reason"], outcome, "{}", block.place);
        assert_eq!(agents(&result).join(","), sequence, "{}", block.place);
    }
}

/// Who ran, in the order of the history.
fn agents(result: &Value) -> Vec<String> {
    let history = result["conversation_history"].as_array().expect("a history");
    let name = |entry: &Value| entry["agent_name"].as_str().unwrap_or_default().to_owned();
    history.iter().map(name).collect()
}

#[test]
fn every_ensemble_of_the_reference_validates_and_runs_as_it_says() {
    ensembles_hold(LANGUAGE);
}

#[test]
fn every_ensemble_of_the_other_documents_validates_and_runs_as_it_says() {
    ensembles_hold(README);
    ensembles_hold(GETTING_STARTED);
    ensembles_hold(ARCHITECTURE);
    ensembles_hold(TESTS);
}

#[test]
fn every_yaml_block_of_the_reference_is_tried() {
    for block in blocks(LANGUAGE) {
        let tried = ["ensemble", "agents", "answers", "settings"]
            .iter()
            .any(|word| block.is(word));
        let is_yaml = block.language == "yaml";
        assert!(
            !is_yaml || tried || block.value("file").is_some(),
            "{} is not tried",
            block.place
        );
    }
}

#[test]
fn the_settings_of_the_reference_are_right_and_count() {
    let workspace = Workspace::new();
    let settings = blocks(LANGUAGE).into_iter().find(|block| block.is("settings"));
    workspace.write(".ensemble/config.yaml", settings.expect("an example of settings").text);
    let checked = workspace.run(["validate", ".ensemble/config.yaml"]).expect_code(0);
    assert_eq!(checked.stdout, "");
    let constant = "name: e\nagents:\n  - {name: a, script: \"true\"}\n  - {name: b, script: \"true\", dependencies: [{agent_name: a, condition: 1 == 1}]}\n";
    workspace.write("e.yaml", constant);
    workspace.write("vendor/e.yaml", constant);
    let checked = workspace.run(["validate", "."]).expect_code(2);
    assert_eq!(checked.stdout.matches("error[W012]").count(), 1, "{}", checked.stdout);
}

#[test]
fn the_file_of_answers_answers() {
    let workspace = workspace_of(LANGUAGE);
    let (_, input) = ensembles(LANGUAGE)
        .into_iter()
        .find(|(_, text)| text.starts_with("name: input\n"))
        .expect("the example of input agents");
    workspace.write("example.yaml", &input);
    let answers = blocks(LANGUAGE).into_iter().find(|block| block.is("answers"));
    workspace.write("answers.yaml", answers.expect("an example of answers").text);
    let ran = workspace.run(["run", "example.yaml", "--answers", "answers.yaml", "--output", "json"]);
    let result = ran.expect_code(0).json();
    assert_eq!(result["conversation_history"][0]["output_data"]["response"], "coffee");
    assert_eq!(result["final_state"]["waiter"]["response"], "Splendid.");
}

#[test]
fn the_reference_names_every_key_of_the_language() {
    let text = read(LANGUAGE);
    let documented: BTreeSet<String> = code_in(&text.replace("```", "")).into_iter().collect();
    let of_language = FileSection::iter_all().filter(|section| !section.is_test_section());
    let keys: Vec<&str> = of_language.flat_map(FileSection::key_names).collect();
    assert!(keys.len() > 150, "{keys:?}");
    let missing: Vec<&&str> = keys
        .iter()
        .filter(|key| **key != "error" && !documented.contains(**key))
        .collect();
    assert!(missing.is_empty(), "{LANGUAGE} does not explain {missing:?}");
    assert!(text.contains("`{error: text}`"));
}

#[test]
fn every_function_of_conditions_is_listed_and_its_example_is_true() {
    let source = read("crates/language/src/condition/functions.rs");
    let known: BTreeSet<&str> = source
        .split("\n    [")
        .skip(1)
        .filter_map(|rest| rest.split(']').next())
        .flat_map(|names| names.split('"').skip(1).step_by(2))
        .collect();
    assert!(known.len() > 30, "the functions have moved: {known:?}");
    let rows = table(LANGUAGE, "<!-- functions");
    let listed: BTreeSet<String> = rows
        .iter()
        .flat_map(|row| [code_in(&row[0]), code_in(&row[1])].concat())
        .filter_map(|code| code.split('(').next().map(str::to_owned))
        .filter(|name| !name.starts_with('.'))
        .collect();
    let listed: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    assert_eq!(listed, known);

    let mut ensemble = "name: functions\nagents:\n  - {name: a, script: a.rhai}\n".to_owned();
    for (at, row) in rows.iter().enumerate() {
        let example = &code_in(&row[3])[0];
        ensemble.push_str(&format!(
            "  - name: f{at}\n    script: a.rhai\n    dependencies:\n      - agent_name: a\n        condition: |\n          {example}\n"
        ));
    }
    let workspace = Workspace::new();
    workspace.write("a.rhai", "#{}");
    workspace.write("functions.yaml", ensemble);
    let ran = workspace.run(["run", "functions.yaml", "--output", "json"]);
    let result = ran.expect_code(0).json();
    assert_eq!(result["not_run"], Value::Array(Vec::new()), "an example is false");
}

#[test]
fn every_option_of_the_reference_stands_in_the_help_of_its_commands() {
    let workspace = Workspace::new();
    for row in table(LANGUAGE, "<!-- options") {
        for command in row[1].split(", ") {
            let words = command.split(' ').chain(["--help"]);
            let help = workspace.run(words).expect_code(0).stdout;
            for option in code_in(&row[0]) {
                let stands = help
                    .split(|c: char| c.is_whitespace() || c == ',')
                    .any(|word| word == option);
                assert!(stands, "`ensemble {command} --help` does not know {option}");
            }
        }
    }
}

#[test]
fn every_option_of_the_program_stands_in_the_reference() {
    let workspace = Workspace::new();
    let listed: BTreeSet<String> = table(LANGUAGE, "<!-- options")
        .iter()
        .flat_map(|row| code_in(&row[0]))
        .collect();
    let commands = [
        "run", "validate", "explain", "graph", "list", "init", "schema", "replay", "resume", "continue", "fork",
        "import", "man", "test",
    ];
    let more = [
        "batch",
        "batch merge",
        "batch answer",
        "estimate",
        "runs list",
        "runs fetch",
        "runs show",
        "runs diff",
        "runs merge",
        "runs export",
        "runs prune",
        "runs rm",
    ];
    for command in commands.into_iter().chain(more) {
        let words = command.split(' ').chain(["--help"]);
        let help = workspace.run(words).expect_code(0).stdout;
        let options = help
            .lines()
            .map(str::trim_start)
            .filter(|line| line.starts_with('-'))
            .flat_map(str::split_whitespace)
            .filter(|word| word.starts_with("--"));
        for option in options {
            let known = listed.contains(option) || ["--help", "--version"].contains(&option);
            assert!(known, "{LANGUAGE} does not list {option} of `{command}`");
        }
    }
}

#[test]
fn every_command_of_the_program_stands_in_the_reference() {
    let text = read(LANGUAGE);
    let help = Workspace::new().run(["--help"]).expect_code(0).stdout;
    let commands = help
        .split("Usage:")
        .nth(1)
        .and_then(|rest| rest.split("Options:").next());
    let commands: Vec<&str> = commands
        .expect("a list of commands")
        .lines()
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        let row = format!("| `ensemble {command}");
        assert!(text.contains(&row), "{LANGUAGE} does not list {command}");
    }
}

#[test]
fn outcomes_and_events_of_the_reference_are_those_of_the_program() {
    let text = read(LANGUAGE);
    for outcome in ensemble_core::conversation::CompletionReason::ALL {
        assert!(text.contains(&format!("| `{outcome}` |")), "{LANGUAGE} lacks {outcome}");
    }
    let source = read("crates/core/src/conversation/event.rs");
    let names = source
        .split("pub fn event_name")
        .nth(1)
        .and_then(|rest| rest.split("impl").next())
        .expect("the events' names");
    for name in names.split('"').skip(1).step_by(2) {
        assert!(text.contains(&format!("`{name}`")), "{LANGUAGE} lacks the event {name}");
    }
}

/// A console block's commands, each with what it prints.
fn commands(block: &Block) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), String::new())),
            (None, Some((_, printed))) => printed.push_str(&format!("{line}\n")),
            (None, None) => panic!("{} does not begin with a command", block.place),
        }
    }
    commands
}

/// Without what differs from run to run: ids, dates and times.
fn masked(text: &str) -> Vec<String> {
    let is_id = |word: &str| {
        let bytes = word.as_bytes();
        bytes.len() == 23 && bytes[4] == b'-' && bytes[13] == b'-' && bytes[5..13].iter().all(u8::is_ascii_digit)
    };
    let is_date = |word: &str| {
        let separators: String = word.chars().filter(|c| !c.is_ascii_digit()).collect();
        word.starts_with(|c: char| c.is_ascii_digit())
            && matches!((separators.as_str(), word.len()), ("--", 10) | (":", 5))
    };
    let mask = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut masked: Vec<&str> = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let is_time = matches!(words.get(at + 1), Some(&"ms" | &"s")) && word.parse::<f64>().is_ok();
            match () {
                () if is_id(word) => masked.push("RUN"),
                () if is_time => masked.push("TIME"),
                () if is_date(word) => masked.push("DATE"),
                () if matches!(*word, "ms" | "s") && masked.last() == Some(&"TIME") => {}
                () => masked.push(word),
            }
        }
        masked.join(" ")
    };
    text.lines().map(mask).filter(|line| !line.is_empty()).collect()
}

/// Runs a shell command with the program on PATH and gives its exit code and what it printed, in order.
fn shell(workspace: &Workspace, command: &str) -> (i32, String) {
    let folder = std::path::Path::new(crate::support::binary())
        .parent()
        .expect("the binary is in a folder");
    let printed = workspace.path().join(".printed");
    let both = std::fs::File::create(&printed).expect("a file for the output");
    let status = std::process::Command::new("sh")
        .args(["-c", command])
        .current_dir(workspace.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("HOME", workspace.path().join("home"))
        .stdin(std::process::Stdio::null())
        .stderr(both.try_clone().expect("the file can be shared"))
        .stdout(both)
        .status()
        .expect("sh is there");
    let text = std::fs::read_to_string(printed).expect("the output is text");
    (status.code().unwrap_or(-1), text)
}

fn with_shipped_ensembles(workspace: Workspace) -> Workspace {
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .arg(project().join("ensembles"))
        .arg(workspace.path())
        .status();
    assert!(copied.expect("cp is there").success());
    workspace
}

/// Every console block runs in one folder with the shipped ensembles and prints what the document shows.
/// A block with `exit=` ends with that code.
fn commands_hold(document: &str) {
    let workspace = with_shipped_ensembles(workspace_of(document));
    let mut commands_run = 0;
    for block in blocks(document).into_iter().filter(|block| block.language == "console") {
        let mut code = 0;
        for (command, printed) in commands(&block) {
            let command = command.replace("cargo run --release --", "ensemble");
            let (ended, really) = shell(&workspace, &command);
            assert_eq!(masked(&really), masked(&printed), "{}: {command}", block.place);
            code = ended;
            commands_run += 1;
        }
        let expected = block.value("exit").unwrap_or("0");
        assert_eq!(code.to_string(), expected, "{}", block.place);
    }
    assert!(commands_run >= 3, "{document} has only {commands_run} commands");
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    commands_hold(README);
}

#[test]
fn the_commands_of_the_first_pages_print_what_they_show() {
    commands_hold(GETTING_STARTED);
    commands_hold(EXAMPLES);
    commands_hold("docs/patterns.md");
}

/// The README stays short: it says what the program is, shows it, and leads on.
#[test]
fn the_readme_has_at_most_900_words() {
    let words = read(README).split_whitespace().count();
    assert!(words <= 900, "{README} has {words} words");
}

#[test]
fn the_commands_of_the_page_on_tests_of_ensembles_print_what_it_shows() {
    commands_hold(TESTS);
}

/// Every key of a test file is explained.
#[test]
fn the_page_on_tests_of_ensembles_names_every_key() {
    let text = read(TESTS);
    let documented: BTreeSet<String> = code_in(&text.replace("```", "")).into_iter().collect();
    let of_tests = FileSection::iter_all().filter(|section| section.is_test_section());
    let keys: Vec<&str> = of_tests.flat_map(FileSection::key_names).collect();
    assert!(keys.len() > 20, "{keys:?}");
    let missing: Vec<&&str> = keys.iter().filter(|key| !documented.contains(**key)).collect();
    assert!(missing.is_empty(), "{TESTS} does not explain {missing:?}");
}

/// What a step for CI runs succeeds beside the shipped ensembles.
#[test]
fn the_steps_of_the_first_page_succeed() {
    let workspace = with_shipped_ensembles(workspace_of(GETTING_STARTED));
    let steps: Vec<Block> = blocks(GETTING_STARTED)
        .into_iter()
        .filter(|block| block.is("step"))
        .collect();
    assert!(!steps.is_empty(), "no step is shown");
    for step in steps {
        let parsed: Value = serde_yaml::from_str(&step.text).expect("YAML");
        for command in parsed.as_array().expect("a list of steps") {
            let command = command["run"].as_str().expect("a command");
            let (code, printed) = shell(&workspace, command);
            assert_eq!((code, printed.as_str()), (0, ""), "{}: {command}", step.place);
        }
    }
}

/// The line that an editor reads names a file that a command beside it writes.
#[test]
fn the_schema_for_editors_is_written_where_its_line_says() {
    let text = read(LANGUAGE);
    let (_, rest) = text.split_once("# yaml-language-server: $schema=").expect("the line");
    let name = rest.lines().next().unwrap_or_default();
    assert!(
        text.contains(&format!("`ensemble schema > ensembles/{name}`")),
        "{name}"
    );
}

/// Every test, bench and folder that the page names is there.
#[test]
fn what_the_page_on_tests_names_is_there() {
    let text = read(TESTING);
    for code in code_in(&text.replace("```", "")) {
        let is_place = code.ends_with('/') || code.ends_with(".rs") || code.ends_with(".svg");
        assert!(!is_place || project().join(&code).exists(), "there is no {code}");
    }
    let commands = blocks(TESTING).into_iter().filter(|block| block.language == "sh");
    for command in commands {
        let words: Vec<&str> = command.text.split_whitespace().collect();
        for pair in words.windows(2) {
            let file = match pair[0] {
                "--test" => format!("tests/{}.rs", pair[1]),
                "--bench" => format!("benches/{}.rs", pair[1]),
                _ => continue,
            };
            assert!(project().join(&file).exists(), "{}: there is no {file}", command.place);
        }
    }
}

/// Every page of the reference has one subject.
#[test]
fn a_page_of_the_reference_has_at_most_3500_words() {
    for page in pages(LANGUAGE) {
        let words = read(&page).split_whitespace().count();
        assert!(words <= 3500, "{page} has {words} words");
    }
}

/// Addresses of the page that the reference once was lead on.
#[test]
fn every_heading_of_the_reference_is_in_its_index() {
    let index = read("docs/language.md");
    for page in pages(LANGUAGE) {
        let link = page.trim_start_matches("docs/");
        assert!(
            index.contains(&format!("({link}")),
            "docs/language.md does not link {page}"
        );
    }
    for anchor in [
        "sandbox",
        "trust",
        "findings",
        "7-conditions",
        "13-outcomes-and-exit-codes",
        "from-llm-orc",
    ] {
        assert!(index.contains(&format!("<a id=\"{anchor}\"></a>")), "{anchor}");
    }
}

#[test]
fn the_readme_has_the_two_commands() {
    let text = read(README);
    assert!(text.contains("\ncargo run --release -- run ensembles/iterative-analysis.yaml\n"));
    assert!(text.contains("\ncargo test\n"));
}

/// The journal that the architecture shows is what its ensemble really writes, save for times, ids and places.
#[test]
fn the_journal_of_the_architecture_is_real() {
    let workspace = workspace_of(ARCHITECTURE);
    let shown = blocks(ARCHITECTURE)
        .into_iter()
        .find(|block| block.is("journal"))
        .expect("a journal");
    let shown: Vec<Value> = shown
        .text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    workspace.run(["run", "tide.yaml"]).expect_code(0);
    let really: Vec<Value> = workspace.journal();
    let stable = |record: &Value| {
        let mut record = record.clone();
        let record_map = record.as_object_mut().expect("an object");
        record_map.retain(|key, _| !matches!(key.as_str(), "at" | "crc"));
        if let Some(data) = record_map["data"].as_object_mut() {
            let volatile = [
                "run_id",
                "ensemble_file",
                "project_root",
                "program",
                "execution_time",
                "ensemble_digest",
            ];
            data.retain(|key, _| !volatile.contains(&key.as_str()));
        }
        record
    };
    assert_eq!(
        really.iter().map(stable).collect::<Vec<_>>(),
        shown.iter().map(stable).collect::<Vec<_>>()
    );
}

/// The documents for people: those of the top folder, and all pages of `docs`.
fn documents() -> Vec<String> {
    let mut documents = vec![
        README.to_owned(),
        "CHANGELOG.md".to_owned(),
        "CONTRIBUTING.md".to_owned(),
        "AGENTS.md".to_owned(),
    ];
    let entries = std::fs::read_dir(project().join("docs")).expect("the folder of pages");
    let names = entries.map(|page| page.expect("a page").file_name().into_string().expect("a name"));
    documents.extend(pages("docs/patterns"));
    documents.extend(pages("docs/design-documents"));
    documents.extend(
        names
            .filter(|name| name.ends_with(".md"))
            .map(|name| format!("docs/{name}")),
    );
    assert!(documents.len() > 15, "{documents:?}");
    documents
}

/// Links between the documents lead somewhere.
#[test]
fn links_lead_somewhere() {
    for document in documents() {
        let document = document.as_str();
        let folder = project().join(document);
        let folder = folder.parent().expect("a folder");
        let text = read(document);
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', ' ']).next())
        {
            if target.starts_with("http") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                project().join(document)
            } else {
                folder.join(file)
            };
            assert!(path.exists(), "{document}: {target} leads nowhere");
            if anchor.is_empty() {
                continue;
            }
            let there = std::fs::read_to_string(&path).expect("a text");
            let found = there
                .lines()
                .filter(|line| line.starts_with('#'))
                .any(|line| slug(line) == anchor)
                || there.contains(&format!("<a id=\"{anchor}\"></a>"));
            assert!(found, "{document}: {target} has no such heading");
        }
    }
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn the_format_of_journals_is_the_one_that_the_architecture_names() {
    let page = read("docs/architecture.md");
    let sentence = format!(
        "`run_started.format` is the version of the whole file; it is {}.",
        ensemble_core::log::JOURNAL_FORMAT
    );
    assert!(page.contains(&sentence), "{sentence}");
}
