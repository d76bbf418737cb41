//! Tables of readiness and outcomes: the past turns, and the next decision.

use std::sync::Arc;

use serde_json::json;

use super::{NextDecision, decide_next_step};
use crate::random_conversations::{HandDrivenConversation, build_plan};

/// Returns the decision after these turns: the agents that run (`a b`), or the outcome. A turn is written as its agents
/// with their results, `a+ b-`; each turn must be the one that the resolver decides. Outputs are `{"n": turn}`.
fn then(agents: &str, turns: &[&str]) -> String {
    let plan = Arc::new(build_plan(&format!("name: t\nagents:\n{agents}")));
    let mut driver = HandDrivenConversation::new(&plan);
    for turn in turns {
        let NextDecision::StartTurn(decided) = decide_next_step(&plan, driver.state()) else {
            panic!("{turn}: nobody runs");
        };
        let names: Vec<&str> = turn.split(' ').map(|word| word.trim_end_matches(['+', '-'])).collect();
        let starts: Vec<&str> = decided.starts.iter().map(|start| &*start.agent).collect();
        assert_eq!(starts, names, "{turn} of {turns:?}");
        let output = |word: &str| word.ends_with('+').then(|| json!({"n": decided.turn}));
        let outputs: Vec<_> = turn.split(' ').map(output).collect();
        driver.perform_turn(&decided, &outputs);
        let NextDecision::FinishTurn(finished) = decide_next_step(&plan, driver.state()) else {
            panic!("{turn}: the turn is complete");
        };
        driver.apply_turn_end(finished);
    }
    match decide_next_step(&plan, driver.state()) {
        NextDecision::StartTurn(turn) => {
            let names: Vec<&str> = turn.starts.iter().map(|start| &*start.agent).collect();
            names.join(" ")
        }
        NextDecision::End(ended) => ended.completion_reason.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Returns an agent `NAME` with additional keys.
fn agent(name: &str, keys: &str) -> String {
    format!("- {{name: {name}, script: x, on_error: continue{keys}}}\n")
}

fn all(agents: &[&str]) -> String {
    agents.concat()
}

#[test]
fn readiness() {
    let a = agent("a", "");
    let three = ", conversation: {max_turns: 3}";
    let a3 = agent(
        "a",
        &format!("{three}, dependencies: [{{agent_name: b, feedback: true}}]"),
    );
    let on = |edge: &str| agent("b", &format!(", dependencies: [{{agent_name: a{edge}}}]"));
    let on3 = |edge: &str| agent("b", &format!("{three}, dependencies: [{{agent_name: a{edge}}}]"));
    let table: Vec<(&str, String, Vec<&str>, &str)> = vec![
        (
            "the first turn belongs to those who need nobody",
            all(&[&a, &on("")]),
            vec![],
            "a",
        ),
        (
            "a success is what a plain edge needs",
            all(&[&a, &on("")]),
            vec!["a+"],
            "b",
        ),
        ("a failure is not", all(&[&a, &on("")]), vec!["a-"], "completed"),
        (
            "a failure is what `on: failure` needs",
            all(&[&a, &on(", on: failure")]),
            vec!["a-"],
            "b",
        ),
        (
            "and a success is not",
            all(&[&a, &on(", on: failure")]),
            vec!["a+"],
            "completed",
        ),
        ("`on: any` takes both", all(&[&a, &on(", on: any")]), vec!["a-"], "b"),
        (
            "a true condition opens",
            all(&[&a, &on(", condition: output.n == 1")]),
            vec!["a+"],
            "b",
        ),
        (
            "a false one does not",
            all(&[&a, &on(", condition: output.n == 2")]),
            vec!["a+"],
            "completed",
        ),
        (
            "max_turns is the cap on all executions",
            all(&[&a, &on("")]),
            vec!["a+", "b+"],
            "completed",
        ),
        ("feedback opens a loop", all(&[&a3, &on3("")]), vec!["a+", "b+"], "a"),
        (
            "and the loop ends at max_turns",
            all(&[&a3, &on3("")]),
            vec!["a+", "b+", "a+", "b+", "a+", "b+"],
            "completed",
        ),
        (
            "max_executions caps one edge",
            all(&[&a3, &on3(", max_executions: 2")]),
            vec!["a+", "b+", "a+", "b+", "a+"],
            "completed",
        ),
        (
            "a failure inside the loop is no news on a plain edge",
            all(&[&a3, &on3("")]),
            vec!["a+", "b+", "a-"],
            "completed",
        ),
        (
            "all of the required",
            all(&[
                &a,
                &agent("c", ", depends_on: [a]"),
                &agent("b", ", depends_on: [a, c]"),
            ]),
            vec!["a+"],
            "c",
        ),
        (
            "one of the others",
            all(&[
                &a,
                &agent("c", ", depends_on: [a]"),
                &agent(
                    "b",
                    ", dependencies: [{agent_name: a, requires_all: false}, {agent_name: c, requires_all: false}]",
                ),
            ]),
            vec!["a+"],
            "c b",
        ),
        (
            "every_turn needs no news",
            agent("a", ", conversation: {max_turns: 3, trigger: every_turn}"),
            vec!["a+", "a+"],
            "a",
        ),
        ("without it, alone is once", agent("a", three), vec!["a+"], "completed"),
        (
            "everything is news to those who listen to nobody in particular",
            all(&[&agent("a", three), &agent("b", three)]),
            vec!["a+ b+"],
            "a b",
        ),
        (
            "but not a failure",
            all(&[&agent("a", three), &agent("b", three)]),
            vec!["a- b-"],
            "completed",
        ),
        (
            "outputs of the turn in which an agent started are still unseen",
            all(&[
                &agent("a", three),
                &agent(
                    "b",
                    &format!("{three}, dependencies: [{{agent_name: a, feedback: true}}]"),
                ),
            ]),
            vec!["a+ b+"],
            "a b",
        ),
        (
            "after a failure, the earlier success holds no more",
            all(&[
                &agent("a", ", conversation: {max_turns: 2, trigger: every_turn}"),
                &agent("b", ", depends_on: [a, c]"),
                &agent("c", ", depends_on: [d]"),
                &agent("d", ""),
            ]),
            vec!["a+ d+", "a- c+"],
            "completed",
        ),
        (
            "a later success holds again, and is new",
            all(&[
                &agent("a", ", conversation: {max_turns: 3, trigger: every_turn}"),
                &agent("b", ", depends_on: [a, c]"),
                &agent("c", ", depends_on: [d]"),
                &agent("d", ""),
            ]),
            vec!["a+ d+", "a- c+", "a+"],
            "b",
        ),
        (
            "`on: any` goes on with what there is",
            all(&[
                &agent("a", ", conversation: {max_turns: 2, trigger: every_turn}"),
                &agent("b", ", dependencies: [{agent_name: a, on: any}, {agent_name: c}]"),
                &agent("c", ", depends_on: [d]"),
                &agent("d", ""),
            ]),
            vec!["a+ d+", "a- c+"],
            "b",
        ),
        (
            "one of several that failed holds no more",
            all(&[
                &agent("a", ", conversation: {max_turns: 2, trigger: every_turn}"),
                &agent(
                    "b",
                    ", dependencies: [{agent_name: a, requires_all: false}, {agent_name: e, requires_all: false}, {agent_name: c}]",
                ),
                &agent("c", ", depends_on: [d]"),
                &agent("d", ""),
                &agent("e", ", depends_on: [b]"),
            ]),
            vec!["a+ d+", "a- c+"],
            "completed",
        ),
        (
            "a failure that has been made good holds no more",
            all(&[
                &agent("a", ", conversation: {max_turns: 2, trigger: every_turn}"),
                &agent("b", ", dependencies: [{agent_name: a, on: failure}, {agent_name: c}]"),
                &agent("c", ", depends_on: [d]"),
                &agent("d", ""),
            ]),
            vec!["a- d+", "a+ c+"],
            "completed",
        ),
    ];
    for (rule, agents, turns, expected) in table {
        assert_eq!(then(&agents, &turns), expected, "{rule}");
    }
}

/// Returns a writer with feedback from a judge, a critic of the writer, and the judge with these dependencies.
fn review(judge: &str) -> String {
    let three = ", conversation: {max_turns: 3}";
    all(&[
        &agent(
            "w",
            &format!("{three}, dependencies: [{{agent_name: j, feedback: true}}]"),
        ),
        &agent("c", &format!("{three}, depends_on: [w]")),
        &agent("j", &format!("{three}, {judge}")),
    ])
}

#[test]
fn waiting() {
    let three = ", conversation: {max_turns: 3}";
    let join = review("depends_on: [w, c]");
    let settled = |first: &str| {
        all(&[
            &agent(
                "w",
                &format!("{three}, dependencies: [{{agent_name: r, feedback: true}}]"),
            ),
            &agent("r", ", conversation: {max_turns: 2}, depends_on: [w]"),
            &agent(
                "p",
                &format!("{first}, dependencies: [{{agent_name: r, wait_for: settled}}]"),
            ),
        ])
    };
    let restless = ", conversation: {max_turns: 9, trigger: every_turn}";
    let table: Vec<(&str, String, Vec<&str>, &str)> = vec![
        (
            "what belongs together is read together",
            join.clone(),
            vec!["w+", "c+", "j+", "w+"],
            "c",
        ),
        ("and then the judge runs", join, vec!["w+", "c+", "j+", "w+", "c+"], "j"),
        (
            "`nothing` takes what there is",
            review("dependencies: [{agent_name: w}, {agent_name: c, wait_for: nothing}]"),
            vec!["w+", "c+", "j+", "w+"],
            "c j",
        ),
        (
            "nobody waits for one of several",
            review("dependencies: [{agent_name: w}, {agent_name: c, requires_all: false}]"),
            vec!["w+", "c+", "j+", "w+"],
            "c j",
        ),
        (
            "a failed update is no longer about to come",
            review("dependencies: [{agent_name: w}, {agent_name: c, on: any}]"),
            vec!["w+", "c+", "j+", "w+", "c-"],
            "j",
        ),
        (
            "and without `on: any` nobody reads the output of the earlier round",
            review("depends_on: [w, c]"),
            vec!["w+", "c+", "j+", "w+", "c-"],
            "completed",
        ),
        (
            "`settled` waits for the end of the loop",
            settled(""),
            vec!["w+", "r+"],
            "w",
        ),
        (
            "also if a limit ends it",
            settled(""),
            vec!["w+", "r+", "w+", "r+", "w+"],
            "p",
        ),
        (
            "`every_turn` does not wait for an update",
            review("conversation: {max_turns: 9, trigger: every_turn}, depends_on: [w, c]").replacen(
                ", conversation: {max_turns: 3}, conversation",
                ", conversation",
                1,
            ),
            vec!["w+", "c+", "j+"],
            "w j",
        ),
        (
            "what never rests is waited for as often as there are agents behind it",
            all(&[
                &agent("s", restless),
                &agent("n", restless),
                &agent("d", ", dependencies: [{agent_name: s, condition: turn_count < 2}]"),
                &agent("x", &format!("{three}, depends_on: [d, n]")),
            ]),
            vec!["s+ n+", "s+ n+ d+", "s+ n+ x+", "s+ n+", "s+ n+"],
            "s n x",
        ),
        (
            "if all would wait, feedback is not waited for",
            all(&[
                &agent("n", ", conversation: {max_turns: 5, trigger: every_turn}"),
                &agent(
                    "a",
                    &format!("{three}, dependencies: [{{agent_name: n}}, {{agent_name: b, feedback: true, on: any}}]"),
                ),
                &agent("b", &format!("{three}, depends_on: [n, a]")),
            ]),
            vec!["n+", "n+ a+", "n+ b+", "n+ a+", "n+ b-"],
            "a",
        ),
    ];
    for (rule, agents, turns, expected) in table {
        assert_eq!(then(&agents, &turns), expected, "{rule}");
    }
}

#[test]
fn outcomes() {
    let spin = "- {name: a, script: x, conversation: {max_turns: 9, trigger: every_turn}, on_error: KEEP}\n";
    let once = "- {name: a, script: x, on_error: KEEP}\n";
    let keep = |text: &str, keep: &str, limits: &str| {
        format!("{}conversation_limits: {{{limits}}}\n", text.replace("KEEP", keep))
    };
    let table: Vec<(&str, String, Vec<&str>, &str)> = vec![
        ("nobody ready", keep(once, "fail", ""), vec!["a+"], "completed"),
        (
            "nobody ready at the limit",
            keep(once, "fail", "max_total_turns: 1"),
            vec!["a+"],
            "completed",
        ),
        (
            "somebody ready at the limit",
            keep(spin, "fail", "max_total_turns: 1"),
            vec!["a+"],
            "max_total_turns",
        ),
        (
            "somebody ready before it",
            keep(spin, "fail", "max_total_turns: 2"),
            vec!["a+"],
            "a",
        ),
        (
            "a cap",
            keep(spin, "fail", "max_agent_executions: {a: 2}"),
            vec!["a+", "a+"],
            "max_agent_executions",
        ),
        (
            "a cap and the turns",
            keep(spin, "fail", "max_total_turns: 1, max_agent_executions: {a: 1}"),
            vec!["a+"],
            "max_agent_executions",
        ),
        ("a failure", keep(once, "fail", ""), vec!["a-"], "agent_failed"),
        (
            "a failure that may be",
            keep(once, "continue", ""),
            vec!["a-"],
            "completed",
        ),
        (
            "a limit hides no failure",
            keep(spin, "fail", "max_total_turns: 1"),
            vec!["a-"],
            "agent_failed",
        ),
        (
            "a failure that nobody handled, and a success after it",
            keep(spin, "fail", "max_total_turns: 2"),
            vec!["a-", "a+"],
            "agent_failed",
        ),
        (
            "a start over `on: any` handles the failures so far",
            keep(
                &format!(
                    "{spin}- {{name: b, script: x, dependencies: [{{agent_name: a, on: any}}, {{agent_name: c}}]}}\n- {{name: c, script: x, depends_on: [d]}}\n- {{name: d, script: x}}\n"
                ),
                "fail",
                "max_total_turns: 3",
            ),
            vec!["a- d+", "a+ c+", "a+ b+"],
            "max_total_turns",
        ),
        (
            "the next failure needs handling again",
            keep(
                &format!("{spin}- {{name: b, script: x, dependencies: [{{agent_name: a, on: failure}}]}}\n"),
                "fail",
                "max_total_turns: 4",
            ),
            vec!["a-", "a- b+", "a+", "a+"],
            "agent_failed",
        ),
        (
            "a failure that was handled",
            keep(
                &format!("{once}- {{name: b, script: x, dependencies: [{{agent_name: a, on: failure}}]}}\n"),
                "fail",
                "",
            ),
            vec!["a-", "b+"],
            "completed",
        ),
        (
            "a handled failure, then another",
            keep(
                &format!("{once}- {{name: b, script: x, dependencies: [{{agent_name: a, on: failure}}]}}\n"),
                "fail",
                "",
            ),
            vec!["a-", "b-"],
            "agent_failed",
        ),
        (
            "a condition without an answer",
            keep(
                &format!(
                    "{once}- {{name: b, script: x, dependencies: [{{agent_name: a, condition: output.n > 'x'}}]}}\n"
                ),
                "fail",
                "",
            ),
            vec!["a+"],
            "condition_failed",
        ),
    ];
    for (case, text, turns, expected) in table {
        assert_eq!(then(&text, &turns), expected, "{case}");
    }
}
