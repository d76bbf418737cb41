//! The shipped ensembles run to their end with nothing else installed, and the README's picture shows one of them.

#![expect(clippy::disallowed_methods, reason = "tests start the program and read files")]

use std::collections::BTreeSet;

use crate::support::files::{project, read};
use crate::support::picture::svg;
use crate::support::{Outcome, Workspace};
use serde_json::Value;

/// Who runs in which turn.
const SHIPPED: [(&str, &[&str]); 9] = [
    (
        "iterative-analysis",
        &[
            "1 data_extractor",
            "2 llm_analyzer",
            "3 user_clarification",
            "4 data_extractor",
            "5 llm_analyzer",
            "6 final_synthesis",
        ],
    ),
    (
        "writer-reviewer",
        &["1 writer", "2 reviewer", "3 writer", "4 reviewer", "5 editor"],
    ),
    (
        "debugging",
        &[
            "1 error_detector",
            "2 person",
            "3 fixer",
            "4 validator",
            "5 error_detector",
            "6 person",
            "7 fixer",
            "8 validator",
        ],
    ),
    (
        "story",
        &[
            "1 storyteller",
            "2 player",
            "3 storyteller",
            "4 player",
            "5 storyteller",
            "6 player",
            "7 storyteller",
            "8 player",
            "9 storyteller",
        ],
    ),
    ("researcher", &["1 researcher"]),
    ("assistant", &["1 clerk"]),
    ("reviews", &["1 files", "2 text", "3 verdict"]),
    ("newsletter", &["1 each", "2 editor"]),
    (
        "coding-review",
        &["1 coder", "2 tester", "3 reviewer", "4 coder", "5 tester", "6 reviewer"],
    ),
];

fn path_of(name: &str) -> String {
    format!("ensembles/{name}.yaml")
}

/// Those that read or run files, which in-process scripts cannot: they need `sh` and `cat`.
const WITH_A_SHELL: [&str; 2] = ["reviews", "coding-review"];

/// Runs a shipped ensemble where no other program can be found and nobody can be asked.
fn run(name: &str, more: &[&str]) -> Outcome {
    run_in(&with_ensembles(), name, more)
}

fn run_in(workspace: &Workspace, name: &str, more: &[&str]) -> Outcome {
    let path = path_of(name);
    let arguments = [&["run", &path, "--output", "json"], more].concat();
    let path = if WITH_A_SHELL.contains(&name) {
        "/usr/bin:/bin"
    } else {
        ""
    };
    let child = workspace.command(arguments).env("PATH", path).spawn();
    crate::support::Running(child.expect("the program starts")).finish()
}

#[test]
fn every_shipped_ensemble_is_known_here() {
    let files = std::fs::read_dir(project().join("ensembles")).expect("the ensembles");
    let shipped: BTreeSet<String> = files
        .filter_map(Result::ok)
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".yaml")?.to_owned()))
        .filter(|name| !name.ends_with(".test"))
        .collect();
    let known: BTreeSet<String> = SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(shipped, known);
}

#[test]
fn every_shipped_ensemble_and_template_says_what_its_success_is() {
    let mut texts = Vec::new();
    for (name, _) in SHIPPED {
        let path = project().join(format!("ensembles/{name}.yaml"));
        texts.push((name.to_owned(), std::fs::read_to_string(path).expect("an ensemble")));
    }
    for template in [
        "loop",
        "approval",
        "debugging",
        "research",
        "game",
        "debate",
        "map-files",
        "chat",
        "assistant",
    ] {
        let workspace = Workspace::new();
        workspace.run(["init", "new", "--template", template]).expect_code(0);
        let path = workspace.path().join("ensembles/new.yaml");
        texts.push((template.to_owned(), std::fs::read_to_string(path).expect("a template")));
    }
    for (name, text) in texts {
        let mut lines = text.lines().map(str::trim_start);
        assert!(
            lines.any(|line| line.starts_with("success:") || line.starts_with("required: true")),
            "{name}"
        );
    }
}

