//! `test` through the binary.

use super::testing_records::LOCAL;
use crate::support::{Outcome, Workspace};
use serde_json::{Value, json};

/// Real models, and a program that is not there: nothing of it can run in a test.
pub(super) const TEAM: &str = r#"
name: team
model_profiles: {real: {provider: openai, model: gpt-5-mini}}
agents:
  - name: writer
    model_profile: real
    prompt: "{{ input }}"
    dependencies: [{agent_name: reviewer, feedback: true, condition: not output.approved}]
    conversation: {max_turns: 3}
    retry: {max_attempts: 2, delay_seconds: 60}
  - name: reviewer
    model_profile: real
    prompt: "{{ writer }}"
    depends_on: [writer]
    output_schema: {type: object, required: [approved], properties: {approved: {type: boolean}}}
    conversation: {max_turns: 3}
  - name: publish
    script: touch published
    timeout_seconds: 5
    dependencies: [{agent_name: reviewer, condition: output.approved}]
"#;

/// Stubs with which the conversation goes round once.
pub(super) const TWICE: &str = "
    stubs:
      writer: [First., Second.]
      reviewer: ['{\"approved\": false}', '{\"approved\": true}']
      publish: {text: done, delay_seconds: 3}
";

pub(super) fn workspace(cases: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("team.yaml", TEAM);
    workspace.write("team.test.yaml", cases);
    workspace
}

/// The results of one case with the stubs of [`TWICE`] and these expectations.
fn tried(expect: &str) -> (Outcome, Vec<Value>) {
    let workspace = workspace(&format!("cases:\n  - name: twice{TWICE}    expect:\n{expect}"));
    let outcome = workspace.run(["test", "--output", "json"]);
    let failures = outcome.json()["files"][0]["cases"][0]["failures"].clone();
    let failures = failures.as_array().cloned().unwrap_or_default();
    (outcome, failures)
}

#[test]
fn what_is_met_passes() {
    let (outcome, failures) = tried(
        "
      outcome: completed
      turns: [writer, [reviewer], writer, reviewer, publish]
      order: [writer, reviewer, publish]
      executions: {writer: 2, publish: 1}
      never: []
      outputs: {writer: Second., reviewer: {approved: true}, publish: {response: done}}
      schemas: {reviewer: {properties: {approved: {const: true}}}}
      result: {publish: {response: done}}
      conditions: [executions.writer == 2, outputs.reviewer.approved]
      warnings: []
      most_turns: 5
      most_cost: 0
",
    );
    assert_eq!((outcome.code, failures), (0, Vec::new()), "{}", outcome.stdout);
}

#[test]
fn every_expectation_that_is_not_met_says_what_was_expected_and_what_happened() {
    let rows = [
        (
            "outcome: max_total_turns",
            "outcome",
            "max_total_turns",
            "completed",
            16,
        ),
        (
            "turns: [writer, reviewer, publish]",
            "turns, from turn 3 on",
            "writer, reviewer, publish",
            "writer, reviewer, writer, reviewer, publish",
            33,
        ),
        (
            "turns: [writer, reviewer, writer, reviewer]",
            "turns, from turn 5 on",
            "writer, reviewer, writer, reviewer",
            "writer, reviewer, writer, reviewer, publish",
            14,
        ),
        (
            "order: [publish, writer]",
            "order",
            "writer runs after publish",
            "writer, reviewer, writer, reviewer, publish",
            24,
        ),
        ("executions: {writer: 1}", "executions of writer", "1", "2", 28),
        (
            "never: [publish]",
            "publish never runs",
            "no execution",
            "it runs in turn 5",
            15,
        ),
        (
            "outputs: {reviewer: {approved: false}}",
            "output of reviewer.approved",
            "false",
            "true",
            27,
        ),
        (
            "outputs: {reviewer: {notes: x}}",
            "output of reviewer.notes",
            "\"x\"",
            "there is no such key; the keys are `approved`, `response`",
            27,
        ),
        (
            "schemas: {reviewer: {properties: {approved: {const: false}}}}",
            "output of reviewer.approved",
            "a value that matches the schema",
            "false was expected",
            27,
        ),
        (
            "result: {writer: {response: Third.}}",
            "result.writer.response",
            "\"Third.\"",
            "\"Second.\"",
            15,
        ),
        (
            "conditions: [executions.writer == 3]",
            "condition",
            "executions.writer == 3",
            "the condition is false: executions.writer = 2",
            20,
        ),
        (
            "not_run: [publish]",
            "publish does not run",
            "no execution",
            "it runs once",
            16,
        ),
        ("warnings: [empty]", "warnings", "empty", "no warning", 18),
        ("most_turns: 4", "turns", "at most 4", "5", 19),
    ];
    for (expect, what, expected, actual, column) in rows {
        let (outcome, failures) = tried(&format!("      {expect}\n"));
        assert_eq!(outcome.code, 1, "{expect}: {}", outcome.stdout);
        let [failure] = failures.as_slice() else {
            panic!("{expect}: {failures:?}");
        };
        let seen = [&failure["what"], &failure["expected"], &failure["actual"]];
        assert_eq!(seen, [what, expected, actual], "{expect}");
        assert_eq!(
            (&failure["line"], &failure["column"]),
            (&json!(8), &json!(column)),
            "{expect}"
        );
    }
}

