//! `--otlp` and `runs export --output otlp`: what a collector is sent, and that it costs a run nothing.

#![expect(clippy::disallowed_methods, reason = "tests read what the program has written")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Said;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::support::server::{Answer, Part, Server, answer, nowhere, says};
use crate::support::{Outcome, Running, Workspace, eventually};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A server of one tool, which keeps the call.
const SERVER: &str = r#"while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
    case "$line" in
    *'"method":"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"c","version":"1"}}' ;;
    *'"method":"tools/list"'*) say '{"tools":[{"name":"look","description":"d","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) printf '%s\n' "$line" > called.json; say '{"content":[{"type":"text","text":"ok"}]}' ;;
    esac
done
"#;

/// A model with a tool, an ensemble inside, an attempt that fails, and a loop over two parts.
const ALL: &str = "\
name: outer
default_task: the word is heron
model_profiles:
  m: {provider: simulated, replies: [{tool_calls: [{name: look, arguments: {at: heron}}]}, it is a heron]}
tools:
  look: {script: seen.sh, description: looks, permission: allow, parameters: {type: object}}
agents:
  - {name: shaky, script: shaky.sh, retry: {max_attempts: 2, delay_seconds: 0.01}}
  - {name: bot, model_profile: m, prompt: 'Say {{ input }}', tools: [look], depends_on: [shaky]}
  - {name: team, ensemble: inner.yaml, depends_on: [bot]}
  - {name: each, script: part.rhai, for_each: {in: outputs.shaky.list, as: bird, key: bird}, depends_on: [shaky]}
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("outer.yaml", ALL);
    workspace.write("inner.yaml", "name: inner\nagents: [{name: seen, script: seen.sh}]\n");
    workspace.write("part.rhai", "#{ heron: true }");
    workspace.script(
        "shaky.sh",
        "#!/bin/sh\ncat > /dev/null\n[ \"$ENSEMBLE_ATTEMPT\" = 1 ] && { echo heron >&2; exit 3; }\necho '{\"list\": [\"heron\", \"stork\"]}'\n",
    );
    workspace.script(
        "seen.sh",
        "#!/bin/sh\ncat > /dev/null\necho \"{\\\"parent\\\": \\\"$TRACEPARENT\\\", \\\"state\\\": \\\"$TRACESTATE\\\"}\"\n",
    );
    workspace
}

/// A collector that takes everything.
fn collector() -> Server {
    Server::with(vec![answer(
        "200 OK",
        &[("content-type", "application/x-protobuf")],
        "",
    )])
}

/// The program, told where the collector is.
fn run(workspace: &Workspace, url: &str, arguments: &[&str], more: &[(&str, &str)]) -> Outcome {
    let mut command = workspace.command(arguments);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        .envs(more.iter().copied());
    Running(command.spawn().expect("the program starts")).finish()
}

fn requests(server: &Server) -> Vec<ExportTraceServiceRequest> {
    let asked = server.asked();
    let requests = asked.iter().map(|asked| {
        assert_eq!(asked.line(), "POST /v1/traces");
        assert_eq!(asked.header("content-type"), Some("application/x-protobuf"));
        ExportTraceServiceRequest::decode(asked.bytes.as_slice()).expect("protobuf")
    });
    requests.collect()
}

fn spans_of(requests: Vec<ExportTraceServiceRequest>) -> Vec<Span> {
    let resources = requests.into_iter().flat_map(|request| request.resource_spans);
    let scopes = resources.flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

fn received(server: &Server) -> Vec<Span> {
    spans_of(requests(server))
}

/// The spans of the latest run, as a file of protobuf has them.
fn exported(workspace: &Workspace, more: &[&str]) -> (Vec<u8>, Vec<Span>) {
    let arguments = [&["runs", "export", "--output", "otlp", "--to", "run.pb"], more].concat();
    workspace.run(arguments).expect_code(0);
    let bytes = std::fs::read(workspace.path().join("run.pb")).expect("a file");
    let read = ExportTraceServiceRequest::decode(bytes.as_slice()).expect("protobuf");
    (bytes, spans_of(vec![read]))
}

fn as_set(spans: &[Span]) -> BTreeSet<Vec<u8>> {
    spans.iter().map(Message::encode_to_vec).collect()
}

fn text<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|one| one.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Said::StringValue(text) => Some(text),
        _ => None,
    }
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let first = found
        .next()
        .unwrap_or_else(|| panic!("no {name} in {:?}", names(spans)));
    assert!(found.next().is_none(), "one {name}");
    first
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `traceparent` of what the span calls.
fn traceparent(span: &Span) -> String {
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}