#[test]
fn every_shipped_ensemble_runs_to_its_end() {
    for (name, sequence) in SHIPPED {
        let workspace = with_ensembles();
        let outcome = run_in(&workspace, name, &[]).expect_code(0);
        assert_eq!(outcome.sequence(), sequence, "{name}");
        // What is written and recorded is in the folder of the test, also where the project has been used itself.
        assert_eq!(workspace.runs().len(), 1, "{name}");
        let is_written = workspace.path().join("coding-review-work/greet.sh").exists();
        assert_eq!(is_written, name == "coding-review", "{name}");
        let result = outcome.json();
        assert_eq!(result["completion_reason"], "completed", "{name}");
        assert_eq!(result["warnings"], Value::Array(Vec::new()), "{name}");
        let is_tool = |one: &Value| one["reason"] == "it is a tool and does not run by itself";
        let not_run = result["not_run"].as_array().expect("a list");
        assert!(not_run.iter().all(is_tool), "{name}: {not_run:?}");
    }
}

#[test]
fn every_shipped_ensemble_validates_without_a_word() {
    let workspace = with_ensembles();
    let outcome = workspace
        .run(["validate", "--deny-warnings", "ensembles"])
        .expect_code(0);
    assert_eq!(outcome.stdout, "");
}

/// Each has tests, which pass without a process, and which reach all that can be reached.
#[test]
fn the_tests_of_every_shipped_ensemble_pass_and_leave_nothing_out() {
    let workspace = with_ensembles();
    let child = workspace
        .command(["test", "--coverage", "--output", "json", "ensembles"])
        .env("PATH", "")
        .spawn();
    let outcome = crate::support::Running(child.expect("the program starts")).finish();
    let result = outcome.expect_code(0).json();
    let files = result["files"].as_array().expect("a list");
    for (name, _) in SHIPPED {
        let ensemble = path_of(name);
        let file = files.iter().find(|file| file["coverage"]["ensemble"] == ensemble);
        let coverage = &file.unwrap_or_else(|| panic!("{name} has no test"))["coverage"];
        assert_eq!(coverage["complete"], true, "{name}");
        assert_eq!(coverage["gaps"], Value::Array(Vec::new()), "{name}");
    }
}

#[test]
fn every_shipped_ensemble_opens_with_a_lesson() {
    for (name, _) in SHIPPED {
        let text = read(format!("ensembles/{name}.yaml"));
        let lesson: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(lesson.len() >= 5, "{name} teaches nothing");
        assert!(
            lesson.iter().any(|line| line.contains("Try next")),
            "{name} says not what to try"
        );
        let command = format!("ensemble run ensembles/{name}.yaml");
        assert!(
            lesson.iter().any(|line| line.contains(&command)),
            "{name} says not how to run it"
        );
    }
}

#[test]
fn the_analysis_concludes_as_the_person_has_answered() {
    let closed = run("iterative-analysis", &[]).expect_code(0).json();
    assert_eq!(closed["final_state"]["synthesis_complete"], true);
    assert_eq!(closed["final_state"]["change_percent"], 6.6);
    let analysis = |result: &Value| result["final_state"]["final_analysis"].as_str().map(str::to_owned);
    assert!(analysis(&closed).is_some_and(|text| text.starts_with("Yes.")));
    let open = run("iterative-analysis", &["--answer", "user_clarification=open"]);
    let open = open.expect_code(0).json();
    assert_eq!(open["final_state"]["change_percent"], -9.7);
    assert!(analysis(&open).is_some_and(|text| text.starts_with("No.")));
}

#[test]
fn the_patch_is_really_tried() {
    let result = run("debugging", &[]).expect_code(0).json();
    let validations: Vec<&Value> = result["conversation_history"]
        .as_array()
        .expect("a history")
        .iter()
        .filter(|entry| entry["agent_name"] == "validator")
        .map(|entry| &entry["output_data"])
        .collect();
    assert_eq!(validations[0]["failures"].as_array().map(Vec::len), Some(1));
    assert_eq!(validations[1]["passed"], true);
}

#[test]
fn the_story_ends_whichever_way_is_taken() {
    for choice in ["look closer", "go on", "turn back"] {
        let result = run("story", &["--answer", &format!("player={choice}")])
            .expect_code(0)
            .json();
        assert_eq!(result["completion_reason"], "completed", "{choice}");
        assert_eq!(result["final_state"]["over"], true, "{choice}");
    }
}

