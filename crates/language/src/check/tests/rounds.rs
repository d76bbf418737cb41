//! Conditions of loops: what is known of them before a run.

use super::shown;

/// A loop of `writer` and `reviewer`, three rounds, and more agents.
fn with_loop(reviewer: &str, more: &str) -> String {
    format!(
        "- {{name: writer, script: x, dependencies: [{{agent_name: reviewer, feedback: true}}], conversation: {{max_turns: 3}}}}\n\
         - {{name: reviewer, script: x, {reviewer}, conversation: {{max_turns: 3}}}}\n{more}"
    )
}

fn early(agents: &str) -> Vec<String> {
    let found = shown(agents).into_iter();
    found.filter(|one| one.starts_with("W022")).collect()
}

#[test]
fn counts_that_are_reached_before_the_dependency_has_read_the_output() {
    let asked = |condition: &str| {
        let editor = format!(
            "- {{name: editor, script: x, dependencies: [{{agent_name: reviewer, condition: \"{condition}\"}}]}}"
        );
        early(&with_loop("depends_on: [writer]", &editor))
    };
    assert_eq!(
        asked("executions.writer >= 3"),
        [
            "W022 5:79 this condition is true as soon as `writer` has run 3 times: `editor` then starts before `reviewer` has read the last output of `writer`"
        ]
    );
    for condition in [
        "executions.writer > 1",
        "2 < executions.writer",
        "3 <= executions.get('writer', 0)",
        "agent_execution_count['writer'] == 2",
        "not executions.writer < 3",
        "output.ok or executions.writer >= 2",
        "not (executions.writer < 3 and output.bad)",
    ] {
        assert_eq!(asked(condition).len(), 1, "{condition}");
    }
    for condition in [
        // The dependency itself, an agent that is not upstream, and a count that is never reached.
        "executions.reviewer >= 3",
        "executions.editor == 0",
        "executions.writer >= 4",
        // The first output of the dependency is one of the first output.
        "executions.writer >= 1",
        "executions.writer > 0",
        // Another part of the condition decides.
        "executions.writer >= 3 and executions.reviewer >= 3",
        "output.ok and executions.writer >= 2",
        "executions.writer < 3",
        "executions.writer != 3",
        "turn_count >= 3",
        "executions.writer % 2 == 0",
        "executions.writer >= output.rounds",
    ] {
        assert_eq!(asked(condition), [""; 0], "{condition}");
    }
}

#[test]
fn a_count_is_not_reported_if_something_else_decides_when_the_agent_starts() {
    let early = |reviewer: &str, edge: &str, more: &str| {
        let editor = format!(
            "- {{name: editor, script: x, dependencies: [{{agent_name: reviewer, condition: executions.writer >= 3, {edge}}}{more}]}}\n\
             - {{name: other, script: x, depends_on: [reviewer]}}\n- {{name: checker, script: x, depends_on: [writer]}}"
        );
        !early(&with_loop(reviewer, &editor)).is_empty()
    };
    let plain = "depends_on: [writer]";
    let edge = "wait_for: update";
    assert!(early(plain, edge, ""));
    assert!(early(plain, "on: any", ""));
    assert!(early(plain, "requires_all: false", ""));
    assert!(early(plain, edge, ", {agent_name: writer}"));
    assert!(early(
        plain,
        "requires_all: false",
        ", {agent_name: reviewer, condition: output.ok, requires_all: false}"
    ));
    assert!(!early(plain, "wait_for: settled", ""));
    assert!(!early(plain, "feedback: true", ""));
    assert!(!early(plain, "on: failure", ""));
    assert!(!early(plain, edge, ", {agent_name: writer, wait_for: settled}"));
    assert!(!early(plain, edge, ", {agent_name: other}"));
    assert!(!early(plain, edge, ", {agent_name: reviewer, condition: output.ok}"));
    assert!(!early(plain, edge, ", {agent_name: other, requires_all: false}"));
    // The dependency may not read the last output.
    for reviewer in [
        "dependencies: [{agent_name: writer, condition: executions.writer < 3}]",
        "dependencies: [{agent_name: writer, max_executions: 2}]",
        "dependencies: [{agent_name: writer, on: failure}]",
        "dependencies: [{agent_name: writer}, {agent_name: other, feedback: true}]",
        "dependencies: [{agent_name: writer}, {agent_name: editor, requires_all: false, feedback: true}]",
    ] {
        assert!(!early(reviewer, edge, ""), "{reviewer}");
    }
    // The count may be that of an agent further away.
    let reviewer = "depends_on: [checker]";
    let looping = with_loop(
        reviewer,
        "- {name: checker, script: x, depends_on: [writer], conversation: {max_turns: 3}}\n- {name: editor, script: x, dependencies: [{agent_name: reviewer, condition: executions.writer >= 3}]}",
    );
    assert_eq!(self::early(&looping).len(), 1);
}