#[test]
fn a_run_is_a_trace_and_its_export_is_the_same() {
    let (workspace, server) = (workspace(), collector());
    let outcome = run(&workspace, &server.url(), &["run", "outer.yaml", "--otlp"], &[]).expect_code(0);
    assert!(!outcome.stderr.contains("telemetry"), "{}", outcome.stderr);
    let live = received(&server);
    let (bytes, export) = exported(&workspace, &[]);
    assert_eq!(as_set(&live), as_set(&export));
    assert_eq!(exported(&workspace, &[]).0, bytes, "the same bytes again");
    let root = named(&export, "invoke_workflow outer");
    assert!(root.parent_span_id.is_empty());
    let parent_of = |span: &Span| {
        let found = export.iter().find(|one| one.span_id == span.parent_span_id);
        found.expect("it is inside something").name.clone()
    };
    for (inner, outer) in [
        ("invoke_agent shaky", "invoke_workflow outer"),
        ("invoke_agent bot", "invoke_workflow outer"),
        ("execute_tool look", "invoke_agent bot"),
        ("invoke_agent team", "invoke_workflow outer"),
        ("invoke_workflow inner", "invoke_agent team"),
        ("invoke_agent seen", "invoke_workflow inner"),
    ] {
        assert_eq!(parent_of(named(&export, inner)), outer, "{inner}");
    }
    let chats: Vec<&Span> = export.iter().filter(|span| span.name == "chat simulated").collect();
    assert_eq!(chats.len(), 2);
    assert_eq!(parent_of(chats[0]), "invoke_agent bot");
    let parts = export.iter().filter(|span| span.name == "invoke_agent each").count();
    assert_eq!(parts, 3, "an execution and two parts");
    let shaky = named(&export, "invoke_agent shaky");
    assert_eq!(shaky.events[0].name, "ensemble.attempt_failed");
    assert!(shaky.status.is_none(), "the second attempt succeeded");
    assert_eq!(text(root, "gen_ai.operation.name"), Some("invoke_workflow"));
    assert_eq!(text(chats[0], "gen_ai.provider.name"), Some("simulated"));
    assert_eq!(text(root, "ensemble.completion_reason"), Some("completed"));
    // Nothing of what was said.
    let whole = String::from_utf8_lossy(&bytes);
    assert!(!whole.contains("heron") && !whole.contains("stork"), "{whole}");
}

#[test]
fn a_run_without_telemetry_has_the_same_trace_and_no_variable_in_scripts() {
    let (workspace, server) = (workspace(), collector());
    let outcome = run(
        &workspace,
        &server.url(),
        &["run", "inner.yaml", "--output", "json"],
        &[],
    )
    .expect_code(0);
    assert!(server.asked().is_empty(), "no option, no request");
    assert_eq!(outcome.json()["final_state"]["seen"]["parent"], "");
    run(&workspace, &server.url(), &["run", "outer.yaml"], &[]).expect_code(0);
    let (_, export) = exported(&workspace, &[]);
    let team = named(&export, "invoke_agent team");
    assert_eq!(named(&export, "invoke_workflow inner").parent_span_id, team.span_id);
    assert_eq!(named(&export, "invoke_agent seen").trace_id, team.trace_id);
    let printed = workspace.run(["runs", "export", "--output", "otlp"]).expect_code(0);
    let read: ExportTraceServiceRequest = serde_json::from_str(&printed.stdout).expect("OTLP as JSON");
    assert_eq!(as_set(&spans_of(vec![read])), as_set(&export));
}

