//! Models over HTTP, through the binary: servers that answer well, and servers that do everything wrong.

#![expect(clippy::disallowed_methods, reason = "tests read what a run leaves")]

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::server::{Answer, Part, Server, answer, events, head, nowhere, ollama_says, says};
use crate::support::{Outcome, Workspace};

const KEY: &str = "sk-planted-0123456789abcdef";

/// An ensemble of one agent, whose profile `main` is reached at `url`.
fn ensemble(url: &str, more: &str) -> String {
    format!(
        "name: one\nagents: [{{name: writer, model_profile: main}}]\nmodel_profiles:\n  \
         main: {{provider: openai, model: some-model, base_url: '{url}'{more}}}\n"
    )
}

fn run_in(workspace: &Workspace, text: &str, arguments: &[&str]) -> Outcome {
    workspace.write("one.yaml", text);
    let mut command = workspace.command(["run", "one.yaml", "--output", "json"]);
    command.args(arguments).env("OPENAI_API_KEY", KEY).env("OTHER_KEY", KEY);
    crate::support::Running(command.spawn().expect("the program starts")).finish()
}

fn run(text: &str) -> Value {
    run_in(&Workspace::new(), text, &[]).json()
}

fn response(result: &Value) -> &Value {
    &result["final_state"]["writer"]["response"]
}

