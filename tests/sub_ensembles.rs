//! Ensembles as agents of ensembles, through the binary.

mod support;

use support::Workspace;

const OUTER: &str = r#"
name: outer
agents:
  - {name: inner, ensemble: small.yaml}
  - {name: after, script: after.rhai, depends_on: [inner]}
"#;

const SMALL: &str = r#"
name: small
agents:
  - {name: asker, input: Who is there?}
"#;

#[test]
fn a_question_of_an_inner_conversation_waits_and_is_answered_by_the_inner_agents_name() {
    let workspace = Workspace::new();
    workspace.write("outer.yaml", OUTER);
    workspace.write("small.yaml", SMALL);
    workspace.write("after.rhai", "`it is ${dependencies.inner.asker.response}`");
    let waiting = workspace.run(["run", "outer.yaml"]).expect_code(3);
    assert!(waiting.stderr.contains("--answer asker=…"), "{}", waiting.stderr);

    let resumed = workspace.run(["resume", "--last", "--answer", "asker=Ada", "--output", "json"]);
    let result = resumed.expect_code(0).json();
    assert_eq!(result["final_state"]["after"]["response"], "it is Ada");

    let sub = workspace.runs()[0].join("sub/inner-1-2");
    for file in ["journal.jsonl", "ensemble.yaml"] {
        assert!(sub.join(file).is_file(), "the inner run's {file} goes with it");
    }
}
