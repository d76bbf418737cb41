//! Replies as servers send them, through the binary: calls that look alike, content in parts, replies that are cut off.

use serde_json::{Value, json};

use super::providers::{ensemble, response, run, run_in};
use crate::support::Workspace;
use crate::support::server::{Answer, Server, events, says};

/// A streamed reply of these deltas.
pub(super) fn streams(deltas: &[Value], finish: &str) -> Answer {
    let delta = |delta: &Value| json!({"choices": [{"delta": delta}]}).to_string();
    let mut all: Vec<String> = deltas.iter().map(delta).collect();
    all.push(json!({"choices": [{"delta": {}, "finish_reason": finish}]}).to_string());
    all.push("[DONE]".to_owned());
    events(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

/// An ensemble of one agent with the tool `double`, which doubles `n`.
pub(super) fn with_tool(url: &str, more: &str) -> (Workspace, String) {
    let workspace = Workspace::new();
    workspace.write("double.rhai", "#{ doubled: parameters.n * 2 }");
    let tool = "tools:\n  double: {script: double.rhai, parameters: {type: object, required: [n], properties: {n: {type: integer}}}}\n";
    let text = ensemble(url, more).replace("model_profile: main}", "model_profile: main, tools: [double]}");
    (workspace, text + tool)
}

/// The messages of tools in a request: the id of the call and the result.
fn results(body: &Value) -> Vec<(String, String)> {
    let messages = body["messages"].as_array().expect("messages");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let tools = messages.iter().filter(|message| message["role"] == "tool");
    tools
        .map(|message| (text(&message["tool_call_id"]), text(&message["content"])))
        .collect()
}

fn called(index: Option<u64>, id: &str, n: u64) -> Value {
    let mut call = json!({"function": {"name": "double", "arguments": format!("{{\"n\": {n}}}")}});
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    if let Some(index) = index {
        call["index"] = json!(index);
    }
    json!({"tool_calls": [call]})
}

fn pairs(expected: &[(&str, u64)]) -> Vec<(String, String)> {
    let pair = |(id, doubled): &(&str, u64)| ((*id).to_owned(), format!("{{\"doubled\":{doubled}}}"));
    expected.iter().map(pair).collect()
}

#[test]
fn each_call_gets_its_own_result_however_the_server_marks_it() {
    for (index, ids, expected) in [
        (Some(0), ["a", "b"], ["a", "b"]),
        (None, ["a", "b"], ["a", "b"]),
        (Some(0), ["a", "a"], ["a", "a_2"]),
        (Some(0), ["", ""], ["call_1_1", "call_1_2"]),
        (None, ["", ""], ["call_1_1", "call_1_2"]),
    ] {
        let first = streams(&[called(index, ids[0], 2), called(index, ids[1], 5)], "tool_calls");
        let server = Server::with(vec![first, says("Done.")]);
        let (workspace, text) = with_tool(&server.url(), "");
        let result = run_in(&workspace, &text, &[]).json();
        assert_eq!(response(&result), "Done.", "{index:?} {ids:?}: {result:#}");
        let told = results(&server.asked()[1].body);
        assert_eq!(told, pairs(&[(expected[0], 4), (expected[1], 10)]), "{index:?} {ids:?}");
    }
}

#[test]
fn an_id_that_comes_again_in_a_later_reply_is_made_another() {
    let call = |n: u64| streams(&[called(Some(0), "call_0", n)], "tool_calls");
    let server = Server::with(vec![call(1), call(2), says("Done.")]);
    let (workspace, text) = with_tool(&server.url(), "");
    run_in(&workspace, &text, &[]).expect_code(0);
    let told = results(&server.asked()[2].body);
    assert_eq!(told, pairs(&[("call_0", 2), ("call_0_2", 4)]));
}

#[test]
fn a_call_that_the_token_limit_cuts_off_is_told_to_the_model_and_to_the_user() {
    let cut = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "double", "arguments": "{\"n\": "}}]});
    let server = Server::with(vec![streams(&[cut], "length"), says("Done.")]);
    let (workspace, text) = with_tool(&server.url(), "");
    let result = run_in(&workspace, &text, &[]).expect_code(0).json();
    let (_, told) = &results(&server.asked()[1].body)[0];
    assert!(told.contains("cut off at the token limit"), "{told}");
    let warnings = result["warnings"].to_string();
    assert!(
        warnings.contains("the model's call of `double` was cut off at its token limit"),
        "{result:#}"
    );
}

#[test]
fn content_in_parts_is_read_streamed_or_not() {
    let parts = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Hello "},
        {"type": "text", "text": "there."},
    ]);
    let whole = json!({"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}).to_string();
    let whole = crate::support::server::answer("200 OK", &[("content-type", "application/json")], &whole);
    for answer in [streams(&[json!({"content": parts})], "stop"), whole] {
        let server = Server::with(vec![answer]);
        let result = run(&ensemble(&server.url(), ""));
        assert_eq!(response(&result), "Hello there.");
        assert_eq!(result["warnings"], json!([]));
    }
}

#[test]
fn an_empty_reply_is_a_warning() {
    for (finish, expected) in [("stop", "the model's reply is empty"), ("length", "raise `max_tokens`")] {
        let server = Server::with(vec![streams(&[json!({"content": ""})], finish)]);
        let result = run(&ensemble(&server.url(), ""));
        assert_eq!(result["completion_reason"], "completed");
        assert!(result["warnings"].to_string().contains(expected), "{result:#}");
    }
}
