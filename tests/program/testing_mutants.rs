//! `test --mutate` through the binary.

#![expect(clippy::disallowed_methods, reason = "a test measures time")]

use std::time::{Duration, Instant};

use crate::support::Workspace;
use serde_json::{Value, json};

const TEAM: &str = r#"name: team
model_profiles: {real: {provider: openai, model: gpt-5-mini}}
agents:
  - name: writer
    model_profile: real
    dependencies:
      - {agent_name: reviewer, feedback: true, condition: not output.approved}
    conversation: {max_turns: 3}
  - {name: reviewer, model_profile: real, depends_on: [writer], conversation: {max_turns: 3}}
  - name: publish
    script: touch published
    timeout_seconds: 5
    dependencies: [{agent_name: reviewer, condition: output.approved and output.score >= 8}]
"#;

/// Once round, then published.
const ROUND: &str = "
  - name: round
    stubs:
      writer: [First., Second.]
      reviewer: [{json: {approved: false, score: 9}}, {json: {approved: true, score: 9}}]
      publish: done
    expect: {outcome: completed, turns: [writer, reviewer, writer, reviewer, publish]}
";

/// What the first cases do not notice.
const THE_REST: &str = "
  - name: low
    stubs: {writer: One., reviewer: {json: {approved: true, score: 7}}}
    expect: {outcome: completed, never: [publish]}
  - name: just enough
    stubs: {writer: One., reviewer: {json: {approved: true, score: 8}}, publish: done}
    expect: {outcome: completed, executions: {publish: 1}}
  - name: never approved
    stubs: {writer: One., reviewer: {json: {approved: false, score: 9}}}
    expect: {outcome: completed, executions: {writer: 3, reviewer: 3}, never: [publish]}
  - name: too slow
    stubs: {writer: One., reviewer: {json: {approved: true, score: 9}}, publish: {text: done, delay_seconds: 6}}
    expect: {outcome: agent_failed}
";

fn workspace(cases: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("team.yaml", TEAM);
    workspace.write("team.test.yaml", format!("cases:{cases}"));
    workspace
}

fn mutants(workspace: &Workspace, code: i32) -> Value {
    let outcome = workspace
        .run(["test", "--mutate", "--output", "json"])
        .expect_code(code);
    outcome.json()["files"][0]["mutants"].clone()
}

/// The standings, by place and change.
fn standings(mutants: &Value) -> Vec<String> {
    let list = mutants["list"].as_array().expect("a list").iter();
    list.map(|one| {
        let word = |key: &str| one[key].as_str().expect("a text").to_owned();
        format!(
            "{}:{} {} -> {}: {}",
            one["line"],
            one["column"],
            word("from"),
            word("to"),
            word("standing")
        )
    })
    .collect()
}

#[test]
fn every_change_says_whether_a_case_notices_it() {
    let workspace = workspace(ROUND);
    let before = workspace.read("team.yaml");
    let found = mutants(&workspace, 1);
    let expected = [
        "7:59 not output.approved -> output.approved: noticed",
        "7:9 dependency on reviewer -> none: noticed",
        "8:31 max_turns: 3 -> 2: survived",
        "8:31 max_turns: 3 -> 4: survived",
        "9:56 dependency on writer -> none: noticed",
        "9:91 max_turns: 3 -> 2: survived",
        "9:91 max_turns: 3 -> 4: equivalent",
        "13:54 output.approved and output.score >= 8 -> not (output.approved and output.score >= 8): noticed",
        "13:54 output.approved and output.score >= 8 -> output.score >= 8: noticed",
        "13:54 output.approved and output.score >= 8 -> output.approved: survived",
        "13:54 output.approved and output.score >= 8 -> output.approved or output.score >= 8: noticed",
        "13:87 >= -> >: survived",
        "13:87 >= -> <=: noticed",
        "13:20 dependency on reviewer -> none: noticed",
        "12:22 timeout_seconds: 5 -> no limit: survived",
    ];
    assert_eq!(standings(&found), expected);
    let counts = json!({"noticed": 8, "survived": 6, "equivalent": 1, "not_tried": 0});
    assert_eq!(
        (&found["counts"], &found["list"][0]["cases"]),
        (&counts, &json!(["round"]))
    );
    assert_eq!(workspace.read("team.yaml"), before, "the file was not changed");
}

#[test]
fn with_cases_for_everything_no_change_survives() {
    let workspace = workspace(&format!("{ROUND}{THE_REST}"));
    let found = mutants(&workspace, 0);
    let survived: Vec<String> = standings(&found)
        .into_iter()
        .filter(|one| one.ends_with("survived"))
        .collect();
    assert_eq!(survived, Vec::<String>::new());
    assert_eq!(found["counts"]["equivalent"], 1);
}