#[test]
fn people_read_cases_failures_and_a_summary() {
    let workspace = workspace(&format!(
        "cases:\n  - name: twice{TWICE}    expect: {{outcome: completed}}\n  - name: once{TWICE}    expect: {{executions: {{writer: 1}}}}\n"
    ));
    let outcome = workspace.run(["test", "team"]).expect_code(1);
    let (text, time) = outcome.stdout.rsplit_once(" in ").expect("a time");
    assert_eq!(
        text,
        "\
PASS team.test.yaml: twice
FAIL team.test.yaml: once

team.test.yaml: once
  team.test.yaml:13:35: executions of writer
    expected  1
    actual    2

2 cases: 1 passed, 1 failed,"
    );
    assert!(time.ends_with(" s\n"), "{time}");
}

#[test]
fn an_agent_without_a_stub_neither_runs_nor_passes() {
    let workspace = workspace(
        "cases:\n  - name: half\n    stubs: {writer: One., reviewer: {json: {approved: true}}}\n    expect: {outcome: agent_failed}\n",
    );
    let outcome = workspace.run(["test"]).expect_code(1);
    let told = "execution 1 of publish has no stub, but needs the program `touch published`\n    expected  a stub\n    actual    no stub; without a stub, publish needs the program `touch published`\n    help      add `stubs: {publish: TEXT}` to the case, or set `live: true` to execute the agent\n";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
    assert!(!workspace.path().join("published").exists());
    assert!(!workspace.path().join(".ensemble").exists(), "nothing is recorded");
}

#[test]
fn a_list_of_stubs_that_ends_too_early_is_said() {
    let workspace = workspace(
        "cases:\n  - name: short\n    stubs:\n      writer: [One.]\n      reviewer: {json: {approved: false}}\n    expect: {outcome: completed}\n",
    );
    let outcome = workspace.run(["test"]).expect_code(1);
    let told = "team.test.yaml:4:7: execution 2 of writer has no stub: the list ends at execution 1\n";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
}

#[test]
fn a_stub_of_a_model_is_checked_by_the_schema_of_its_agent() {
    let workspace = workspace(
        "cases:\n  - name: wrong\n    stubs: {writer: One., reviewer: {json: {approved: perhaps}}}\n    expect: {outcome: completed}\n",
    );
    let outcome = workspace.run(["test"]).expect_code(1);
    assert!(outcome.stdout.contains("output_schema"), "{}", outcome.stdout);
}

