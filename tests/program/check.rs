//! `check` through the binary.

#![expect(clippy::disallowed_methods, reason = "a test lists the project's own files")]

use std::path::{Path, PathBuf};

use crate::support::Workspace;
use crate::support::files::project;

const LOOP: &str = r#"
name: loop
agents:
  - name: writer
    script: writer.rhai
    dependencies:
      - {agent_name: reviewer, feedback: true, condition: not output.approved}
    conversation: {max_turns: 9}
  - {name: reviewer, script: reviewer.rhai, depends_on: [writer], conversation: {max_turns: 9}}
  - name: editor
    script: editor.rhai
    dependencies:
      - {agent_name: reviewer, condition: output.approved}
  - name: archivist
    script: editor.rhai
    dependencies:
      - {agent_name: editor}
      - {agent_name: writer, on: failure}
conversation_limits: {max_total_turns: 4}
"#;

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("loop.yaml", LOOP);
    workspace
}

#[test]
fn an_answer_is_told_of_the_condition_as_it_is_written() {
    for condition in ["output.a >= 8", "output.a != 8", "output.a < 8"] {
        let workspace = Workspace::new();
        workspace.write(
            "odd.yaml",
            format!(
                "name: odd\nagents:\n  - {{name: one, script: a.sh}}\n  - {{name: two, script: a.sh, dependencies: [{{agent_name: one, condition: {condition}}}]}}\n"
            ),
        );
        let told = workspace.run(["check", "odd"]).expect_code(0).stdout;
        for (turn, answer) in [("turn 2   two\n         ", true), ("end    ", false)] {
            let expected = format!("{turn}  since {condition} is {answer} (");
            assert!(told.contains(&expected), "{expected}\n{told}");
        }
    }
}

#[test]
fn people_read_how_it_can_end_and_how_it_gets_there() {
    let workspace = workspace();
    let told = workspace.run(["check", "loop"]).expect_code(0);
    let expected = "\
loop: all conversations were examined, 11 states

at most 4 turns and 4 executions

  writer     at most 2 times (max_turns 9 is never reached), at least once
  reviewer   at most 2 times (max_turns 9 is never reached), or never (waits for writer, whose latest execution failed)
  editor     at most once, or never (waiting for reviewer)
  archivist  never runs: waiting for editor

completed (an agent never ran), after 3 turns at the earliest
  turn 1   writer
  turn 2   reviewer
  turn 3   editor
           since output.approved is true (when writer listens to reviewer)
           archivist never runs: waiting for writer

ends without success

max_total_turns (max_total_turns was reached: 4), after 4 turns at the earliest
  turn 1   writer
  turn 2   reviewer
  turn 3   writer #2
           since output.approved is false (when writer listens to reviewer)
  turn 4   reviewer #2
  end      since output.approved is true (when writer listens to reviewer)
           editor never runs: the run ended first
           archivist never runs: waiting for editor, writer

agent_failed (writer failed: as assumed), after 1 turn at the earliest
  turn 1   writer fails
           reviewer never runs: waits for writer, whose latest execution failed
           editor never runs: waiting for reviewer
           archivist never runs: waiting for editor

not examined
  condition_failed: a condition cannot be evaluated, for example because it compares a text with a number
  cancelled: the run is cancelled
  timeout: it takes longer than 300 seconds
";
    assert_eq!(told.stdout, expected);
    assert_eq!(told.stderr, "");
}

