//! Requests as servers want them, through the binary: addresses, names of parameters, and what a profile adds.

use serde_json::{Value, json};

use super::providers::{KEY, ensemble, response, run, run_in};
use crate::support::server::{Answer, Asked, Server, answer, events, ollama_says, says};
use crate::support::{Running, Workspace};

/// A server that refuses requests with this key in the words of OpenAI.
fn refuses(key: &'static str, words: &'static str) -> Server {
    Server::new(move |_, asked: &Asked| match asked.body.get(key) {
        Some(_) => refusal(words),
        None => says("ok"),
    })
}

fn refusal(words: &str) -> Answer {
    let body = json!({"error": {"message": words, "type": "invalid_request_error"}}).to_string();
    answer("400 Bad Request", &[("content-type", "application/json")], &body)
}

fn warnings(result: &Value) -> String {
    result["warnings"].to_string()
}

#[test]
fn a_parameter_that_the_model_refuses_is_sent_otherwise_and_remembered() {
    let limit =
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    let again = "model_profile: main, conversation: {max_turns: 2, trigger: every_turn}}";
    let twice = |url: &str, more: &str| ensemble(url, more).replace("model_profile: main}", again);

    let server = refuses("max_tokens", limit);
    let result = run(&twice(&server.url(), ", max_tokens: 50"));
    assert_eq!((response(&result), warnings(&result).as_str()), (&json!("ok"), "[]"));
    let asked = server.asked();
    assert_eq!(asked.len(), 3, "the second execution knows");
    assert_eq!(asked[1].body["max_completion_tokens"], 50);

    let server = refuses(
        "temperature",
        "Unsupported value: 'temperature' does not support 0.5 with this model.",
    );
    let result = run(&twice(&server.url(), ", temperature: 0.5"));
    assert_eq!(response(&result), "ok", "{result:#}");
    assert!(
        warnings(&result).contains("does not accept `temperature`, which was left out"),
        "{result:#}"
    );
    assert_eq!(result["warnings"].as_array().map(Vec::len), Some(1), "told once");
    assert_eq!(server.asked().len(), 3);

    let server = refuses(
        "stream_options",
        "Unrecognized request argument supplied: stream_options",
    );
    let result = run(&ensemble(&server.url(), ""));
    assert_eq!((response(&result), warnings(&result).as_str()), (&json!("ok"), "[]"));
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn reasoning_models_of_openai_get_their_own_limit_and_answer_a_check() {
    let server = refuses("max_tokens", "Unsupported parameter: 'max_tokens'.");
    for model in ["o4-mini", "gpt-5.1", "openai/gpt-5-nano"] {
        let before = server.asked().len();
        let text = ensemble(&server.url(), ", max_tokens: 50").replace("some-model", model);
        assert_eq!(response(&run(&text)), "ok");
        assert_eq!(server.asked().len(), before + 1, "{model} is not refused first");
    }
    let limit = "Could not finish the message because max_tokens or model output limit was reached.";
    let server = Server::with(vec![refusal(limit)]);
    let workspace = Workspace::new();
    workspace.write("one.yaml", ensemble(&server.url(), "").replace("some-model", "gpt-5"));
    let told = workspace.run(["models", "check", "one.yaml", "--format", "json"]);
    assert_eq!(told.expect_code(0).json()["models"][0]["ok"], true);
}

#[test]
fn addresses_are_taken_as_they_are_pasted() {
    let server = Server::new(|_, asked: &Asked| match asked.line().contains("/api/chat") {
        true => ollama_says("ok"),
        false => says("ok"),
    });
    for (provider, path, expected) in [
        ("openai", "/v1/chat/completions", "POST /v1/chat/completions"),
        (
            "openai",
            "/openai/deployments/d?api-version=2024-10-21",
            "POST /openai/deployments/d/chat/completions?api-version=2024-10-21",
        ),
        (
            "openai",
            "/openai/deployments/d/chat/completions?api-version=1",
            "POST /openai/deployments/d/chat/completions?api-version=1",
        ),
        ("ollama", "/api/chat", "POST /api/chat"),
    ] {
        let text = ensemble(&format!("{}{path}", server.url()), "").replace("openai, ", &format!("{provider}, "));
        assert_eq!(response(&run(&text)), "ok", "{path}");
        assert_eq!(server.asked().last().expect("a request").line(), expected);
    }
}

#[test]
fn variables_of_other_clients_name_the_address() {
    let server = Server::new(|_, asked: &Asked| match asked.line().contains("/api/chat") {
        true => ollama_says("ok"),
        false => says("ok"),
    });
    let port = server.url().rsplit(':').next().expect("a port").to_owned();
    for (provider, variable, value, expected) in [
        (
            "openai",
            "OPENAI_BASE_URL",
            format!("{}/v1", server.url()),
            "POST /v1/chat/completions",
        ),
        ("ollama", "OLLAMA_HOST", format!(":{port}"), "POST /api/chat"),
        (
            "ollama",
            "OLLAMA_HOST",
            format!("http://0.0.0.0:{port}"),
            "POST /api/chat",
        ),
    ] {
        let workspace = Workspace::new();
        let text = ensemble("", "").replace("openai, ", &format!("{provider}, "));
        workspace.write("one.yaml", text.replace(", base_url: ''", ""));
        let mut command = workspace.command(["run", "one.yaml", "--output", "json"]);
        command.env("OPENAI_API_KEY", KEY).env(variable, value);
        let result = Running(command.spawn().expect("the program starts")).finish().json();
        assert_eq!(response(&result), "ok", "{variable}: {result:#}");
        assert_eq!(server.asked().last().expect("a request").line(), expected);
    }
    let with_key = server.asked()[0].header("authorization").map(str::to_owned);
    assert_eq!(with_key, Some(format!("Bearer {KEY}")), "as other clients do");
}

#[test]
fn options_of_a_profile_go_into_every_request() {
    let server = Server::with(vec![says("ok")]);
    run(&ensemble(
        &server.url(),
        ", options: {reasoning_effort: low, stop: [END], tool_choice: required}",
    ));
    let body = &server.asked()[0].body;
    assert_eq!(
        (&body["reasoning_effort"], &body["stop"]),
        (&json!("low"), &json!(["END"]))
    );
    assert_eq!(body.get("tool_choice"), None, "there are no tools");
    let server = Server::with(vec![ollama_says("ok")]);
    let more = ", max_tokens: 9, options: {num_ctx: 8192, think: false}";
    run(&ensemble(&server.url(), more).replace("openai, ", "ollama, "));
    let body = &server.asked()[0].body;
    assert_eq!(body["options"], json!({"num_predict": 9, "num_ctx": 8192}));
    assert_eq!(body["think"], false);
}

#[test]
fn options_change_the_request_for_the_cache_and_the_profile_for_a_rerun() {
    let server = Server::with(vec![says("ok")]);
    let workspace = Workspace::new();
    let text = |effort: &str| ensemble(&server.url(), &format!(", options: {{reasoning_effort: {effort}}}"));
    let cache = ["--cache", "replies"];
    run_in(&workspace, &text("low"), &cache).expect_code(0);
    run_in(&workspace, &text("low"), &cache).expect_code(0);
    assert_eq!(server.asked().len(), 1, "the same request");
    run_in(&workspace, &text("high"), &cache).expect_code(0);
    assert_eq!(server.asked().len(), 2, "another request");
    let rerun = |name: &str| {
        workspace
            .run(["fork", "--last", "--at-turn", "0", "--ensemble", name])
            .expect_code(0);
        server.asked().len()
    };
    assert_eq!(rerun("one.yaml"), 2, "nothing has changed");
    workspace.write("two.yaml", text("medium"));
    assert_eq!(rerun("two.yaml"), 3, "the profile has changed");
}

#[test]
fn an_option_that_the_program_sets_is_an_error_with_its_place() {
    let workspace = Workspace::new();
    let text = "name: one\nagents: [{name: writer, model_profile: main}]\nmodel_profiles:\n  main:\n    provider: openai\n    \
         model: m\n    options:\n      max_completion_tokens: 5\n      stream: true\n";
    workspace.write("one.yaml", text);
    let told = workspace.run(["validate", "one.yaml"]).expect_code(2).stdout;
    for part in [
        "E051",
        "one.yaml:8:7",
        "one.yaml:9:7",
        "the program itself sets `max_completion_tokens` in every request",
        "write `max_tokens` in the profile",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// An output schema for the agent of `ensemble`, with attempts.
fn with_schema(text: &str) -> String {
    text.replace(
        "model_profile: main",
        "model_profile: main, retry: {max_attempts: 2}, output_schema: {type: object, required: [score], \
         properties: {score: {type: integer}, more: {type: object}}}",
    )
}

#[test]
fn a_schema_that_was_refused_is_not_sent_again_and_told_in_words() {
    let server = Server::new(|_, asked: &Asked| match asked.body.get("response_format") {
        Some(_) => refusal("This response_format type is unavailable now"),
        None => says(r#"{"score": 4}"#),
    });
    let text = with_schema(&ensemble(&server.url(), "")).replace(
        "retry: {max_attempts: 2}",
        "system_prompt: Be fair., conversation: {max_turns: 2, trigger: every_turn}",
    );
    let result = run(&text);
    assert_eq!((&result["final_state"]["score"], server.asked().len()), (&json!(4), 3));
    for asked in &server.asked()[1..] {
        let system = asked.body["messages"][0]["content"].as_str().expect("a text");
        assert!(
            system.starts_with("Be fair.\n\nAnswer with one JSON object"),
            "{system}"
        );
    }
    assert_eq!(result["warnings"].as_array().map(Vec::len), Some(1), "{result:#}");
}

#[test]
fn a_schema_that_a_request_cannot_have_is_told_in_words() {
    let server = Server::new(|_, asked: &Asked| match asked.line().contains("/messages") {
        true => crate::support::server::events(&[
            r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "{\"score\": 4}"}}"#,
            r#"{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}"#,
            r#"{"type": "message_stop"}"#,
        ]),
        false => ollama_says(r#"{"score": 4}"#),
    });
    let (workspace, text) = super::model_replies::with_tool(&server.url(), "");
    let beside_tools = with_schema(&text).replace("openai", "ollama");
    assert_eq!(run_in(&workspace, &beside_tools, &[]).json()["final_state"]["score"], 4);
    let open_object = with_schema(&ensemble(&server.url(), "")).replace("openai", "anthropic");
    assert_eq!(run(&open_object)["final_state"]["score"], 4);
    let asked = server.asked();
    for (asked, begins) in asked.iter().zip(["When you call no more tools, answer", "Answer"]) {
        let told = asked.body["messages"].to_string();
        let words = format!("{begins} with one JSON object that matches this JSON Schema");
        assert!(told.contains(&words) && told.contains("score"), "{told}");
    }
}

#[test]
fn a_server_that_ignores_the_schema_is_told_with_the_correction() {
    let server = Server::with(vec![says("Four."), says(r#"{"score": 4}"#)]);
    assert_eq!(
        run(&with_schema(&ensemble(&server.url(), "")))["final_state"]["score"],
        4
    );
    let asked = server.asked();
    let told = asked[1].body["messages"]
        .as_array()
        .and_then(|all| all.last())
        .expect("a message");
    assert!(
        told["content"]
            .as_str()
            .is_some_and(|text| text.contains(r#""required":["score"]"#)),
        "{told}"
    );
}

#[test]
fn the_beginning_of_a_request_that_is_sent_again_is_marked_for_anthropics_cache() {
    let told = |text: &str| {
        let data = [
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 8, "cache_read_input_tokens": 3}}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
            json!({"type": "message_stop"}),
        ];
        let data: Vec<String> = data.iter().map(Value::to_string).collect();
        events(&data.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let marks = |asked: &Asked| asked.body.to_string().matches("cache_control").count();
    let again = "model_profile: main, conversation: {max_turns: 3, trigger: every_turn}}";
    let text = |url: &str, more: &str| {
        let text = ensemble(url, more).replace("model_profile: main}", again);
        text.replace("provider: openai", "provider: anthropic")
    };

    let server = Server::new(move |_, _| told("ok"));
    let result = run(&text(&server.url(), ""));
    assert_eq!(result["usage"]["cached_tokens"], 9);
    let asked: Vec<usize> = server.asked().iter().map(marks).collect();
    assert_eq!(
        asked,
        [0, 1, 1],
        "a thread is marked at its end, and a first request is not"
    );

    run(&text(&server.url(), ", prompt_cache: false"));
    assert!(server.asked()[3..].iter().all(|asked| marks(asked) == 0));

    let server = Server::new(
        move |_, asked: &Asked| match asked.body.to_string().contains("cache_control") {
            true => refusal("messages.2.content.0.cache_control: Extra inputs are not permitted"),
            false => told("ok"),
        },
    );
    let result = run(&text(&server.url(), ""));
    assert_eq!((response(&result), warnings(&result).as_str()), (&json!("ok"), "[]"));
    let asked: Vec<usize> = server.asked().iter().map(marks).collect();
    assert_eq!(asked, [0, 1, 0, 0], "refused once, and remembered");
}