fn error(result: &Value) -> String {
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

#[test]
fn a_provider_that_wants_long_rest_is_left_for_its_fallback() {
    let busy = Server::with(vec![answer("429 Too Many Requests", &[("retry-after", "86400")], "")]);
    let steady = Server::with(vec![says("From the other.")]);
    let text = ensemble(&busy.url(), ", fallback: steady")
        + &format!(
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
        warnings(&result).contains("had begun its reply and was asked again"),
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
        ensemble("http://elsewhere.invalid", ", api_key_env: OTHER_KEY"),
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
        error(&result).contains("model 'lama' not found; `ollama pull lama` fetches a model"),
        "{result:#}"
    );
    for asked in server.asked() {
        assert_eq!((asked.line(), asked.header("authorization")), ("POST /api/chat", None));
    }
}

#[test]
fn a_key_goes_only_where_it_belongs() {
    let server = Server::with(vec![says("Hello.")]);
    let headers = ", api_key_env: OTHER_KEY, headers: {X-Title: team, X-Own: {env: OTHER_KEY}}";
    for (more, key, own) in [("", None, None), (headers, Some(format!("Bearer {KEY}")), Some(KEY))] {
        run(&ensemble(&server.url(), more));
        let asked = server.asked().pop().expect("it was asked");
        assert_eq!(asked.header("authorization"), key.as_deref());
        assert_eq!(asked.header("x-own"), own);
        assert_eq!(asked.header("x-title"), own.map(|_| "team"));
    }
    let away = Server::with(vec![answer(
        "307 Temporary Redirect",
        &[("location", &server.url())],
        "",
    )]);
    let result = run(&ensemble(&away.url(), ", api_key_env: OTHER_KEY"));
    assert!(
        error(&result).contains(&format!("it redirects to {}", server.url())),
        "{result:#}"
    );
    assert_eq!(server.asked().len(), 2, "nobody followed");
    let unset = ensemble(&server.url(), ", api_key_env: NOT_THERE");
    let told = run_in(&Workspace::new(), &unset, &[]).expect_code(2).stderr;
    assert!(
        told.contains("has no key for openai: set the environment variable NOT_THERE"),
        "{told}"
    );
    let keyed = format!("  keyed: {{provider: openai, model: m, base_url: '{}'}}\n", nowhere());
    let result = run(&(unset.replace("NOT_THERE}", "NOT_THERE, fallback: keyed}") + &keyed));
    assert!(
        error(&result).contains("main: there is no key for openai"),
        "who has a fallback is asked: {result:#}"
    );
    assert_eq!(server.asked().len(), 2, "nobody was asked without the key");
}

#[test]
fn a_proxy_of_the_environment_is_used() {
    let proxy = Server::with(vec![says("By way of the proxy.")]);
    let workspace = Workspace::new();
    workspace.write("one.yaml", ensemble("http://models.invalid", ""));
    let mut command = workspace.command(["run", "one.yaml", "--output", "json"]);
    let child = command.env("HTTP_PROXY", proxy.url()).spawn();
    let result = crate::support::Running(child.expect("the program starts"))
        .finish()
        .json();
    assert_eq!(response(&result), "By way of the proxy.");
    assert_eq!(
        proxy.asked()[0].line(),
        "POST http://models.invalid/v1/chat/completions"
    );
}

/// Everything that a run leaves behind or prints, in every form.
fn traces(workspace: &Workspace, arguments: &[&str]) -> String {
    let mut all = String::new();
    for form in [
        &["--output", "human", "-v"][..],
        &["--output", "json"],
        &["--output", "events"],
    ] {
        let mut command = workspace.command(arguments.iter().chain(form));
        command.env("OTHER_KEY", KEY).env("RUST_LOG", "trace");
        let outcome = crate::support::Running(command.spawn().expect("the program starts")).finish();
        all.push_str(&outcome.stdout);
        all.push_str(&outcome.stderr);
    }
    for run in workspace.runs() {
        for file in std::fs::read_dir(run).expect("a folder").filter_map(Result::ok) {
            all.push_str(&std::fs::read_to_string(file.path()).expect("a text"));
        }
    }
    all
}

#[test]
fn a_key_is_left_nowhere() {
    let echo = |status: &str| {
        answer(
            status,
            &[],
            &json!({"error": {"message": format!("wrong key {KEY}")}}).to_string(),
        )
    };
    let tool = json!({"choices": [{"message": {"content": format!("I was told {KEY}")}, "finish_reason": "stop"}]});
    let whole = answer("200 OK", &[("content-type", "application/json")], &tool.to_string());
    let html = answer("200 OK", &[("content-type", "text/html")], KEY);
    let moved = answer(
        "307 Temporary Redirect",
        &[("location", &format!("http://x.invalid/?{KEY}"))],
        "",
    );
    let rows = [
        ("wrong key", echo("401 Unauthorized")),
        ("wrong key", echo("500 Oh")),
        (
            "failed: wrong key",
            events(&[&json!({"error": {"message": format!("wrong key {KEY}")}}).to_string()]),
        ),
        ("is malformed", events(&[KEY])),
        ("I was told [secret]", says(&format!("I was told {KEY}"))),
        ("I was told [secret]", whole),
        ("text/html", html),
        ("redirects to", moved),
    ];
    for (expected, answer) in rows {
        let server = Server::with(vec![answer]);
        let workspace = Workspace::new();
        let more = ", api_key_env: OTHER_KEY, headers: {X-Own: {env: OTHER_KEY}}, retry: {max_attempts: 1}";
        workspace.write("one.yaml", ensemble(&server.url(), more));
        let left = traces(&workspace, &["run", "one.yaml"]);
        assert!(left.contains(expected), "{expected} is told: {left}");
        assert!(!left.contains(KEY), "{expected}: the key is in {left}");
        let sent = server.asked();
        assert!(sent.iter().all(|asked| asked.head.contains(KEY)), "it was sent");
        let mut check = workspace.command(["models", "check", "one.yaml", "--format", "json"]);
        let told = crate::support::Running(check.env("OTHER_KEY", KEY).spawn().expect("starts")).finish();
        assert!(!told.stdout.contains(KEY) && !told.stderr.contains(KEY), "{told:?}");
    }
    let workspace = Workspace::new();
    let bad = ensemble(
        "http://x.invalid",
        &format!(", api_key_env: {KEY}, headers: {{Authorization: 'Bearer {KEY}'}}"),
    );
    workspace.write(
        "bad.yaml",
        bad + &format!("  other: {{provider: openai, model: m, base_url: 'http://me:{KEY}@x.invalid'}}\n"),
    );
    for format in ["json", "sarif", "junit", "github"] {
        let told = workspace
            .run(["validate", "bad.yaml", "--format", format])
            .expect_code(2);
        assert!(told.stdout.contains("E037") && told.stdout.contains("E036"), "{told:?}");
        assert!(
            !told.stdout.contains(KEY) && !told.stderr.contains(KEY),
            "{format}: {told:?}"
        );
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
        warnings(&result).contains("asked again without the output schema"),
        "{result:#}"
    );
    assert!(server.asked()[1].body.get("response_format").is_none());
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
        .expect_code(0)
        .json();
    assert_eq!(result["completion_reason"], "token_budget", "{result:#}");
    assert_eq!(result["detail"], "max_cost 0.007 was reached: 0.009");
    assert_eq!(
        result["usage"]["cost"], 0.009,
        "two requests of 1000 tokens in and 200 out"
    );
    assert_eq!(
        result["usage"]["by_agent"]["b"],
        json!({"requests": 1, "cached": 0, "input_tokens": 1000, "output_tokens": 200,
        "total_tokens": 1200, "estimated": false, "cost": 0.0045})
    );
    let shown = workspace.run(["run", "one.yaml", "-v"]).expect_code(0).stderr;
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
    assert!(told.contains("2 models, no key is sent\n    one\n    two\n"), "{told}");
    assert_eq!(server.asked()[0].line(), "GET /v1/models");
    let json = workspace
        .run(["models", "list", "--format", "json"])
        .expect_code(0)
        .json();
    assert_eq!(json["models"][0]["models"], json!(["one", "two"]));
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
        told.contains("asks for provider `olama`") && told.contains("did you mean `ollama`?"),
        "{told}"
    );
}
