//! Models over HTTP, through the binary: servers that answer well, and servers that do everything wrong.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::server::{Answer, Part, Server, answer, events, head, nowhere, ollama_says, says};
use crate::support::{Outcome, Workspace};

pub(super) const KEY: &str = "sk-planted-0123456789abcdef";

/// An ensemble of one agent, whose profile `main` is reached at `url`.
pub(super) fn ensemble(url: &str, more: &str) -> String {
    format!(
        "name: one\nagents: [{{name: writer, model_profile: main}}]\nmodel_profiles:\n  \
         main: {{provider: openai, model: some-model, base_url: '{url}'{more}}}\n"
    )
}

pub(super) fn run_in(workspace: &Workspace, text: &str, arguments: &[&str]) -> Outcome {
    workspace.write("one.yaml", text);
    let mut command = workspace.command(["run", "one.yaml", "--output", "json"]);
    command.args(arguments).env("OPENAI_API_KEY", KEY).env("OTHER_KEY", KEY);
    crate::support::Running(command.spawn().expect("the program starts")).finish()
}

pub(super) fn run(text: &str) -> Value {
    run_in(&Workspace::new(), text, &[]).json()
}

pub(super) fn response(result: &Value) -> &Value {
    &result["final_state"]["writer"]["response"]
}

pub(super) fn error(result: &Value) -> String {
    assert_eq!(result["completion_reason"], "agent_failed", "{result:#}");
    result["conversation_history"][0]["error"]
        .as_str()
        .expect("an error")
        .to_owned()
}

fn warnings(result: &Value) -> String {
    result["warnings"].to_string()
}

const AT_ONCE: &str = ", retry: {max_attempts: 3, delay_seconds: 0}";

