//! `test --coverage`: what no case reaches, on standard output and on the graph.

use super::testing_ensembles::{TEAM, TWICE, workspace};
use crate::support::Workspace;
use serde_json::json;

#[test]
fn coverage_says_what_no_case_reaches() {
    let workspace = workspace(
        "cases:\n  - name: at once\n    stubs: {writer: One., reviewer: {json: {approved: true}}, publish: done}\n    expect: {outcome: completed}\n",
    );
    let outcome = workspace.run(["test", "--coverage"]).expect_code(0);
    let told = "\
coverage of ./team.yaml: agents 3/3, dependencies 2/3, conditions 2/4, outcomes 1/2
  ./team.yaml:8:20: reviewer never starts writer
  ./team.yaml:8:70: `not output.approved` of writer on reviewer is never true
  ./team.yaml:20:54: `output.approved` of publish on reviewer is never false
  ./team.yaml: no case has the outcome agent_failed
";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
    let json = workspace
        .run(["test", "--coverage", "--output", "json"])
        .expect_code(0)
        .json();
    let coverage = &json["files"][0]["coverage"];
    assert_eq!(coverage["counts"]["conditions"], json!({"reached": 2, "all": 4}));
    assert_eq!(coverage["gaps"][0]["kind"], "dependency");
    assert_eq!(coverage["gaps"][0]["line"], 8);
    let github = workspace
        .run(["test", "--coverage", "--output", "github"])
        .expect_code(0)
        .stdout;
    let gap = "::warning file=team.yaml,line=8,col=20,title=not tested::reviewer never starts writer\n";
    assert!(github.contains(gap), "{github}");
}

#[test]
fn a_condition_whose_answer_is_known_is_no_gap() {
    let workspace = workspace(&format!(
        "cases:\n  - name: twice{TWICE}    expect: {{outcome: completed}}\n  - name: fails\n    stubs: {{writer: {{fail: no}}}}\n    expect: {{outcome: agent_failed}}\n"
    ));
    // The last agent runs only if somebody requests it, and the first listens to it always.
    let more = "  - {name: aside, script: touch aside, dependencies: [{agent_name: writer, condition: 'false'}, {agent_name: reviewer, condition: '1 > 2'}]}\n";
    let team = TEAM.replace(
        "depends_on: [writer]",
        "dependencies: [{agent_name: writer, condition: 'true'}]",
    );
    workspace.write("team.yaml", format!("{team}{more}"));
    let outcome = workspace.run(["test", "--coverage"]).expect_code(0);
    let told = "agents 3/3, dependencies 3/3, conditions 4/4, outcomes 2/2\n";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
}

#[test]
fn a_side_that_no_conversation_can_reach_is_no_gap() {
    let workspace = Workspace::new();
    // The loop ends after two executions, so the condition is asked once, when it is true. `aside` has no turn left.
    let limited = "name: team
agents:
  - {name: a, script: touch a, dependencies: [{agent_name: b, feedback: true, condition: executions.a < 2}], conversation: {max_turns: 2}}
  - {name: b, script: touch b, depends_on: [a], conversation: {max_turns: 2}}
";
    workspace.write("team.yaml", limited);
    workspace.write(
        "team.test.yaml",
        "cases:\n  - {name: all, stubs: {a: x, b: y}, expect: {outcome: completed}}\n  - {name: fails, stubs: {a: {fail: no}}, expect: {outcome: agent_failed}}\n",
    );
    let covered = |conditions: &str| {
        let outcome = workspace
            .run(["test", "--coverage", "--graph", "team.mmd"])
            .expect_code(0);
        let told = format!("agents 2/2, dependencies 2/2, conditions {conditions}, outcomes 2/2\n");
        assert!(outcome.stdout.contains(&told), "{}", outcome.stdout);
        workspace.read("team.mmd")
    };
    assert!(!covered("1/1").contains("never false"));
    // With one turn more, the condition can be false.
    workspace.write("team.yaml", limited.replace("max_turns: 2", "max_turns: 3"));
    covered("2/2");
    workspace.write("team.yaml", limited.replace("executions.a < 2", "output.again"));
    workspace.write(
        "team.test.yaml",
        "cases:\n  - {name: all, stubs: {a: x, b: {json: {again: true}}}, expect: {outcome: completed}}\n  - {name: fails, stubs: {a: {fail: no}}, expect: {outcome: agent_failed}}\n",
    );
    assert!(covered("1/2").contains("never false"));
}

#[test]
fn coverage_is_painted_on_the_graph() {
    let workspace = workspace(
        "cases:\n  - name: at once\n    stubs: {writer: One., reviewer: {json: {approved: false}}}\n    expect: {never: [publish]}\n",
    );
    let stubs = "{json: {approved: true}}, publish: done}";
    let draw = |file: &str| {
        workspace.run(["test", "--coverage", "--graph", file]).expect_code(0);
        workspace.read(file)
    };
    let mermaid = draw("team.mmd");
    for told in [
        "team, reached by 1 case",
        "ran 3 times",
        "did not run: no case reaches it",
        "if not output.approved (never false)",
        "if output.approved (never true)",
        "started 2 times",
    ] {
        assert!(mermaid.contains(told), "{told}: {mermaid}");
    }
    assert!(draw("team.svg").contains("started none in any case"));
    assert!(draw("team.dot").starts_with("digraph"));
    assert!(draw("team.txt").contains("no case reaches it"));
    let before = workspace.read("team.test.yaml");
    workspace.write(
        "team.test.yaml",
        before
            .replace("{json: {approved: false}}}", stubs)
            .replace("never: [publish]", "outcome: agent_failed"),
    );
    // What fails is painted too.
    workspace
        .run(["test", "--coverage", "--graph", "team.mmd"])
        .expect_code(1);
    assert!(workspace.read("team.mmd").contains("if output.approved (never false)"));
    let refused = workspace
        .run(["test", "--coverage", "--graph", "team.png"])
        .expect_code(2);
    assert!(
        refused
            .stderr
            .contains("a name that ends with .svg, .mmd, .dot or .txt"),
        "{}",
        refused.stderr
    );
    workspace.run(["test", "--graph", "team.svg"]).expect_code(2);
    workspace.write("other.test.yaml", "ensemble: team.yaml\ncases: []\n");
    let refused = workspace
        .run(["test", "--coverage", "--graph", "team.svg"])
        .expect_code(2);
    assert!(refused.stderr.contains("there are 2 test files"), "{}", refused.stderr);
}

#[test]
fn with_all_gaps_closed_there_is_none() {
    let workspace = workspace(&format!(
        "cases:\n  - name: twice{TWICE}    expect: {{outcome: completed}}\n  - name: fails\n    stubs: {{writer: {{fail: no}}}}\n    expect: {{outcome: agent_failed}}\n"
    ));
    let outcome = workspace.run(["test", "--coverage"]).expect_code(0);
    let told = "agents 3/3, dependencies 3/3, conditions 4/4, outcomes 2/2\n\n";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
}
