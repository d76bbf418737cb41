//! Reasoning of models through the binary: kept in the record, apart from the reply, and sent back where it is needed.

use serde_json::{Value, json};

use super::model_replies::{streams, with_tool};
use super::providers::{ensemble, response, run, run_in};
use crate::support::Workspace;
use crate::support::server::{Answer, Asked, Part, Server, answer, events, head, says};
use crate::support::terminal::Terminal;

/// A delta that calls `double`.
fn call() -> Value {
    json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "double", "arguments": "{\"n\": 2}"}}]})
}

/// A server that calls the tool with the first answer, and says `Done.` if it gets `wanted` back, else refuses.
fn wants_back(first: Answer, done: Answer, wanted: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Server {
    Server::new(move |nth, asked: &Asked| match nth {
        0 => first.clone(),
        _ if wanted(&asked.body) => done.clone(),
        _ => answer("400 Bad Request", &[], "the reasoning must be passed back"),
    })
}

/// The first reasoning in the record.
fn recorded(workspace: &Workspace) -> Value {
    fn find(value: &Value) -> Option<Value> {
        match value {
            Value::Object(map) => map.get("reasoning").cloned().or_else(|| map.values().find_map(find)),
            Value::Array(items) => items.iter().find_map(find),
            _ => None,
        }
    }
    workspace.journal().iter().find_map(find).unwrap_or_default()
}

#[test]
fn a_tool_loop_gives_back_what_each_server_needs() {
    let anthropic = |block: Value, deltas: &[Value]| {
        let mut all = vec![json!({"type": "content_block_start", "index": 0, "content_block": block})];
        all.extend(
            deltas
                .iter()
                .map(|delta| json!({"type": "content_block_delta", "index": 0, "delta": delta})),
        );
        let tool = json!({"type": "tool_use", "id": "a", "name": "double", "input": {}});
        all.push(json!({"type": "content_block_start", "index": 1, "content_block": tool}));
        all.push(json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"n\": 2}"}}));
        all.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
        all.push(json!({"type": "message_stop"}));
        events(
            &all.iter()
                .map(Value::to_string)
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        )
    };
    let claude_done = events(&[
        r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}}"#,
        r#"{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}"#,
        r#"{"type": "message_stop"}"#,
    ]);
    let thinking = [
        json!({"type": "thinking_delta", "thinking": "Let me "}),
        json!({"type": "thinking_delta", "thinking": "see."}),
        json!({"type": "signature_delta", "signature": "c2ln"}),
    ];
    let signed = json!({"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"});
    let hidden = json!({"type": "redacted_thinking", "data": "eA=="});
    let gemini_call = events(&[&json!({"candidates": [{"content": {"parts": [
        {"text": "Let me see.", "thought": true},
        {"functionCall": {"name": "double", "args": {"n": 2}}, "thoughtSignature": "c2ln"},
    ]}, "finishReason": "STOP"}]})
    .to_string()]);
    let gemini_done =
        events(&[r#"{"candidates": [{"content": {"parts": [{"text": "Done."}]}, "finishReason": "STOP"}]}"#]);
    let lines = |lines: &[Value]| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        vec![head("application/x-ndjson"), Part::Bytes(text.into_bytes())]
    };
    let done = json!({"message": {"content": ""}, "done": true, "done_reason": "stop"});
    let ollama_call = json!({"message": {"content": "", "thinking": "Let me see.", "tool_calls": [
        {"function": {"name": "double", "arguments": {"n": 2}}}]}, "done": false});
    let ollama_said = json!({"message": {"content": "Done."}, "done": false});
    let thought = |key: &str| streams(&[json!({key: "Let me "}), json!({key: "see."}), call()], "tool_calls");
    let mut signed_call = call();
    signed_call["tool_calls"][0]["extra_content"] = json!({"google": {"thought_signature": "c2ln"}});
    let details = [
        json!({"reasoning": "Let me ", "reasoning_details": [{"type": "reasoning.text", "text": "Let me ", "index": 0}]}),
        json!({"reasoning": "see.", "reasoning_details": [{"type": "reasoning.text", "text": "see.", "signature": "c2ln", "index": 0}]}),
        call(),
    ];
    let detail = json!([{"type": "reasoning.text", "text": "Let me see.", "signature": "c2ln", "index": 0}]);
    type Wanted = Box<dyn Fn(&Value) -> bool + Send + Sync>;
    let at =
        |pointer: &'static str, value: Value| -> Wanted { Box::new(move |body| body.pointer(pointer) == Some(&value)) };
    let rows: Vec<(&str, Answer, Answer, Wanted)> = vec![
        (
            "openai",
            thought("reasoning_content"),
            says("Done."),
            at("/messages/1/reasoning_content", json!("Let me see.")),
        ),
        (
            "openai",
            thought("reasoning"),
            says("Done."),
            at("/messages/1/reasoning", json!("Let me see.")),
        ),
        (
            "openrouter",
            streams(&details, "tool_calls"),
            says("Done."),
            at("/messages/1/reasoning_details", detail),
        ),
        (
            "openai",
            streams(&[signed_call], "tool_calls"),
            says("Done."),
            at(
                "/messages/1/tool_calls/0/extra_content/google/thought_signature",
                json!("c2ln"),
            ),
        ),
        (
            "anthropic",
            anthropic(json!({"type": "thinking", "thinking": "", "signature": ""}), &thinking),
            claude_done.clone(),
            at("/messages/1/content/0", signed),
        ),
        (
            "anthropic",
            anthropic(hidden.clone(), &[]),
            claude_done,
            at("/messages/1/content/0", hidden),
        ),
        (
            "gemini",
            gemini_call,
            gemini_done,
            at("/contents/1/parts/0/thoughtSignature", json!("c2ln")),
        ),
        (
            "ollama",
            lines(&[ollama_call, done.clone()]),
            lines(&[ollama_said, done]),
            at("/messages/1/thinking", json!("Let me see.")),
        ),
    ];
    for (provider, first, done, wanted) in rows {
        let server = wants_back(first, done, wanted);
        let (workspace, text) = with_tool(&server.url(), ", retry: {max_attempts: 1}");
        let result = run_in(&workspace, &text.replace("openai", provider), &[]).json();
        let asked = &server.asked()[1].body;
        assert_eq!(response(&result), "Done.", "{provider}: {asked:#}");
        assert_eq!(recorded(&workspace)["from"], format!("{provider}/some-model"));
    }
}

