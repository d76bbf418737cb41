//! `test --update` through the binary.

use crate::support::{Outcome, Workspace};
use serde_json::json;

/// Models that are not there, and a program that is not there.
const TEAM: &str = r#"
name: team
model_profiles: {real: {provider: openai, model: gpt-5-mini, cost: {input_per_million: 1, output_per_million: 1}}}
agents:
  - name: writer
    model_profile: real
    dependencies: [{agent_name: reviewer, feedback: true, condition: not output.approved}]
    conversation: {max_turns: 3}
  - {name: reviewer, model_profile: real, depends_on: [writer], conversation: {max_turns: 3}}
  - {name: publish, script: touch published, dependencies: [{agent_name: reviewer, condition: output.approved}]}
  - {name: never, script: touch never, dependencies: [{agent_name: reviewer, condition: output.get('rejected')}]}
"#;

/// Once round: writer, reviewer, writer, reviewer, publish.
const TWICE: &str = "
    stubs:
      writer: [First., Second.]
      reviewer: [{json: {approved: false}}, {json: {approved: true, notes: fine, tags: [a, b]}}]
      publish: done
";

fn workspace(cases: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("team.yaml", TEAM);
    workspace.write("team.test.yaml", cases);
    workspace
}

fn case(expect: &str) -> String {
    format!(
        "cases:\n  - name: twice # the case\n{TWICE}    expect:\n{expect}  - name: other\n{TWICE}    expect: {{outcome: completed}}\n"
    )
}

fn update(workspace: &Workspace) -> Outcome {
    workspace.run(["test", "--update"])
}

/// The expectations of the first case after `--update`.
fn updated(expect: &str) -> (Outcome, String) {
    let workspace = workspace(&case(expect));
    let outcome = update(&workspace);
    let text = workspace.read("team.test.yaml");
    let start = text.find("    expect:\n").expect("expectations") + "    expect:\n".len();
    let end = text.find("  - name: other").expect("the other case");
    // What is not an expectation is as it was.
    let was = case(expect);
    assert_eq!(text[..start], was[..start]);
    assert!(was.ends_with(&text[end..]), "{text}");
    (outcome, text[start..end].to_owned())
}

#[test]
fn only_what_the_run_contradicts_is_rewritten_in_place() {
    let rows = [
        ("outcome: max_total_turns # why\n", "outcome: completed # why\n"),
        ("outcome: 'timeout'\n", "outcome: 'completed'\n"),
        (
            "turns: [ writer, [reviewer],   publish ] # all\n",
            "turns: [writer, [reviewer], writer, reviewer, publish] # all\n",
        ),
        (
            "turns: [writer, [reviewer],   writer, never, publish] # all\n",
            "turns: [writer, [reviewer],   writer, reviewer, publish] # all\n",
        ),
        (
            "turns:\n        # at first\n        - writer\n        - publish # no\n        - [writer]\n",
            "turns:\n        # at first\n        - writer\n        - reviewer # no\n        - [writer]\n        - reviewer\n        - publish\n",
        ),
        (
            "turns:\n      - [writer]\n      - reviewer\n      - writer\n      - reviewer\n      - publish # last\n      - writer\n      - never # no\n",
            "turns:\n      - [writer]\n      - reviewer\n      - writer\n      - reviewer\n      - publish # last\n      # no\n",
        ),
        (
            "outputs:\n        writer: |\n          First.\n          More.\n        reviewer:\n          notes: >-\n            x\n      most_turns: 4\n",
            "outputs:\n        writer: Second.\n        reviewer:\n          notes: fine\n      most_turns: 5\n",
        ),
        ("order: [publish, writer]\n", "order: [writer, publish]\n"),
        (
            "executions: {writer: 1, publish: 1, never: 2}\n",
            "executions: {writer: 2, publish: 1, never: 0}\n",
        ),
        ("never: [publish, never] # both\n", "never: [never] # both\n"),
        (
            "outputs: {reviewer: {approved: false, notes: \"x\", missing: 1}, writer: First.}\n",
            "outputs: {reviewer: {approved: true, notes: \"fine\"}, writer: Second.}\n",
        ),
        (
            "outputs:\n        reviewer: # its\n          tags: [a, c] # two\n          gone: 1\n        never: x\n",
            "outputs:\n        reviewer: # its\n          tags: [a, b] # two\n",
        ),
        (
            "result: {writer: {response: Third.}}\n",
            "result: {writer: {response: Second.}}\n",
        ),
        ("not_run: [publish, never]\n", "not_run: [never]\n"),
        (
            "not_run: {never: nobody}\n",
            "not_run: {never: \"condition false on reviewer: output.get('rejected') (output.get('rejected') = null)\"}\n",
        ),
        ("most_turns: 4\n", "most_turns: 5\n"),
        ("warnings: [empty]\n      outcome: completed\n", "outcome: completed\n"),
    ];
    for (before, after) in rows {
        let (outcome, text) = updated(&format!("      {before}"));
        if before.contains("warnings") {
            assert_eq!(text, "      warnings: []\n      outcome: completed\n");
            continue;
        }
        assert_eq!(text, format!("      {after}"), "{before}{}", outcome.stdout);
        assert_eq!(outcome.code, 0, "{}", outcome.stdout);
    }
}