#[test]
fn programs_read_one_document() {
    let workspace = workspace();
    let told = workspace
        .run(["check", "loop.yaml", "--format", "json"])
        .expect_code(0)
        .stdout;
    let told: serde_json::Value = serde_json::from_str(&told).expect("one JSON document");
    assert_eq!(told["version"], 2);
    assert_eq!(told["complete"], true);
    assert_eq!(told["stopped_by"], serde_json::Value::Null);
    assert_eq!(told["complete_below_executions"], serde_json::Value::Null);
    for key in ["most_turns", "seen_turns", "bound_turns"] {
        assert_eq!(told[key], 4, "{key}");
    }
    assert_eq!(told["agents"][3]["most_executions"], 0);
    let reasons: Vec<&str> = told["ends"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|end| end["completion_reason"].as_str())
        .collect();
    assert_eq!(reasons, ["completed", "max_total_turns", "agent_failed"]);
    let last = &told["ends"][0]["way"][2];
    assert_eq!(last["turn"], 3);
    assert_eq!(last["runs"][0]["agent"], "editor");
    assert_eq!(last["runs"][0]["ended"], "succeeded");
    assert_eq!(last["assumed"][0]["claim"], "output.approved");
    assert_eq!(last["assumed"][0]["answer"], true);
}

#[test]
fn it_gives_up_where_it_is_told_to_and_says_so() {
    let workspace = workspace();
    let told = workspace
        .run(["check", "loop", "--max-states", "2"])
        .expect_code(0)
        .stdout;
    let first = "loop: stopped after 2 states: all conversations of fewer than 1 execution were examined, longer ones in part (--max-states examines more)\n";
    assert!(told.starts_with(first), "{told}");
    assert!(
        told.contains("\n  writer     seen once (its limit is 4)\n")
            && told.contains("\n  archivist  not seen (its limit is 1)\n"),
        "{told}"
    );
    workspace.run(["check", "loop", "--max-states", "0"]).expect_code(2);
}

#[test]
fn after_giving_up_it_claims_nothing_about_what_it_has_not_seen() {
    let workspace = workspace();
    workspace.write(
        "asks.yaml",
        LOOP.replace(
            "conversation: {max_turns: 9}\n  - name: editor",
            "conversation: {max_turns: 9, triggers_conversation: true}\n  - name: editor",
        ),
    );
    workspace.write(
        "one.yaml",
        LOOP.replace("output.approved}\n  - name: archivist", "'false'}\n  - name: archivist"),
    );
    for (file, arguments) in [
        ("loop", ["--max-states", "1"]),
        ("loop", ["--max-states", "5"]),
        ("loop", ["--max-time", "0s"]),
        ("asks", ["--max-states", "5"]),
    ] {
        let text = workspace
            .run([&["check", file], &arguments[..]].concat())
            .expect_code(0)
            .stdout;
        for claim in [
            "at most",
            "never reached",
            "at least",
            "always",
            "never runs:",
            "earliest",
        ] {
            let lines = text.lines().filter(|line| line.contains(claim));
            // Of one conversation that was seen, it may say what did not happen.
            let claims: Vec<&str> = lines.filter(|line| !line.starts_with("           ")).collect();
            assert!(claims.is_empty(), "{file} {arguments:?} {claims:?}\n{text}");
        }
        assert!(text.contains("seen"), "{text}");
        let told = workspace
            .run([&["check", file, "--format", "json"], &arguments[..]].concat())
            .expect_code(0)
            .json();
        assert_eq!(told["complete"], false);
        assert_eq!(
            told["stopped_by"],
            if arguments[0] == "--max-time" {
                "max_time"
            } else {
                "max_states"
            }
        );
        for key in ["most_turns", "most_executions"] {
            assert_eq!(told[key], serde_json::Value::Null, "{key}");
        }
        for agent in told["agents"].as_array().expect("a list") {
            assert_eq!(agent["most_executions"], serde_json::Value::Null, "{agent}");
            assert!(
                agent["seen_executions"].as_u64() <= agent["bound_executions"].as_u64(),
                "{agent}"
            );
        }
    }
    // What is proven without the walk is still said.
    let text = workspace
        .run(["check", "one", "--max-states", "1"])
        .expect_code(0)
        .stdout;
    assert!(text.contains("\n  editor     never runs: "), "{text}");
}