#[test]
fn time_is_virtual() {
    let workspace = workspace(
        "cases:
  - name: too late
    stubs: {writer: One., reviewer: {json: {approved: true}}, publish: {text: done, delay_seconds: 6}}
    expect: {outcome: agent_failed, never: []}
  - name: tried again after a minute
    stubs: {writer: {fail: overloaded, kind: model}}
    expect: {outcome: agent_failed, not_run: {publish: waiting for reviewer}}
  - name: longer than the run may take
    stubs: {writer: {text: One., delay_seconds: 100000}}
    expect: {outcome: timeout}
",
    );
    let result = workspace.run(["test", "--output", "json"]).expect_code(0).json();
    assert!(result["seconds"].as_f64().expect("a time") < 30.0, "{result}");
}

#[test]
fn a_script_that_computes_on_another_thread_is_not_timed_out_by_virtual_time() {
    let workspace = Workspace::new();
    workspace.write(
        "slow.yaml",
        "name: slow\nagents: [{name: counter, script: counter.rhai, timeout_seconds: 0.5}]\n",
    );
    workspace.write("counter.rhai", "let n = 0; while n < 20000 { n += 1; } #{n: n}");
    workspace.write(
        "slow.test.yaml",
        "cases: [{name: counts, expect: {outcome: completed, outputs: {counter: {n: 20000}}}}]\n",
    );
    workspace.run(["test"]).expect_code(0);
}

#[test]
fn what_is_wrong_with_a_test_file_stands_at_its_place() {
    let case = |lines: &str| format!("cases:\n  - name: x\n{lines}\n");
    let expect = "    expect: {outcome: completed}";
    let rows = [
        (
            case("    expect: {outcom: completed}"),
            "E010",
            "did you mean `outcome`?",
            "3:14",
        ),
        (
            case("    expect: {outcome: complete}"),
            "E016",
            "did you mean `completed`?",
            "3:23",
        ),
        (
            case(&format!("    stubs: {{writr: x}}\n{expect}")),
            "E021",
            "did you mean `writer`?",
            "3:13",
        ),
        (
            case("    expect: {never: [writer, publisher]}"),
            "E021",
            "did you mean `publish`?",
            "3:30",
        ),
        (
            case("    expect: {turns: [writr]}"),
            "E021",
            "did you mean `writer`?",
            "3:22",
        ),
        (
            case("    expect: {turns: [[writer, reviewr]]}"),
            "E021",
            "did you mean `reviewer`?",
            "3:31",
        ),
        (
            case("    expect: {executions: {writr: 1}}"),
            "E021",
            "did you mean `writer`?",
            "3:27",
        ),
        (
            case("    expect: {not_run: [writr]}"),
            "E021",
            "did you mean `writer`?",
            "3:23",
        ),
        (
            case("    expect: {conditions: [executions.writr > 1]}"),
            "E042",
            "did you mean `writer`?",
            "3:38",
        ),
        (case("    expect: {conditions: ['turn_count >']}"), "E041", "", "3:40"),
        (
            case("    expect: {schemas: {writer: {type: strin}}}"),
            "E029",
            "",
            "3:32",
        ),
        (
            case(&format!("    stubs: {{writer: {{text: a, json: 1}}}}\n{expect}")),
            "E082",
            "keep one of them",
            "3:31",
        ),
        (
            case(&format!("    stubs: {{writer: {{parts: {{a: b}}}}}}\n{expect}")),
            "E082",
            "",
            "3:22",
        ),
        (
            case(&format!("    from: nowhere\n{expect}")),
            "E083",
            "run `ensemble explain E083` to see which runs can be used",
            "3:11",
        ),
        (case(&format!("{expect}\n  - name: x\n{expect}")), "E081", "", "4:11"),
        (
            format!("ensemble: tam.yaml\n{}", case(expect)),
            "E080",
            "write the path of the ensemble file, relative to the test file, as `ensemble`",
            "1:11",
        ),
        ("cases: []\n".to_owned(), "E018", "", "1:8"),
    ];
    for (text, code, help, place) in rows {
        let workspace = workspace(&text);
        for command in ["test", "validate"] {
            let outcome = workspace.run([command, "team.test.yaml", "--output", "json"]);
            assert_eq!(outcome.code, 2, "{command}\n{text}");
            let found = &outcome.json()["diagnostics"][0];
            assert_eq!(found["code"], code, "{command}\n{text}{}", outcome.stdout);
            if !help.is_empty() {
                assert_eq!(found["help"], help, "{text}");
            }
            let seen = format!("{}:{}", found["line"], found["column"]);
            assert_eq!(seen, place, "{text}");
        }
    }
}

