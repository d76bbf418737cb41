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
        "models answered the questions of person (user)",
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
            "the agents are inside, person, reviewer, writer",
        ),
        (
            ["--stub", "person=x"],
            "`person` asks a person, so it cannot have a stub",
            "--always-answer person=TEXT",
        ),
        (["--stub", "writer"], "--stub takes AGENT=TEXT or AGENT=@FILE", ""),
        (
            ["--respond", "writer=user"],
            "`writer` is not an input agent",
            "the input agents are person",
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
    assert!(workspace.runs().is_empty(), "a run was begun");
}
