//! What providers do beside what their documents say first, and what they refuse.

use super::*;

fn of(provider: &str) -> &'static dyn ProviderDialect {
    dialect_for_api(
        ensemble::HttpProvider::find_by_name(provider)
            .expect("is known")
            .dialect,
    )
}

fn calls(provider: &str, event: Value) -> Vec<ToolCall> {
    reply(provider, &[event]).0.expect("a reply").tool_calls
}

#[test]
fn text_beside_tool_calls_is_said_again() {
    let said = |provider: &str| {
        let mut request = request(provider);
        request.messages[2].content = "Let me see.".into();
        of(provider).request_body(&request, None)
    };
    assert_eq!(said("openai")["messages"][2]["content"], "Let me see.");
    assert_eq!(said("ollama")["messages"][2]["content"], "Let me see.");
    let text = json!({"type": "text", "text": "Let me see."});
    assert_eq!(said("anthropic")["messages"][1]["content"][0], text);
    assert_eq!(
        said("gemini")["contents"][1]["parts"][0],
        json!({"text": "Let me see."})
    );
}

#[test]
fn where_the_profile_wishes_nothing_only_what_must_be_said_is_said() {
    let said = |provider: &str| {
        let mut request = request(provider);
        request.profile = Arc::new(ModelProfile {
            provider: provider.into(),
            model: "qwen-max".into(),
            ..ModelProfile::default()
        });
        of(provider).request_body(&request, None)
    };
    assert_eq!(said("anthropic")["max_tokens"], 4096);
    for (provider, key) in [
        ("openai", "max_completion_tokens"),
        ("gemini", "generationConfig"),
        ("ollama", "options"),
    ] {
        assert_eq!(said(provider).get(key), None, "{provider}");
    }
    let mut elsewhere = request("openai");
    let profile = ModelProfile {
        base_url: Some("http://h:1".into()),
        ..profile("openai")
    };
    elsewhere.profile = Arc::new(profile);
    let body = of("openai").request_body(&elsewhere, None);
    assert_eq!(
        (&body["max_tokens"], body.get("max_completion_tokens")),
        (&json!(100), None),
        "another server does not know the word"
    );
}

#[test]
fn anthropic_gets_no_message_without_text() {
    let mut request = request("anthropic");
    request.messages[1].content = " \n".into();
    assert_eq!(
        of("anthropic").request_body(&request, None)["messages"][0],
        json!({"role": "user", "content": "…"})
    );
}

#[test]
fn gemini_gets_results_as_objects_and_no_query_by_a_models_name() {
    let mut request = request("gemini");
    request.messages[2].tool_calls[0].end = Some(ToolCallEnd::Result(json!("four")));
    assert_eq!(
        of("gemini").request_body(&request, None)["contents"][2]["parts"][0]["functionResponse"]["response"],
        json!({"result": "four"})
    );
    assert_eq!(
        of("gemini").chat_path("g?key=x#y"),
        "/models/gkey=xy:streamGenerateContent?alt=sse"
    );
    request.tools = Arc::default();
    let body = of("gemini").request_body(&request, Some(&json!({"type": "object"})));
    assert_eq!(body["generationConfig"]["responseMimeType"], "application/json");
}

#[test]
fn models_are_listed_by_the_names_that_profiles_write() {
    let list = json!({"models": [{"name": "models/g"}, {"name": "tunedModels/t"}, {"id": "no name"}]});
    assert_eq!(of("gemini").parse_model_names(&list), ["g", "tunedModels/t"]);
    assert_eq!(
        of("ollama").parse_model_names(&json!({"models": [{"name": "llama3.2:1b"}]})),
        ["llama3.2:1b"]
    );
    assert_eq!(
        of("anthropic").parse_model_names(&json!({"data": [{"id": "c"}]})),
        ["c"]
    );
}

#[test]
fn calls_without_an_index_are_told_apart() {
    let call = |id: &str, arguments: &str| json!({"id": id, "function": {"name": "add", "arguments": arguments}});
    let both = json!([call("c1", "{\"a\":1}"), call("c2", "{\"b\":2}")]);
    let event = json!({"choices": [{"message": {"tool_calls": both}, "finish_reason": "tool_calls"}]});
    let expected = [
        ToolCall::new("c1", "add", json!({"a": 1})),
        ToolCall::new("c2", "add", json!({"b": 2})),
    ];
    assert_eq!(calls("openai", event), expected);
}

