//! What a trace costs: the fold of a journal into spans, beside reading the journal, and a run whose records are folded meanwhile.
//!
//! `cargo bench --bench telemetry`. There, nothing is sent, and what is compared is the processor time of the thread. At the end, `ensemble run`
//! with `--otlp` sends its spans to a receiver on the loopback; it is compared with the same run without, in the processor time of the whole
//! process, of the program and of the system.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use ensemble_core::conversation::{ConversationState, Record};
use ensemble_core::records::{append_record_line, parse_record_line};
use ensemble_core::store::MemoryStore;
use ensemble_core::store::{Durability, RunId, RunStore};
use ensemble_core::trace::TraceParent;
use ensemble_runs::{EnsembleRef, Project, RunHost, RunOptions, RunTracer, Runs, Trust};
use ensemble_telemetry::{RecordedRunTree, RunSpanBuilder, RunTrace, TelemetryResource};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use support::{children_time, processor_time, say};

const ROUNDS: usize = 7;
const TURNS: u32 = 5_000;
/// Fewer spans than the queue of the exporter holds, so that none can be dropped.
const SENT_TURNS: u32 = 2_000;
/// The processor time of children comes in steps; many runs make it exact.
const COMMANDS: usize = 10;

/// One agent with one request in each turn.
fn ensemble(turns: u32) -> String {
    format!(
        "name: e\nconversation_limits: {{max_total_turns: {turns}}}\nmodel_profiles:\n  m: {{provider: simulated, replies: [fine]}}\nagents:\n  \
         - {{name: a, model_profile: m, prompt: go, conversation: {{trigger: every_turn, memory: none, max_turns: {turns}}}}}\n"
    )
}

/// Folds, and sends nothing.
struct Folding(Mutex<(RunSpanBuilder, usize)>);

impl RunTracer for Folding {
    fn parent_span(&self) -> Option<TraceParent> {
        None
    }

    fn is_sampled(&self, _trace: &[u8; 16]) -> bool {
        true
    }

    fn secret_values(&self) -> Vec<String> {
        Vec::new()
    }

    fn observe_record(&self, _run: &RunId, record: &Record, state: &ConversationState) {
        let mut spans = Vec::new();
        let mut fold = self.0.lock().expect("nobody panics");
        fold.0.apply_record_to_spans(record, state.run_start(), &mut spans);
        fold.1 += spans.len();
    }
}

/// The records of a run, and its seconds.
fn run(tracer: Option<Arc<dyn RunTracer>>) -> (Vec<Record>, f64) {
    let folder = tempfile::TempDir::new().expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let project = Project::from_folder(folder.path()).with_trust(Trust::trust_everything());
    let store = Arc::new(MemoryStore::new());
    let runs = Runs::for_project(project, RunHost::from_system().without_operator()).with_store(store.clone());
    let options = RunOptions {
        tracer,
        ..RunOptions::default().with_durability(Durability::None)
    };
    runtime.expect("a runtime").block_on(async {
        let before = processor_time();
        let run = runs
            .start_run(EnsembleRef::from_text(ensemble(TURNS)), options)
            .await
            .expect("it begins");
        run.wait_and_close().await.expect("it ends");
        let took = (processor_time() - before).as_secs_f64();
        let latest = store.find_latest_run().await.expect("a run");
        (latest.read_journal().await.expect("memory").records, took)
    })
}

fn busy<T>(what: impl FnOnce() -> T) -> f64 {
    let before = processor_time();
    let _kept = what();
    (processor_time() - before).as_secs_f64()
}

/// Takes what is sent, in the process of the bench, and keeps it.
fn receiver() -> (SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeping = kept.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            let keeping = keeping.clone();
            std::thread::spawn(move || receive(stream, &keeping));
        }
    });
    (address, kept)
}

fn receive(mut stream: TcpStream, kept: &Mutex<Vec<Vec<u8>>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
            let line = line.trim_end().to_lowercase();
            if let Some(told) = line.strip_prefix("content-length:") {
                length = told.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        kept.lock().expect("nobody panics").push(body);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).ok()?;
    }
}

