//! What it costs to watch a run: how late a record reaches a page and an editor, what 200 followers cost the run, and how long the page of a
//! long run takes to open.
//!
//! `cargo bench --bench watching`. All servers are child processes, and all clients are on the same machine, whose processors they share.
//! The page is opened in the browser that `tests/install.sh browser` installs; without it, that part is left out.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{Event, Record};
use ensemble_core::records::parse_record_line;
use serde_json::{Value, json};
use support::{Figures, say, show};
use tempfile::TempDir;

const TOKEN: &str = "a-token-of-the-bench";
/// Turns of about 25 ms: what a fast script takes.
const WAITS: &str = "sleep 0.02; echo said";
const TURNS: u32 = 200;
/// Turns of some hundred microseconds: no agent is as fast.
const NEVER_WAITS: &str = "fast.rhai";
const FAST_TURNS: u32 = 5_000;
const FOLLOWERS: usize = 200;
const ROUNDS: usize = 5;
/// What the page of a long run shows.
const LONG: u32 = 10_000;

/// One agent, in each turn.
fn ensemble(script: &str, turns: u32) -> String {
    format!(
        "name: e\nconversation_limits: {{max_total_turns: {turns}, timeout_seconds: 600}}\nagents:\n  - {{name: a, script: '{script}', \
         conversation: {{trigger: every_turn, max_turns: {turns}}}}}\n"
    )
}

fn folder(script: &str, turns: u32) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join("ensembles")).expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join("ensembles").join(name), text).expect("a file");
    write("e.yaml", &ensemble(script, turns));
    write("fast.rhai", "\"said\"");
    folder
}

fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble"));
    command.args(arguments).current_dir(folder);
    command.env("ENSEMBLE_TRUST", "1").env("ENSEMBLE_UI_TOKEN", TOKEN);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// A server, until it is dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(folder: &Path) -> Self {
        let mut child = program(folder, &["ui", "--port", "0"]).spawn().expect("it starts");
        let mut link = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut link).expect("an address");
        // What it says later is read, too.
        std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
        let port = link
            .split(['/', '#'])
            .find_map(|part| part.rsplit_once(':')?.1.parse().ok());
        Self {
            child,
            port: port.expect("an address with a port"),
        }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let (port, length) = (self.port, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\ncontent-length: \
             {length}\r\n\r\n{body}"
        )
        .expect("it reads");
        stream
    }

    /// Starts a run, and says its id.
    fn begin(&self) -> String {
        let mut answer = String::new();
        let mut stream = self.send("POST", "/api/start", &json!({"ensemble": "e"}).to_string());
        stream.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        let body: Value = serde_json::from_str(body).expect("JSON");
        body["id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
    }

    fn follow(&self, id: &str) -> BufReader<TcpStream> {
        BufReader::new(self.send("GET", &format!("/api/events?id={id}"), ""))
    }

    /// The time that its process has had on a processor, in steps of a hundredth of a second.
    fn busy(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("Linux");
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10)
    }
}

fn journal(folder: &Path, id: &str) -> PathBuf {
    folder.join(".ensemble/runs").join(id).join("journal.jsonl")
}

fn records(folder: &Path, id: &str) -> Vec<Record> {
    let text = fs::read(journal(folder, id)).expect("a journal");
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| parse_record_line(line).expect("a record")).collect()
}

/// Waits until the run is over, from outside, and says how long it took from its first record to its last.
fn until_over(folder: &Path, id: &str) -> f64 {
    let is_over = || {
        let text = fs::read_to_string(journal(folder, id)).unwrap_or_default();
        text.trim_end()
            .rsplit('\n')
            .next()
            .is_some_and(|last| last.contains("\"run_ended\""))
    };
    while !is_over() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let all = records(folder, id);
    (all[all.len() - 1].at - all[0].at).as_seconds_f64()
}

fn millis(from: DateTime<Utc>, to: DateTime<Utc>) -> f64 {
    (to - from).as_seconds_f64() * 1e3
}

/// From the record to the event of a page that has it.
fn to_the_page() {
    let folder = folder(WAITS, TURNS);
    let server = Server::start(folder.path());
    let id = server.begin();
    let mut events = server.follow(&id);
    // How many records the page has since when.
    let mut heard: Vec<(u64, DateTime<Utc>)> = Vec::new();
    let mut line = String::new();
    while events.read_line(&mut line).expect("an event") > 0 {
        let now = Utc::now();
        if let Some(data) = line.strip_prefix("data: ") {
            let data: Value = serde_json::from_str(data).expect("JSON");
            if let Some(next) = data["head"]["next"].as_u64() {
                heard.push((next, now));
            }
            if !data["head"]["outcome"].is_null() {
                break;
            }
        }
        line.clear();
    }
    let first = heard[0].0;
    let mut late = Figures::default();
    for record in records(folder.path(), &id).iter().filter(|record| record.seq >= first) {
        let known = heard.iter().find(|(next, _)| *next > record.seq).expect("it was told");
        late.add(millis(record.at, known.1));
    }
    show("record to page", &late, "ms", "(target: 20 ms at the median)");
}