#[test]
fn reasoning_is_no_part_of_the_reply_and_is_shown_when_asked_for() {
    let tagged = ["<thi", "nk>Hm, a poem.\n</think>\n\nThe ", "sea."].map(|piece| json!({"content": piece}));
    let apart = [
        json!({"reasoning_content": "Hm, a poem."}),
        json!({"content": "The sea."}),
    ];
    let parts = [json!({"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm, a poem."}]},
        {"type": "text", "text": "The sea."},
    ]})];
    for deltas in [&tagged[..], &apart, &parts] {
        let server = Server::with(vec![streams(deltas, "stop")]);
        let workspace = Workspace::new();
        let text = ensemble(&server.url(), "");
        let result = run_in(&workspace, &text, &[]).expect_code(0).json();
        assert_eq!(response(&result), "The sea.");
        assert!(!result.to_string().contains("a poem"), "{result:#}");
        assert_eq!(recorded(&workspace)["text"], "Hm, a poem.");
        assert!(server.asked()[0].body.get("reasoning").is_none());
        let shown = workspace.run(["run", "one.yaml", "-v"]).expect_code(0);
        assert!(shown.stderr.contains("reasoning:\n    Hm, a poem."), "{}", shown.stderr);
        assert!(!shown.stdout.contains("a poem"), "{}", shown.stdout);
        let silent = workspace.run(["run", "one.yaml"]).expect_code(0);
        assert!(!silent.stderr.contains("a poem"), "{}", silent.stderr);
    }
}

#[test]
fn a_thread_without_tools_gives_nothing_back() {
    let thought = [json!({"reasoning_content": "Hm."}), json!({"content": "The sea."})];
    let server = Server::with(vec![streams(&thought, "stop")]);
    let text = ensemble(&server.url(), "").replace(
        "model_profile: main}",
        "model_profile: main, conversation: {max_turns: 2, trigger: every_turn}}",
    );
    run(&text);
    let second = &server.asked()[1].body["messages"];
    assert_eq!(second[1], json!({"role": "assistant", "content": "The sea."}));
}