#[test]
fn calls_of_nothing_are_none_and_no_arguments_are_an_empty_object() {
    let openai = |function: Value| json!({"choices": [{"message": {"tool_calls": [{"id": "c", "function": function}]}, "finish_reason": "stop"}]});
    assert_eq!(calls("openai", openai(json!({"name": "", "arguments": "{}"}))), []);
    let expected = [ToolCall::new("c", "now", json!({}))];
    assert_eq!(
        calls("openai", openai(json!({"name": "now", "arguments": "null"}))),
        expected
    );
    let gemini =
        json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "now"}}]}, "finishReason": "STOP"}]});
    assert_eq!(
        calls("gemini", gemini),
        [ToolCall::new("call_3_1", "now", json!({}))],
        "no arguments at all"
    );
}

#[test]
fn a_stream_ends_by_its_last_word_too_and_what_follows_is_not_read() {
    let events = [
        json!({"error": null, "choices": [{"delta": {"content": "Hi"}}]}),
        json!("[DONE]"),
        json!("rubbish"),
    ];
    let said = reply("openai", &events).0.expect("a reply");
    assert_eq!((&*said.text, said.stop_reason), ("Hi", StopReason::EndTurn));
}

#[test]
fn who_counts_nothing_has_not_counted_and_cached_tokens_count() {
    let counted = |provider: &str, events: &[Value]| reply(provider, events).0.expect("a reply").tokens;
    let nothing = json!({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0}});
    assert_eq!(counted("openai", &[nothing]), None);
    let usage = json!({"input_tokens": 8, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 3});
    let events = [
        json!({"type": "message_start", "message": {"usage": usage}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
    ];
    assert_eq!(
        counted("anthropic", &events),
        Some(RequestTokens {
            input: 31,
            cached: 3,
            output: 5
        })
    );
}

#[test]
fn a_full_window_cuts_off_and_a_malformed_call_is_no_reply() {
    let full = json!({"type": "message_delta", "delta": {"stop_reason": "model_context_window_exceeded"}});
    let full = reply("anthropic", &[full]).0.expect("a reply");
    assert_eq!(full.stop_reason, StopReason::MaxTokens);
    let malformed =
        json!({"candidates": [{"content": {"parts": [{"text": "Hm"}]}, "finishReason": "MALFORMED_FUNCTION_CALL"}]});
    assert!(matches!(reply("gemini", &[malformed]).0, Err(ReplyError::Malformed(_))));
}

#[test]
fn a_provider_may_be_busy_in_a_stream_and_a_wrong_key_stays_wrong() {
    for (error, expected) in [
        (json!({"message": "busy", "code": 429}), true),
        (json!({"message": "slow", "code": 408}), true),
        (json!({"message": "who?", "type": "authentication_error"}), false),
    ] {
        let told = reply("openai", &[json!({"error": error})]).0;
        assert!(
            matches!(told, Err(ReplyError::ReportedByProvider { retryable, .. }) if retryable == expected),
            "{error}"
        );
    }
}

#[test]
fn neither_text_nor_arguments_are_held_without_bound() {
    let piece = "x".repeat(1 << 20);
    let openai = |delta: Value| json!({"choices": [{"delta": delta}]});
    let rows = [
        ("openai", openai(json!({"content": piece}))),
        (
            "openai",
            openai(json!({"tool_calls": [{"index": 0, "function": {"name": "add", "arguments": piece}}]})),
        ),
        (
            "anthropic",
            json!({"type": "content_block_delta", "index": 1, "delta": {"partial_json": piece}}),
        ),
        (
            "gemini",
            json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "add", "args": {"a": piece}}}]}}]}),
        ),
        (
            "ollama",
            json!({"message": {"tool_calls": [{"function": {"name": "add", "arguments": {"a": piece}}}]}, "done": false}),
        ),
    ];
    for (provider, event) in rows {
        let mut assembly = ReplyAssembly::new(&|_| {});
        let taken = (0..11).try_for_each(|_| of(provider).add_event_to_reply(&event, &mut assembly));
        assert_eq!(taken, Err(ReplyError::TooLarge), "{provider}");
    }
}

#[test]
fn a_key_that_a_model_repeats_as_an_argument_is_struck_out() {
    let network = ModelNetwork::new(
        |_: &str| Some("sk-0123456789".to_owned()),
        || chrono::DateTime::UNIX_EPOCH,
        || 0.5,
    );
    let openai = ensemble::HttpProvider::find_by_name("openai").expect("is known");
    let credentials = ProviderCredentials::from_environment(&ModelProfile::default(), openai, &network).expect("a key");
    let told = ModelReply {
        tool_calls: vec![ToolCall::new("c", "send", json!({"to": ["sk-0123456789"]}))],
        refusal: Some("sk-0123456789".to_owned()),
        warnings: vec!["sk-0123456789".to_owned()],
        ..ModelReply::from_text("")
    };
    let reply = redact_reply(told, &credentials);
    assert_eq!(reply.tool_calls[0].arguments, json!({"to": ["[secret]"]}));
    assert_eq!(reply.refusal.as_deref(), Some("[secret]"));
    assert_eq!(reply.warnings, ["[secret]"]);
}