#[test]
fn a_refusal_that_passes_is_waited_out() {
    let refusals = [
        answer("429 Too Many Requests", &[("retry-after", "0.01")], ""),
        answer("429 Too Many Requests", &[("retry-after-ms", "10")], ""),
        answer(
            "500 Internal Server Error",
            &[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")],
            "",
        ),
        answer("503 Service Unavailable", &[], ""),
        answer("408 Request Timeout", &[], ""),
        events(&[r#"{"error": {"message": "overloaded", "type": "server_error"}}"#]),
    ];
    for refusal in refusals {
        let server = Server::with(vec![refusal.clone(), says("Hello.")]);
        let result = run(&ensemble(&server.url(), AT_ONCE));
        assert_eq!(response(&result), "Hello.", "{refusal:?}");
        assert_eq!(result["usage"]["requests"], 2);
        assert_eq!(server.asked().len(), 2);
    }
}

#[test]
fn three_attempts_are_made_where_nothing_is_said() {
    let server = Server::with(vec![answer("500 Oh", &[("retry-after-ms", "1")], "out of order")]);
    let error = error(&run(&ensemble(&server.url(), "")));
    assert!(
        error.contains("answered 500") && error.contains("out of order"),
        "{error}"
    );
    assert_eq!(server.asked().len(), 3);
    let server = Server::with(vec![answer("400 Bad Request", &[], "no")]);
    run(&ensemble(&server.url(), ""));
    assert_eq!(server.asked().len(), 1, "what is wrong stays wrong");
}

/// The retries of the profile are inside of each attempt of the agent: what is told says so.
#[test]
fn the_attempts_of_an_agent_multiply_the_requests_of_its_profile_and_the_run_says_so() {
    let server = Server::with(vec![answer("500 Oh", &[("retry-after-ms", "1")], "out of order")]);
    let workspace = Workspace::new();
    let text = |attempts: u32, more: &str| {
        ensemble(&server.url(), more).replace(
            "{name: writer, model_profile: main}",
            &format!("{{name: writer, model_profile: main, retry: {{max_attempts: {attempts}, delay_seconds: 0}}}}"),
        )
    };
    let run = |attempts: u32, more: &str| {
        workspace.write("one.yaml", text(attempts, more));
        let before = server.asked().len();
        let mut command = workspace.command(["run", "one.yaml"]);
        command.env("OPENAI_API_KEY", KEY);
        let outcome = crate::support::Running(command.spawn().expect("the program starts")).finish();
        (outcome.expect_code(1), server.asked().len() - before)
    };
    let (outcome, asked) = run(2, "");
    assert_eq!(asked, 6);
    let last = "answered 500 Internal Server Error: out of order; it was the last of 3 requests (`retry` of model profile `main`)";
    let once = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, told) = (once(&outcome.stdout), once(&outcome.stderr));
    assert!(
        shown.contains("failed (model) in attempt 2: ") && shown.contains(last),
        "{shown}"
    );
    let sum = "writer made 6 requests in 2 attempts: its `retry` repeats the execution, and the `retry` of its model profile repeats \
               each request";
    assert!(told.contains("6 model requests") && told.contains(sum), "{told}");
    let later = once(&workspace.run(["runs", "show", "--last"]).expect_code(0).stdout);
    assert!(
        later.contains("attempt 1 failed (model): ") && later.contains(sum),
        "{later}"
    );
    assert!(later.contains("failed (model) in attempt 2: "), "{later}");
    // Where only one of them repeats, nothing is multiplied.
    for (attempts, more, expected) in [
        (1, "", 3),
        (2, ", retry: {max_attempts: 1}", 2),
        (1, ", retry: {max_attempts: 1}", 1),
    ] {
        let (outcome, asked) = run(attempts, more);
        let told = once(&outcome.stdout) + &once(&outcome.stderr);
        assert_eq!(asked, expected, "{told}");
        assert!(!told.contains("repeats the execution"), "{told}");
        assert_eq!(told.contains("it was the last of"), expected == 3, "{told}");
        assert_eq!(told.contains("in attempt 2"), attempts == 2, "{told}");
    }
}

#[test]
fn a_provider_that_wants_long_rest_is_left_for_its_fallback() {
    let busy = Server::with(vec![answer("429 Too Many Requests", &[("retry-after", "86400")], "")]);
    let steady = Server::with(vec![says("From the other.")]);
    let text = ensemble(&busy.url(), ", fallback: steady")
        + &*format!(
            "  steady: {{provider: openai, model: m, base_url: '{}'}}\n",
            steady.url()
        );
    let result = run(&text);
    assert_eq!(response(&result), "From the other.");
    assert!(warnings(&result).contains("asks for a pause of 86400 s"), "{result:#}");
    assert_eq!(busy.asked().len(), 1);
    let error = error(&run(&ensemble(&busy.url(), "")));
    assert!(error.contains("86400 s, which is too long"), "{error}");
}

#[test]
fn a_reply_that_breaks_off_is_asked_for_again_and_that_is_told() {
    let begun = r#"{"choices": [{"delta": {"content": "Once upon"}}]}"#;
    let server = Server::with(vec![events(&[begun]), events(&[]), says("A whole tale.")]);
    let result = run(&ensemble(&server.url(), AT_ONCE));
    assert_eq!(response(&result), "A whole tale.");
    assert!(
        warnings(&result).contains("failed during its reply, and the request was repeated"),
        "{result:#}"
    );
    assert_eq!(
        result["warnings"].as_array().map(Vec::len),
        Some(1),
        "nothing was heard of the second"
    );
}

/// Each dialect, a stream that is cut after its first words, and the profile.
fn cut() -> [(&'static str, Answer); 4] {
    let lines = |text: &str| vec![head("application/x-ndjson"), Part::Bytes(text.as_bytes().to_vec())];
    [
        ("openai", events(&[r#"{"choices": [{"delta": {"content": "Once"}}]}"#])),
        (
            "anthropic",
            events(&[
                r#"{"type": "message_start", "message": {"usage": {"input_tokens": 1}}}"#,
                r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Once"}}"#,
            ]),
        ),
        (
            "gemini",
            events(&[r#"{"candidates": [{"content": {"parts": [{"text": "Once"}]}}]}"#]),
        ),
        (
            "ollama",
            lines("{\"message\": {\"content\": \"Once\"}, \"done\": false}\n"),
        ),
    ]
}

#[test]
fn half_a_reply_is_none_in_every_dialect() {
    for (provider, cut) in cut() {
        let server = Server::with(vec![cut]);
        let text = ensemble(&server.url(), ", retry: {max_attempts: 1}").replace("openai", provider);
        let error = error(&run(&text));
        assert!(error.contains("broke off before its end"), "{provider}: {error}");
    }
}

/// Complete replies, each from a server that does not leave it at what the documents say.
fn complete() -> Vec<(&'static str, &'static str, Answer)> {
    let goes_on = || Part::Drip(b"\n".to_vec(), Duration::from_millis(20));
    let and_goes_on = |mut answer: Answer| {
        answer.push(goes_on());
        answer
    };
    let said = r#"{"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]}"#;
    let whole = r#"{"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}"#;
    let anthropic = events(&[
        r#"{"type": "message_start", "message": {"usage": {"input_tokens": 1}}}"#,
        r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}}"#,
        r#"{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}"#,
        r#"{"type": "message_stop"}"#,
    ]);
    let called = |content_type: &str, mut answer: Answer| {
        answer[0] = head(content_type);
        answer
    };
    let unnamed = Part::Bytes(format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: {said}\n\n").into_bytes());
    // Of a second chunk there is only the size.
    let rude = format!("data: {said}\n\n");
    let rude = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{rude}\r\n10\r\n",
        rude.len()
    );
    vec![
        ("does not hang up", "openai", and_goes_on(says("Hello."))),
        ("does not hang up", "anthropic", and_goes_on(anthropic)),
        ("does not hang up", "ollama", and_goes_on(ollama_says("Hello."))),
        ("hangs up rudely", "openai", vec![Part::Bytes(rude.into_bytes())]),
        ("names no content type", "openai", vec![unnamed]),
        (
            "names a charset",
            "openai",
            called("Text/Event-Stream; charset=utf-8", says("Hello.")),
        ),
        (
            "names a charset and does not stream",
            "openai",
            answer("200 OK", &[("content-type", "application/json; charset=utf-8")], whole),
        ),
        (
            "calls its lines JSON",
            "ollama",
            called("application/json", ollama_says("Hello.")),
        ),
    ]
}

#[test]
fn a_complete_reply_is_taken_whatever_the_server_does_around_it() {
    for (what, provider, answer) in complete() {
        let server = Server::with(vec![answer]);
        let more = ", timeout_seconds: 20, retry: {max_attempts: 1}";
        let result = run(&ensemble(&server.url(), more).replace("openai", provider));
        assert_eq!(response(&result), "Hello.", "{provider} {what}: {result:#}");
    }
}

#[test]
fn a_profiles_own_header_stands_in_place_of_the_dialects() {
    let server = Server::with(vec![answer("400 Bad Request", &[], "no")]);
    let headers = ", api_key_env: OTHER_KEY, headers: {Anthropic-Version: '2030-01-01', X-Api-Key: {env: OWN_KEY}}";
    let workspace = Workspace::new();
    workspace.write(
        "one.yaml",
        ensemble(&server.url(), headers).replace("openai", "anthropic"),
    );
    let mut command = workspace.command(["run", "one.yaml"]);
    let child = command
        .env("OTHER_KEY", KEY)
        .env("OWN_KEY", "sk-own-0123456789")
        .spawn();
    crate::support::Running(child.expect("the program starts"))
        .finish()
        .expect_code(1);
    let sent = server.asked()[0].head.to_lowercase();
    for (name, value) in [("anthropic-version", "2030-01-01"), ("x-api-key", "sk-own-0123456789")] {
        let values: Vec<&str> = sent.lines().filter_map(|line| line.strip_prefix(name)).collect();
        assert_eq!(values, [format!(": {value}")], "{sent}");
    }
}

#[test]
fn what_makes_no_sense_is_told_shortly() {
    let html = "<html><title>Welcome to nginx</title></html>";
    let rows: [(Answer, &str); 6] = [
        (events(&["{\"choices\": [{\"del"]), "is malformed"),
        (
            answer("200 OK", &[("content-type", "application/json")], "{not json"),
            "is malformed",
        ),
        (
            answer("200 OK", &[("content-type", "text/html")], html),
            "answered with text/html instead of a reply: <html>",
        ),
        (
            answer("200 OK", &[("content-type", "application/json")], "[]"),
            "broke off before its end",
        ),
        (vec![Part::Bytes(b"this is no HTTP\r\n\r\n".to_vec())], "broke off"),
        (vec![], "broke off"),
    ];
    for (strange, expected) in rows {
        let server = Server::with(vec![strange.clone()]);
        let error = error(&run(&ensemble(&server.url(), ", retry: {max_attempts: 1}")));
        assert!(error.contains(expected) && error.len() < 700, "{strange:?}: {error}");
    }
}

#[test]
fn a_reply_without_end_is_refused_and_not_held() {
    let most = 4 << 30;
    let piece = |text: &str| format!("data: {}\n\n", json!({"choices": [{"delta": {"content": text}}]}));
    let endless_text = Part::Endless(piece(&"word ".repeat(2000)).into_bytes(), most);
    let endless_line = Part::Endless(vec![b'x'; 1 << 16], most);
    for endless in [endless_text, endless_line.clone()] {
        let server = Server::with(vec![vec![head("text/event-stream"), endless]]);
        let error = error(&run(&ensemble(&server.url(), "")));
        assert!(error.contains("more than 10 MiB"), "{error}");
    }
    let refusal = Part::Bytes(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n".to_vec());
    let server = Server::with(vec![vec![refusal, endless_line]]);
    let error = error(&run(&ensemble(&server.url(), "")));
    assert!(error.contains("answered 400") && error.len() < 700, "{error}");
}

#[test]
fn slow_drips_are_within_the_time_limit() {
    let drip = Part::Drip(b": still here\n\n".to_vec(), Duration::from_millis(20));
    let server = Server::with(vec![vec![head("text/event-stream"), drip]]);
    let error = error(&run(&ensemble(
        &server.url(),
        ", timeout_seconds: 0.3, retry: {max_attempts: 1}",
    )));
    assert!(error.contains("no reply within 0.3 s"), "{error}");
}

#[test]
fn where_nobody_listens_it_says_what_to_start() {
    let address = nowhere();
    let result = run(&ensemble(&address, ""));
    assert!(
        error(&result).contains(&format!("nothing listens at {address}/v1; is the server running")),
        "{result:#}"
    );
    assert_eq!(result["usage"]["requests"], 1, "nobody starts a server within seconds");
    let result = run(&ensemble(&address, "").replace("openai", "ollama"));
    assert!(
        error(&result).contains("is Ollama running? `ollama serve` starts it"),
        "{result:#}"
    );
}

#[test]
fn ollama_answers_by_an_override() {
    let server = Server::new(|_, asked| match asked.body["model"].as_str() {
        Some("llama3.2:1b") => ollama_says("From this machine."),
        _ => answer("404 Not Found", &[], r#"{"error": "model 'lama' not found"}"#),
    });
    let workspace = Workspace::new();
    workspace.write(
        "one.yaml",
        ensemble("https://elsewhere.invalid", ", api_key_env: OTHER_KEY"),
    );
    let with = |model: &str| {
        let mut command = workspace.command(["run", "one.yaml", "--output", "json", "--model", model]);
        command.env("OLLAMA_HOST", server.url());
        crate::support::Running(command.spawn().expect("the program starts"))
            .finish()
            .json()
    };
    let result = with("main=ollama/llama3.2:1b");
    assert_eq!(response(&result), "From this machine.");
    assert_eq!(result["usage"]["input_tokens"], 7);
    let result = with("main=ollama/lama");
    assert!(
        error(&result).contains("model 'lama' not found; run `ollama pull lama` to fetch the model"),
        "{result:#}"
    );
    for asked in server.asked() {
        assert_eq!((asked.line(), asked.header("authorization")), ("POST /api/chat", None));
    }
}

#[test]
fn a_schema_is_sent_and_left_out_where_it_is_not_taken() {
    let schema = "    output_schema: {type: object, required: [score], properties: {score: {type: integer}}}\n";
    let text = |url: &str| {
        let agents =
            "agents:\n  - name: writer\n    model_profile: main\n    retry: {max_attempts: 2}\n".to_owned() + schema;
        ensemble(url, "").replace("agents: [{name: writer, model_profile: main}]\n", &agents)
    };
    let server = Server::with(vec![says("Four."), says(r#"{"score": 4}"#)]);
    let result = run(&text(&server.url()));
    assert_eq!(result["final_state"]["score"], 4);
    let sent = &server.asked()[0].body["response_format"]["json_schema"];
    assert_eq!(
        (&sent["schema"]["required"][0], &sent["strict"]),
        (&json!("score"), &json!(false))
    );
    let refusal = answer(
        "400 Bad Request",
        &[],
        r#"{"error": {"message": "Invalid schema for response_format"}}"#,
    );
    let server = Server::with(vec![refusal, says(r#"{"score": 4}"#)]);
    let result = run(&text(&server.url()));
    assert_eq!(result["final_state"]["score"], 4);
    assert!(
        warnings(&result).contains("does not support the output schema"),
        "{result:#}"
    );
    let second = &server.asked()[1].body;
    assert!(second.get("response_format").is_none());
    let told = second["messages"][0]["content"].as_str().expect("a text");
    assert!(
        told.contains("matches this JSON Schema") && told.contains(r#""required":["score"]"#),
        "{told}"
    );
    assert_eq!(result["usage"]["requests"], 2);
}

#[test]
fn what_it_costs_is_told_and_limited() {
    let server = Server::with(vec![says("Hello.")]);
    let text = "name: costs\nagents:\n  - {name: a, model_profile: main}\n  - {name: b, model_profile: main, depends_on: [a]}\n  \
         - {name: c, model_profile: main, depends_on: [b]}\nconversation_limits: {max_cost: 0.007}\nmodel_profiles:\n  \
         main: {provider: openai, model: m, base_url: 'URL', cost: {input_per_million: 2.5, output_per_million: 10}}\n";
    let workspace = Workspace::new();
    let result = run_in(&workspace, &text.replace("URL", &server.url()), &[])
        .expect_code(4)
        .json();
    assert_eq!(result["completion_reason"], "token_budget", "{result:#}");
    assert_eq!(result["detail"], "max_cost 0.007 was reached: 0.009");
    assert_eq!(
        result["usage"]["cost"], 0.009,
        "two requests of 1000 tokens in and 200 out"
    );
    assert_eq!(
        result["usage"]["by_agent"]["b"],
        json!({"requests": 1, "cached": 0, "by_tools": 0, "input_tokens": 1000, "output_tokens": 200,
        "total_tokens": 1200, "estimated": false, "cost": 0.0045})
    );
    let shown = workspace.run(["run", "one.yaml", "-v"]).expect_code(4).stderr;
    assert!(
        shown.contains("2 model requests · 2000 tokens in, 400 out · cost 0.009"),
        "{shown}"
    );
    assert!(
        shown.contains("a: 1 model request · 1000 tokens in, 200 out · cost 0.0045"),
        "{shown}"
    );
}

#[test]
fn what_is_left_of_a_budget_ends_the_calls_of_tools() {
    let call = json!({"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}});
    let call = events(&[
        &json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}).to_string(),
        r#"{"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 200}}"#,
        "[DONE]",
    ]);
    let server = Server::with(vec![says("Hello."), call, says("too far")]);
    let text = format!(
        "name: budget\nagents:\n  - {{name: a, model_profile: main}}\n  \
         - {{name: b, model_profile: main, depends_on: [a], tools: [look]}}\nconversation_limits: {{max_total_tokens: 2400}}\n\
         tools:\n  look: {{script: look.rhai, parameters: {{type: object}}}}\nmodel_profiles:\n  \
         main: {{provider: openai, model: m, base_url: '{}'}}\n",
        server.url()
    );
    let workspace = Workspace::new();
    workspace.write("look.rhai", "1");
    let result = run_in(&workspace, &text, &[]).json();
    let error = &result["conversation_history"][1]["error"];
    assert_eq!(
        error, "`max_total_tokens` is used up, and the model still calls tools",
        "{result:#}"
    );
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn an_unknown_provider_is_an_error_before_and_at_the_run() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", ensemble("http://x.invalid", "").replace("openai", "opneai"));
    let told = workspace.run(["validate", "a.yaml"]).expect_code(2).stdout;
    assert!(
        told.contains("E016") && told.contains("did you mean `openai`?"),
        "{told}"
    );
    workspace.write("b.yaml", ensemble("http://x.invalid", ""));
    let told = workspace
        .run(["run", "b.yaml", "--model", "main=olama/m"])
        .expect_code(2)
        .stderr;
    assert!(
        told.contains("has the unknown provider `olama`") && told.contains("did you mean `ollama`?"),
        "{told}"
    );
}

#[test]
fn tokens_that_the_provider_had_in_its_cache_have_a_price_of_their_own() {
    let usages = [
        (
            "openai",
            r#"{"prompt_tokens": 1000, "completion_tokens": 200, "prompt_tokens_details": {"cached_tokens": 800}}"#,
        ),
        (
            "openai",
            r#"{"prompt_tokens": 1000, "completion_tokens": 200, "prompt_cache_hit_tokens": 800}"#,
        ),
    ];
    for (provider, usage) in usages {
        let server = Server::with(vec![events(&[
            r#"{"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]}"#,
            &format!(r#"{{"choices": [], "usage": {usage}}}"#),
            "[DONE]",
        ])]);
        for (price, cost) in [("cached_per_million: 0.25, ", 0.0027), ("", 0.0045)] {
            let text = format!(
                "name: costs\nagents: [{{name: a, model_profile: main}}]\nmodel_profiles:\n  main: {{provider: {provider}, \
                 model: m, base_url: '{}', cost: {{input_per_million: 2.5, {price}output_per_million: 10}}}}\n",
                server.url()
            );
            let result = run_in(&Workspace::new(), &text, &[]).expect_code(0).json();
            assert_eq!(result["usage"]["cached_tokens"], 800, "{usage}");
            assert_eq!(result["usage"]["cost"], cost, "{usage} {price}");
        }
    }
}
