//! Keys of models: where they are sent, and that they are left nowhere.

#![expect(clippy::disallowed_methods, reason = "tests read what a run leaves")]

use serde_json::json;

use super::providers::{KEY, ensemble, error, response, run, run_in};
use crate::support::Workspace;
use crate::support::server::{Server, answer, events, nowhere, says};

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
        bad + &*format!("  other: {{provider: openai, model: m, base_url: 'http://me:{KEY}@x.invalid'}}\n"),
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
