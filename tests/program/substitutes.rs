//! `run --stub` and `run --respond`: texts in the place of agents, and models in the place of people.

use crate::support::{Outcome, Workspace};
use serde_json::{Value, json};

const TEAM: &str = r#"
name: team
model_profiles: {user: {provider: simulated, replies: [yes please]}}
agents:
  - {name: writer, script: "touch ran"}
  - name: reviewer
    script: "touch ran"
    depends_on: [writer]
    output_schema: {type: object, required: [approved], properties: {approved: {type: boolean}}}
  - name: person
    input: {prompt: "Publish?"}
    dependencies: [{agent_name: reviewer, condition: output.approved}]
  - {name: inside, ensemble: inner.yaml, depends_on: [person]}
"#;

const STUBS: [&str; 6] = [
    "--stub",
    "writer=Hello.",
    "--stub",
    "reviewer=@ok.json",
    "--stub",
    "inside.shout=loud",
];

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("team.yaml", TEAM);
    workspace.write(
        "inner.yaml",
        "name: inner\nagents: [{name: shout, script: \"touch ran\"}]\n",
    );
    workspace.write("ok.json", "{\"approved\": true}");
    workspace
}

fn run(workspace: &Workspace, more: &[&str]) -> Outcome {
    let mut arguments = vec!["run", "team"];
    arguments.extend(more);
    workspace.run(arguments)
}