/// From the record of the end of an execution to the message that tells an ACP client.
fn to_the_client() {
    let folder = folder(WAITS, TURNS);
    let mut child = program(folder.path(), &["acp", "ensembles/e.yaml"])
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut ask = |id: u32, method: &str, params: Value| {
        writeln!(
            stdin,
            "{}",
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        )
        .expect("it reads");
    };
    let mut next = || {
        let mut line = String::new();
        out.read_line(&mut line).expect("a message");
        let now = Utc::now();
        (serde_json::from_str::<Value>(&line).expect("a frame"), now)
    };
    let mut answer = |id: u32| loop {
        let (message, _) = next();
        if message["id"] == id {
            return message;
        }
    };
    ask(1, "initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
    answer(1);
    ask(2, "session/new", json!({"cwd": folder.path(), "mcpServers": []}));
    let session = answer(2)["result"]["sessionId"].clone();
    ask(
        3,
        "session/prompt",
        json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}),
    );
    let mut heard = Vec::new();
    loop {
        let (message, now) = next();
        if message["id"] == 3 {
            break;
        }
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "tool_call_update" && update["status"] == "completed" {
            heard.push(now);
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    let runs = fs::read_dir(folder.path().join(".ensemble/runs")).expect("a folder");
    let run = runs
        .filter_map(Result::ok)
        .find(|run| run.path().join("journal.jsonl").is_file());
    let run = run.expect("a run").file_name();
    let ends = records(folder.path(), &run.to_string_lossy()).into_iter();
    let ends: Vec<Record> = ends
        .filter(|record| matches!(record.event, Event::ExecutionFinished(_)))
        .collect();
    assert_eq!(ends.len(), heard.len(), "each execution was told once");
    let mut late = Figures::default();
    for (record, heard) in ends.iter().zip(heard) {
        late.add(millis(record.at, heard));
    }
    show("record to ACP client", &late, "ms", "(target: 20 ms at the median)");
}

/// A run with so many who follow it: its seconds, and those of the server on a processor.
fn followed(script: &str, turns: u32, followers: usize) -> (f64, f64, usize) {
    let folder = folder(script, turns);
    let server = Server::start(folder.path());
    let id = server.begin();
    let read = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..followers)
        .map(|_| {
            let (mut events, read) = (server.follow(&id), read.clone());
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(length) = events.get_mut().read(&mut buffer) {
                    if length == 0 {
                        return;
                    }
                    read.fetch_add(length, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let took = until_over(folder.path(), &id);
    let busy = server.busy().as_secs_f64();
    drop(server);
    for thread in threads {
        thread.join().expect("a follower");
    }
    (took, busy, read.load(Ordering::Relaxed))
}

fn followers(name: &str, script: &str, turns: u32) {
    let mut ratios = Figures::default();
    for _ in 0..ROUNDS {
        let (alone, busy_alone, _) = followed(script, turns, 0);
        let (watched, busy_watched, read) = followed(script, turns, FOLLOWERS);
        ratios.add(watched / alone);
        let each = |seconds: f64| seconds * 1e3 / f64::from(turns);
        say(&format!(
            "{name}: {:.2} ms for each turn alone, {:.2} ms with {FOLLOWERS} followers: {:.3} ×; processor time of the server {:.2} ms and {:.2} \
             ms; {:.1} MiB sent",
            each(alone),
            each(watched),
            watched / alone,
            each(busy_alone),
            each(busy_watched),
            read as f64 / f64::from(1 << 20),
        ));
    }
    show(&format!("{name}, with {FOLLOWERS} followers"), &ratios, "×", "");
}

/// From the click on a run of many executions to its first row.
fn open_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = root.join("target/browser/node_modules");
    if !modules.join("playwright-core").is_dir() {
        return say("the page of a long run: left out; tests/install.sh browser installs what it needs");
    }
    let folder = folder(NEVER_WAITS, LONG);
    let run = program(folder.path(), &["run", "e", "-q", "--durability", "none"]).status();
    assert!(run.expect("it starts").success());
    let mut visit = Command::new("node");
    visit.arg(root.join("benches/support/open_page.mjs"));
    visit.args([&modules, Path::new(env!("CARGO_BIN_EXE_ensemble")), folder.path()]);
    let output = visit.env("ENSEMBLE_TRUST", "1").output().expect("node starts");
    let opened: Vec<f64> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut figures = Figures::default();
    opened.into_iter().for_each(|millis| figures.add(millis));
    show(
        &format!("the page of {LONG} executions"),
        &figures,
        "ms",
        "(target: 1000 ms)",
    );
}

fn main() {
    let begun = Instant::now();
    to_the_page();
    to_the_client();
    followers("turns of 25 ms", WAITS, TURNS);
    followers("turns that never wait", NEVER_WAITS, FAST_TURNS);
    open_page();
    say(&format!("in {:.0} s", begun.elapsed().as_secs_f64()));
}