#[test]
fn the_vote_over_the_reviews_stops_when_it_is_decided() {
    let result = run("reviews", &[]).expect_code(0).json();
    let expected = serde_json::json!({
        "verdict": "good", "agreed": true, "votes": [{"answer": "good", "count": 3}, {"answer": "bad", "count": 1}],
    });
    assert_eq!(result["result"], expected);
    assert_eq!(result["usage"]["requests"], 4, "the last review is not read");
}

#[test]
fn the_newsletter_has_an_article_about_each_topic() {
    let topics = "topics=[\"bees\", \"tides\", \"maps\"]";
    let result = run("newsletter", &["--set", topics]).expect_code(0).json();
    let newsletter = result["result"]["newsletter"].as_str().expect("a text");
    assert_eq!(newsletter, "* All about bees.\n* All about tides.\n* All about maps.\n");
    let drafts = |result: &Value| result["final_state"]["each"]["items"][0]["drafts"].clone();
    assert_eq!(drafts(&result), 3);
    assert_eq!(
        drafts(&run("newsletter", &["--set", "max_words=30"]).expect_code(0).json()),
        1
    );
}

#[test]
fn the_researcher_looks_things_up() {
    for (question, bird) in [
        ("How deep does the gannet dive?", "gannet"),
        ("A puffin's home?", "puffin"),
    ] {
        let outcome = run("researcher", &["--input", question]).expect_code(0);
        let answer = outcome.json()["final_state"]["response"].as_str().map(str::to_owned);
        let answer = answer.expect("a text");
        assert!(answer.ends_with(&format!("(2 notes on \"{bird}\")")), "{answer}");
    }
}

#[test]
fn the_assistant_calls_tools_in_a_chat() {
    let workspace = with_ensembles();
    let lines = "What do 3 maps cost?\nAnd are you open on Sunday?\nThank you.\n";
    let chat = workspace
        .run_with_stdin(["chat", "ensembles/assistant.yaml"], lines)
        .expect_code(0);
    for answer in ["3 × map: 27 euros.", "On Sunday we are closed.", "I can tell you"] {
        assert!(chat.stdout.contains(answer), "{}", chat.stdout);
    }
    let calls = workspace
        .journal()
        .iter()
        .filter(|record| record["event"] == "execution_finished")
        .count();
    assert_eq!(calls, 3, "each message is one turn");
}

/// A workspace with the shipped ensembles. A run of those in the project would write into the project, and could be recorded there.
fn with_ensembles() -> Workspace {
    let workspace = Workspace::new();
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .arg(project().join("ensembles"))
        .arg(workspace.path())
        .status();
    assert!(copied.expect("cp is there").success());
    workspace
}

/// `UPDATE_PICTURE=1 cargo test --test project shipped` draws it anew.
#[test]
fn the_picture_shows_a_real_run() {
    let workspace = with_ensembles();
    let printed = workspace.path().join("printed");
    let both = std::fs::File::create(&printed).expect("a file for the output");
    let status = workspace
        .command(["run", "ensembles/iterative-analysis.yaml", "--color", "always"])
        .stderr(both.try_clone().expect("the file can be shared"))
        .stdout(both)
        .status();
    assert!(status.expect("the program starts").success());
    let text = std::fs::read_to_string(printed).expect("text");
    let drawn = svg("$ ensemble run ensembles/iterative-analysis.yaml", &text);
    let path = project().join("docs/run.svg");
    if std::env::var_os("UPDATE_PICTURE").is_some() {
        std::fs::write(&path, &drawn).expect("the picture can be written");
    }
    let committed = read("docs/run.svg");
    assert_eq!(
        without_times(&committed),
        without_times(&drawn),
        "docs/run.svg is old: UPDATE_PICTURE=1 draws it anew"
    );
}

/// Without run ids and times, which are the only digits that differ.
fn without_times(picture: &str) -> String {
    let mut text = String::new();
    for line in picture.lines() {
        let volatile = line.contains(" ms<")
            || line.contains(" ms ")
            || line.contains(" s<")
            || line.contains("· run ")
            || line.contains("replay ");
        let kept = line.chars().filter(|c| !volatile || !c.is_ascii_alphanumeric());
        text.extend(kept.filter(|c| !volatile || *c != '.'));
        text.push('\n');
    }
    text
}
