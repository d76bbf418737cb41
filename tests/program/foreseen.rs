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
        let expected: &[&str] = if stays { &["W023", "H033"] } else { &["H033"] };
        assert_eq!(codes(&workspace, &[]), expected, "{second}");
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
    assert_eq!(codes(&workspace, &[]), ["W023", "H033"]);
    let ran = workspace.run(["run", "team.yaml", "--output", "json"]).expect_code(0);
    assert_eq!(ran.sequence().len(), 11);
}

#[test]
fn what_a_script_cannot_read_is_said_with_its_place_and_fails_or_is_nothing() {
    let workspace = Workspace::new();
    workspace.write("team.yaml", "name: team\nagents: [{name: a, script: a.rhai}]\n");
    for (script, message, place) in [
        (
            "let said = inptu;\nsaid",
            "unknown variable `inptu` in the script",
            "a.rhai:1:12",
        ),
        (
            "fn said() {\n  input\n}\nsaid()",
            "a function of the script reads the variable `input`, which is outside of the function",
            "a.rhai:2:3",
        ),
        (
            "dependencies.writer.text",
            "the script reads the output of `writer`, on which `a` does not depend",
            "a.rhai:1:14",
        ),
    ] {
        workspace.write("a.rhai", script);
        let report = workspace
            .run(["validate", "team.yaml", "--format", "json"])
            .expect_code(0)
            .json();
        assert_eq!(report["diagnostics"][0]["code"], "W025", "{script}");
        let first = &report["diagnostics"][0];
        assert_eq!(first["message"], message, "{script}");
        let found = |it: &serde_json::Value| {
            format!(
                "{}:{}:{}",
                it["file"].as_str().unwrap_or_default(),
                it["line"],
                it["column"]
            )
        };
        assert_eq!(found(first), place, "{script}");
        assert_eq!(found(&first["related"][0]), "team.yaml:2:28", "{script}");
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

#[test]
fn a_question_that_nobody_answers_in_ci_is_a_warning_only_there() {
    let workspace = Workspace::new();
    let team = |person: &str| format!("name: team\nagents:\n- {{name: person, input: {{prompt: Go?, {person}}}}}\n");
    workspace.write("team.yaml", team("timeout_seconds: 60"));
    assert_eq!(codes(&workspace, &[]), [""; 0]);
    assert_eq!(codes(&workspace, &["--ci"]), ["W026"]);
    workspace.run(["validate", "team.yaml", "--ci"]).expect_code(0);
    workspace
        .run(["validate", "team.yaml", "--ci", "--deny-warnings"])
        .expect_code(2);
    workspace.run(["run", "team.yaml"]).expect_code(3);
    for person in ["default: yes", "responses: [yes]"] {
        workspace.write("team.yaml", team(person));
        assert_eq!(codes(&workspace, &["--ci"]), [""; 0], "{person}");
        workspace.run(["run", "team.yaml"]).expect_code(0);
    }
    // An allowance is not judged without the option.
    let allowed = team("timeout_seconds: 60").replace("}}\n", "}} # ensemble: allow(W026) the workflow answers\n");
    workspace.write("team.yaml", allowed);
    assert_eq!(codes(&workspace, &[]), [""; 0]);
    assert_eq!(codes(&workspace, &["--ci"]), [""; 0]);
}

#[test]
fn an_ensemble_that_cannot_be_run_is_an_error_where_it_is_named() {
    let workspace = Workspace::new();
    workspace.write("a.rhai", "1");
    let naming = |name: &str, inner: &str| format!("name: {name}\nagents:\n- {{name: a, ensemble: {inner}}}\n");
    let first = |workspace: &Workspace| {
        let report = workspace.run(["validate", "team.yaml", "--format", "json"]).json();
        let first = report["diagnostics"][0].clone();
        format!(
            "{} {}:{} {}",
            first["code"].as_str().unwrap_or_default(),
            first["line"],
            first["column"],
            first["message"].as_str().unwrap_or_default()
        )
    };
    workspace.write("team.yaml", naming("team", "middle.yaml"));
    workspace.write("middle.yaml", naming("middle", "small.yaml"));
    workspace.write("small.yaml", "name: small\nagents: [{name: a, script: a.rhai}]\n");
    assert_eq!(codes(&workspace, &[]), [""; 0]);
    workspace.write(
        "small.yaml",
        "name: small\nagents: [{name: a, scirpt: a.rhai}]\nbad: 1\n",
    );
    assert_eq!(
        first(&workspace),
        "E048 3:23 this ensemble cannot be run: middle.yaml:3:23: error[E048]: this ensemble cannot be run: small.yaml:2:20: \
         error[E010]: unknown key 'scirpt' in an agent (and 1 more error)"
    );
    workspace.run(["run", "team.yaml"]).expect_code(2);
    workspace.write("small.yaml", naming("small", "middle.yaml"));
    assert!(
        first(&workspace).ends_with("an ensemble contains itself: middle.yaml → small.yaml → middle.yaml"),
        "{}",
        first(&workspace)
    );
    workspace.run(["run", "team.yaml"]).expect_code(2);
    workspace.write("team.yaml", naming("team", "team.yaml"));
    assert!(first(&workspace).ends_with("an ensemble contains itself: team.yaml → team.yaml"));
    // A tool may name one, too.
    workspace.write(
        "team.yaml",
        "name: team\nagents: [{name: a, model: simulated/x, tools: [t]}]\ntools: {t: {description: x, ensemble: bad.yaml}}\n",
    );
    workspace.write("bad.yaml", "name: bad\n");
    assert!(first(&workspace).starts_with("E048 3:39 this ensemble cannot be run: `bad.yaml` is not an ensemble"));
}

#[test]
fn eight_ensembles_may_be_nested_and_no_more() {
    let workspace = Workspace::new();
    workspace.write("a.rhai", "1");
    for at in 1..9 {
        let text = format!("name: e{at}\nagents: [{{name: a, ensemble: e{}.yaml}}]\n", at + 1);
        workspace.write(&format!("e{at}.yaml"), text);
    }
    workspace.write("e9.yaml", "name: e9\nagents: [{name: a, script: a.rhai}]\n");
    for (file, code) in [("e2.yaml", 0), ("e1.yaml", 2)] {
        let told = workspace.run(["validate", file]).expect_code(code);
        assert_eq!(
            told.stdout.contains("ensembles are nested more than 8 levels deep"),
            code == 2,
            "{}",
            told.stdout
        );
        workspace.run(["run", file]).expect_code(code);
        workspace.run(["check", file]).expect_code(code);
    }
}