#[test]
fn what_was_changed_is_said_and_the_next_test_passes() {
    let expect = "      # in front\n      never: [publish]\n      outcome: timeout\n      conditions: [executions.writer == 2]\n";
    let workspace = workspace(&case(expect));
    let outcome = update(&workspace).expect_code(0);
    let told = "\
UPDATED ./team.test.yaml: twice
PASS ./team.test.yaml: other

./team.test.yaml: twice
";
    assert!(outcome.stdout.starts_with(told), "{}", outcome.stdout);
    for told in [
        "publish never runs\n    before    no execution\n    now       it runs in turn 5\n",
        "./team.test.yaml:10:16: outcome\n    before    timeout\n    now       completed\n",
        "\n2 cases: 2 passed, 0 failed,",
    ] {
        assert!(outcome.stdout.contains(told), "{told}\n{}", outcome.stdout);
    }
    let after = workspace.read("team.test.yaml");
    assert!(
        after.contains("    expect:\n      # in front\n      outcome: completed\n      conditions:"),
        "{after}"
    );
    workspace.run(["test"]).expect_code(0);
    update(&workspace).expect_code(0);
    assert_eq!(
        workspace.read("team.test.yaml"),
        after,
        "there is nothing more to change"
    );
}

#[test]
fn other_programs_read_what_was_changed() {
    let workspace = workspace(&case("      most_turns: 3\n"));
    let json = workspace
        .run(["test", "--update", "--output", "json"])
        .expect_code(0)
        .json();
    let first = &json["files"][0]["cases"][0];
    assert_eq!(first["passed"], true);
    let updated = json!([{"line": 9, "column": 19, "what": "turns", "before": "at most 3", "now": "5"}]);
    assert_eq!(first["updated"], updated);
    assert_eq!(json["files"][0]["cases"][1]["updated"], json!([]));
}

#[test]
fn a_case_that_could_not_run_stays_as_it_is_and_fails() {
    let rows = [
        "    stubs: {writer: One., reviewer: {json: {approved: true}}}\n    expect: {outcome: timeout}\n",
        "    stubs: {writer: [One.], reviewer: {json: {approved: false}}}\n    expect: {outcome: completed, never: [reviewer]}\n",
        "    live: true\n    stubs: {writer: One., reviewer: {json: {approved: false}}}\n    expect: {outcome: timeout}\n",
    ];
    for row in rows {
        let text = format!("cases:\n  - name: half\n{row}");
        let workspace = workspace(&text);
        let outcome = update(&workspace).expect_code(1);
        assert_eq!(workspace.read("team.test.yaml"), text);
        assert!(
            outcome.stdout.contains("FAIL ./team.test.yaml: half"),
            "{}",
            outcome.stdout
        );
        assert!(!outcome.stdout.contains("UPDATED"), "{}", outcome.stdout);
    }
}

