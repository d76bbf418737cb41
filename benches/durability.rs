//! What durability costs: a conversation with each `--durability`, and beside it one sync of this disk.
//!
//! `cargo bench --bench durability`. The folder for the journals is in `target/`, since a temporary one may be memory.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use ensemble_core::conversation::{ConversationState, Event, Record};
use ensemble_core::executor::{Executor, WallClock};
use ensemble_core::log::{LogFuture, RunLog, SyncPoint};
use ensemble_core::runner::Runner;
use ensemble_core::store::Durability;
use ensemble_language::data::JsonMap;
use ensemble_language::plan::Plan;
use ensemble_reports::report::NoReporter;
use ensemble_runs::store::files::JournalWriter;
use serde_json::json;
use support::{Figures, Says, all, micros, plan, say, show, started, time};

const ROUNDS: usize = 5;
const TURNS: u32 = 100;
const HOW: [(&str, Durability); 3] = [
    ("none", Durability::None),
    ("turn", Durability::Turn),
    ("commit", Durability::Commit),
];

fn text(agents: usize) -> String {
    let agent = |at: usize| {
        format!("  - {{name: a{at}, script: a.rhai, conversation: {{max_turns: 1000, trigger: every_turn}}}}\n")
    };
    let agents: String = (0..agents).map(agent).collect();
    format!("name: durable\nconversation_limits: {{max_total_turns: {TURNS}}}\nagents:\n{agents}")
}

struct Now;

impl WallClock for Now {
    fn now(&self) -> chrono::DateTime<Utc> {
        Utc::now()
    }
}

/// Counts how often it was asked to sync; the file behind it decides what is done.
struct Counting {
    writer: JournalWriter,
    asked: u32,
}

impl RunLog for Counting {
    fn append<'a>(&'a mut self, record: &'a Record) -> LogFuture<'a> {
        self.writer.append(record)
    }

    fn sync(&mut self, point: SyncPoint) -> LogFuture<'_> {
        self.asked += 1;
        self.writer.sync(point)
    }
}

/// How long a run takes, and how often its executor asked for a sync.
fn run(folder: &Path, plan: &Arc<Plan>, runners: Vec<Arc<dyn Runner>>, how: Durability) -> (Duration, u32) {
    let folder = tempfile::TempDir::new_in(folder).expect("a folder");
    let writer = JournalWriter::create_at_path(&folder.path().join("journal.jsonl"), how).expect("a journal");
    let mut log = Counting { writer, asked: 0 };
    let mut state = ConversationState::new(plan.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (_never, interruptions) = tokio::sync::mpsc::unbounded_channel();
    let mut executor = Executor {
        runners,
        log: &mut log,
        reporter: &mut NoReporter,
        clock: &Now,
        interruptions,
        timeout: None,
        secrets: ensemble_core::secrets::Secrets::default(),
        outer_stopwatch: None,
        refuses_exhausted: false,
        turn_ends_in: None,
    };
    let (took, ()) = time(|| {
        runtime.expect("a runtime").block_on(async {
            let first = Event::RunStarted(Box::new(started(plan)));
            executor.commit(&mut state, first).await.expect("committed");
            executor.drive_conversation(&mut state).await.expect("driven");
        });
    });
    assert_eq!(state.turn_count(), TURNS);
    (took, log.asked)
}

/// One append of a line and one sync, in the middle of many.
fn one_sync(folder: &Path) -> f64 {
    let folder = tempfile::TempDir::new_in(folder).expect("a folder");
    let path = folder.path().join("plain");
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
    let line = [b'x'; 200];
    let (took, ()) = time(|| {
        for _ in 0..TURNS {
            file.write_all(&line).expect("written");
            file.sync_data().expect("synced");
        }
    });
    micros(took) / f64::from(TURNS)
}

fn main() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let output: JsonMap = json!({"score": 0.5}).as_object().expect("an object").clone();
    for agents in [1, 8] {
        let plan = plan(&text(agents));
        let mut figures = vec![Figures::default(); HOW.len()];
        let mut ratios = vec![Figures::default(); HOW.len()];
        let mut syncs = Figures::default();
        let mut asked = 0;
        for _ in 0..ROUNDS {
            let sync = one_sync(folder);
            syncs.add(sync);
            for (at, (_, how)) in HOW.iter().enumerate() {
                let output = output.clone();
                let runners = all(&plan, Says(move |_: &_| output.clone()));
                let (took, times) = run(folder, &plan, runners, *how);
                let each = micros(took) / f64::from(TURNS);
                figures[at].add(each);
                ratios[at].add(each / sync);
                asked = times;
            }
        }
        say(&format!(
            "{agents} agents a turn; the executor asks for {:.2} syncs a turn",
            f64::from(asked) / f64::from(TURNS)
        ));
        show("  one line written and synced, plainly", &syncs, "µs", "");
        for ((name, _), (figures, ratios)) in HOW.iter().zip(figures.iter().zip(&ratios)) {
            let remark = format!(
                "a turn: {:.2} syncs (min {:.2}, max {:.2})",
                ratios.median(),
                ratios.min(),
                ratios.max()
            );
            show(&format!("  --durability {name}"), figures, "µs", &remark);
        }
    }
}
