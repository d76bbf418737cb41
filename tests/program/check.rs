//! `check` through the binary.

use crate::support::Workspace;

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
fn people_read_how_it_can_end_and_how_it_gets_there() {
    let workspace = workspace();
    let told = workspace.run(["check", "loop"]).expect_code(0);
    let expected = "\
loop: all conversations were examined, 11 states

at most 4 turns and 4 executions

  writer     at most 2 times (max_turns 9 is never reached), and at least once
  reviewer   at most 2 times (max_turns 9 is never reached), or never (waiting for writer)
  editor     at most once, or never (waiting for reviewer)
  archivist  never runs: waiting for editor

completed (an agent never ran), after 3 turns at the earliest
  turn 1   writer
  turn 2   reviewer
  turn 3   editor
           since output.approved is true (when writer listens to reviewer)
           archivist never runs: waiting for writer

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
           reviewer never runs: waiting for writer
           editor never runs: waiting for reviewer
           archivist never runs: waiting for editor

not examined
  condition_failed: a condition has no answer, as when it orders a text and a number
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
    assert_eq!(told["version"], 1);
    assert_eq!(told["complete"], true);
    assert_eq!(told["gave_up_after_executions"], serde_json::Value::Null);
    assert_eq!(told["most_turns"], 4);
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
    let first = "loop: stopped after 2 states: conversations of up to 1 execution were examined, longer ones were not (--max-states examines more)\n";
    assert!(told.starts_with(first), "{told}");
    assert!(
        told.contains("  archivist  did not run in any conversation that was examined: "),
        "{told}"
    );
    workspace.run(["check", "loop", "--max-states", "0"]).expect_code(2);
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
