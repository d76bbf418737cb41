//! `ensemble models`: models are tried and listed.

use std::time::Duration;

use serde_json::json;

use super::providers::KEY;
use crate::support::Workspace;
use crate::support::server::{Part, Server, answer, head, says};

#[test]
fn models_of_fallbacks_summaries_and_answers_are_tried_too_and_not_waited_for_longer_than_they_say() {
    let good = Server::with(vec![says("ok")]);
    let slow = Server::with(vec![vec![
        head("text/event-stream"),
        Part::Drip(b": still here\n\n".to_vec(), Duration::from_millis(20)),
    ]]);
    let text = format!(
        "name: many\nagents:\n  - name: a\n    model_profile: main\n    \
         context_window: {{max_tokens: 100, strategy: {{summarize: short}}}}\n  \
         - {{name: b, input: {{prompt: 'Well?', responses: {{model_profile: person}}}}}}\nmodel_profiles:\n  \
         main: {{provider: openai, model: m, base_url: '{good}', fallback: spare}}\n  \
         spare: {{provider: openai, model: m, base_url: '{slow}', timeout_seconds: 0.2}}\n  \
         short: {{provider: openai, model: m, base_url: '{good}'}}\n  \
         person: {{provider: openai, model: m, base_url: '{good}'}}\n",
        good = good.url(),
        slow = slow.url()
    );
    let workspace = Workspace::new();
    workspace.write("many.yaml", text);
    let told = workspace
        .run(["models", "check", "many.yaml", "--format", "json"])
        .expect_code(1)
        .json();
    let models = told["models"].as_array().expect("a list");
    let tried: Vec<(&str, bool)> = models
        .iter()
        .map(|one| (one["profile"].as_str().expect("a name"), one["ok"] == true))
        .collect();
    assert_eq!(
        tried,
        [("main", true), ("spare", false), ("short", true), ("person", true)]
    );
    assert_eq!(models[1]["error"], "no answer within 0.2 s");
}

#[test]
fn models_are_tried_side_by_side_and_each_gets_a_line() {
    let good = Server::with(vec![says("ok")]);
    let wrong = Server::with(vec![answer("401 Unauthorized", &[], "who are you")]);
    let text = format!(
        "name: many\nagents:\n  - {{name: a, model_profile: good}}\n  - {{name: b, model_profile: wrong}}\n  \
         - {{name: c, model_profile: gone}}\n  - {{name: d, model_profile: keyless}}\n  - {{name: e, model: simulated/x}}\n\
         model_profiles:\n  good: {{provider: openai, model: m, base_url: '{}', fallback: wrong}}\n  \
         wrong: {{provider: anthropic, model: m, base_url: '{}', api_key_env: OTHER_KEY}}\n  \
         keyless: {{provider: gemini, model: m}}\n",
        good.url(),
        wrong.url()
    );
    let workspace = Workspace::new();
    workspace.write("many.yaml", text);
    let told = |form: &str| {
        let mut command = workspace.command(["models", "check", "many.yaml", "--format", form]);
        crate::support::Running(command.env("OTHER_KEY", KEY).spawn().expect("starts"))
            .finish()
            .expect_code(1)
    };
    let human = told("human").stdout;
    let lines: Vec<&str> = human.lines().collect();
    assert_eq!(lines.len(), 5, "{human}");
    let expected = [
        ("✓ good ", "no key is sent"),
        ("✗ wrong ", "is the key in OTHER_KEY right?"),
        ("✗ gone ", "unknown model profile `gone`"),
        ("✗ keyless ", "set the environment variable GEMINI_API_KEY"),
        ("✓ simulated/x ", "simulated: no request was sent"),
    ];
    for (begin, says) in expected {
        let line = lines
            .iter()
            .find(|line| line.starts_with(begin))
            .unwrap_or_else(|| panic!("{begin}: {human}"));
        assert!(line.contains(says), "{line}");
    }
    let json = told("json").json();
    assert_eq!((&json["version"], &json["models"][0]["ok"]), (&json!(1), &json!(true)));
    assert_eq!(json["models"][1]["api_key_env"], "OTHER_KEY");
    assert_eq!(good.asked()[0].body["max_tokens"], 16, "a tiny reply is asked for");
    workspace
        .run(["models", "check", "many.yaml", "--model", "*=simulated"])
        .expect_code(0);
    let empty = workspace.run(["models", "check"]).expect_code(0);
    assert!(empty.stderr.contains("no model profile"), "{empty:?}");
}

#[test]
fn models_are_listed() {
    let list = answer(
        "200 OK",
        &[("content-type", "application/json")],
        r#"{"data": [{"id": "one"}, {"id": "two"}]}"#,
    );
    let server = Server::with(vec![list]);
    let workspace = Workspace::new();
    workspace.write(
        ".ensemble/config.yaml",
        format!(
            "model_profiles: {{main: {{provider: openai, model: one, base_url: '{}'}}}}\n",
            server.url()
        ),
    );
    let told = workspace.run(["models", "list"]).expect_code(0).stdout;
    assert!(
        told.contains(&format!("main  openai/one  {}, without a key\n", server.url())),
        "{told}"
    );
    assert!(server.asked().is_empty(), "nothing is sent without being asked for");
    let told = workspace.run(["models", "list", "--remote"]).expect_code(0).stdout;
    assert!(told.contains("2 models, no key is sent\n    one\n    two\n"), "{told}");
    assert_eq!(server.asked()[0].line(), "GET /v1/models");
    let json = workspace
        .run(["models", "list", "--remote", "--format", "json"])
        .expect_code(0)
        .json();
    assert_eq!(json["models"][0]["models"], json!(["one", "two"]));
}