#[test]
fn a_file_with_an_error_does_not_keep_the_others_from_being_tried() {
    let workspace = workspace("cases: []\n");
    workspace.write("good.yaml", TEAM);
    let good = format!("cases:\n  - name: good{TWICE}    expect: {{outcome: completed}}\n");
    workspace.write("good.test.yaml", good);
    let outcome = workspace.run(["test"]).expect_code(2);
    assert!(
        outcome.stdout.contains("PASS ./good.test.yaml: good\n"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stderr.contains("error[E018]"), "{}", outcome.stderr);
}

#[test]
fn a_case_that_expects_nothing_is_warned_of() {
    let workspace = workspace(&format!("cases:\n  - name: nothing{TWICE}"));
    let outcome = workspace.run(["test"]).expect_code(0);
    assert!(outcome.stderr.contains("warning[W060]"), "{}", outcome.stderr);
    workspace
        .run(["validate", "--deny-warnings", "team.test.yaml"])
        .expect_code(2);
}

#[test]
fn only_cases_that_the_filter_names_are_tried() {
    let case = |name: &str, outcome: &str| format!("  - name: {name}{TWICE}    expect: {{outcome: {outcome}}}\n");
    let workspace = workspace(&format!(
        "cases:\n{}{}",
        case("good one", "completed"),
        case("bad one", "timeout")
    ));
    let outcome = workspace.run(["test", "--filter", "good"]).expect_code(0);
    assert!(
        outcome.stdout.contains("\n1 case: 1 passed, 0 failed,"),
        "{}",
        outcome.stdout
    );
    let outcome = workspace.run(["test", "--filter", "ugly"]).expect_code(2);
    assert!(
        outcome.stderr.contains("no case has a name that contains `ugly`"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_folder_without_tests_is_an_error_that_says_where_they_stand() {
    let workspace = Workspace::new();
    workspace.write("team.yaml", TEAM);
    let outcome = workspace.run(["test"]).expect_code(2);
    assert!(
        outcome.stderr.contains("`team.test.yaml` tests `team.yaml`"),
        "{}",
        outcome.stderr
    );
    let outcome = workspace.run(["test", "team.yaml"]).expect_code(2);
    assert!(
        outcome.stderr.contains("create the test file team.test.yaml"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn other_programs_read_the_results() {
    let case = |name: &str, outcome: &str| format!("  - name: {name}{TWICE}    expect: {{outcome: {outcome}}}\n");
    let workspace = workspace(&format!(
        "cases:\n{}{}",
        case("good", "completed"),
        case("\"<bad>, one\"", "timeout")
    ));
    let github = workspace.run(["test", "--output", "github"]).expect_code(1).stdout;
    assert_eq!(
        github,
        "::error file=team.test.yaml,line=13,col=23,title=<bad>%2C one::outcome: expected timeout, found completed\n"
    );
    let junit = workspace.run(["test", "--output", "junit"]).expect_code(1).stdout;
    for part in [
        "<testsuites tests=\"2\" failures=\"1\" errors=\"0\" time=\"",
        "<testsuite name=\"team.test.yaml\" tests=\"2\" failures=\"1\"",
        "<testcase name=\"good\" classname=\"team.test.yaml\" file=\"team.test.yaml\" line=\"2\"",
        "<testcase name=\"&lt;bad&gt;, one\"",
        "<failure message=\"outcome: expected timeout, found completed\">13:23 outcome: expected timeout, found completed</failure>",
    ] {
        assert!(junit.contains(part), "{part}\n{junit}");
    }
    let json = workspace.run(["test", "--output", "json"]).expect_code(1).json();
    assert_eq!(
        (&json["version"], &json["passed"], &json["failed"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(json["files"][0]["cases"][0]["passed"], true);
}

#[test]
fn a_live_case_uses_what_a_run_uses() {
    let workspace = Workspace::new();
    workspace.write("local.yaml", LOCAL);
    workspace.write("count.sh", "echo seven\n");
    let case = "answers: {person: enough}, expect: {outcome: completed, outputs: {counter: seven}}";
    workspace.write(
        "local.test.yaml",
        format!("cases: [{{name: live, live: true, {case}}}]\n"),
    );
    workspace.run(["test", "local"]).expect_code(0);
    workspace.write("local.test.yaml", format!("cases: [{{name: live, {case}}}]\n"));
    workspace.run(["test", "local"]).expect_code(1);
}

#[test]
fn without_an_answer_the_run_waits() {
    let workspace = Workspace::new();
    workspace.write("local.yaml", LOCAL);
    let case = "stubs: {counter: one}, expect: {outcome: waiting_for_input}";
    workspace.write("local.test.yaml", format!("cases: [{{name: waits, {case}}}]\n"));
    workspace.run(["test", "local"]).expect_code(0);
    let case = "stubs: {counter: one, person: enough}, expect: {outcome: completed}";
    workspace.write("local.test.yaml", format!("cases: [{{name: waits, {case}}}]\n"));
    // A stub of a person is an answer.
    workspace.run(["test", "local"]).expect_code(0);
}

#[test]
fn inputs_are_those_of_the_ensemble() {
    let workspace = Workspace::new();
    workspace.write("local.yaml", LOCAL);
    let case = |inputs: &str, expect: &str| {
        format!(
            "cases: [{{name: given, inputs: {inputs}, stubs: {{counter: one}}, answers: {{person: enough}}, expect: {expect}}}]\n"
        )
    };
    workspace.write(
        "local.test.yaml",
        case("{limit: 7}", "{conditions: [inputs.limit == 7]}"),
    );
    workspace.run(["test", "local"]).expect_code(0);
    workspace.write("local.test.yaml", case("{limt: 7}", "{outcome: completed}"));
    let outcome = workspace.run(["test", "local"]).expect_code(2);
    assert!(outcome.stderr.contains("error[E046]") && outcome.stderr.contains("did you mean `limit`?"));
    workspace.write("local.test.yaml", case("{limit: many}", "{outcome: completed}"));
    let outcome = workspace.run(["test", "local"]).expect_code(1);
    assert!(outcome.stdout.contains("the run cannot start: "), "{}", outcome.stdout);
}

#[test]
fn parts_and_inner_ensembles_have_stubs_too() {
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n  - {name: list, script: sh list.sh}\n  - {name: part, script: sh part.sh, depends_on: [list], for_each: {in: outputs.list.items, as: file, key: file}}\n  - {name: inner, ensemble: inner.yaml, depends_on: [part]}\n",
    );
    workspace.write(
        "inner.yaml",
        "name: inner\nagents: [{name: list, script: sh list.sh}]\n",
    );
    let cases = "cases:
  - name: parts
    stubs:
      list: {json: {items: [a, b]}}
      part: {parts: {a: one, b: {fail: broken}}}
      inner.list: inside
    expect: {outcome: agent_failed, outputs: {}}
  - name: inner
    stubs:
      list: {json: {items: [a, b]}}
      part: {parts: {a: one, b: two}}
      inner.list: inside
    expect:
      outcome: completed
      outputs: {part: {items: [{response: one}, {response: two}]}, inner: {list: {response: inside}}}
  - name: no part
    stubs: {list: {json: {items: [c]}}, part: {parts: {a: one}}}
    expect: {outcome: completed}
  - name: no inner stub
    stubs: {list: {json: {items: [a]}}, part: one}
    expect: {outcome: completed}
";
    workspace.write("outer.test.yaml", cases);
    let outcome = workspace.run(["test", "outer"]).expect_code(1);
    assert!(outcome.stdout.contains("2 passed, 2 failed"), "{}", outcome.stdout);
    assert!(
        outcome
            .stdout
            .contains("execution 1 of part has no stub for the part `c`"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains("execution 1 of inner.list has no stub"),
        "{}",
        outcome.stdout
    );
}
