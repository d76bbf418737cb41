//! Conditions of loops: what is known of them before a run.

use super::around::diagnostics;
use super::{show, shown};

/// Returns a loop of `writer` and `reviewer`, three rounds, and more agents.
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
            "W022 5:79 this condition is true from execution 3 of `writer` on: `editor` starts before `reviewer` has read the last output of `writer`"
        ]
    );
    for condition in [
        "executions.writer > 1",
        "2 < executions.writer < 9",
        "0 < output.n < executions.writer >= 3",
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
        "output.ok and executions.writer >= 2",
        "executions.writer >= 2 and not output.bad and turn_count > 1",
        "not (output.bad or executions.writer < 3)",
    ] {
        let found = asked(condition);
        assert!(
            found[0].contains("this condition can be true from execution"),
            "{condition}: {found:?}"
        );
        assert!(
            found[0].contains("`editor` can start before `reviewer`"),
            "{condition}: {found:?}"
        );
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

/// Returns a loop of `writer` and `reviewer` behind `planner`, with this dependency of the writer on the reviewer.
fn behind_a_planner(edge: &str, reviewer: &str, more: &str) -> Vec<String> {
    let agents = format!(
        "- {{name: planner, script: x, description: deep mode}}\n\
         - {{name: writer, script: x, description: text, dependencies: [{{agent_name: planner}}, {{agent_name: reviewer, feedback: true, {edge}}}], conversation: {{max_turns: 3}}}}\n\
         - {{name: reviewer, script: x, {reviewer}, conversation: {{max_turns: 3}}}}\n{more}"
    );
    let found = show(&diagnostics(&agents, Vec::new())).into_iter();
    found.filter(|one| one.starts_with("W023")).collect()
}

const REVIEWER: &str = "depends_on: [writer], description: 'notes more!'";

#[test]
fn conditions_of_loops_that_read_only_what_is_written_before() {
    let asked = |condition: &str| behind_a_planner(&format!("condition: \"{condition}\""), REVIEWER, "");
    assert_eq!(
        asked("context.deep"),
        [
            "W023 4:136 this condition has the same result in every round of the loop: it reads only what `planner` writes, which runs once, before the loop"
        ]
    );
    for condition in [
        "not context.get('deep', False)",
        "context.planner.deep == 'yes'",
        "context.mode == input",
        "'deep' in context",
        "context.deep and context.planner.mode > 3",
    ] {
        assert_eq!(asked(condition).len(), 1, "{condition}");
    }
    for condition in [
        "context.notes",
        "context.deep and context.notes",
        "context.deep and output.notes",
        "context.deep and executions.writer < 2",
        "context.deep and turn_count < 9",
        "context[input]",
        "len(context) > 3",
        "context.deep and len(context) > 3",
        "context.nobody",
        "input == 'deep'",
        "history[-1].success",
    ] {
        assert_eq!(asked(condition), [""; 0], "{condition}");
    }
}

#[test]
fn what_may_still_change_or_end_the_loop() {
    let deep = "condition: context.deep";
    let found = |edge: &str, reviewer: &str, more: &str| behind_a_planner(edge, reviewer, more).len();
    assert_eq!(found(deep, REVIEWER, ""), 1);
    assert_eq!(
        found(
            deep,
            REVIEWER,
            "- {name: other, script: x, description: no, depends_on: [reviewer]}"
        ),
        1
    );
    for (reviewer, more) in [
        // Another condition ends the loop, or the loop has another way.
        (
            "description: no, dependencies: [{agent_name: writer, condition: output.ok}]",
            "",
        ),
        ("description: no, dependencies: [{agent_name: writer, on: failure}]", ""),
        (
            "description: no, dependencies: [{agent_name: writer}, {agent_name: reviewer, feedback: true}]",
            "",
        ),
        (
            "depends_on: [writer, other], description: no",
            "- {name: other, script: x, description: no, dependencies: [{agent_name: writer}, {agent_name: reviewer, feedback: true}], conversation: {max_turns: 3}}",
        ),
        // Whoever is not known may write it, or runs during the loop.
        (REVIEWER, "- {name: other, script: x, depends_on: [reviewer]}"),
        (REVIEWER, "- {name: other, script: x, description: deep}"),
        (
            REVIEWER,
            "- {name: other, script: x, description: deep, depends_on: [reviewer]}",
        ),
        ("depends_on: [writer], description: deep", ""),
        // It may run without the planner.
        (
            REVIEWER,
            "- {name: other, script: x, description: no, conversation: {triggers_conversation: true}}",
        ),
    ] {
        assert_eq!(found(deep, reviewer, more), 0, "{reviewer} {more}");
    }
    assert_eq!(found("condition: context.deep, max_executions: 2", REVIEWER, ""), 0);
}

#[test]
fn keys_that_stay_true() {
    let asked = |condition: &str, reviewer: &str, more: &str| {
        behind_a_planner(&format!("condition: \"{condition}\""), reviewer, more)
    };
    assert_eq!(
        asked("context.more", REVIEWER, ""),
        [
            "W023 4:136 once `reviewer` has written `more: true`, this condition stays true, because the other outputs of `reviewer` do not contain `more`; only a limit ends the loop"
        ]
    );
    for condition in [
        "context.get('more', False)",
        "context.more == True",
        "output.notes or context.more",
    ] {
        assert_eq!(asked(condition, REVIEWER, "").len(), 1, "{condition}");
    }
    for (condition, reviewer, more) in [
        ("not context.more", REVIEWER, ""),
        (
            "context.more",
            "depends_on: [writer], description: 'notes more!', for_each: {in: [1]}",
            "",
        ),
        ("context.more and output.notes", REVIEWER, ""),
        ("context.reviewer.more", REVIEWER, ""),
        ("output.more", REVIEWER, ""),
        ("context.more != True", REVIEWER, ""),
        ("context.more", "depends_on: [writer], description: more", ""),
        (
            "context.more",
            REVIEWER,
            "- {name: other, script: x, description: more, depends_on: [reviewer]}",
        ),
        (
            "context.more",
            REVIEWER,
            "- {name: other, script: x, depends_on: [reviewer]}",
        ),
        (
            "context.more",
            "depends_on: [writer], description: notes",
            "- {name: other, script: x, description: 'more!', depends_on: [reviewer]}",
        ),
    ] {
        assert_eq!(
            asked(condition, reviewer, more),
            [""; 0],
            "{condition} {reviewer} {more}"
        );
    }
}

/// Returns a loop of `writer` and `reviewer` with this `max_turns`, and more.
fn looped(turns: u32, more: &str) -> String {
    format!(
        "- {{name: writer, script: x, dependencies: [{{agent_name: reviewer, feedback: true, condition: not output.ok}}], conversation: {{max_turns: {turns}}}}}\n\
         - {{name: reviewer, script: x, depends_on: [writer], conversation: {{max_turns: {turns}}}}}\n{more}"
    )
}

/// Returns the findings with this code.
fn with_code(code: &str, agents: &str) -> Vec<String> {
    let found = shown(agents).into_iter();
    found.filter(|one| one.starts_with(code)).collect()
}

#[test]
fn loops_that_the_turns_of_the_conversation_cut() {
    assert_eq!(
        with_code("H032", &looped(15, "")),
        [
            "H032 4:79 `reviewer` cannot reach its `max_turns: 15`: its loop needs 30 turns, and `max_total_turns: 20`, the default, ends the conversation first"
        ]
    );
    let three = "- {name: writer, script: x, dependencies: [{agent_name: judge, feedback: true}], conversation: {max_turns: TURNS}}\n- {name: critic, script: x, depends_on: [writer], conversation: {max_turns: TURNS}}\n- {name: judge, script: x, depends_on: [writer, critic], conversation: {max_turns: TURNS}}\n";
    let table = [
        (looped(10, ""), 0),
        (looped(11, ""), 1),
        (looped(15, "conversation_limits: {max_total_turns: 30}"), 0),
        (looped(15, "conversation_limits: {max_total_turns: 29}"), 1),
        (three.replace("TURNS", "9"), 0),
        (three.replace("TURNS", "12"), 1),
        // An agent that listens to itself runs in every turn.
        (
            "- {name: a, script: x, dependencies: [{agent_name: a, feedback: true}], conversation: {max_turns: 20}}"
                .to_owned(),
            0,
        ),
        (
            "- {name: a, script: x, dependencies: [{agent_name: a, feedback: true}], conversation: {max_turns: 21}}"
                .to_owned(),
            1,
        ),
        // Both begin, and answer each other in every turn.
        (
            looped(15, "").replace(
                "depends_on: [writer]",
                "dependencies: [{agent_name: writer, feedback: true}]",
            ),
            0,
        ),
        // Other reasons to run.
        (
            looped(15, "").replace("max_turns: 15", "max_turns: 15, trigger: every_turn"),
            0,
        ),
        (
            looped(15, "").replace("max_turns: 15", "max_turns: 15, triggers_conversation: true"),
            0,
        ),
        (
            looped(
                15,
                "- {name: z, script: x, conversation: {max_turns: 9, trigger: every_turn}}",
            )
            .replace("depends_on: [writer]", "depends_on: [writer, z]"),
            0,
        ),
    ];
    for (agents, count) in table {
        assert_eq!(with_code("H032", &agents).len(), count, "{agents}");
    }
}

#[test]
fn loops_whose_end_nothing_asks_about() {
    assert_eq!(
        with_code("H033", &looped(3, "")),
        [
            "H033 3:94 the loop of `writer`, `reviewer` can end at a limit with exit code 0: nothing asks whether its condition ended it"
        ]
    );
    let table = [
        ("success: outputs.reviewer.ok", 0),
        ("success: context.ok", 0),
        ("success: history[-1].success", 0),
        ("success: outputs.writer.n > 1 or executions.reviewer < 3", 0),
        ("success: true", 1),
        ("- {name: y, script: x}\nsuccess: outputs.y.ok", 1),
        (
            "- {name: y, script: x, depends_on: [reviewer]}\nsuccess: outputs.y.ok",
            0,
        ),
        ("- {name: z, script: x, depends_on: [reviewer]}", 1),
        ("- {name: z, script: x, depends_on: [reviewer], required: true}", 1),
        (
            "- {name: y, script: x}\n- {name: z, script: x, required: true, dependencies: [{agent_name: y, condition: outputs.reviewer.ok}]}",
            0,
        ),
        (
            "- {name: z, script: x, dependencies: [{agent_name: reviewer, condition: output.ok}]}",
            0,
        ),
        (
            "- {name: y, script: x, depends_on: [reviewer]}\n- {name: z, script: x, dependencies: [{agent_name: y, condition: output.ok}]}",
            0,
        ),
        (
            "- {name: y, script: x}\n- {name: z, script: x, dependencies: [{agent_name: y, condition: output.ok}]}",
            1,
        ),
    ];
    for (more, count) in table {
        assert_eq!(with_code("H033", &looped(3, more)).len(), count, "{more}");
    }
    // A limit that makes the run fail comes first.
    for (limits, count) in [
        ("{max_total_turns: 4}", 0),
        ("{max_total_turns: 5}", 0),
        ("{max_total_turns: 6}", 1),
        ("{max_total_turns: 4, on_limit: succeed}", 1),
        ("{max_agent_executions: {reviewer: 2}}", 0),
        ("{max_agent_executions: {reviewer: 3}}", 1),
        ("{max_agent_executions: {reviewer: 2}, on_limit: succeed}", 1),
    ] {
        let text = looped(3, &format!("conversation_limits: {limits}"));
        assert_eq!(with_code("H033", &text).len(), count, "{limits}");
    }
    // A loop without a condition always ends at a limit.
    let plain = looped(3, "").replace(", condition: not output.ok", "");
    assert_eq!(with_code("H033", &plain), [""; 0]);
}

#[test]
fn agents_that_run_only_on_request() {
    let team = |requester: &str, expert: &str| {
        format!(
            "- {{name: a, script: x{requester}}}\n- {{name: b, script: x, conversation: {{trigger: request}}, {expert}}}\n- {{name: c, script: x, depends_on: [b]}}"
        )
    };
    let may = ", conversation: {triggers_conversation: true}";
    assert_eq!(
        shown(&team("", "depends_on: [a]")),
        ["W081 4:48 agent `b` can never run: it runs only on request, and no agent can request it"]
    );
    assert_eq!(shown(&team(may, "depends_on: [a]")), [""; 0]);
    // An agent that never runs requests nothing.
    let late = team("", "depends_on: [a]")
        + "\n- {name: d, script: x, dependencies: [{agent_name: a, condition: false}], conversation: {triggers_conversation: true}}";
    assert_eq!(with_code("W081", &late).len(), 1);
    // Its dependencies start nothing, so a cycle through it is none.
    let asks = "- {name: a, script: x, conversation: {triggers_conversation: true}}\n- {name: b, script: x, conversation: {trigger: request}, depends_on: [c]}\n- {name: c, script: x, depends_on: [b]}";
    assert_eq!(shown(asks), [""; 0]);
    assert_eq!(
        with_code(
            "W082",
            &team(
                may,
                "dependencies: [{agent_name: a, condition: output.x, max_executions: 2}]"
            )
        ),
        [
            "W082 4:100 `condition` has no effect: `b` runs only on request",
            "W082 4:126 `max_executions` has no effect: `b` runs only on request"
        ]
    );
}