#[test]
fn independent_loops_are_explored_separately() {
    let looped = |name: &str| {
        format!(
            "  - {{name: {name}1, script: writer.rhai, conversation: {{max_turns: 5}}, dependencies: [{{agent_name: {name}2, feedback: true, condition: not output.ok}}]}}\n  \
             - {{name: {name}2, script: writer.rhai, conversation: {{max_turns: 5}}, depends_on: [{name}1]}}\n"
        )
    };
    let workspace = workspace();
    let six = ["a", "b", "c", "d", "e", "f"].map(looped).concat();
    workspace.write("six.yaml", format!("name: six\nagents:\n{six}"));
    let text = workspace.run(["check", "six"]).expect_code(0).stdout;
    assert!(
        text.starts_with("six: all conversations were examined, ") && text.contains(" states in 6 independent parts\n"),
        "{text}"
    );
    assert!(text.contains("\nat most 10 turns and 60 executions\n"), "{text}");
    assert!(text.contains("\n  turn 1   a1, b1, c1, d1, e1, f1\n"), "{text}");
    let told = workspace
        .run(["check", "six", "--format", "json"])
        .expect_code(0)
        .json();
    assert_eq!((&told["parts"], &told["complete"]), (&6.into(), &true.into()));
}

#[test]
fn the_time_is_bounded() {
    let workspace = workspace();
    let told = workspace
        .run(["check", "loop", "--max-time", "0s"])
        .expect_code(0)
        .stdout;
    let first = "loop: stopped after 1 state: conversations were examined only in part (--max-time examines more)\n";
    assert!(told.starts_with(first), "{told}");
    let usual = workspace.run(["check", "loop"]).expect_code(0).stdout;
    let long = workspace
        .run(["check", "loop", "--max-time", "1h"])
        .expect_code(0)
        .stdout;
    assert_eq!(usual, long);
    workspace.run(["check", "loop", "--max-time", "soon"]).expect_code(2);
}

#[test]
fn an_invalid_ensemble_is_not_walked_through() {
    let workspace = workspace();
    workspace.write("bad.yaml", "name: bad\n");
    let told = workspace.run(["check", "bad.yaml"]).expect_code(2);
    assert!(told.stderr.contains("error[E013]"), "{}", told.stderr);
    workspace.run(["check", "nowhere.yaml"]).expect_code(2);
    assert!(workspace.runs().is_empty());
}

#[test]
fn a_long_way_is_told_without_its_middle() {
    let workspace = workspace();
    workspace.write("long.yaml", LOOP.replace("max_total_turns: 4", "max_total_turns: 16"));
    let told = workspace.run(["check", "long.yaml"]).expect_code(0).stdout;
    assert!(told.contains("  turn 6   reviewer #3\n"), "{told}");
    assert!(told.contains(" more turns (--output json shows them)\n"), "{told}");
    assert!(!told.contains("  turn 7 "), "{told}");
}

#[test]
fn nothing_that_was_said_stands_in_the_reasons() {
    // Nobody says anything in a walk, so no value can be told.
    let told = workspace().run(["check", "loop"]).expect_code(0).stdout;
    assert!(!told.contains("= null"), "{told}");
}

const INNER: &str =
    "name: inner\nagents:\n- {name: person, input: 'Go?'}\n- {name: after, script: a.rhai, depends_on: [person]}\n";
const OUTER: &str = "name: outer\nagents:\n- {name: first, ensemble: inner.yaml}\n- {name: second, ensemble: inner}\n- {name: third, ensemble: nowhere}\n";

fn nested() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("outer.yaml", OUTER);
    workspace.write("inner.yaml", INNER);
    workspace.write("a.rhai", "1");
    workspace
}

