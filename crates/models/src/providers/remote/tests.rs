//! What is said to each provider, and what is made of what it says.

mod ends;
mod oddities;
mod silence;

use std::sync::Mutex;

use serde_json::json;

use super::*;
use crate::{RequestTokens, ToolSpec};
use ensemble_core::thread::{Message, MessageRole, StopReason, ToolCall, ToolCallEnd};
use ensemble_language::ensemble::PROVIDERS;

fn profile(provider: &str) -> ModelProfile {
    ModelProfile {
        provider: provider.into(),
        model: "qwen-max".into(),
        temperature: Some(0.5),
        top_p: Some(0.9),
        max_tokens: Some(100),
        seed: Some(7),
        ..ModelProfile::default()
    }
}

/// Instructions, a task, a reply that called two tools of which one failed, and what it said then.
fn request(provider: &str) -> ModelRequest {
    let called = [
        ToolCall {
            signatures: vec!["signed".into()],
            ..ToolCall::new("c1", "add", json!({"a": 1}))
        }
        .with_end(ToolCallEnd::Result(json!({"sum": 1})), 0.1),
        ToolCall::new("c2", "fail", json!({})).with_end(ToolCallEnd::Error("broken".into()), 0.1),
    ];
    ModelRequest {
        messages: vec![
            Message::new(MessageRole::System, "Be brief."),
            Message::new(MessageRole::User, "Add."),
            Message {
                tool_calls: called.into(),
                ..Message::new(MessageRole::Assistant, "")
            },
            Message::new(MessageRole::User, "Again."),
        ],
        agent_name: "a".into(),
        purpose: crate::RequestPurpose::Reply,
        request_number: 3,
        execution: 1,
        prompt: "Again.".into(),
        output_schema: None,
        tools: [ToolSpec {
            name: "add".into(),
            description: "Adds.".into(),
            parameters: json!({"type": "object"}),
        }]
        .into(),
        profile: Arc::new(profile(provider)),
        clock: ensemble_core::stopwatch::Stopwatch::default(),
    }
}

fn body(provider: &str) -> Value {
    let known = ensemble::HttpProvider::find_by_name(provider).expect("is known");
    dialect_for_api(known.dialect).request_body(&request(provider), None)
}

#[test]
fn openai_is_told() {
    let calls = json!([
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}},
        {"id": "c2", "type": "function", "function": {"name": "fail", "arguments": "{}"}},
    ]);
    let tool = json!({"name": "add", "description": "Adds.", "parameters": {"type": "object"}});
    let expected = json!({
        "model": "qwen-max", "stream": true, "stream_options": {"include_usage": true},
        "temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 100, "seed": 7,
        "tools": [{"type": "function", "function": tool}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": null, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "{\"sum\":1}"},
            {"role": "tool", "tool_call_id": "c2", "content": "{\"error\":\"broken\"}"},
            {"role": "user", "content": "Again."},
        ],
    });
    assert_eq!(body("openai"), expected);
    let others = body("groq");
    assert_eq!(
        (&others["max_tokens"], others.get("max_completion_tokens")),
        (&json!(100), None)
    );
}

#[test]
fn anthropic_is_told() {
    let expected = json!({
        "model": "qwen-max", "stream": true, "temperature": 0.5, "top_p": 0.9, "max_tokens": 100,
        "system": "Be brief.",
        "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "fail", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "{\"sum\":1}", "is_error": false},
                {"type": "tool_result", "tool_use_id": "c2", "content": "{\"error\":\"broken\"}", "is_error": true},
            ]},
            {"role": "user", "content": "Again."},
        ],
    });
    assert_eq!(body("anthropic"), expected);
}

