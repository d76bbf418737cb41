//! Ensembles as agents of ensembles.

use crate::support::{Workspace, eventually};
use serde_json::json;

fn nested(inner: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n\
         \x20 - {name: before, script: before.rhai}\n\
         \x20 - {name: team, ensemble: inner.yaml, depends_on: [before], config: {tone: dry}}\n\
         \x20 - {name: after, script: after.rhai, depends_on: [team]}\n",
    );
    workspace.write("before.rhai", "#{ topic: \"rain\" }");
    workspace.write("after.rhai", "#{ after: dependencies.team }");
    workspace.write("inner.yaml", inner);
    workspace
}

const JSON: [&str; 4] = ["run", "outer.yaml", "--output", "json"];

#[test]
fn the_final_state_of_the_inner_conversation_is_the_output() {
    let workspace = nested(
        "name: inner\nagents:\n\
         \x20 - {name: one, script: one.rhai}\n\
         \x20 - {name: two, script: two.rhai, depends_on: [one]}\n",
    );
    workspace.write(
        "one.rhai",
        "#{ about: context.dependencies.before.topic + \", \" + context.tone, task: input }",
    );
    workspace.write("two.rhai", "#{ done: true }");
    let outcome = workspace
        .run(["run", "outer.yaml", "-i", "a poem", "--output", "json"])
        .expect_code(0);
    assert_eq!(outcome.sequence(), ["1 before", "2 team", "3 after"]);
    let team = &outcome.json()["final_state"]["team"];
    assert_eq!(team["about"], "rain, dry");
    assert_eq!(team["task"], "a poem");
    assert_eq!(team["done"], true);
    assert_eq!(team["one"], json!({"about": "rain, dry", "task": "a poem"}));
    assert_eq!(outcome.json()["final_state"]["after"]["after"], *team);
    assert_eq!(workspace.runs().len(), 1, "the inner run stands inside the outer one");
}

#[test]
fn a_failure_inside_is_a_failure_of_the_agent() {
    let workspace = nested("name: inner\nagents:\n  - {name: one, script: one.rhai}\n");
    workspace.write("one.rhai", "throw \"it rains\"");
    let outcome = workspace.run(JSON).expect_code(1);
    let entry = &outcome.json()["conversation_history"][1];
    assert_eq!(entry["success"], false);
    assert!(
        entry["error"].as_str().is_some_and(|error| error.contains("it rains")),
        "{entry}"
    );
}

#[test]
fn a_limit_inside_fails_the_agent_unless_it_is_the_natural_end() {
    let inner = "name: inner\nagents:\n  - {name: one, script: one.rhai, conversation: {max_turns: 9, trigger: every_turn}}\n\
         conversation_limits: {max_total_turns: 2, on_limit: succeed}\n";
    let workspace = nested(inner);
    workspace.write("one.rhai", "#{ nr: execution }");
    let result = workspace.run(JSON).expect_code(0).json();
    assert_eq!(result["final_state"]["team"]["nr"], 2);
    let warnings = result["warnings"].to_string();
    assert!(!warnings.contains("max_total_turns"), "{warnings}");
    workspace.write("inner.yaml", inner.replace("succeed", "fail"));
    let result = workspace.run(JSON).expect_code(1).json();
    let entry = &result["conversation_history"][1];
    assert_eq!(
        entry["error"],
        "the nested run ended as max_total_turns: max_total_turns was reached: 2"
    );
    assert_eq!(entry["output_data"]["kind"], "reported");
}

#[test]
fn a_question_inside_makes_the_outer_run_wait_and_resume_goes_on_inside() {
    let workspace = nested(
        "name: inner\nagents:\n\
         \x20 - {name: one, script: one.sh}\n\
         \x20 - {name: guest, input: {prompt: Well?}, depends_on: [one]}\n",
    );
    workspace.write("one.sh", "echo ran >> ran.txt");
    let outcome = workspace.run(JSON).expect_code(3);
    assert_eq!(outcome.sequence(), ["1 before"]);
    assert_eq!(outcome.json()["detail"], "team.guest asks: Well?");
    let told = workspace.run(["resume", "--last"]).expect_code(3).stderr;
    assert!(told.contains("--answer team.guest=…"), "{told}");
    let resumed = workspace
        .run(["resume", "--last", "--answer", "guest=fine", "--output", "json"])
        .expect_code(0);
    assert_eq!(resumed.sequence(), ["1 before", "2 team", "3 after"]);
    assert_eq!(resumed.json()["final_state"]["team"]["guest"]["response"], "fine");
    assert_eq!(workspace.read("ran.txt"), "ran\n");
}

