//! `ensemble acp`: the stop reason of a prompt, and what the history says of it.

use serde_json::{Value, json};

use super::model_replies::streams;
use crate::support::acp_client::Client;
use crate::support::server::Server;
use crate::support::{Workspace, eventually};

/// An agent whose first reply is cut off.
const CUT: &str =
    "acp: simulated, prompt: go, config: {replies: [{text: half a sen, stop: max_tokens}, {text: whole}]}";

/// A model that calls a tool again and again.
const LOOPING: &str = "model_profiles: {p: {provider: simulated, replies: [{tool_calls: [{name: look}]}]}}\n\
                       tools: {look: {script: 'echo seen', permission: allow, parameters: {type: object}}}\n";

/// The stop reason of a first prompt, and those in the history.
fn stops(files: &[(&str, &str)]) -> (Value, Vec<String>) {
    let workspace = Workspace::new();
    for (name, text) in files {
        workspace.write(name, text);
    }
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    let answer = client.prompt(&session, "go");
    assert_ne!(answer["result"], Value::Null, "{answer}");
    (answer["result"]["stopReason"].clone(), history_stops(&workspace))
}

fn history_stops(workspace: &Workspace) -> Vec<String> {
    let shown = workspace
        .run(["runs", "show", "--last", "--output", "json"])
        .expect_code(0);
    let mut stops = Vec::new();
    collect_stops(&shown.json(), &mut stops);
    stops
}

fn collect_stops(value: &Value, stops: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_stops(item, stops)),
        Value::Object(map) => {
            if let (true, Some(reason)) = (
                map.contains_key("attempts"),
                map.get("stop_reason").and_then(Value::as_str),
            ) {
                stops.push(reason.to_owned());
            }
            map.values().for_each(|inner| collect_stops(inner, stops));
        }
        _ => {}
    }
}

#[test]
fn a_reply_that_is_cut_off_is_never_the_end_of_a_turn() {
    let agents = |more: &str| format!("name: a\nagents:\n  - {{name: a, {CUT}}}\n{more}");
    let alone = agents("");
    let then = agents("  - {name: b, script: echo b, depends_on: [a]}\n");
    let beside = agents("  - {name: b, acp: simulated, prompt: go}\n  - {name: c, script: echo c}\n");
    let schema = format!(
        "name: a\nagents:\n  - {{name: a, {CUT}, output_schema: {{type: object, required: [n]}}, retry: {{max_attempts: 1}}}}\n"
    );
    let parts = format!("name: a\nagents:\n  - {{name: a, {CUT}, for_each: {{in: [x, y]}}}}\n");
    let outer = "name: outer\nagents: [{name: team, ensemble: inner.yaml}]\n";
    for (file, inner) in [
        (alone.as_str(), ""),
        (&then, ""),
        (&beside, ""),
        (&schema, ""),
        (&parts, ""),
        (outer, alone.as_str()),
    ] {
        let (reason, history) = stops(&[("a.yaml", file), ("inner.yaml", inner)]);
        assert_eq!(reason, "max_tokens", "{file}");
        if inner.is_empty() && file != parts {
            assert!(history.contains(&"max_tokens".to_owned()), "{file}: {history:?}");
        }
    }
    // Another agent handles the failure.
    let handled = format!("{schema}  - {{name: h, script: echo h, dependencies: [{{agent_name: a, on: failure}}]}}\n");
    assert_eq!(stops(&[("a.yaml", &handled)]).0, "max_tokens", "{handled}");
    // A reply that replaces the one that was cut off ends the turn.
    let again = format!(
        "name: a\nagents:\n  - {{name: a, {CUT}, conversation: {{max_turns: 2}}, dependencies: [{{agent_name: b, feedback: true}}]}}\n  \
         - {{name: b, script: echo b, depends_on: [a]}}\n"
    );
    assert_eq!(stops(&[("a.yaml", &again)]).0, "end_turn");
}

/// The same for the models of a provider, also after a tool call.
#[test]
fn a_reply_of_a_provider_that_is_cut_off_is_a_limit_of_tokens() {
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}]});
    let cut = || streams(&[json!({"content": "half a sen"})], "length");
    for answers in [vec![cut()], vec![streams(&[call], "tool_calls"), cut()]] {
        let server = Server::with(answers);
        let file = format!(
            "name: a\nmodel_profiles: {{p: {{provider: openai, model: m, base_url: '{}', retry: {{max_attempts: 1}}}}}}\n\
             tools: {{look: {{script: 'echo seen', permission: allow, parameters: {{type: object}}}}}}\n\
             agents: [{{name: a, model_profile: p, tools: [look]}}]\n",
            server.url()
        );
        let (reason, history) = stops(&[("a.yaml", &file)]);
        assert_eq!(reason, "max_tokens", "{file}");
        assert_eq!(history, ["max_tokens"], "{file}");
    }
}

#[test]
fn a_budget_that_is_used_up_inside_the_loop_is_a_limit_of_tokens() {
    let agents = format!(
        "name: a\nconversation_limits: {{max_total_tokens: 1}}\n{LOOPING}agents:\n  - {{name: a, model_profile: p, tools: [look]}}\n"
    );
    let beside = format!("{agents}  - {{name: b, script: sleep 0.5}}\n");
    for file in [&agents, &beside] {
        let (reason, history) = stops(&[("a.yaml", file)]);
        assert_eq!(reason, "max_tokens", "{file}");
        assert_eq!(history, ["max_tokens"], "{file}");
    }
}

#[test]
fn a_limit_of_iterations_is_a_limit_of_requests() {
    let agents =
        format!("name: a\n{LOOPING}agents:\n  - {{name: a, model_profile: p, tools: [look], max_iterations: 2}}\n");
    let beside = format!("{agents}  - {{name: b, script: sleep 0.5}}\n");
    let outer = "name: outer\nagents: [{name: team, ensemble: inner.yaml}]\n";
    for (file, inner) in [(agents.as_str(), ""), (&beside, ""), (outer, agents.as_str())] {
        let (reason, history) = stops(&[("a.yaml", file), ("inner.yaml", inner)]);
        assert_eq!(reason, "max_turn_requests", "{file}");
        if inner.is_empty() {
            assert_eq!(history, ["max_turn_requests"], "{file}");
        }
    }
}

#[test]
fn a_cancelled_attempt_is_cancelled_in_the_history() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nmodel_profiles: {p: {provider: simulated, replies: [{text: I look, tool_calls: [{name: look}]}]}}\n\
         tools: {look: {script: 'touch begun; sleep 60', permission: allow, parameters: {type: object}}}\n\
         agents: [{name: a, model_profile: p, tools: [look]}]\n",
    );
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    eventually("the tool runs", || {
        workspace.path().join("begun").exists().then_some(())
    });
    client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");
    client.leave();
    assert_eq!(history_stops(&workspace), ["cancelled"]);
}

#[test]
fn a_cut_off_reply_is_told_also_if_another_agent_handles_the_failure() {
    let text = "name: a\nagents:\n  - {name: a, acp: simulated, prompt: go, output_schema: {type: object, required: [n]}, config: {replies: \
                [{text: half a sen, stop: max_tokens}]}}\n  - {name: h, script: 'echo handled', dependencies: [{agent_name: a, on: failure}]}\n";
    assert_eq!(stops(&[("a.yaml", text)]).0, "max_tokens");
}