#[test]
fn gemini_is_told() {
    let tool = json!({"name": "add", "description": "Adds.", "parametersJsonSchema": {"type": "object"}});
    let expected = json!({
        "generationConfig": {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 100, "seed": 7},
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [tool]}],
        "contents": [
            {"role": "user", "parts": [{"text": "Add."}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "signed"},
                {"functionCall": {"name": "fail", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "add", "response": {"sum": 1}}},
                {"functionResponse": {"name": "fail", "response": {"error": "broken"}}},
            ]},
            {"role": "user", "parts": [{"text": "Again."}]},
        ],
    });
    assert_eq!(body("gemini"), expected);
    let at = |model: &str| dialect_for_api(ensemble::ProviderApi::Gemini).chat_path(model);
    assert_eq!(at("g"), "/models/g:streamGenerateContent?alt=sse");
    assert_eq!(at("tunedModels/g"), "/tunedModels/g:streamGenerateContent?alt=sse");
}

#[test]
fn ollama_is_told() {
    let tool = json!({"name": "add", "description": "Adds.", "parameters": {"type": "object"}});
    let expected = json!({
        "model": "qwen-max", "stream": true,
        "options": {"temperature": 0.5, "top_p": 0.9, "num_predict": 100, "seed": 7},
        "tools": [{"type": "function", "function": tool}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "add", "arguments": {"a": 1}}},
                {"function": {"name": "fail", "arguments": {}}},
            ]},
            {"role": "tool", "tool_name": "add", "content": "{\"sum\":1}"},
            {"role": "tool", "tool_name": "fail", "content": "{\"error\":\"broken\"}"},
            {"role": "user", "content": "Again."},
        ],
    });
    assert_eq!(body("ollama"), expected);
}

#[test]
fn a_schema_is_said_in_each_providers_way() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}});
    let said = |provider: &str, tools: bool| {
        let known = ensemble::HttpProvider::find_by_name(provider).expect("is known");
        let mut request = request(provider);
        if !tools {
            request.tools = Arc::default();
        }
        dialect_for_api(known.dialect).request_body(&request, Some(&schema))
    };
    let format = json!({"type": "json_schema", "json_schema": {"name": "output", "schema": schema, "strict": false}});
    assert_eq!(said("openai", true)["response_format"], format);
    let closed = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false});
    let format = json!({"format": {"type": "json_schema", "schema": closed}});
    assert_eq!(said("anthropic", true)["output_config"], format);
    assert_eq!(said("gemini", false)["generationConfig"]["responseJsonSchema"], schema);
    assert_eq!(
        said("gemini", true)["generationConfig"].get("responseJsonSchema"),
        None,
        "not beside tools"
    );
    assert_eq!(said("ollama", false)["format"], schema);
    assert_eq!(said("ollama", true).get("format"), None, "not beside tools");
}

/// Returns the reply that these events make, and what was heard of it.
fn reply(provider: &str, events: &[Value]) -> (Result<ModelReply, ReplyError>, Vec<String>) {
    let known = ensemble::HttpProvider::find_by_name(provider).expect("is known");
    let heard = Mutex::new(Vec::new());
    let on_piece = |piece: ReplyPiece<'_>| {
        if let ReplyPiece::Text(text) = piece {
            heard.lock().expect("unpoisoned").push(text.to_owned());
        }
    };
    let mut assembly = ReplyAssembly::new(&on_piece);
    let dialect = dialect_for_api(known.dialect);
    let taken = events.iter().try_for_each(|event| {
        let text = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
        let event = StreamEvent { name: "", data: &text };
        apply_known_stream_event(event, dialect, &mut assembly)
    });
    let reply = taken.and_then(|()| assembly.into_complete_reply(3, ReplyCutOffLimits::default()));
    (reply, heard.into_inner().expect("unpoisoned"))
}