#[test]
fn a_killed_run_goes_on_inside() {
    let workspace = nested(
        "name: inner\nagents:\n\
         \x20 - {name: one, script: one.sh}\n\
         \x20 - {name: two, script: two.sh, depends_on: [one]}\n",
    );
    workspace.write("one.sh", "echo ran >> ran.txt");
    workspace.write("two.sh", "touch began; until [ -e go ]; do sleep 0.02; done; echo done");
    let running = workspace.spawn(JSON);
    eventually("the inner second turn", || {
        workspace.path().join("began").exists().then_some(())
    });
    running.signal("KILL");
    running.finish().expect_code(137);
    workspace.write("go", "");
    let resumed = workspace.run(["resume", "--last", "--output", "json"]).expect_code(0);
    assert_eq!(resumed.json()["final_state"]["team"]["two"]["response"], "done");
    assert_eq!(workspace.read("ran.txt"), "ran\n");
}

#[test]
fn an_ensemble_that_contains_itself_is_refused_before_anything_runs() {
    let workspace = nested("name: inner\nagents:\n  - {name: again, ensemble: outer.yaml}\n");
    let outcome = workspace.run(["run", "outer.yaml"]).expect_code(2);
    assert!(
        outcome.stderr.contains("outer.yaml → inner.yaml → outer.yaml"),
        "{}",
        outcome.stderr
    );
    assert!(workspace.runs().is_empty());
}

#[test]
fn an_inner_ensemble_that_is_missing_or_wrong_is_refused_before_anything_runs() {
    for inner in ["name: inner\nagents:\n  - {name: one, scirpt: x}\n", "[]"] {
        let workspace = nested(inner);
        let outcome = workspace.run(["run", "outer.yaml"]).expect_code(2);
        assert!(outcome.stderr.contains("inner.yaml"), "{}", outcome.stderr);
        assert!(workspace.runs().is_empty());
    }
    let workspace = nested("");
    std::fs::remove_file(workspace.path().join("inner.yaml")).expect("it was there");
    let outcome = workspace.run(["run", "outer.yaml"]).expect_code(2);
    assert!(outcome.stderr.contains("inner.yaml"), "{}", outcome.stderr);
}

#[test]
fn a_simulated_model_inside_is_told_outside() {
    let workspace = nested(
        "name: inner\nagents:\n  - {name: one, model_profile: p, prompt: Hello.}\n\
         model_profiles: {p: {provider: simulated, replies: [hi]}}\n",
    );
    let result = workspace.run(JSON).expect_code(0).json();
    assert_eq!(result["simulated"], json!(["team"]));
    assert_eq!(result["usage"]["requests"], 1);
}

const OUTER: &str = r#"
name: outer
agents:
  - {name: inner, ensemble: small.yaml}
  - {name: after, script: after.rhai, depends_on: [inner]}
"#;

const SMALL: &str = r#"
name: small
agents:
  - {name: asker, input: Who is there?}
"#;

#[test]
fn a_question_of_an_inner_conversation_waits_and_is_answered_by_the_inner_agents_name() {
    let workspace = Workspace::new();
    workspace.write("outer.yaml", OUTER);
    workspace.write("small.yaml", SMALL);
    workspace.write("after.rhai", "`it is ${dependencies.inner.asker.response}`");
    let waiting = workspace.run(["run", "outer.yaml"]).expect_code(3);
    assert!(waiting.stderr.contains("--answer inner.asker=…"), "{}", waiting.stderr);

    let resumed = workspace.run(["resume", "--last", "--answer", "asker=Ada", "--output", "json"]);
    let result = resumed.expect_code(0).json();
    assert_eq!(result["final_state"]["after"]["response"], "it is Ada");

    let sub = workspace.runs()[0].join("sub/inner-1-1");
    for file in ["journal.jsonl", "ensemble.yaml"] {
        assert!(sub.join(file).is_file(), "the inner run's {file} stands where it began");
    }
}