#[test]
fn another_model_gets_no_reasoning_of_the_first() {
    let mut signed = call();
    signed["tool_calls"][0]["extra_content"] = json!({"google": {"thought_signature": "c2ln"}});
    let first = streams(&[json!({"reasoning_content": "Hm."}), signed], "tool_calls");
    let broken = Server::with(vec![first, answer("400 Bad Request", &[], "no")]);
    let steady = Server::with(vec![says("Done.")]);
    let (workspace, text) = with_tool(&broken.url(), ", fallback: steady");
    let steady_profile = format!(
        "model_profiles:\n  steady: {{provider: openai, model: other, base_url: '{}'}}",
        steady.url()
    );
    let text = text.replacen("model_profiles:", &steady_profile, 1);
    let result = run_in(&workspace, &text, &[]).json();
    assert_eq!(response(&result), "Done.", "{result:#}");
    let message = &steady.asked()[0].body["messages"][1];
    assert_eq!(message.get("reasoning_content"), None, "{message:#}");
    assert_eq!(message["tool_calls"][0].get("extra_content"), None, "{message:#}");
    assert_eq!(broken.asked()[1].body["messages"][1]["reasoning_content"], "Hm.");
}

#[test]
fn reasoning_is_shown_while_it_arrives_and_the_reply_has_not_begun() {
    let thought = |text: &str| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"delta": {"reasoning_content": text}}]})
        )
    };
    let endless = vec![
        head("text/event-stream"),
        Part::Bytes((thought("Hm, ") + &thought("a poem. And")).into_bytes()),
        Part::Drip(b": still here\n\n".to_vec(), std::time::Duration::from_millis(20)),
    ];
    let server = Server::with(vec![endless]);
    let workspace = Workspace::new();
    workspace.write("one.yaml", ensemble(&server.url(), ""));
    let mut terminal = Terminal::open(
        &workspace,
        &["run", "one.yaml", "-v"],
        &[("OPENAI_API_KEY", "sk-other-key")],
    );
    terminal.wait_for("reasoning:");
    terminal.wait_for("Hm,");
    terminal.wait_for(" a poem.");
    terminal.type_in("\u{3}");
    assert_eq!(terminal.finish().0, 130);
}

#[test]
fn a_terminal_shows_reasoning_once_dimmed_and_apart() {
    let tagged = ["<thi", "nk>Hm, a ", "poem.\n</think>\n\nThe ", "sea."].map(|piece| json!({"content": piece}));
    let apart = [
        json!({"reasoning_content": "Hm, a "}),
        json!({"reasoning_content": "poem."}),
        json!({"content": "The sea."}),
    ];
    for deltas in [&tagged[..], &apart] {
        let server = Server::with(vec![streams(deltas, "stop")]);
        let workspace = Workspace::new();
        workspace.write("one.yaml", ensemble(&server.url(), ""));
        let environment = [("OPENAI_API_KEY", "sk-other-key")];
        let shown = |arguments: &[&str]| {
            let (code, text) = Terminal::open(&workspace, arguments, &environment).finish();
            assert_eq!(code, 0, "{text}");
            text
        };
        let text = shown(&["run", "one.yaml", "-v"]);
        assert_eq!(text.matches("poem.").count(), 1, "{text}");
        assert!(text.contains("\u{1b}[2mreasoning:"), "{text:?}");
        assert!(text.contains("\u{1b}[2m    Hm, a"), "{text:?}");
        let plain = Terminal::open(
            &workspace,
            &["run", "one.yaml", "-v"],
            &[environment[0], ("NO_COLOR", "1")],
        )
        .finish()
        .1;
        let rows: Vec<&str> = plain.lines().map(str::trim_end).collect();
        let expected = ["    reasoning:", "    Hm, a poem.", "    reply:", "    The sea."];
        assert!(rows.windows(4).any(|four| four == expected), "{rows:#?}");
        let silent = shown(&["run", "one.yaml"]);
        assert!(!silent.contains("poem") && silent.contains("The sea."), "{silent}");

        let arguments = ["run", "one.yaml", "--output", "events", "--live"];
        let mut command = workspace.command(arguments);
        command.env("OPENAI_API_KEY", "sk-other-key");
        let events = crate::support::Running(command.spawn().expect("the program starts"))
            .finish()
            .expect_code(0);
        let live = events
            .stdout
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let live: Vec<Value> = live.filter(|line| line.get("live").is_some()).collect();
        let texts = |kind: &str| -> String {
            let lines = live.iter().filter(|line| line["live"] == kind);
            lines.filter_map(|line| line["text"].as_str()).collect()
        };
        assert_eq!(
            (texts("reasoning").trim(), texts("text").as_str()),
            ("Hm, a poem.", "The sea.")
        );
        assert!(
            live.iter().filter(|line| line["live"] == "reasoning").count() > 1,
            "{live:#?}"
        );
    }
}