/// Text in two pieces, two calls, tokens.
fn streams() -> [(&'static str, Vec<Value>); 4] {
    let openai = |delta: Value| json!({"choices": [{"delta": delta}]});
    let piece = |index: u64, kind: &str, key: &str, piece: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, key: piece}});
    let block = |index: u64, id: &str, name: &str| {
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        json!({"type": "content_block_start", "index": index, "content_block": block})
    };
    let gemini = |parts: Value| json!({"candidates": [{"content": {"parts": parts}}]});
    [
        (
            "openai",
            vec![
                openai(json!({"role": "assistant", "content": ""})),
                openai(json!({"content": "Let me "})),
                openai(json!({"content": "see."})),
                openai(json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": ""}}]})),
                openai(
                    json!({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "add", "arguments": "{\"b\""}}]}),
                ),
                openai(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\":1}"}}]})),
                openai(json!({"tool_calls": [{"index": 1, "function": {"arguments": ":2}"}}]})),
                json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 5}}),
                json!("[DONE]"),
            ],
        ),
        (
            "anthropic",
            vec![
                json!({"type": "message_start", "message": {"usage": {"input_tokens": 8, "cache_read_input_tokens": 3, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "ping"}),
                piece(0, "text_delta", "text", "Let me "),
                piece(0, "text_delta", "text", "see."),
                block(1, "c1", "add"),
                piece(1, "input_json_delta", "partial_json", "{\"a\""),
                piece(1, "input_json_delta", "partial_json", ":1}"),
                block(2, "c2", "add"),
                piece(2, "input_json_delta", "partial_json", "{\"b\":2}"),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}),
                json!({"type": "message_stop"}),
            ],
        ),
        (
            "gemini",
            vec![
                gemini(json!([{"text": "hm", "thought": true}, {"text": "Let me "}])),
                gemini(
                    json!([{"text": "see."}, {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "s"}]),
                ),
                gemini(json!([{"functionCall": {"name": "add", "args": {"b": 2}}}])),
                json!({"candidates": [{"finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 3, "thoughtsTokenCount": 2}}),
            ],
        ),
        (
            "ollama",
            vec![
                json!({"message": {"content": "Let me ", "thinking": "hm"}, "done": false}),
                json!({"message": {"content": "see."}, "done": false}),
                json!({"message": {"content": "", "tool_calls": [
                {"function": {"name": "add", "arguments": {"a": 1}}},
                {"function": {"name": "add", "arguments": {"b": 2}}},
            ]}, "done": false}),
                json!({"message": {"content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 5}),
            ],
        ),
    ]
}

#[test]
fn text_calls_and_tokens_come_out_the_same() {
    for (provider, events) in streams() {
        let (reply, heard) = reply(provider, &events);
        let reply = reply.expect("a whole reply");
        assert_eq!(heard, ["Let me ", "see."], "{provider}");
        assert_eq!(reply.text, "Let me see.", "{provider}");
        assert_eq!(reply.stop_reason, StopReason::EndTurn, "{provider}");
        assert_eq!(
            reply.tokens,
            Some(RequestTokens {
                input: 11,
                cached: if provider == "anthropic" { 3 } else { 0 },
                output: 5
            }),
            "{provider}"
        );
        let calls: Vec<_> = reply
            .tool_calls
            .iter()
            .map(|call| (&*call.name, call.arguments.clone()))
            .collect();
        assert_eq!(
            calls,
            [("add", json!({"a": 1})), ("add", json!({"b": 2}))],
            "{provider}"
        );
        let ids: Vec<&str> = reply.tool_calls.iter().map(|call| &*call.id).collect();
        let expected = match provider {
            "openai" | "anthropic" => ["c1", "c2"],
            _ => ["call_3_1", "call_3_2"],
        };
        assert_eq!(ids, expected, "{provider}");
        let signed = if provider == "gemini" {
            vec!["s".to_owned()]
        } else {
            Vec::new()
        };
        assert_eq!(reply.tool_calls[0].signatures, signed, "{provider}");
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_is_no_reply() {
    for (provider, events) in streams() {
        // OpenAI's reason to stop comes before its last word, and others' is the last word.
        let whole = if provider == "openai" { 7 } else { events.len() - 1 };
        let whole = if provider == "anthropic" { whole - 1 } else { whole };
        for length in 0..whole {
            assert_eq!(
                reply(provider, &events[..length]).0,
                Err(ReplyError::CutOff),
                "{provider} {length}"
            );
        }
        assert!(reply(provider, &events[..=whole]).0.is_ok(), "{provider}");
    }
}

#[test]
fn reasons_to_stop_are_understood() {
    let rows = [
        (
            "openai",
            json!({"choices": [{"finish_reason": "length"}]}),
            StopReason::MaxTokens,
        ),
        (
            "openai",
            json!({"choices": [{"finish_reason": "content_filter"}]}),
            StopReason::Refusal,
        ),
        (
            "openai",
            json!({"choices": [{"message": {"refusal": "No."}, "finish_reason": "stop"}]}),
            StopReason::Refusal,
        ),
        (
            "anthropic",
            json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
            StopReason::MaxTokens,
        ),
        (
            "anthropic",
            json!({"type": "message", "content": [], "stop_reason": "refusal"}),
            StopReason::Refusal,
        ),
        (
            "gemini",
            json!({"candidates": [{"finishReason": "MAX_TOKENS"}]}),
            StopReason::MaxTokens,
        ),
        (
            "gemini",
            json!({"candidates": [{"finishReason": "SAFETY"}]}),
            StopReason::Refusal,
        ),
        (
            "gemini",
            json!({"promptFeedback": {"blockReason": "SAFETY"}}),
            StopReason::Refusal,
        ),
        (
            "ollama",
            json!({"done": true, "done_reason": "length"}),
            StopReason::MaxTokens,
        ),
    ];
    for (provider, event, expected) in rows {
        let reply = reply(provider, std::slice::from_ref(&event)).0.expect("a reply");
        assert_eq!(reply.stop_reason, expected, "{event}");
    }
}

#[test]
fn whole_messages_and_odd_calls_are_taken_too() {
    let call = json!({"id": "c", "function": {"name": "add", "arguments": "{\"a\":1}"}});
    let openai = json!({"choices": [{"message": {"content": "Hi", "tool_calls": [call]}, "finish_reason": "stop"}]});
    let block = json!({"type": "tool_use", "id": "c", "name": "add", "input": {"a": 1}});
    let text = json!({"type": "text", "text": "Hi"});
    let anthropic = json!({"type": "message", "content": [text, block], "stop_reason": "end_turn"});
    for (provider, event) in [("openai", openai), ("anthropic", anthropic)] {
        let reply = reply(provider, &[event]).0.expect("a reply");
        assert_eq!(
            (&*reply.text, &reply.tool_calls),
            ("Hi", &vec![ToolCall::new("c", "add", json!({"a": 1}))])
        );
    }
    for (arguments, expected) in [
        (json!(""), json!({})),
        (json!("{\"a\":"), json!("{\"a\":")),
        (json!({"a": 1}), json!({"a": 1})),
    ] {
        let call = json!({"function": {"name": "add", "arguments": arguments}});
        let event = json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
        let reply = reply("openai", &[event]).0.expect("a reply");
        assert_eq!(reply.tool_calls, [ToolCall::new("call_3_1", "add", expected)]);
    }
}

#[test]
fn errors_in_a_stream_are_errors() {
    let rows = [
        ("openai", json!({"error": {"message": "down", "code": 502}}), true),
        (
            "openai",
            json!({"error": {"message": "down", "type": "invalid_request_error"}}),
            false,
        ),
        (
            "anthropic",
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "down"}}),
            true,
        ),
        ("gemini", json!({"error": {"code": 400, "message": "down"}}), false),
        ("ollama", json!({"error": "down"}), true),
    ];
    for (provider, event, retryable) in rows {
        let message = "down".to_owned();
        assert_eq!(
            reply(provider, std::slice::from_ref(&event)).0,
            Err(ReplyError::ReportedByProvider { message, retryable }),
            "{event}"
        );
    }
}

#[test]
fn the_usual_addresses_have_no_slash_at_the_end() {
    for provider in PROVIDERS {
        assert!(!provider.base_url.ends_with('/'), "{}", provider.name);
    }
}