#[test]
fn texts_and_models_stand_in_and_every_report_says_so() {
    let workspace = workspace();
    let given = [&STUBS[..], &["--respond", "person=user"]].concat();
    let outcome = run(&workspace, &given).expect_code(0);
    for told in [
        "stubs replaced inside.shout, reviewer, writer",
        "models answered for person (user)",
    ] {
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    }
    assert!(!workspace.path().join("ran").exists(), "an agent ran");
    let record = &workspace.journal()[0]["data"];
    let stubs = json!({"inside.shout": "loud", "reviewer": "{\"approved\": true}", "writer": "Hello."});
    assert_eq!(record["stubs"], stubs);
    assert_eq!(record["responders"], json!({"person": "user"}));
    let result: Value = workspace.run(["runs", "export"]).expect_code(0).json();
    assert_eq!(result["stubs"], stubs);
    assert_eq!(result["final_state"]["reviewer"], json!({"approved": true}));
    assert_eq!(result["final_state"]["person"]["response"], "yes please");
    for form in ["markdown", "html"] {
        let text = workspace
            .run(["runs", "export", "--output", form])
            .expect_code(0)
            .stdout;
        assert!(text.contains("stubs replaced"), "{form}");
    }
    let shown = workspace.run(["runs", "show"]).expect_code(0).stdout;
    assert!(shown.contains("stubs replaced"), "{shown}");
    let shown = workspace
        .run(["runs", "show", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(shown["stubs"], stubs);
    workspace.run(["replay", "--last"]).expect_code(0);
}

#[test]
fn the_stub_of_a_person_is_an_answer_that_must_be_a_choice() {
    let workspace = Workspace::new();
    workspace.write(
        "ask.yaml",
        "name: ask\nagents: [{name: ok, input: {prompt: Well?, choices: [a, b], default: b}}]\n",
    );
    let refused = workspace.run(["run", "ask.yaml", "--stub", "ok=c"]).expect_code(2);
    let told = "`c` is not one of the choices of `ok`: a, b";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    assert!(workspace.runs().is_empty());
    workspace.run(["run", "ask.yaml", "--stub", "ok=a"]).expect_code(0);
    let answer = answer_of(&workspace, "ok");
    assert_eq!((&answer["source"], &answer["answer"]), (&json!("stub"), &json!("a")));
}

fn answer_of(workspace: &Workspace, agent: &str) -> Value {
    let journal = workspace.journal();
    let is_end = |record: &&Value| record["event"] == "execution_finished" && record["data"]["agent"] == agent;
    journal.iter().find(is_end).expect("it has finished")["data"]["answer"].clone()
}

/// ADR-005: in a test, a model answers for a script that would ask a person.
#[test]
fn a_model_answers_for_a_script_agent_and_reads_what_the_script_would_read() {
    let workspace = Workspace::new();
    workspace.write(
        "clarify.yaml",
        "name: clarify\nmodel_profiles: {user: {provider: simulated, script: user.rhai}}\nagents:\n  \
         - {name: first, script: first.rhai}\n  \
         - {name: ask, description: Asks the user for details, script: \"touch ran\", depends_on: [first], config: {tone: kind},\n     \
            output_schema: {type: object, required: [size], properties: {size: {type: integer}}}}\n",
    );
    workspace.write("first.rhai", "#{ question: \"which size?\", urgent: true }");
    workspace.write("user.rhai", "`{\"size\": 4, \"seen\": ${prompt.len()}}`");
    let run = workspace.run([
        "run",
        "clarify.yaml",
        "--set",
        "shop=tea",
        "--respond",
        "ask=user",
        "--output",
        "json",
    ]);
    let run = run.expect_code(0).json();
    assert!(!workspace.path().join("ran").exists(), "the script ran");
    assert_eq!(run["final_state"]["ask"]["size"], 4, "{run}");
    assert_eq!(run["final_state"]["ask"].as_object().expect("a map").len(), 2, "{run}");
    let journal = workspace.journal();
    let is_end = |record: &&Value| record["event"] == "execution_finished" && record["data"]["agent"] == "ask";
    let asked = journal.iter().find(is_end).expect("it has finished")["data"]["exchange"][0]["messages"].to_string();
    for part in [
        "the agent `ask`",
        "Asks the user for details",
        "which size?",
        "\\\"tone\\\":\\\"kind\\\"",
        "Turn 2; the last agents: first.",
        "\\\"shop\\\":\\\"tea\\\"",
        "\\\"urgent\\\":true",
        "\\\"required\\\":[\\\"size\\\"]",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    workspace.run(["replay", "--last"]).expect_code(0);
}

/// The answers of a model for a script agent are cached by question and context, also over a resume.
#[test]
fn a_model_that_answers_for_a_script_agent_is_asked_once_in_the_same_context() {
    let workspace = Workspace::new();
    workspace.write(
        "clarify.yaml",
        "name: clarify\nmodel_profiles: {user: {provider: simulated, replies: ['{\"size\": 4}', '{\"size\": 4}', '{\"size\": 5}']}}\n\
         agents:\n  - {name: tick, script: tick.rhai, dependencies: [{agent_name: ask, feedback: true}], conversation: {max_turns: 4}}\n  \
         - {name: ask, script: ./missing.sh, depends_on: [tick], conversation: {max_turns: 4, history: 5}}\n",
    );
    workspace.write("tick.rhai", "#{ question: \"which size?\" }");
    let run = workspace.run(["run", "clarify.yaml", "--respond", "ask=user", "--output", "json"]);
    let run = run.expect_code(0).json();
    // The first answer adds the size to the context. From then on, question and context are the same.
    assert_eq!(run["final_state"]["ask"]["size"], 4, "{run}");
    let journal = workspace.journal();
    let is_end = |record: &&Value| record["event"] == "execution_finished" && record["data"]["agent"] == "ask";
    let ends: Vec<&Value> = journal.iter().filter(is_end).collect();
    let asked: Vec<bool> = ends.iter().map(|end| end["data"]["exchange"].is_array()).collect();
    assert_eq!(asked, [true, true, false, false], "{ends:#?}");
    workspace.run(["replay", "--last"]).expect_code(0);
}

#[test]
fn a_script_of_responses_gets_the_state_of_the_conversation() {
    let workspace = Workspace::new();
    workspace.write(
        "ask.yaml",
        "name: ask\nagents:\n  - {name: first, script: first.rhai}\n  \
         - {name: person, input: {prompt: Well?, responses: {script: person.rhai}}, depends_on: [first]}\n",
    );
    workspace.write("first.rhai", "#{ mood: \"calm\" }");
    workspace.write(
        "person.rhai",
        "`${turn_count} ${agent_execution_count.first} ${agent_execution_count.person} ${accumulated_context.mood} \
         ${conversation_history[0].agent_name} ${conversation_state.turn_count} \
         ${conversation_state.conversation_history.len()} ${conversation_state.accumulated_context.mood} \
         ${conversation_state.agent_execution_count.first}`",
    );
    workspace
        .run(["validate", "ask.yaml", "--deny-warnings"])
        .expect_code(0);
    let run = workspace
        .run(["run", "ask.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(run["final_state"]["person"]["response"], "1 1 0 calm first 1 1 calm 1");
    assert_eq!(answer_of(&workspace, "person")["source"], "script");
}

#[test]
fn a_run_that_goes_on_keeps_them() {
    let workspace = workspace();
    run(&workspace, &STUBS).expect_code(3);
    let resumed = workspace
        .run(["resume", "--last", "--answer", "person=yes"])
        .expect_code(0);
    assert!(!workspace.path().join("ran").exists(), "{}", resumed.stderr);
    let again = workspace.run([
        "rerun",
        "--last",
        "--from",
        "writer@1",
        "--answer",
        "person=no",
        "--output",
        "json",
    ]);
    let again = again.expect_code(0).json();
    assert_eq!(again["stubs"]["writer"], "Hello.");
    assert!(!workspace.path().join("ran").exists());
    workspace.write(
        "team.yaml",
        TEAM.replace("name: writer, script", "name: writer, retry: {max_attempts: 2}, script"),
    );
    let edited = workspace.run([
        "fork",
        "--last",
        "--at-turn",
        "0",
        "--ensemble",
        "team.yaml",
        "--answer",
        "person=no",
    ]);
    edited.expect_code(0);
    assert!(!workspace.path().join("ran").exists());
    // An agent that is to run is no stub any more.
    workspace.run(["replay", "--last", "--live", "writer"]);
    assert!(workspace.path().join("ran").exists());
}

#[test]
fn a_name_that_cannot_be_meant_is_an_error() {
    let rows = [
        (
            ["--stub", "writr=x"],
            "there is no agent `writr`",
            "did you mean `writer`?",
        ),
        (
            ["--stub", "inside.shot=x"],
            "there is no agent `inside.shot`",
            "did you mean `inside.shout`?",
        ),
        (
            ["--stub", "zzz=x"],
            "there is no agent `zzz`",
            "the agents are inside, inside.shout, person, reviewer, writer",
        ),
        (["--stub", "writer"], "--stub takes AGENT=TEXT or AGENT=@FILE", ""),
        (
            ["--respond", "inside=user"],
            "`inside` is neither an input agent nor a script agent",
            "a model can answer for inside.shout, person, reviewer, writer",
        ),
        (
            ["--respond", "shout=user"],
            "there is no agent `shout`",
            "did you mean `inside.shout`?",
        ),
        (
            ["--respond", "x=user"],
            "there is no agent `x`",
            "the agents are inside, inside.shout, person, reviewer, writer",
        ),
        (
            ["--respond", "persn=user"],
            "there is no agent `persn`",
            "did you mean `person`?",
        ),
        (["--respond", "person=usr"], "usr", ""),
    ];
    let workspace = workspace();
    let real = "model_profiles: {real: {provider: openai, model: gpt-5-mini}, user:";
    let team = TEAM.replace("model_profiles: {user:", real);
    workspace.write(
        "keyless.yaml",
        team.replace("script: \"touch ran\"}", "model_profile: real}"),
    );
    let keyless = workspace
        .run(["run", "keyless.yaml", "--stub", "writr=x"])
        .expect_code(2);
    assert!(keyless.stderr.contains("did you mean `writer`?"), "{}", keyless.stderr);
    for (given, message, help) in rows {
        let outcome = run(&workspace, &given).expect_code(2);
        assert!(
            outcome.stderr.contains(message) && outcome.stderr.contains(help),
            "{}",
            outcome.stderr
        );
    }
    let twice = run(&workspace, &["--stub", "person=x", "--respond", "person=user"]).expect_code(2);
    assert!(
        twice
            .stderr
            .contains("`person` has a stub, and a model or a generator answers for it too"),
        "{}",
        twice.stderr
    );
    assert!(twice.stderr.contains("remove `--stub person=…`"), "{}", twice.stderr);
    assert!(workspace.runs().is_empty(), "a run was begun");
}

/// ADR-005: the model gets what the script would read.
#[test]
fn a_model_that_answers_for_a_script_agent_reads_its_stdin_and_arguments() {
    let workspace = Workspace::new();
    workspace.write(
        "ship.yaml",
        "name: ship\nmodel_profiles: {user: {provider: simulated, replies: [fine]}}\nagents:\n  - {name: ask, script: touch ran, \
         stdin: 'Shall we ship {{ input }} on Friday?', args: [--strict, '{{ input }}']}\n",
    );
    workspace
        .run(["run", "ship.yaml", "--respond", "ask=user", "-i", "v7"])
        .expect_code(0);
    assert!(!workspace.path().join("ran").exists(), "the script ran");
    let shown = workspace
        .run(["runs", "show", "--last", "--messages"])
        .expect_code(0)
        .stdout;
    assert!(
        shown.contains("The agent reads: Shall we ship v7 on Friday?"),
        "{shown}"
    );
    assert!(
        shown.contains("The arguments of the agent: [\"--strict\",\"v7\"]"),
        "{shown}"
    );
}
