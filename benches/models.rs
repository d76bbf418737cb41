//! What a request to a model costs beyond the HTTP client, how many streams can be held, and how late a word is.
//!
//! A server on another thread answers in OpenAI's dialect over loopback. Its time is not counted: what is compared is
//! the processor time of the asking thread.

#![expect(clippy::disallowed_methods, reason = "benches measure time")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use ensemble_agents::agent::kinds::llm::{LlmAgentRunner, LlmRunnerOptions};
use ensemble_core::runner::Runner;
use ensemble_core::thread::{ExecutionAttemptRef, LiveOutputReceiver, LiveUpdate, Message, MessageRole};
use ensemble_language::ensemble::AgentKind;
use ensemble_models::{
    Model, ModelNetwork, ModelProvider, ModelRequest, RemoteProvider, ReplyPiece, ReplyPieceCallback,
};
use serde_json::json;

mod support;

use support::{Figures, peak_mib, plan, processor_time, run, say, show};

/// Pieces of a reply.
const PIECES: usize = 100;

fn main() {
    say("models: over HTTP on loopback, a reply of 100 pieces");
    overhead();
    lateness();
    many(1000);
}

/// The same calls, by the bare client and by us.
fn overhead() {
    const REQUESTS: u32 = 200;
    let server = serve(Duration::ZERO, None);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let network = network();
    let remote = RemoteProvider::new(
        ensemble_language::ensemble::HttpProvider::find_by_name("openai").expect("is known"),
        network,
    );
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let (mut bare, mut ours, mut beyond) = (Figures::default(), Figures::default(), Figures::default());
    for round in 0..12 {
        let spent = |task: &mut dyn FnMut()| {
            let begun = processor_time();
            (0..REQUESTS).for_each(|_| task());
            (processor_time() - begun).as_secs_f64() * 1e3 / f64::from(REQUESTS)
        };
        let plain = spent(&mut || runtime.block_on(bare_call(&client, server)));
        let whole = spent(&mut || runtime.block_on(our_call(&remote, server)));
        // The first round builds the clients and connects.
        if round > 0 {
            bare.add(plain);
            ours.add(whole);
            beyond.add(whole - plain);
        }
    }
    show("a bare client, reading all", &bare, "ms", "CPU per request");
    show("a request to a model", &ours, "ms", "CPU per request");
    show("beyond the bare client", &beyond, "ms", "must be below 1");
}

async fn bare_call(client: &reqwest::Client, server: SocketAddr) {
    bare_stream(client, server, || {}).await;
}

/// Reads a reply and tells of each piece as it comes.
async fn bare_stream(client: &reqwest::Client, server: SocketAddr, mut heard: impl FnMut()) {
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Say something."}]});
    let url = format!("http://{server}/v1/chat/completions");
    let mut response = client.post(url).json(&body).send().await.expect("an answer");
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await.expect("a chunk") {
        bytes += chunk.len();
        heard();
    }
    assert!(bytes > PIECES);
}

async fn our_call(remote: &RemoteProvider, server: SocketAddr) {
    let heard = AtomicU64::new(0);
    let on_piece: &ReplyPieceCallback<'_> = &|piece: ReplyPiece<'_>| {
        if let ReplyPiece::Text(text) = piece {
            heard.fetch_add(text.len() as u64, Ordering::Relaxed);
        }
    };
    let reply = remote
        .complete_request(request(server), on_piece)
        .await
        .expect("a reply");
    assert_eq!(reply.text.len() as u64, heard.load(Ordering::Relaxed));
}

fn request(server: SocketAddr) -> ModelRequest {
    let profile = ensemble_language::ensemble::ModelProfile {
        provider: "openai".into(),
        model: "m".into(),
        base_url: Some(format!("http://{server}")),
        ..Default::default()
    };
    ModelRequest {
        messages: vec![Message::new(MessageRole::User, "Say something.")],
        agent_name: "a".into(),
        purpose: ensemble_models::RequestPurpose::Reply,
        request_number: 1,
        execution: 1,
        prompt: "Say something.".into(),
        output_schema: None,
        tools: Arc::default(),
        profile: Arc::new(profile),
        clock: ensemble_core::stopwatch::Stopwatch::default(),
    }
}

