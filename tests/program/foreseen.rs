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

#[test]
fn a_key_that_is_never_reset_keeps_a_loop_running() {
    for (second, stays) in [("The text is good.", true), ("{\"more\": false}", false)] {
        let workspace = Workspace::new();
        workspace.write("count.rhai", "#{n: execution}");
        workspace.write(
            "team.yaml",
            format!(
                "name: team\nagents:\n\
                 - {{name: writer, script: count.rhai, dependencies: [{{agent_name: reviewer, feedback: true, condition: context.more}}], conversation: {{max_turns: 5}}}}\n\
                 - {{name: reviewer, model_profile: fake, prompt: x, depends_on: [writer], conversation: {{max_turns: 5}}}}\n\
                 model_profiles: {{fake: {{provider: simulated, replies: ['{{\"more\": true}}', '{second}']}}}}\n"
            ),
        );
        let warned = codes(&workspace, &[]) == ["W023"];
        assert_eq!(warned, stays, "{second}");
        let ran = workspace.run(["run", "team.yaml", "--output", "json"]).expect_code(0);
        assert_eq!(ran.sequence().len(), if stays { 10 } else { 4 }, "{second}");
    }
}

#[test]
fn a_loop_whose_condition_reads_only_what_is_written_before_ends_by_a_limit() {
    let workspace = Workspace::new();
    workspace.write("plan.rhai", "#{deep: true}");
    workspace.write("count.rhai", "#{n: execution}");
    workspace.write(
        "team.yaml",
        "name: team\nagents:\n\
         - {name: planner, script: plan.rhai}\n\
         - {name: writer, script: count.rhai, dependencies: [{agent_name: planner}, {agent_name: reviewer, feedback: true, condition: context.deep}], conversation: {max_turns: 5}}\n\
         - {name: reviewer, script: count.rhai, depends_on: [writer], conversation: {max_turns: 5}}\n",
    );
    assert_eq!(codes(&workspace, &[]), ["W023"]);
    let ran = workspace.run(["run", "team.yaml", "--output", "json"]).expect_code(0);
    assert_eq!(ran.sequence().len(), 11);
}

#[test]
fn what_a_script_cannot_read_is_said_with_its_place_and_fails_or_is_nothing() {
    let workspace = Workspace::new();
    workspace.write("team.yaml", "name: team\nagents: [{name: a, script: a.rhai}]\n");
    for (script, message) in [
        (
            "let said = inptu;\nsaid",
            "unknown variable `inptu` in the script: a.rhai:1:12",
        ),
        (
            "fn said() {\n  input\n}\nsaid()",
            "a function of the script reads the variable `input`, which it does not have: a.rhai:2:3",
        ),
        (
            "dependencies.writer.text",
            "the script reads the output of `writer`, on which `a` does not depend: a.rhai:1:14",
        ),
    ] {
        workspace.write("a.rhai", script);
        let report = workspace
            .run(["validate", "team.yaml", "--format", "json"])
            .expect_code(0)
            .json();
        assert_eq!(report["diagnostics"][0]["code"], "W025", "{script}");
        assert_eq!(report["diagnostics"][0]["message"], message, "{script}");
        workspace.run(["run", "team.yaml"]).expect_code(1);
    }
    workspace.write(
        "a.rhai",
        "if \"writer\" in dependencies { dependencies.writer } else { input }",
    );
    assert_eq!(codes(&workspace, &[]), [""; 0]);
    workspace.run(["run", "team.yaml"]).expect_code(0);
}

#[test]
fn an_input_that_no_script_names_is_never_read() {
    let workspace = Workspace::new();
    let team = |script: &str| {
        format!("name: team\ninputs: {{topic: {{type: string}}}}\nagents: [{{name: a, script: {script}}}]\n")
    };
    workspace.write("team.yaml", team("a.rhai"));
    workspace.write("a.rhai", "input");
    assert_eq!(codes(&workspace, &[]), ["W024"]);
    workspace.write("a.rhai", "inputs.topic");
    assert_eq!(codes(&workspace, &[]), [""; 0]);
    workspace.write("team.yaml", team("cat"));
    assert_eq!(codes(&workspace, &[]), [""; 0]);
}