#[test]
fn what_was_said_is_sent_only_if_it_is_asked_for_and_secrets_never() {
    let (workspace, server) = (workspace(), collector());
    let secret = [("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20heronkey123")];
    let content = [
        "run",
        "outer.yaml",
        "--otlp",
        "--otlp-content",
        "-i",
        "a heron, heronkey123",
    ];
    run(&workspace, &server.url(), &content, &secret).expect_code(0);
    let live = received(&server);
    let (bytes, export) = exported(&workspace, &["--otlp-content"]);
    assert_eq!(as_set(&live), as_set(&export));
    let root = named(&export, "invoke_workflow outer");
    let input = text(root, "gen_ai.input.messages").expect("a message");
    assert!(input.contains("a heron, [secret]"), "{input}");
    let look = named(&export, "execute_tool look");
    assert_eq!(text(look, "gen_ai.tool.call.arguments"), Some("{\"at\":\"heron\"}"));
    assert!(text(look, "gen_ai.tool.call.result").is_some_and(|result| result.contains("parent")));
    let chat = export
        .iter()
        .rfind(|span| span.name == "chat simulated")
        .expect("a chat");
    assert!(text(chat, "gen_ai.output.messages").is_some_and(|said| said.contains("it is a heron")));
    assert!(!String::from_utf8_lossy(&bytes).contains("heronkey123"));
    assert_eq!(server.asked()[0].header("authorization"), Some("Bearer heronkey123"));
}

