//! `--live` through the binary: lines for what the journal does not contain yet.

use serde_json::{Value, json};

use crate::support::Workspace;

/// An agent with a tool, an agent as a tool, and an inner ensemble, and a request that is repeated.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        r#"
name: outer
agents:
  - {name: boss, model_profile: boss, tools: [double, ask]}
  - {name: critic, model_profile: critic}
  - {name: inner, ensemble: inner.yaml}
tools:
  double: {script: double.rhai, parameters: {type: object}}
  ask: {agent: critic}
model_profiles:
  boss:
    provider: simulated
    retry: {max_attempts: 2, delay_seconds: 0}
    replies:
      - {error: busy}
      - {text: Let me see., tool_calls: [{name: double, arguments: {n: 2}}, {name: ask, arguments: {input: So?}}]}
      - It is four.
  critic: {provider: simulated, replies: [So it is.]}
"#,
    );
    workspace.write("double.rhai", "#{ doubled: parameters.n * 2 }");
    workspace.write(
        "inner.yaml",
        "name: inner\nagents: [{name: deep, model_profile: m}]\nmodel_profiles:\n  m: {provider: simulated, replies: [From below.]}\n",
    );
    workspace
}

fn lines(stdout: &str) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    stdout.lines().map(line).collect()
}

#[test]
fn live_lines_stand_between_those_of_the_journal() {
    let workspace = workspace();
    let outcome = workspace
        .run(["run", "a.yaml", "--output", "events", "--live"])
        .expect_code(0);
    let lines = lines(&outcome.stdout);
    let (live, records): (Vec<Value>, Vec<Value>) = lines.into_iter().partition(|line| line.get("live").is_some());
    assert_eq!(records, workspace.journal(), "the other lines are those of the journal");
    assert!(live.iter().all(|line| line.get("seq").is_none()), "{live:#?}");
    let run = records[0]["data"]["run_id"].as_str().expect("an id").to_owned();
    let of = |agent: &str| {
        live.iter()
            .filter(move |line| line["agent"] == agent)
            .collect::<Vec<_>>()
    };
    let texts = |agent: &str| {
        of(agent)
            .iter()
            .filter_map(|line| line["text"].as_str())
            .collect::<String>()
    };
    assert_eq!(texts("boss"), "Let me see.It is four.");
    assert_eq!(texts("critic"), "So it is.", "an agent that is a tool");
    assert_eq!(texts("deep"), "From below.", "an inner run");
    let kinds = |name: &str| {
        let calls = of("boss").into_iter().filter(|line| line["call"]["name"] == name);
        calls
            .map(|line| (line["live"].clone(), line["call"]["result"].clone()))
            .collect::<Vec<_>>()
    };
    let (started, ended) = (json!("tool_started"), json!("tool_ended"));
    assert_eq!(
        kinds("double"),
        [(started.clone(), Value::Null), (ended.clone(), json!({"doubled": 4}))]
    );
    assert_eq!(kinds("ask"), [(started, Value::Null), (ended, json!("So it is."))]);
    let first = of("boss")[0];
    assert_eq!(
        (&first["live"], &first["execution"], &first["attempt"]),
        (&json!("retrying"), &json!(1), &json!(1))
    );
    assert!(
        first["error"].as_str().is_some_and(|error| error.contains("busy")),
        "{first}"
    );
    assert_eq!(first["run"], run);
    let inner = of("deep")[0]["run"].as_str().expect("an id");
    assert!(inner.starts_with(&run) && inner.len() > run.len(), "{inner}");
}

#[test]
fn without_the_option_there_are_only_lines_of_the_journal() {
    let workspace = workspace();
    let outcome = workspace.run(["run", "a.yaml", "--output", "events"]).expect_code(0);
    assert_eq!(lines(&outcome.stdout), workspace.journal());
}

#[test]
fn the_option_needs_events() {
    let workspace = workspace();
    for form in ["human", "json"] {
        let outcome = workspace
            .run(["run", "a.yaml", "--output", form, "--live"])
            .expect_code(2);
        assert!(
            outcome.stderr.contains("--live needs `--output events`"),
            "{}",
            outcome.stderr
        );
        assert!(workspace.runs().is_empty(), "nothing was started");
    }
}
