//! `test` with cases that are made of recorded runs (`from`).

use crate::support::Workspace;

/// An ensemble that runs without a network, for records.
pub(super) const LOCAL: &str = r#"
name: local
inputs: {limit: {type: integer, default: 2}}
agents:
  - {name: counter, script: "sh count.sh", dependencies: [{agent_name: person, feedback: true, condition: output.response == 'again'}], conversation: {max_turns: 3}}
  - {name: person, input: {prompt: "Again?"}, depends_on: [counter], conversation: {max_turns: 3}}
"#;

fn recorded() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("local.yaml", LOCAL);
    workspace.write("count.sh", "date +%s%N\n");
    workspace.write("answers.yaml", "person: [again, enough]\n");
    workspace
        .run([
            "run",
            "local",
            "--input",
            "go",
            "--set",
            "limit=5",
            "--answers",
            "answers.yaml",
        ])
        .expect_code(0);
    workspace
}

#[test]
fn a_recorded_run_happens_again() {
    let workspace = recorded();
    let id = workspace
        .run(["runs", "list", "--output", "json"])
        .expect_code(0)
        .json();
    let id = id["runs"][0]["run_id"].as_str().expect("an id").to_owned();
    let exported = workspace.run(["runs", "export", &id]).expect_code(0).stdout;
    workspace.write("fixtures/result.json", exported);
    // Whatever the program would say now, the record counts.
    workspace.write("count.sh", "exit 1\n");
    let folder = format!(".ensemble/runs/{id}");
    let journal = format!("{folder}/journal.jsonl");
    for from in [id.as_str(), &folder, &journal, "fixtures/result.json"] {
        workspace.write(
            "local.test.yaml",
            format!("cases: [{{name: as recorded, from: {from}}}]\n"),
        );
        let outcome = workspace.run(["test", "local"]);
        assert_eq!(outcome.code, 0, "{from}: {}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.stderr, "");
        let met = "{outcome: completed, executions: {counter: 2}, conditions: [inputs.limit == 5, input == 'go']}";
        workspace.write(
            "local.test.yaml",
            format!("cases: [{{name: as recorded, from: {from}, expect: {met}}}]\n"),
        );
        let outcome = workspace.run(["test", "local"]);
        assert_eq!(outcome.code, 0, "{from}: {}{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn a_changed_ensemble_differs_from_its_record() {
    let workspace = recorded();
    let id = workspace
        .run(["runs", "list", "--output", "json"])
        .expect_code(0)
        .json();
    let id = id["runs"][0]["run_id"].as_str().expect("an id").to_owned();
    workspace.write(
        "local.test.yaml",
        format!("cases: [{{name: as recorded, from: {id}}}]\n"),
    );
    workspace.write("local.yaml", LOCAL.replace("== 'again'", "== 'never'"));
    let outcome = workspace.run(["test", "local"]).expect_code(1);
    let told = "turns, from turn 3 on\n    expected  counter, person, counter, person\n    actual    counter, person\n";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);

    // A stub and an answer of the case stand before the record.
    workspace.write("local.yaml", LOCAL);
    let case = format!(
        "from: {id}, stubs: {{counter: mine}}, answers: {{person: enough}}, expect: {{turns: [counter, person], outputs: {{counter: mine}}}}"
    );
    workspace.write("local.test.yaml", format!("cases: [{{name: other, {case}}}]\n"));
    workspace.run(["test", "local"]).expect_code(0);

    workspace.write("local.yaml", LOCAL.replace("== 'again'", "!= 'never'"));
    workspace.write(
        "local.test.yaml",
        format!("cases: [{{name: as recorded, from: {id}}}]\n"),
    );
    let outcome = workspace.run(["test", "local"]).expect_code(1);
    let told = "local.test.yaml:1:35: the recorded run has no execution 3 of counter\n";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
}