#[test]
fn the_span_around_the_program_is_the_parent_and_goes_on_to_scripts() {
    let (workspace, server) = (workspace(), collector());
    let around = [("TRACEPARENT", PARENT), ("TRACESTATE", "a=1")];
    let outcome = run(
        &workspace,
        &server.url(),
        &["run", "outer.yaml", "--otlp", "--output", "json"],
        &around,
    );
    let spans = received(&server);
    let root = named(&spans, "invoke_workflow outer");
    assert_eq!(hex(&root.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(root.flags & 0x300, 0x300, "the parent is remote");
    assert!(
        spans
            .iter()
            .all(|span| hex(&span.trace_id) == "4bf92f3577b34da6a3ce929d0e0e4736")
    );
    let seen = &outcome.expect_code(0).json()["final_state"]["team"]["seen"];
    assert_eq!(seen["parent"], traceparent(named(&spans, "invoke_agent seen")));
    assert_eq!(seen["state"], "a=1");
    let calls = crate::support::exchange::tool_calls(&workspace.journal(), "bot", 1);
    let told = calls[0][0]["result"].to_string();
    assert!(told.contains(&traceparent(named(&spans, "invoke_agent bot"))), "{told}");
    // The journal tells the parent, so the export needs no environment.
    assert_eq!(as_set(&exported(&workspace, &[]).1), as_set(&spans));
    // A parent that is not recorded: the script is told, and nothing is sent.
    let quiet = PARENT.replace("-01", "-00");
    let before = server.asked().len();
    let outcome = run(
        &workspace,
        &server.url(),
        &["run", "inner.yaml", "--otlp", "--output", "json"],
        &[("TRACEPARENT", &quiet)],
    );
    let seen = outcome.expect_code(0).json()["final_state"]["seen"]["parent"].to_string();
    assert!(
        seen.contains("4bf92f3577b34da6a3ce929d0e0e4736") && seen.ends_with("-00\""),
        "{seen}"
    );
    assert_eq!(server.asked().len(), before);
}

#[test]
fn models_and_servers_of_tools_are_told_the_span() {
    let (workspace, server) = (Workspace::new(), collector());
    let model = Server::with(vec![says("fine")]);
    workspace.write(
        "m.yaml",
        format!(
            "name: m\nagents: [{{name: bot, model_profile: p, prompt: hello}}]\nmodel_profiles:\n  p: {{provider: ollama, model: x, base_url: '{}', provider: openai}}\n",
            model.url()
        )
        .replace("provider: ollama, ", ""),
    );
    let key = [("OPENAI_API_KEY", "sk-0123456789")];
    run(&workspace, &server.url(), &["run", "m.yaml", "--otlp"], &key).expect_code(0);
    let spans = received(&server);
    let told = model.asked();
    assert_eq!(
        told[0].header("traceparent"),
        Some(&*traceparent(named(&spans, "invoke_agent bot")))
    );
    let chat = named(&spans, "chat x");
    assert_eq!(text(chat, "gen_ai.provider.name"), Some("openai"));
    run(&workspace, &server.url(), &["run", "m.yaml"], &key).expect_code(0);
    assert_eq!(model.asked()[1].header("traceparent"), None);

    workspace.write("server.sh", SERVER);
    workspace.write(
        "t.yaml",
        "name: t\nagents: [{name: bot, model_profile: p, tools: [s]}]\nmodel_profiles:\n  p: {provider: simulated, replies: [{tool_calls: [{name: s__look}]}, done]}\n\
         tools:\n  s: {permission: allow, mcp: {command: [sh, server.sh]}}\n",
    );
    let state = [("TRACEPARENT", PARENT), ("TRACESTATE", "a=1")];
    let before = received(&server).len();
    run(&workspace, &server.url(), &["run", "t.yaml", "--otlp"], &state).expect_code(0);
    let spans = received(&server).split_off(before);
    let called: serde_json::Value = serde_json::from_str(&workspace.read("called.json")).expect("JSON");
    let meta = &called["params"]["_meta"];
    assert_eq!(meta["traceparent"], traceparent(named(&spans, "invoke_agent bot")));
    assert_eq!(meta["tracestate"], "a=1");
}

/// There is no model, so there is no request: the call stands alone in the execution, and its server is told the span.
#[test]
fn a_call_without_a_model_is_a_span_of_a_tool_and_none_of_a_model() {
    let (workspace, server) = (Workspace::new(), collector());
    workspace.write("server.sh", SERVER);
    let ensemble = |tool: &str| {
        format!(
            "name: t\nagents: [{{name: bot, tool: s.{tool}, arguments: {{bird: heron}}}}]\ntools:\n  s: {{permission: allow, mcp: {{command: [sh, \
             server.sh]}}}}\n"
        )
    };
    workspace.write("t.yaml", ensemble("look"));
    run(&workspace, &server.url(), &["run", "t.yaml", "--otlp"], &[]).expect_code(0);
    let spans = received(&server);
    let mut all = names(&spans);
    all.sort_unstable();
    assert_eq!(all, ["execute_tool s.look", "invoke_agent bot", "invoke_workflow t"]);
    let (call, execution) = (named(&spans, "execute_tool s.look"), named(&spans, "invoke_agent bot"));
    assert_eq!(call.parent_span_id, execution.span_id);
    assert_eq!(text(call, "gen_ai.tool.name"), Some("s.look"));
    assert_eq!(text(execution, "gen_ai.request.model"), None);
    assert!(
        spans.iter().all(|span| !format!("{span:?}").contains("heron")),
        "only if it is asked for"
    );
    let called: serde_json::Value = serde_json::from_str(&workspace.read("called.json")).expect("JSON");
    assert_eq!(called["params"]["_meta"]["traceparent"], traceparent(execution));
    let (_, export) = exported(&workspace, &["--otlp-content"]);
    let call = named(&export, "execute_tool s.look");
    assert_eq!(text(call, "gen_ai.tool.call.arguments"), Some("{\"bird\":\"heron\"}"));
    assert_eq!(text(call, "gen_ai.tool.call.result"), Some("ok"));
    // A call that is not made has no span.
    workspace.write("t.yaml", ensemble("lock"));
    run(&workspace, &server.url(), &["run", "t.yaml"], &[]).expect_code(1);
    let (_, spans) = exported(&workspace, &[]);
    assert!(
        names(&spans).iter().all(|name| !name.contains("tool")),
        "{:?}",
        names(&spans)
    );
}

#[test]
fn continuations_and_forks_are_traces_of_their_own_with_a_link() {
    let (workspace, server) = (Workspace::new(), collector());
    workspace.write("e.yaml", "name: e\nagents: [{name: a, script: a.rhai}]\n");
    workspace.write("a.rhai", "#{ n: 1 }");
    let url = server.url();
    run(&workspace, &url, &["run", "e.yaml", "--otlp", "--then", "more"], &[]).expect_code(0);
    let first = received(&server);
    let roots: Vec<&Span> = first.iter().filter(|span| span.name == "invoke_workflow e").collect();
    assert_eq!(roots.len(), 2);
    assert_ne!(roots[0].trace_id, roots[1].trace_id);
    assert_eq!(roots[1].links[0].span_id, roots[0].span_id);
    assert_eq!(as_set(&exported(&workspace, &[]).1), as_set(&first));
    run(&workspace, &url, &["continue", "--last", "again", "--otlp"], &[]).expect_code(0);
    let third = received(&server).split_off(first.len());
    let root = named(&third, "invoke_workflow e");
    assert_eq!(root.links[0].span_id, roots[0].span_id);
    assert_eq!(root.links[0].trace_id, roots[0].trace_id);
    let all = received(&server);
    assert_eq!(as_set(&exported(&workspace, &[]).1), as_set(&all));
    run(&workspace, &url, &["fork", "--last", "--at-turn", "1", "--otlp"], &[]).expect_code(0);
    let forked = received(&server).split_off(all.len());
    let root = named(&forked, "invoke_workflow e");
    assert_eq!(root.links[0].span_id, roots[0].span_id, "{:?}", names(&forked));
    assert_eq!(
        as_set(&exported(&workspace, &[]).1),
        as_set(&forked),
        "copied records are not its own"
    );
}

#[test]
fn a_batch_sends_a_trace_for_each_row() {
    let (workspace, server) = (Workspace::new(), collector());
    workspace.write("e.yaml", "name: e\nagents: [{name: a, script: a.rhai}]\n");
    workspace.write("a.rhai", "#{ n: 1 }");
    workspace.write("rows.jsonl", "{\"x\": 1}\n{\"x\": 2}\n{\"x\": 3}\n");
    let batch = ["batch", "e.yaml", "--data", "rows.jsonl"];
    run(&workspace, &server.url(), &batch, &[("ENSEMBLE_OTLP", "1")]).expect_code(0);
    let spans = received(&server);
    let traces: BTreeSet<_> = spans.iter().map(|span| &span.trace_id).collect();
    assert_eq!((spans.len(), traces.len()), (6, 3));
}

/// A run of one script, and how long the whole program takes.
fn timed(url: &str, more: &[(&str, &str)]) -> (Outcome, Duration) {
    let workspace = Workspace::new();
    workspace.write("e.yaml", "name: e\nagents: [{name: a, script: a.rhai}]\n");
    workspace.write("a.rhai", "#{ n: 1 }");
    let began = Instant::now();
    let outcome = run(&workspace, url, &["run", "e.yaml", "--otlp", "--quiet"], more).expect_code(0);
    assert_eq!(outcome.stdout, "n: 1\n");
    (outcome, began.elapsed())
}

#[test]
fn a_collector_that_is_gone_or_refuses_costs_one_warning() {
    let url = nowhere();
    let (outcome, took) = timed(&url, &[]);
    let told =
        format!("warning: telemetry: 2 of 2 spans did not reach {url}/v1/traces: nothing listens at that address\n");
    assert_eq!(outcome.stderr, told);
    assert!(took < Duration::from_secs(4), "{took:?}");
    let server = Server::with(vec![answer("400 Bad Request", &[], "")]);
    let (outcome, _) = timed(&server.url(), &[]);
    assert!(
        outcome.stderr.contains("2 of 2 spans did not reach"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.ends_with("the collector answered with HTTP 400\n"),
        "{}",
        outcome.stderr
    );
    assert_eq!(server.asked().len(), 1, "it is not asked again");
    // A key must not follow a redirection.
    let elsewhere = collector();
    let server = Server::with(vec![answer(
        "307 Temporary Redirect",
        &[("location", &elsewhere.url())],
        "",
    )]);
    let (outcome, _) = timed(&server.url(), &[]);
    assert!(
        outcome.stderr.ends_with("the collector answered with HTTP 307\n"),
        "{}",
        outcome.stderr
    );
    assert!(elsewhere.asked().is_empty());
}

#[test]
fn a_collector_that_is_busy_is_asked_again_when_it_says() {
    let server = Server::with(vec![
        answer("429 Too Many Requests", &[("retry-after", "1")], ""),
        answer("503 Service Unavailable", &[], ""),
        answer("200 OK", &[], ""),
    ]);
    let (outcome, took) = timed(&server.url(), &[]);
    assert_eq!(outcome.stderr, "");
    assert!(took >= Duration::from_secs(1), "{took:?}");
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|one| one.bytes == asked[0].bytes));
}

#[test]
fn a_collector_that_never_answers_is_not_waited_for() {
    let server = Server::new(|_, _| -> Answer { vec![Part::Drip(b"H".to_vec(), Duration::from_secs(60))] });
    let (outcome, took) = timed(&server.url(), &[]);
    assert!(
        outcome.stderr.contains("the program exited before all spans were sent"),
        "{}",
        outcome.stderr
    );
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn spans_that_a_collector_rejects_are_told() {
    let partial = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: 1,
            error_message: "too \u{1b}[2Kold".to_owned(),
        }),
    };
    let body = partial.encode_to_vec();
    let server = Server::new(move |_, _| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        vec![Part::Bytes([head.as_bytes(), &body].concat())]
    });
    let (outcome, _) = timed(&server.url(), &[]);
    let told = format!(
        "warning: telemetry: 1 of 2 spans did not reach {}/v1/traces: the collector reported: too \\u{{1b}}[2Kold\n",
        server.url()
    );
    assert_eq!(outcome.stderr, told);
}