#[test]
fn an_answer_must_be_for_somebody_who_asks_inside_or_outside() {
    let workspace = Workspace::new();
    workspace.write("outer.yaml", OUTER);
    workspace.write("small.yaml", SMALL);
    workspace.write("after.rhai", "`it is ${dependencies.inner.asker.response}`");
    let refused = workspace
        .run(["run", "outer.yaml", "--answer", "askr=Ada"])
        .expect_code(2);
    assert!(refused.stderr.contains("`askr`"), "{}", refused.stderr);
    assert!(refused.stderr.contains("asker"), "{}", refused.stderr);
    assert!(workspace.runs().is_empty());
    workspace
        .run(["run", "outer.yaml", "--answer", "asker=Ada"])
        .expect_code(0);
    // With a text in the place of the ensemble, who asks inside it is not known.
    workspace
        .run([
            "run",
            "outer.yaml",
            "--answer",
            "askr=Ada",
            "--stub",
            "inner={\"asker\": {\"response\": \"x\"}}",
        ])
        .expect_code(0);
    // An ensemble that is a tool.
    workspace.write(
        "caller.yaml",
        "name: caller
agents:
  - {name: mind, model_profile: fake, prompt: Ask., tools: [ask]}
tools:
  ask: {ensemble: small.yaml, description: asks, parameters: {type: object}}
model_profiles:
  fake: {provider: simulated, replies: [{tool_calls: [{name: ask, arguments: {}}]}, Done.]}
",
    );
    workspace
        .run(["run", "caller.yaml", "--answer", "asker=Ada"])
        .expect_code(0);
    workspace
        .run(["run", "caller.yaml", "--answer", "mind=Ada"])
        .expect_code(2);
}

#[test]
fn an_inner_ensemble_that_changed_starts_afresh_and_says_so() {
    let workspace = Workspace::new();
    workspace.write("outer.yaml", OUTER);
    workspace.write("small.yaml", SMALL);
    workspace.write("after.rhai", "`it is ${dependencies.inner.asker.response}`");
    workspace.run(["run", "outer.yaml"]).expect_code(3);
    workspace.write("small.yaml", SMALL.replace("Who is there?", "Who is it?"));
    let resumed = workspace.run(["resume", "--last", "--answer", "asker=Ada", "--output", "json"]);
    let result = resumed.expect_code(0).json();
    assert_eq!(result["final_state"]["after"]["response"], "it is Ada");
    let warnings = result["warnings"].to_string();
    assert!(
        warnings.contains("small.yaml has changed, so its conversation starts from the beginning"),
        "{warnings}"
    );
}

#[test]
fn what_an_inner_conversation_was_handed_does_not_come_back() {
    let workspace = nested("name: inner\nagents:\n  - {name: one, script: one.rhai}\n");
    workspace.write("one.rhai", "#{ about: context.dependencies.before.topic }");
    let result = workspace.run(JSON).expect_code(0).json();
    let team = result["final_state"]["team"].as_object().expect("a map").clone();
    assert_eq!(team.keys().collect::<Vec<_>>(), ["tone", "about", "one"]);
    assert_eq!(result["final_state"]["dependencies"], serde_json::Value::Null);
}

#[test]
fn a_replay_executes_a_nested_ensemble_live() {
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n  - {name: nested, ensemble: middle.yaml}\n  - {name: each, ensemble: inner.yaml, for_each: {in: [a, b]}}\n\
         \x20 - {name: after, script: 'echo done', depends_on: [nested, each]}\n",
    );
    workspace.write(
        "middle.yaml",
        "name: middle\nagents: [{name: deep, ensemble: inner.yaml}]\n",
    );
    let inner = "name: inner\nagents: [{name: a, script: 'echo hello'}]\n";
    workspace.write("inner.yaml", inner);
    workspace.run(["run", "outer.yaml"]).expect_code(0);
    let saved = workspace
        .run(["runs", "export", "--last", "--output", "json"])
        .expect_code(0)
        .stdout;
    let before = workspace.journal();
    for live in ["nested", "each", "nested,each,after"] {
        let replayed = workspace.run(["replay", "--last", "--live", live]).expect_code(0);
        assert!(replayed.stdout.starts_with("✓ the same"), "{live}: {}", replayed.stdout);
    }
    assert_eq!(workspace.journal(), before, "a replay writes nothing");
    assert_eq!(
        saved,
        workspace.run(["runs", "export", "--last", "--output", "json"]).stdout
    );

    // A difference that comes from a failure of a live agent says why.
    workspace.write("inner.yaml", inner.replace("echo hello", "echo broken >&2; exit 3"));
    let replayed = workspace.run(["replay", "--last", "--live", "nested"]).expect_code(5);
    let reason = "nested failed when it was executed: the nested run ended as agent_failed";
    assert!(
        replayed.stdout.contains(reason) && replayed.stdout.contains("broken"),
        "{}",
        replayed.stdout
    );
}
