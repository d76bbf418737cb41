//! What a trace costs: the fold of a journal into spans, beside reading the journal, and a run whose records are folded meanwhile.
//!
//! `cargo bench --bench telemetry`. Nothing is sent. What is compared is the processor time of the thread.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::sync::Arc;

use ensemble_core::conversation::{ConversationState, Record};
use ensemble_core::records::{decode, encode};
use ensemble_core::store::MemoryStore;
use ensemble_core::store::{Durability, RunId, RunStore};
use ensemble_core::trace::TraceParent;
use ensemble_runs::{EnsembleRef, Host, Project, RunOptions, Runs, Tracer, Trust};
use ensemble_telemetry::{Fold, Recorded, Resource, Trace};
use std::sync::Mutex;
use support::{processor_time, say};

const ROUNDS: usize = 7;
const TURNS: u32 = 5_000;

fn ensemble() -> String {
    format!(
        "name: e\nconversation_limits: {{max_total_turns: {TURNS}}}\nmodel_profiles:\n  m: {{provider: simulated, replies: [fine]}}\nagents:\n  \
         - {{name: a, model_profile: m, prompt: go, conversation: {{trigger: every_turn, max_turns: {TURNS}}}}}\n"
    )
}

/// Folds, and sends nothing.
struct Folding(Mutex<(Fold, usize)>);

impl Tracer for Folding {
    fn parent(&self) -> Option<TraceParent> {
        None
    }

    fn is_sampled(&self, _trace: &[u8; 16]) -> bool {
        true
    }

    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }

    fn observe(&self, _run: &RunId, record: &Record, state: &ConversationState) {
        let mut spans = Vec::new();
        let mut fold = self.0.lock().expect("nobody panics");
        fold.0.take(record, state.started(), &mut spans);
        fold.1 += spans.len();
    }
}

/// The records of a run, and its seconds.
fn run(tracer: Option<Arc<dyn Tracer>>) -> (Vec<Record>, f64) {
    let folder = tempfile::TempDir::new().expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let project = Project::at(folder.path()).trusting(Trust::everything());
    let store = Arc::new(MemoryStore::new());
    let runs = Runs::open(project, Host::system().unattended()).with_store(store.clone());
    let options = RunOptions {
        tracer,
        ..RunOptions::default().durability(Durability::None)
    };
    runtime.expect("a runtime").block_on(async {
        let before = processor_time();
        let run = runs
            .start(EnsembleRef::text(ensemble()), options)
            .await
            .expect("it begins");
        run.finish().await.expect("it ends");
        let took = (processor_time() - before).as_secs_f64();
        let latest = store.latest().await.expect("a run");
        (latest.read_all().await.expect("memory").records, took)
    })
}

fn busy<T>(what: impl FnOnce() -> T) -> f64 {
    let before = processor_time();
    let _kept = what();
    (processor_time() - before).as_secs_f64()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let (records, _) = run(None);
    let mut journal = Vec::new();
    records.iter().for_each(|record| encode(record, &mut journal));
    let read = || -> usize {
        let lines = journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.filter(|line| decode(line).is_ok()).count()
    };
    let recorded = Recorded {
        records: records.clone(),
        ..Recorded::default()
    };
    let fold = || Trace::of_run(&recorded, false);
    let spans = fold().spans().len();
    let reading = median((0..ROUNDS).map(|_| busy(read)).collect());
    let folding = median((0..ROUNDS).map(|_| busy(fold)).collect());
    let encoding = median(
        (0..ROUNDS)
            .map(|_| {
                let trace = fold();
                busy(|| trace.protobuf(&Resource::default()))
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
        let tracer = Arc::new(Folding(Mutex::new((Fold::new(false), 0))));
        traced.push(run(Some(tracer.clone() as Arc<dyn Tracer>)).1);
        assert_eq!(tracer.0.lock().expect("nobody panics").1, spans);
    }
    let (bare, traced) = (median(bare), median(traced));
    say(&format!(
        "a run in memory      {:7.2} µs for each span, with its trace {:.2} µs: {:.2} ×",
        each(bare),
        each(traced),
        traced / bare
    ));
}