#[test]
fn the_variables_of_the_standard_turn_it_off_and_what_cannot_be_done_is_told() {
    let server = collector();
    for off in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
    ] {
        assert_eq!(timed(&server.url(), &[off]).0.stderr, "", "{off:?}");
    }
    let (outcome, _) = timed(&server.url(), &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    assert!(
        outcome
            .stderr
            .starts_with("warning: no telemetry is sent: OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`"),
        "{}",
        outcome.stderr
    );
    assert!(server.asked().is_empty());
    timed(
        &server.url(),
        &[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_SERVICE_NAME", "mine"),
        ],
    );
    let asked = server.asked();
    assert_eq!(asked[0].header("content-type"), Some("application/json"));
    let resource = &asked[0].body["resourceSpans"][0]["resource"]["attributes"][0];
    assert_eq!(resource["value"]["stringValue"], "mine");
}

#[test]
fn spans_arrive_while_the_run_goes_on() {
    let (workspace, server) = (Workspace::new(), collector());
    workspace.write(
        "e.yaml",
        "name: e\nagents:\n  - {name: a, script: a.rhai}\n  - {name: b, script: b.sh, depends_on: [a]}\n",
    );
    workspace.write("a.rhai", "#{ n: 1 }");
    workspace.script("b.sh", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\necho '{}'\n");
    let mut command = workspace.command(["run", "e.yaml", "--otlp"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", server.url());
    let running = Running(command.spawn().expect("the program starts"));
    eventually("a span", || (received(&server).len() == 1).then_some(()));
    workspace.write("go", "");
    running.finish().expect_code(0);
    assert_eq!(
        names(&received(&server)),
        ["invoke_agent a", "invoke_agent b", "invoke_workflow e"]
    );
}