#[test]
fn ensembles_that_are_named_are_explored_too() {
    let workspace = nested();
    let told = workspace.run(["check", "outer.yaml"]).expect_code(0).stdout;
    assert!(told.starts_with("outer: all conversations were examined"), "{told}");
    let inner = "\ninner (inner.yaml): all conversations were examined, ";
    assert_eq!(told.matches(inner).count(), 1, "{told}");
    let (_, of_inner) = told.split_once(inner).expect("the inner ensemble");
    assert!(of_inner.contains("\nwaiting_for_input ("), "{told}");
    let told = workspace
        .run(["check", "outer.yaml", "--format", "json"])
        .expect_code(0)
        .json();
    assert_eq!(told["ensemble"], "outer");
    assert_eq!(told["inner"].as_array().map(Vec::len), Some(1));
    assert_eq!(told["inner"][0]["file"], "inner.yaml");
    assert_eq!(told["inner"][0]["ensemble"], "inner");
    assert_eq!(told["inner"][0]["agents"][1]["agent"], "after");
    let alone = workspace
        .run(["check", "inner.yaml", "--format", "json"])
        .expect_code(0)
        .json();
    assert_eq!(alone["inner"], serde_json::json!([]));
    assert_eq!(alone["ends"], told["inner"][0]["ends"]);
}

#[test]
fn an_agent_ends_as_the_ensemble_that_it_is() {
    let workspace = nested();
    workspace.write(
        "middle.yaml",
        "name: middle\nagents:\n- {name: inside, ensemble: inner.yaml}\n- {name: late, script: a.rhai, depends_on: [inside]}\n",
    );
    workspace.write(
        "top.yaml",
        "name: top\nagents:\n- {name: deep, ensemble: middle.yaml}\n- {name: last, script: a.rhai, depends_on: [deep]}\n",
    );
    let told = |arguments: &[&str]| {
        let told = workspace.run([&["check", "top.yaml", "--format", "json"], arguments].concat());
        let told = told.expect_code(0).json();
        let list = |key: &str, field: &str| {
            let all = told[key].as_array().expect("a list").iter();
            all.map(|one| one[field].to_string()).collect::<Vec<_>>()
        };
        (
            list("ends", "completion_reason"),
            list("agents", "bound_executions"),
            list("not_looked_at", "when").join("\n"),
        )
    };
    // A person is asked two levels below.
    let (ends, _, besides) = told(&[]);
    assert_eq!(ends, ["\"completed\"", "\"agent_failed\"", "\"waiting_for_input\""]);
    assert!(!besides.contains("asked inside"), "{besides}");
    // Nobody answers there, so the ensemble never succeeds.
    let (ends, bounds, _) = told(&["--ci"]);
    assert_eq!(ends, ["\"agent_failed\"", "\"waiting_for_input\""]);
    assert_eq!(bounds, ["1", "0"]);
    // Nobody has to answer there.
    workspace.write("inner.yaml", INNER.replace("'Go?'", "{prompt: Go?, default: go}"));
    let (ends, _, besides) = told(&[]);
    assert_eq!(ends, ["\"completed\"", "\"agent_failed\""]);
    assert!(!besides.contains("asked inside"), "{besides}");
    // An ensemble that is not there can be anything.
    workspace.write(
        "middle.yaml",
        "name: middle\nagents:\n- {name: inside, ensemble: nowhere}\n",
    );
    let (ends, _, besides) = told(&[]);
    assert_eq!(ends, ["\"completed\"", "\"agent_failed\""]);
    assert!(besides.contains("a person is asked inside deep"), "{besides}");
    // A call may wait for a permission.
    workspace.write(
        "top.yaml",
        "name: top\nagents: [{name: mind, model: simulated/x, prompt: go, tools: [note]}]\n\
         tools: {note: {script: a.rhai, description: notes, parameters: {type: object}, permission: ask}}\n",
    );
    let (_, _, besides) = told(&[]);
    assert!(besides.contains("a permission is not given to mind"), "{besides}");
}