#[test]
fn people_read_the_survivors_first_and_then_who_notices() {
    let workspace = workspace(ROUND);
    let outcome = workspace.run(["test", "--mutate"]).expect_code(1);
    for told in [
        "changes of ./team.yaml: 8 noticed, 6 survived, 1 left out that no case can notice\n  SURVIVED ./team.yaml:8:31: writer: `max_turns: 3` -> `2`\n",
        "  noticed  ./team.yaml:7:59: writer: `not output.approved` -> `output.approved`, by \"round\"\n",
        "\n1 case: 1 passed, 0 failed,",
    ] {
        assert!(outcome.stdout.contains(told), "{told}\n{}", outcome.stdout);
    }
    let github = workspace
        .run(["test", "--mutate", "--output", "github"])
        .expect_code(1)
        .stdout;
    let told = "::warning file=team.yaml,line=13,col=87,title=no case notices::publish: `>=` -> `>`\n";
    assert!(github.contains(told), "{github}");
}

#[test]
fn nothing_is_changed_where_a_case_fails_anyway_and_live_cases_are_run() {
    let failing = workspace(&ROUND.replace("outcome: completed", "outcome: timeout"));
    let outcome = failing.run(["test", "--mutate"]).expect_code(1);
    let told = "changes of ./team.yaml: none was tried, because a case fails without a change\n";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
    let live = workspace(&ROUND.replace("name: round", "name: round\n    live: true"));
    let outcome = live.run(["test", "--mutate"]).expect_code(1);
    let told = "changes of ./team.yaml: 8 noticed, 6 survived, 1 left out that no case can notice\n";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
}

#[test]
fn changes_that_were_not_tried_in_time_are_counted_and_fail() {
    let workspace = workspace(&format!("{ROUND}{THE_REST}"));
    let began = Instant::now();
    let outcome = workspace.run(["test", "--mutate", "--max-time", "0s"]).expect_code(1);
    assert!(
        outcome.stdout.contains("0 noticed, 0 survived, 15 not tried in time\n"),
        "{}",
        outcome.stdout
    );
    assert!(began.elapsed() < Duration::from_secs(20));
    workspace.run(["test", "--max-time", "1s"]).expect_code(2);
    workspace.run(["test", "--mutate", "--update"]).expect_code(2);
}

#[test]
fn limits_of_the_conversation_and_the_choice_of_dependencies_are_changed_too() {
    let workspace = Workspace::new();
    workspace.write(
        "joined.yaml",
        "name: joined
agents:
  - {name: one, script: touch one}
  - {name: two, script: touch two}
  - {name: both, script: touch both, depends_on: [one, two], conversation: {max_turns: 2}}
  - {name: last, script: touch last, dependencies: [{agent_name: both, max_executions: 1, condition: \"any([output.a, output.b])\"}]}
conversation_limits: {max_total_turns: 9, max_agent_executions: {both: 2}, timeout_seconds: 60, turn_timeout_seconds: 50}
",
    );
    workspace.write(
        "joined.test.yaml",
        "cases: [{name: all, stubs: {one: a, two: b, both: {json: {a: true, b: true}}, last: c}, expect: {turns: [[one, two], both, last]}}]\n",
    );
    let found = mutants(&workspace, 1);
    let standings = standings(&found);
    for told in [
        "5:38 all dependencies -> any dependency: survived",
        "6:103 any -> all: survived",
        "6:88 max_executions: 1 -> 2: equivalent",
        "7:40 max_total_turns: 9 -> 8: equivalent",
        "7:72 both: 2 -> 1: noticed",
        "7:93 timeout_seconds: 60 -> no limit: survived",
        "7:119 turn_timeout_seconds: 50 -> no limit: survived",
        "5:88 max_turns: 2 -> 3: equivalent",
    ] {
        assert!(standings.iter().any(|one| one == told), "{told}\n{standings:#?}");
    }
}

#[test]
fn the_scope_of_a_budget_and_summaries_are_changed() {
    let workspace = Workspace::new();
    workspace.write(
        "team.yaml",
        "name: team\nconversation_limits: {max_total_tokens: 10, budget: message}\nmodel_profiles:\n  \
         m: {provider: simulated, replies: [done]}\n  brief: {provider: simulated, replies: [in short]}\n\
         tools: {find: {script: 'seq 1 99', parameters: {type: object}, summarize_above: 20, summarize_with: brief}}\n\
         agents: [{name: a, model_profile: m, tools: [find]}]\n",
    );
    workspace.write(
        "team.test.yaml",
        "cases: [{name: one, stubs: {a: {replies: [{text: done}]}}, expect: {outcome: completed}}]\n",
    );
    let found = standings(&mutants(&workspace, 1));
    for expected in [
        "2:53 budget: message -> conversation: survived",
        "6:81 summarize_above: 20 -> no summary: survived",
    ] {
        assert!(found.iter().any(|one| one == expected), "{expected}: {found:?}");
    }
}
