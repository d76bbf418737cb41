//! `test --suggest` through the binary: what it prints is added to the test file, and tried.

#![expect(clippy::disallowed_methods, reason = "tests copy and remove files")]

use std::path::Path;

use crate::support::Workspace;

const TEAM: &str = r#"name: team
model_profiles: {real: {provider: openai, model: gpt-5-mini}}
inputs:
  topic: {type: string}
  kind: {enum: [short, long]}
agents:
  - name: writer
    model_profile: real
    dependencies:
      - {agent_name: reviewer, feedback: true, condition: not output.approved}
    conversation: {max_turns: 3}
  - name: reviewer
    model_profile: real
    depends_on: [writer]
    conversation: {max_turns: 3}
    output_schema:
      type: object
      required: [approved, score, tags]
      properties:
        approved: {type: boolean}
        score: {type: integer, minimum: 1, maximum: 10}
        tags: {type: array, items: {type: string}}
        mood: {enum: [good, bad]}
  - {name: person, input: {prompt: Publish?, choices: ["yes", "no"]}, dependencies: [{agent_name: reviewer, condition: output.approved and output.score >= 8}]}
  - {name: publish, script: touch published, dependencies: [{agent_name: person, condition: output.response == 'yes'}]}
  - {name: archive, script: touch archived, dependencies: [{agent_name: person, condition: "outputs.reviewer.mood == 'bad' or 'old' in outputs.reviewer.tags"}]}
  - {name: short, script: touch short, dependencies: [{agent_name: writer, condition: inputs.kind == 'short'}]}
  - {name: mend, script: touch mended, dependencies: [{agent_name: publish, on: failure}]}
conversation_limits: {max_total_turns: 5}
"#;

const FIRST: &str = "# The first one.
cases:
    - name: nothing
      inputs: {topic: x, kind: long}
      stubs: {writer: One., reviewer: {json: {approved: false, score: 1, tags: []}}}
      expect: {outcome: max_total_turns}
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("team.yaml", TEAM);
    workspace
}

#[test]
fn suggested_cases_can_be_added_and_reach_everything() {
    let workspace = workspace();
    workspace.write("team.test.yaml", FIRST);
    let before = workspace.run(["test", "--coverage"]).expect_code(0);
    assert!(before.stdout.contains("is never true"), "{}", before.stdout);
    let outcome = workspace.run(["test", "--suggest"]).expect_code(0);
    assert!(
        outcome.stderr.contains("PASS ./team.test.yaml: nothing"),
        "{}",
        outcome.stderr
    );
    assert!(!outcome.stderr.contains("no case was found"), "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with("    - name: "), "{}", outcome.stdout);
    assert_eq!(workspace.read("team.test.yaml"), FIRST, "nothing is written");
    workspace.write("team.test.yaml", format!("{FIRST}\n{}", outcome.stdout));
    let after = workspace.run(["test", "--coverage"]).expect_code(0);
    let gaps = after
        .stdout
        .lines()
        .filter(|line| line.contains("never") || line.contains("no case"));
    assert_eq!(
        gaps.collect::<Vec<_>>(),
        Vec::<&str>::new(),
        "{}\n{}",
        after.stdout,
        outcome.stdout
    );
    assert!(after.stdout.contains("agents 7/7"), "{}", after.stdout);
    let again = workspace.run(["test", "--suggest"]).expect_code(0);
    assert_eq!(again.stdout, "", "nothing is left to suggest");
    assert!(again.stderr.contains("0 cases suggested"), "{}", again.stderr);
}

#[test]
fn a_test_file_that_is_not_there_yet_is_printed_as_a_whole() {
    let workspace = workspace();
    let outcome = workspace.run(["test", "team.yaml", "--suggest"]).expect_code(0);
    assert!(outcome.stdout.starts_with("cases:\n  - name: "), "{}", outcome.stdout);
    workspace.write("team.test.yaml", &outcome.stdout);
    let tried = workspace.run(["test", "team.yaml", "--coverage"]).expect_code(0);
    assert!(tried.stdout.contains(" 0 failed"), "{}", tried.stdout);
    assert!(!tried.stdout.contains("never"), "{}", tried.stdout);
    std::fs::remove_file(workspace.path().join("team.test.yaml")).expect("removed");
    workspace.run(["test", "team.yaml"]).expect_code(2);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

#[test]
fn the_shipped_ensembles_have_suggestions_that_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("ensembles");
    let mut tried = 0;
    for entry in std::fs::read_dir(&root).expect("the shipped ensembles") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if !name.ends_with(".yaml") || name.ends_with(".test.yaml") {
            continue;
        }
        let workspace = Workspace::new();
        copy(&root, &workspace.path().join("ensembles"));
        let tests = format!("ensembles/{}", name.replace(".yaml", ".test.yaml"));
        std::fs::remove_file(workspace.path().join(&tests)).expect("removed");
        let outcome = workspace
            .run(["test", &format!("ensembles/{name}"), "--suggest"])
            .expect_code(0);
        assert!(
            outcome.stdout.starts_with("cases:\n"),
            "{name}: {}{}",
            outcome.stdout,
            outcome.stderr
        );
        workspace.write(&tests, &outcome.stdout);
        let passed = workspace.run(["test", &tests]).expect_code(0);
        assert!(passed.stdout.contains(" 0 failed"), "{}", passed.stdout);
        tried += 1;
    }
    assert!(tried > 5);
}