#[test]
fn the_errors_of_all_files_are_told() {
    let workspace = nested();
    workspace.write("inner.yaml", format!("{INNER}bad: 1\n"));
    let told = workspace.run(["check", "outer.yaml"]).expect_code(2);
    assert_eq!(told.stdout, "");
    assert_eq!(told.stderr.matches("error[E048]").count(), 2, "{}", told.stderr);
    assert!(told.stderr.contains("error[E010]"), "{}", told.stderr);
    assert!(told.stderr.contains("inner.yaml:5:1"), "{}", told.stderr);
}

#[test]
fn in_ci_nobody_answers() {
    let workspace = nested();
    let ends = |arguments: &[&str]| {
        let told = workspace.run([&["check", "inner.yaml", "--format", "json"], arguments].concat());
        let told = told.expect_code(0);
        let ends = told.json()["ends"].as_array().expect("a list").clone();
        let reasons = ends
            .iter()
            .map(|end| end["completion_reason"].as_str().unwrap_or_default().to_owned());
        (reasons.collect::<Vec<_>>(), told.stderr)
    };
    let (reasons, warned) = ends(&[]);
    assert_eq!(reasons, ["completed", "agent_failed", "waiting_for_input"]);
    assert_eq!(warned, "");
    let (reasons, warned) = ends(&["--ci"]);
    assert_eq!(reasons, ["waiting_for_input"]);
    assert!(warned.contains("warning[W026]"), "{warned}");
    assert!(!warned.contains("W003"), "{warned}");
}

/// All files that may be ensembles in this folder of the project.
fn files_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            files_in(&path, found);
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml")
            && !path.to_string_lossy().ends_with(".test.yaml")
        {
            found.push(path);
        }
    }
}

#[test]
fn validate_and_check_find_the_same_files_invalid() {
    let mut files = Vec::new();
    for folder in ["ensembles", "tests/fixtures", "tests/mock", "tests/editor", "benches"] {
        let folder = project().join(folder);
        if folder.is_dir() {
            files_in(&folder, &mut files);
        }
    }
    assert!(files.len() > 10, "{files:?}");
    let workspace = nested();
    workspace.write("broken.rhai", "let = 1");
    workspace.write("inner.yaml", INNER.replace("a.rhai", "broken.rhai"));
    for (name, text) in [
        ("syntax", "name: [\n"),
        ("key", "name: x\nagents: [{name: a, scirpt: b}]\n"),
        (
            "circle",
            "name: x\nagents: [{name: a, script: a.rhai, depends_on: [a]}]\n",
        ),
        (
            "condition",
            "name: x\nagents: [{name: a, script: a.rhai}, {name: b, script: a.rhai, dependencies: [{agent_name: a, condition: outptu}]}]\n",
        ),
        ("itself", "name: x\nagents: [{name: a, ensemble: itself.yaml}]\n"),
        ("nothing", ""),
        ("sound", "name: x\nagents: [{name: a, script: a.rhai}]\n"),
        ("script", "name: x\nagents: [{name: a, script: broken.rhai}]\n"),
    ] {
        let file = format!("{name}.yaml");
        workspace.write(&file, text);
        files.push(workspace.path().join(file));
    }
    files.push(workspace.path().join("outer.yaml"));
    let (mut sound, mut invalid) = (0, 0);
    for file in files {
        let file = file.display().to_string();
        let validated = workspace.run(["validate", "--format", "json", &file]);
        let checked = workspace.run(["check", "--max-states", "20", &file]);
        assert_eq!(
            checked.code, validated.code,
            "{file}\n{}{}",
            validated.stdout, checked.stderr
        );
        let report = validated.json();
        let diagnostics = report["diagnostics"].as_array().expect("a list");
        for error in diagnostics.iter().filter(|one| one["severity"] == "error") {
            let code = format!("error[{}]", error["code"].as_str().unwrap_or_default());
            assert!(checked.stderr.contains(&code), "{file}: {error}\n{}", checked.stderr);
        }
        *if validated.code == 0 { &mut sound } else { &mut invalid } += 1;
    }
    assert!(sound > 8 && invalid >= 8, "{sound} {invalid}");
}