#[test]
fn a_case_never_ends_with_nothing_expected() {
    let (outcome, text) = updated("      never: [publish]\n      not_run: [writer]\n");
    assert_eq!(
        (outcome.code, &*text),
        (0, "      {outcome: completed}\n"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn conditions_and_schemas_are_not_rewritten() {
    let expect = "      outcome: timeout\n      conditions: [executions.writer == 9]\n      schemas: {reviewer: {properties: {approved: {const: false}}}}\n";
    let workspace = workspace(&case(expect));
    let outcome = update(&workspace).expect_code(1);
    let text = workspace.read("team.test.yaml");
    assert!(text.contains(&expect.replace("timeout", "completed")), "{text}");
    for told in [
        "FAIL ./team.test.yaml: twice",
        "now       completed",
        "expected  executions.writer == 9",
    ] {
        assert!(outcome.stdout.contains(told), "{told}\n{}", outcome.stdout);
    }
}

#[test]
fn an_expectation_that_is_shared_by_an_alias_stays_as_it_is() {
    let text = format!(
        "cases:\n  - name: one\n{TWICE}    expect: &all {{outcome: completed}}\n  - name: two\n    stubs: {{writer: {{fail: no}}}}\n    expect: *all\n"
    );
    let workspace = workspace(&text);
    update(&workspace).expect_code(1);
    assert_eq!(workspace.read("team.test.yaml"), text);
}

#[test]
fn what_cannot_be_written_keeps_nothing_else_from_being_rewritten() {
    let shared = "      outputs: {writer: &said First., reviewer: {notes: *said}}\n";
    let workspace = workspace(&case(&format!("{shared}      outcome: timeout\n      most_turns: 2\n")));
    let outcome = update(&workspace).expect_code(1);
    let text = workspace.read("team.test.yaml");
    assert!(
        text.contains(&format!("{shared}      outcome: completed\n      most_turns: 5\n")),
        "{text}"
    );
    assert!(
        outcome.stdout.contains("FAIL ./team.test.yaml: twice"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn nothing_is_written_in_ci_unless_that_is_forced() {
    let text = case("      outcome: timeout\n");
    let workspace = workspace(&text);
    let ci = |arguments: &[&str], value: &str| workspace.wary(["test"].iter().chain(arguments), &[("CI", value)]);
    let refused = ci(&["--update"], "true").expect_code(2);
    assert!(refused.stderr.contains("add `--force-update`"), "{}", refused.stderr);
    assert_eq!(workspace.read("team.test.yaml"), text);
    ci(&[], "true").expect_code(1);
    ci(&["--update", "--force-update"], "true").expect_code(0);
    assert_ne!(workspace.read("team.test.yaml"), text);
    workspace.write("team.test.yaml", &text);
    ci(&["--update"], "false").expect_code(0);
    assert_ne!(workspace.read("team.test.yaml"), text);
    ci(&["--force-update"], "").expect_code(2);
}

#[test]
fn only_cases_that_the_filter_names_are_rewritten() {
    let text =
        case("      outcome: timeout\n").replace("expect: {outcome: completed}", "expect: {outcome: agent_failed}");
    let workspace = workspace(&text);
    workspace.run(["test", "--update", "--filter", "other"]).expect_code(0);
    assert_eq!(
        workspace.read("team.test.yaml"),
        text.replace("agent_failed", "completed")
    );
}

#[test]
fn links_and_line_ends_of_other_systems_stay() {
    let text = case("      turns:\n        - writer\n").replace('\n', "\r\n");
    let workspace = workspace("");
    std::fs::remove_file(workspace.path().join("team.test.yaml")).expect("removed");
    workspace.write("real/cases.yaml", &text);
    std::os::unix::fs::symlink("real/cases.yaml", workspace.path().join("team.test.yaml")).expect("a link");
    workspace.run(["test", "--update", "team.test.yaml"]).expect_code(0);
    let after = workspace.read("real/cases.yaml");
    let turns =
        "        - writer\r\n        - reviewer\r\n        - writer\r\n        - reviewer\r\n        - publish\r\n";
    assert!(after.contains(turns), "{after:?}");
    assert_eq!(after.matches('\n').count(), after.matches("\r\n").count());
    let link = std::fs::symlink_metadata(workspace.path().join("team.test.yaml")).expect("there");
    assert!(link.is_symlink());
}
