//! Why a model stopped, through the binary: kinds of failures, fallbacks after a refusal, and the record of each reply.

use serde_json::{Value, json};

use super::model_replies::{streams, with_tool};
use super::providers::{ensemble, response, run, run_in};
use crate::support::Workspace;
use crate::support::server::{Answer, Server, answer, events, says};

/// Refusals of each provider: the answer, and what the error says.
fn refusals() -> Vec<(&'static str, Answer, &'static str)> {
    let filtered = json!({"choices": [{"delta": {}, "finish_reason": "content_filter",
        "content_filter_results": {"hate": {"filtered": true}, "violence": {"filtered": false}}}]});
    let azure =
        json!({"error": {"code": "content_filter", "message": "The prompt was filtered (self_harm)"}}).to_string();
    vec![
        (
            "openai",
            streams(&[json!({"refusal": "I will not."})], "stop"),
            "the model refused: I will not.",
        ),
        (
            "openai",
            events(&[&filtered.to_string(), "[DONE]"]),
            "the model refused: a content filter stopped the reply (hate)",
        ),
        (
            "openai",
            answer("400 Bad Request", &[], &azure),
            "The prompt was filtered (self_harm)",
        ),
        (
            "gemini",
            events(&[r#"{"promptFeedback": {"blockReason": "SAFETY"}}"#]),
            "the model refused: a content filter blocked the prompt (SAFETY)",
        ),
        (
            "anthropic",
            events(&[
                r#"{"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"category": "cyber"}}}"#,
                r#"{"type": "message_stop"}"#,
            ]),
            "the model refused: cyber",
        ),
    ]
}

#[test]
fn a_refusal_is_a_failure_of_its_own_that_is_not_tried_again() {
    for (provider, refusal, expected) in refusals() {
        let server = Server::with(vec![refusal]);
        let text = ensemble(&server.url(), "").replace("openai", provider).replace(
            "model_profile: main}",
            "model_profile: main, retry: {max_attempts: 3, delay_seconds: 0}}",
        );
        let result = run(&text);
        let execution = &result["conversation_history"][0];
        assert_eq!(execution["output_data"]["kind"], "refusal", "{provider}: {execution:#}");
        assert!(
            execution["error"]
                .as_str()
                .is_some_and(|error| error.contains(expected)),
            "{execution:#}"
        );
        assert_eq!(server.asked().len(), 1, "{provider} {expected}");
    }
}

#[test]
fn a_refusal_goes_to_the_fallback() {
    for (provider, refusal, expected) in refusals() {
        let server = Server::with(vec![refusal]);
        let steady = Server::with(vec![says("Certainly.")]);
        let text = ensemble(&server.url(), ", fallback: steady").replace("openai", provider)
            + &*format!(
                "  steady: {{provider: openai, model: m, base_url: '{}'}}\n",
                steady.url()
            );
        let result = run(&text);
        assert_eq!(response(&result), "Certainly.", "{provider}");
        assert!(result["warnings"].to_string().contains(expected), "{result:#}");
    }
}

fn kind(result: &Value) -> &Value {
    &result["conversation_history"][0]["output_data"]["kind"]
}

#[test]
fn limits_are_kinds_of_their_own() {
    let call =
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "double", "arguments": "{\"n\": 2}"}}]});
    let server = Server::with(vec![streams(&[call], "tool_calls")]);
    let (workspace, text) = with_tool(&server.url(), "");
    let text = text.replace("tools: [double]", "tools: [double], max_iterations: 2");
    assert_eq!(kind(&run_in(&workspace, &text, &[]).json()), "max_iterations");

    let server = Server::with(vec![streams(&[json!({"content": "{\"score\": "})], "length")]);
    let schema = "model_profile: main, output_schema: {type: object, required: [score]}, retry: {max_attempts: 2}}";
    let result = run(&ensemble(&server.url(), "").replace("model_profile: main}", schema));
    assert_eq!(kind(&result), "max_tokens", "{result:#}");
    let told = server.asked()[1].body["messages"].to_string();
    assert!(told.contains("cut off at its token limit"), "{told}");
    assert_eq!(server.asked().len(), 2, "the model was told once, and that is all");
}

#[test]
fn a_route_can_ask_for_the_kind() {
    let server = Server::with(vec![streams(&[json!({"refusal": "No."})], "stop")]);
    let route = "agents:\n  - {name: writer, model_profile: main}\n  - name: other\n    script: other.rhai\n    dependencies:\n      \
         - {agent_name: writer, on: failure, condition: 'output.kind == \"refusal\"'}\n";
    let workspace = Workspace::new();
    workspace.write("other.rhai", "failures.writer.kind");
    let text = ensemble(&server.url(), "").replace("agents: [{name: writer, model_profile: main}]\n", route);
    let result = run_in(&workspace, &text, &[]).expect_code(0).json();
    assert_eq!(result["final_state"]["other"]["response"], "refusal");
}

#[test]
fn each_iteration_says_who_answered_why_it_stopped_and_what_it_used() {
    fn find(value: &Value) -> Option<Value> {
        match value {
            Value::Object(map) => map.get("metadata").cloned().or_else(|| map.values().find_map(find)),
            Value::Array(items) => items.iter().find_map(find),
            _ => None,
        }
    }
    let server = Server::with(vec![says("Hello.")]);
    let workspace = Workspace::new();
    run_in(&workspace, &ensemble(&server.url(), ""), &[]).expect_code(0);
    let metadata = workspace.journal().iter().find_map(find).expect("metadata");
    let expected = json!({"model": "openai/some-model", "stop_reason": "end_turn",
        "usage": {"input_tokens": 1000, "output_tokens": 200, "estimated": false}});
    assert_eq!(metadata, expected);
}
