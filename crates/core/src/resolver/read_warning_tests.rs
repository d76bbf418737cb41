//! What conditions and expressions read in vain: a warning for each expression and key, once in a run.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{DirectEvaluator, NextDecision, decide_next_step, decide_with_evaluator};
use crate::conversation::RunEnded;
use crate::random_conversations::{HandDrivenConversation, build_plan};

/// Returns the warnings of each turn and of the end, of a conversation in which every agent puts this out.
fn list_warnings(text: &str, output: &Value) -> Vec<Vec<String>> {
    let plan = Arc::new(build_plan(&format!("name: t\n{text}")));
    let mut driver = HandDrivenConversation::new(&plan);
    let mut warnings = Vec::new();
    loop {
        // Other evaluators decide the same, without warnings.
        let plain = decide_with_evaluator(&plan, driver.state(), &DirectEvaluator);
        match (decide_next_step(&plan, driver.state()), plain) {
            (NextDecision::StartTurn(turn), NextDecision::StartTurn(plain)) => {
                assert_eq!((&turn.starts, &turn.waiting), (&plain.starts, &plain.waiting));
                assert!(plain.warnings.is_empty());
                warnings.push(turn.warnings.iter().map(|warning| warning.message.clone()).collect());
                let outputs: Vec<Option<Value>> = turn.starts.iter().map(|_| Some(output.clone())).collect();
                driver.perform_turn(&turn, &outputs);
            }
            (NextDecision::FinishTurn(finished), _) => driver.apply_turn_end(finished),
            (NextDecision::End(RunEnded { warnings: of_end, .. }), _) => {
                warnings.push(of_end);
                let of_turns: Vec<&String> = warnings[..warnings.len() - 1].iter().flatten().collect();
                assert_eq!(driver.state().warnings().iter().collect::<Vec<_>>(), of_turns);
                return warnings;
            }
            other => panic!("{other:?}"),
        }
    }
}

const LOOP: &str = "agents:\n- {name: writer, script: x, dependencies: [{agent_name: critic, feedback: true, condition: not output.aproved}], conversation: {max_turns: 3}}\n- {name: critic, script: x, depends_on: [writer], conversation: {max_turns: 3}}\n";

#[test]
fn a_condition_warns_once_about_each_key() {
    let aproved = "`output.aproved`: the output of `critic` has no `aproved`; it has `approved`, `notes`";
    let output = json!({"approved": true, "notes": ""});
    let rows: Vec<Vec<String>> = list_warnings(LOOP, &output);
    let expected: [&[&str]; 7] = [&[], &[], &[aproved], &[], &[], &[], &[]];
    assert_eq!(rows, expected);
    // Each condition has its own warning.
    let two = LOOP.replace(
        "condition: not output.aproved}]",
        "condition: not output.aproved}, {agent_name: critic, feedback: true, requires_all: false, condition: not output.aproved or 1}]",
    );
    assert_eq!(list_warnings(&two, &output).concat().len(), 2);
    // A key that is there in a later turn is another read, and a second missing key another warning.
    let keys = LOOP.replace("not output.aproved", "\"output.aproved or output['aprovd'] or True\"");
    assert_eq!(list_warnings(&keys, &output).concat().len(), 2);
}

#[test]
fn the_result_and_success_warn_at_the_end() {
    let agents = "agents: [{name: a, script: x}]\n";
    let output = json!({"ok": true, "n": "3"});
    let at_end = |more: &str| {
        let rows = list_warnings(&format!("{agents}{more}"), &output);
        assert_eq!(rows[0], [""; 0]);
        rows[1].clone()
    };
    let of_a = "the output of `a` has no";
    assert_eq!(
        at_end("result: {x: outputs.a.oks}\n"),
        [format!("`outputs.a.oks`: {of_a} `oks`; it has `ok`, `n`")]
    );
    assert_eq!(
        at_end("success: not outputs.a.no\n"),
        [format!("`outputs.a.no`: {of_a} `no`; it has `ok`, `n`")]
    );
    assert_eq!(
        at_end("success: outputs.a.n != 3\nresult: {x: context.y}\n"),
        [
            "`outputs.a.n != 3`: '3' is a string and 3 is a number, so they are never equal",
            "`context.y`: the context has no `y`; it has `ok`, `n`, `a`",
        ]
    );
    assert_eq!(
        at_end("success: outputs.a?.no is None\nresult: {x: outputs.a.ok}\n"),
        [""; 0]
    );
}

#[test]
fn an_evaluation_that_fails_names_only_what_it_read() {
    let end = |condition: &str| {
        let text = format!(
            "name: t\nagents:\n- {{name: a, script: x}}\n- {{name: b, script: x, dependencies: [{{agent_name: a, condition: \"{condition}\"}}]}}\n"
        );
        let plan = Arc::new(build_plan(&text));
        let mut driver = HandDrivenConversation::new(&plan);
        let finished = driver.perform_first_turn(&plan, &[json!({"n": 1, "list": [], "none": null})]);
        driver.apply_turn_end(finished);
        match decide_next_step(&plan, driver.state()) {
            NextDecision::End(ended) => {
                let failure = ended.condition.expect("a failure");
                let reads = failure.values.iter();
                let reads: Vec<String> = reads
                    .map(|read| format!("{}={}", read.expression, read.value))
                    .collect();
                (reads.join(" "), failure.help)
            }
            other => panic!("{other:?}"),
        }
    };
    for (condition, reads, help) in [
        (
            "output.none.x",
            "output.none=null",
            Some("write `output.none?.x` if the value may be missing"),
        ),
        (
            "output.n == 1 and output.none.x and output.list",
            "output.n=1 output.none=null",
            Some("write `output.none?.x` if the value may be missing"),
        ),
        (
            "output.list or output.n < 'x' or turn_count",
            "output.list=[] output.n=1",
            None,
        ),
        (
            "output.none.x if output.n else output.list",
            "output.n=1 output.none=null",
            Some("write `output.none?.x` if the value may be missing"),
        ),
        (
            "output.n + output.list[0] + output.none",
            "output.n=1 output.list=[]",
            None,
        ),
        ("not output.n.x", "output.n=1", None),
    ] {
        let (found, found_help) = end(condition);
        assert_eq!((found.as_str(), found_help.as_deref()), (reads, help), "{condition}");
    }
}