#[test]
fn what_no_stub_can_do_is_said() {
    let workspace = Workspace::new();
    workspace.write(
        "odd.yaml",
        "name: odd
agents:
  - {name: one, script: touch one}
  - {name: two, script: touch two, dependencies: [{agent_name: one, condition: output.a + output.b > 12}]}
",
    );
    let outcome = workspace.run(["test", "odd.yaml", "--suggest"]).expect_code(0);
    let told = "  no case was found for this: `output.a + output.b > 12` of two on one is never true\n";
    assert!(outcome.stderr.contains(told), "{}{}", outcome.stderr, outcome.stdout);
    let json = workspace
        .run(["test", "odd.yaml", "--suggest", "--output", "json"])
        .expect_code(0)
        .json();
    let suggested = &json["files"][0]["suggestions"];
    assert_eq!(suggested["yaml"], outcome.stdout);
    assert!(!suggested["open"].as_array().expect("a list").is_empty());
    workspace
        .run(["test", "odd.yaml", "--suggest", "--update"])
        .expect_code(2);
}

#[test]
fn a_person_who_does_not_answer_is_suggested_as_a_stub_that_fails() {
    let workspace = Workspace::new();
    workspace.write(
        "ask.yaml",
        "name: ask\nagents:\n  - {name: you, input: {prompt: Now?, timeout_seconds: 5}}\n  - {name: go, script: touch gone, depends_on: [you]}\n  \
         - {name: wait, script: touch waited, dependencies: [{agent_name: you, on: failure}]}\n",
    );
    let outcome = workspace.run(["test", "ask.yaml", "--suggest"]).expect_code(0);
    assert!(
        outcome.stdout.contains("you: {fail: no answer in time, kind: timeout}"),
        "{}",
        outcome.stdout
    );
    workspace.write("ask.test.yaml", &outcome.stdout);
    let outcome = workspace.run(["test", "--coverage", "--mutate"]);
    let told = &outcome.stdout;
    assert!(!told.contains("FAIL"), "{told}");
    assert!(told.contains("agents 3/3"), "{told}");
    assert!(!workspace.path().join("waited").exists());
}

#[test]
fn a_person_has_answers_or_a_stub_that_fails() {
    let workspace = Workspace::new();
    workspace.write(
        "ask.yaml",
        "name: ask\nagents:\n  - {name: you, input: {prompt: Now?}, conversation: {max_turns: 2}, dependencies: [{agent_name: log, on: any, feedback: true}]}\n  - {name: log, script: log.rhai, dependencies: [{agent_name: you, on: any}], conversation: {max_turns: 2}}\n",
    );
    workspace.write("log.rhai", "1");
    let case = |more: &str| {
        format!("cases:\n  - {{name: a, {more}, expect: {{outcome: completed, executions: {{you: 2}}}}}}\n")
    };
    workspace.write("ask.test.yaml", case("answers: {you: hello}, stubs: {you: {fail: no}}"));
    let outcome = workspace.run(["test"]).expect_code(2);
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    let told = "error[E082]: you has both `answers` and a stub";
    assert!(all.contains(told), "{all}");
    // It fails first, and answers then.
    workspace.write(
        "ask.test.yaml",
        case("stubs: {you: [{fail: too late, kind: timeout}, hello]}"),
    );
    workspace.run(["test"]).expect_code(0);
}
