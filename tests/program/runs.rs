//! Runs through the binary: who runs when, what is merged, how it ends.

use crate::support::Workspace;

const WRITER_REVIEWER: &str = r#"
name: demo
agents:
  - name: writer
    model_profile: fast
    prompt: Write something.
    dependencies:
      - agent_name: reviewer
        feedback: true
        condition: "not output.get('approved', False)"
    conversation: {max_turns: 4}
  - name: reviewer
    script: review.rhai
    dependencies:
      - agent_name: writer
    conversation: {max_turns: 4}
model_profiles:
  fast: {provider: simulated, replies: ["draft one", "draft two"]}
"#;

#[test]
fn writer_and_reviewer_take_turns_until_the_reviewer_approves() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", WRITER_REVIEWER);
    workspace.write(
        "review.rhai",
        "#{ approved: execution > 1, read: dependencies.writer.response }",
    );
    let outcome = workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(0);
    assert_eq!(outcome.sequence(), ["1 writer", "2 reviewer", "3 writer", "4 reviewer"]);
    let result = outcome.json();
    assert_eq!(result["completion_reason"], "completed");
    assert_eq!(result["final_state"]["read"], "draft two");
}

#[test]
fn a_name_that_is_nearly_right_is_guessed() {
    let workspace = Workspace::new();
    workspace.write("ensembles/haggle.yaml", WRITER_REVIEWER);
    let refused = workspace.run(["run", "hagle"]).expect_code(2);
    assert!(refused.stderr.contains("did you mean `haggle`?"), "{}", refused.stderr);
    let refused = workspace.run(["run", "nothing-like-it"]).expect_code(2);
    assert!(
        refused
            .stderr
            .contains("looked for nothing-like-it, nothing-like-it.yaml"),
        "{}",
        refused.stderr
    );
    workspace.write("real.yaml", "name: r\nagents: [{name: a, model_profile: gtp}]\nmodel_profiles: {gpt: {provider: simulated, replies: [x]}}\n");
    for command in ["run", "validate"] {
        let outcome = workspace.run([command, "real.yaml"]);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(said.contains("did you mean `gpt`?"), "{said}");
    }
}