fn spans_in(bodies: &[Vec<u8>]) -> usize {
    let requests = bodies
        .iter()
        .map(|body| ExportTraceServiceRequest::decode(body.as_slice()).expect("protobuf"));
    let resources = requests.flat_map(|request| request.resource_spans);
    let scopes = resources.flat_map(|resource| resource.scope_spans);
    scopes.map(|scope| scope.spans.len()).sum()
}

/// Seconds of the processor that the command needs for runs one after the other.
fn command(receiver: Option<SocketAddr>) -> f64 {
    let folder = tempfile::TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("e.yaml"), ensemble(SENT_TURNS)).expect("written");
    let before = children_time();
    for _ in 0..COMMANDS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble"));
        command.args(["run", "e.yaml", "-q", "--durability", "none"]);
        command.current_dir(folder.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(receiver) = receiver {
            command
                .arg("--otlp")
                .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{receiver}"));
        }
        let output = command.output().expect("it ran");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.is_empty(), "{told}");
    }
    (children_time() - before).as_secs_f64()
}

/// What sending costs the command.
fn sent() {
    let (address, kept) = receiver();
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let (bare, traced) = (command(None), command(Some(address)));
        let bodies = std::mem::take(&mut *kept.lock().expect("nobody panics"));
        // Each execution with its request, and the run. What was dropped would have cost nothing.
        assert_eq!(spans_in(&bodies), COMMANDS * (2 * SENT_TURNS as usize + 1));
        let each = |seconds: f64| seconds * 1e3 / COMMANDS as f64;
        ratios.push(traced / bare);
        say(&format!(
            "a command with {SENT_TURNS} executions {:.1} ms, with --otlp {:.1} ms: {:.2} ×, {:.1} µs for each span",
            each(bare),
            each(traced),
            traced / bare,
            (traced - bare) * 1e6 / (COMMANDS * (2 * SENT_TURNS as usize + 1)) as f64
        ));
    }
    ratios.sort_by(f64::total_cmp);
    say(&format!(
        "with --otlp: {:.2} × minimum, {:.2} × median, {:.2} × maximum",
        ratios[0],
        ratios[ROUNDS / 2],
        ratios[ROUNDS - 1]
    ));
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let (records, _) = run(None);
    let mut journal = Vec::new();
    records
        .iter()
        .for_each(|record| append_record_line(record, &mut journal));
    let read = || -> usize {
        let lines = journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.filter(|line| parse_record_line(line).is_ok()).count()
    };
    let recorded = RecordedRunTree {
        records: records.clone(),
        ..RecordedRunTree::default()
    };
    let fold = || RunTrace::from_run_tree(&recorded, false);
    let spans = fold().all_spans().len();
    let reading = median((0..ROUNDS).map(|_| busy(read)).collect());
    let folding = median((0..ROUNDS).map(|_| busy(fold)).collect());
    let encoding = median(
        (0..ROUNDS)
            .map(|_| {
                let trace = fold();
                busy(|| trace.to_protobuf(&TelemetryResource::default()))
            })
            .collect(),
    );
    let each = |seconds: f64| seconds * 1e6 / spans as f64;
    say(&format!("{} records, {spans} spans", records.len()));
    say(&format!("reading the journal  {:7.2} µs for each span", each(reading)));
    say(&format!(
        "fold                 {:7.2} µs for each span, {:.2} × reading",
        each(folding),
        folding / reading
    ));
    say(&format!("protobuf             {:7.2} µs for each span", each(encoding)));
    let (mut bare, mut traced) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(run(None).1);
        let tracer = Arc::new(Folding(Mutex::new((RunSpanBuilder::new(false), 0))));
        traced.push(run(Some(tracer.clone() as Arc<dyn RunTracer>)).1);
        assert_eq!(tracer.0.lock().expect("nobody panics").1, spans);
    }
    let (bare, traced) = (median(bare), median(traced));
    say(&format!(
        "a run in memory      {:7.2} µs for each span, with its trace {:.2} µs: {:.2} ×",
        each(bare),
        each(traced),
        traced / bare
    ));
    sent();
}
