//! What `validate` says of a run before it, and the run.

use crate::support::Workspace;
use serde_json::Value;

/// The codes that `validate` finds.
fn codes(workspace: &Workspace, arguments: &[&str]) -> Vec<String> {
    let arguments = [&["validate", "team.yaml", "--format", "json"], arguments].concat();
    let report = workspace.run(arguments).json();
    let diagnostics = report["diagnostics"].as_array().expect("a list");
    let code = |one: &Value| one["code"].as_str().unwrap_or_default().to_owned();
    diagnostics.iter().map(code).collect()
}

/// A loop of three rounds, and an editor who starts with this condition on the reviewer.
fn with_editor(condition: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("count.rhai", "let n = execution; #{n: n}");
    workspace.write(
        "team.yaml",
        format!(
            "name: team\nagents:\n\
             - {{name: writer, script: count.rhai, dependencies: [{{agent_name: reviewer, feedback: true}}], conversation: {{max_turns: 3}}}}\n\
             - {{name: reviewer, script: count.rhai, depends_on: [writer], conversation: {{max_turns: 3}}}}\n\
             - {{name: editor, script: count.rhai, dependencies: [{{agent_name: reviewer, {condition}}}]}}\n"
        ),
    );
    workspace
}

#[test]
fn a_count_upstream_of_the_dependency_starts_an_agent_with_an_older_output() {
    for (condition, is_early) in [
        ("condition: executions.writer >= 3", true),
        ("condition: executions.writer >= 3, wait_for: settled", false),
        ("condition: executions.reviewer >= 3", false),
    ] {
        let workspace = with_editor(condition);
        let warned = codes(&workspace, &[]) == ["W022"];
        assert_eq!(warned, is_early, "{condition}");
        let ran = workspace.run(["run", "team.yaml", "--output", "json"]).expect_code(0);
        let together = ["6 reviewer", "6 editor"];
        let sequence = ran.sequence();
        assert_eq!(
            sequence.ends_with(&together.map(str::to_owned)),
            is_early,
            "{condition}: {sequence:?}"
        );
    }
}