/// From the server's write to the listener's ear, beside what a bare client takes for the same way.
fn lateness() {
    let written = Arc::new(Mutex::new(Instant::now()));
    let server = serve(Duration::from_millis(2), Some(written.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let remote = RemoteProvider::new(
        ensemble_language::ensemble::HttpProvider::find_by_name("openai").expect("is known"),
        network(),
    );
    let (first, late) = (Mutex::new(Figures::default()), Mutex::new(Figures::default()));
    let (client, mut bare) = (reqwest::Client::new(), Figures::default());
    for _ in 0..20 {
        let heard = || bare.add(written.lock().expect("unpoisoned").elapsed().as_secs_f64() * 1e3);
        runtime.block_on(bare_stream(&client, server, heard));
        let heard = AtomicU64::new(0);
        let on_piece: &ReplyPieceCallback<'_> = &|_: ReplyPiece<'_>| {
            let since = written.lock().expect("unpoisoned").elapsed();
            let figures = if heard.fetch_add(1, Ordering::Relaxed) == 0 {
                &first
            } else {
                &late
            };
            figures.lock().expect("unpoisoned").add(since.as_secs_f64() * 1e3);
        };
        runtime
            .block_on(remote.complete_request(request(server), on_piece))
            .expect("a reply");
    }
    let (first, late) = (
        first.into_inner().expect("unpoisoned"),
        late.into_inner().expect("unpoisoned"),
    );
    show(
        "from the first word's arrival to its listener",
        &first,
        "ms",
        "must be below 5",
    );
    show("likewise the others of 20 replies", &late, "ms", "must be below 5");
    show("a bare client, all of 20 replies", &bare, "ms", "");
}

/// So many LLM agents in one turn, whose streams are all open at once.
fn many(agents: usize) {
    let begun = Arc::new(Barrier::new(agents));
    let server = serve_together(begun);
    let mut text = String::from("name: many\nagents:\n");
    for at in 0..agents {
        text.push_str(&format!("  - {{name: a{at}, model_profile: m}}\n"));
    }
    text.push_str(&format!(
        "model_profiles:\n  m: {{provider: openai, model: m, base_url: 'http://{server}'}}\n"
    ));
    let plan = plan(&text);
    let profile = plan.ensemble().model_profiles[0].1.clone();
    let (network, heard) = (network(), Arc::new(Counts::default()));
    let runner = |agent: &ensemble_language::ensemble::Agent| -> Arc<dyn Runner> {
        let AgentKind::Llm(llm) = &agent.kind else {
            panic!("an LLM")
        };
        let options = LlmRunnerOptions {
            live_output: heard.clone(),
            ..LlmRunnerOptions::for_model(Model::from_profile_with_network(profile.clone(), &network).expect("a model"))
        };
        Arc::new(LlmAgentRunner::new(agent, llm, options).expect("a runner"))
    };
    let runners = plan.ensemble().agents.iter().map(runner).collect();
    let ran = run(&plan, runners);
    assert_eq!(ran.executions(), agents);
    assert_eq!(
        heard.0.load(Ordering::Relaxed),
        (agents * PIECES) as u64,
        "every piece was heard"
    );
    let peak = peak_mib().map_or("the system does not tell".to_owned(), |mib| format!("{mib:.0} MiB"));
    say(&format!(
        "{agents} streams at once, one turn: {:.2} s; peak memory {peak}, must be below 300 (server included)",
        ran.took.as_secs_f64()
    ));
}

/// Counts what is heard.
#[derive(Default)]
struct Counts(AtomicU64);

impl LiveOutputReceiver for Counts {
    fn receive_update(&self, _: &ExecutionAttemptRef, _: LiveUpdate<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn network() -> ModelNetwork {
    ModelNetwork::new(|_| None, chrono::Utc::now, || 0.5)
}

fn piece() -> String {
    let data = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": null}]});
    chunk(&format!("data: {data}\n\n"))
}

/// A piece of a body that is sent in chunks.
fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn end() -> String {
    let stop = r#"data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}"#;
    let usage = r#"data: {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 100}}"#;
    chunk(&format!("{stop}\n\n{usage}\n\ndata: [DONE]\n\n")) + "0\r\n\r\n"
}

/// Answers every request of every connection, piece by piece; `written` says when the last was written.
fn serve(pause: Duration, written: Option<Arc<Mutex<Instant>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            let written = written.clone();
            std::thread::spawn(move || connection(stream, pause, written.as_deref()));
        }
    });
    address
}

fn connection(mut stream: TcpStream, pause: Duration, written: Option<&Mutex<Instant>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (piece, end) = (piece(), end());
    loop {
        take_request(&mut stream)?;
        stream.write_all(HEAD.as_bytes()).ok()?;
        for _ in 0..PIECES {
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            if let Some(written) = written {
                *written.lock().expect("unpoisoned") = Instant::now();
            }
            stream.write_all(piece.as_bytes()).ok()?;
        }
        stream.write_all(end.as_bytes()).ok()?;
    }
}

/// Reads a request whole; what follows it is not there yet, since nobody sends ahead.
fn take_request(stream: &mut TcpStream) -> Option<()> {
    let mut bytes = Vec::new();
    let mut more = [0; 4096];
    loop {
        let count = stream.read(&mut more).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&more[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        if bytes.len() >= end + 4 + length.unwrap_or(0) {
            return Some(());
        }
    }
}

/// Begins all streams before it goes on with any, so that all are open at once; each connection has a small thread.
fn serve_together(begun: Arc<Barrier>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().filter_map(Result::ok) {
            let begun = begun.clone();
            let serve = move || -> Option<()> {
                take_request(&mut stream)?;
                stream.write_all(HEAD.as_bytes()).ok()?;
                stream.write_all(piece().as_bytes()).ok()?;
                begun.wait();
                for _ in 1..PIECES {
                    stream.write_all(piece().as_bytes()).ok()?;
                }
                stream.write_all(end().as_bytes()).ok()
            };
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            thread.spawn(serve).expect("a thread");
        }
    });
    address
}
