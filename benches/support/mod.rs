//! What the benches share: ensembles from text, agents that answer at once, runs with a journal, and figures.
//!
//! The machines these run on are noisy. So every measurement is repeated, what is compared takes turns, and
//! the smallest and the middle of the repetitions are printed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{ConversationState, Event, RunStarted};
use ensemble_core::executor::{Executor, WallClock};
use ensemble_core::log::JOURNAL_FORMAT;
use ensemble_core::runner::{AttemptEnd, BoxFuture, ExecutionInput, Runner};
use ensemble_core::store::Durability;
use ensemble_language::check::check_ensemble;
use ensemble_language::data::{JsonMap, RunContext};
use ensemble_language::diagnostic::FindingSeverity;
use ensemble_language::loader::load_ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;
use ensemble_reports::report::NoReporter;
use ensemble_runs::store::files::JournalWriter;
use tempfile::TempDir;

/// Loads, checks and plans a text without errors.
pub(crate) fn plan(text: &str) -> Arc<Plan> {
    let loaded = load_ensemble(&SourceText::new("bench.yaml", text));
    let ensemble = Arc::new(loaded.ensemble.expect("a sound ensemble"));
    let errors = check_ensemble(&ensemble)
        .into_iter()
        .filter(|finding| finding.severity == FindingSeverity::Error);
    assert_eq!(errors.count(), 0, "the ensemble has errors");
    Arc::new(Plan::build(ensemble).expect("conditions that compile"))
}

/// An agent inside the process that answers at once.
pub(crate) struct Says<F>(pub F);

impl<F: Fn(&ExecutionInput) -> JsonMap + Send + Sync> Runner for Says<F> {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move { AttemptEnd::from_output((self.0)(&execution)) })
    }
}

/// The same runner for every agent.
pub(crate) fn all(plan: &Plan, runner: impl Runner + 'static) -> Vec<Arc<dyn Runner>> {
    let runner: Arc<dyn Runner> = Arc::new(runner);
    vec![runner; plan.agent_count()]
}

/// The time that people agree on.
struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// A run that has ended.
pub(crate) struct Ran {
    /// From the first event to the last.
    pub took: Duration,
    /// What of it the processor was ours, which others on the machine do not lengthen.
    pub busy: Duration,
    /// How it ended.
    pub state: ConversationState,
    /// Bytes in its journal.
    pub journal_bytes: u64,
    /// Its journal; the folder goes with it.
    pub journal: PathBuf,
    _folder: TempDir,
}

impl Ran {
    /// Executions in its history.
    pub(crate) fn executions(&self) -> usize {
        self.state.list_executions().count()
    }

    /// Time per execution in microseconds.
    pub(crate) fn micros(&self) -> f64 {
        micros(self.took) / self.executions() as f64
    }
}

/// Starts a child and waits for it.
pub(crate) fn bare() {
    let mut child = Command::new("true").spawn().expect("it starts");
    assert!(child.wait().expect("it ends").success());
}

/// Likewise, with the three pipes that scripts have.
pub(crate) fn piped() {
    let mut command = Command::new("true");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = command.spawn().and_then(std::process::Child::wait_with_output);
    assert!(output.expect("it ends").status.success());
}

/// Runs a conversation to its end: a real journal file without syncs, nobody told.
pub(crate) fn run(plan: &Arc<Plan>, runners: Vec<Arc<dyn Runner>>) -> Ran {
    let folder = TempDir::new().expect("a folder");
    let journal = folder.path().join("journal.jsonl");
    let mut writer = JournalWriter::create_at_path(&journal, Durability::None).expect("a journal");
    let mut state = ConversationState::new(plan.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (_never, interruptions) = tokio::sync::mpsc::unbounded_channel();
    let mut executor = Executor {
        runners,
        log: &mut writer,
        reporter: &mut NoReporter,
        clock: &SystemClock,
        interruptions,
        timeout: Some(Duration::from_secs(3600)),
        secrets: ensemble_core::secrets::Secrets::default(),
        outer_stopwatch: None,
        refuses_exhausted: false,
        turn_ends_in: None,
    };
    let (begun, busy) = (Instant::now(), processor_time());
    runtime.block_on(async {
        let first = Event::RunStarted(Box::new(started(plan)));
        executor.commit(&mut state, first).await.expect("committed");
        executor.drive_conversation(&mut state).await.expect("driven");
    });
    let took = begun.elapsed();
    let busy = processor_time().saturating_sub(busy);
    drop(executor);
    Ran {
        took,
        busy,
        state,
        journal_bytes: fs::metadata(&journal).expect("a journal").len(),
        journal,
        _folder: folder,
    }
}

/// The first event of a run.
pub(crate) fn started(plan: &Plan) -> RunStarted {
    RunStarted {
        format: JOURNAL_FORMAT,
        run_id: "abcd-20261121-120000000".into(),
        ensemble: plan.ensemble().name.clone(),
        ensemble_file: "bench.yaml".to_owned(),
        ensemble_digest: "0".repeat(64),
        project_root: ".".to_owned(),
        input: "the input".into(),
        context: RunContext::default(),
        inputs: Default::default(),
        models: Vec::new(),
        simulated: Vec::new(),
        stubs: Default::default(),
        responders: Default::default(),
        definitions: None,
        caller: Default::default(),
        forked_from: None,
        trace: None,
        program: "bench".to_owned(),
    }
}

/// The time in microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Repetitions of one measurement.
#[derive(Default, Clone)]
pub(crate) struct Figures(Vec<f64>);

impl Figures {
    /// One more.
    pub(crate) fn add(&mut self, figure: f64) {
        self.0.push(figure);
        self.0.sort_by(f64::total_cmp);
    }

    /// The smallest.
    pub(crate) fn min(&self) -> f64 {
        self.0[0]
    }

    /// The middle one.
    pub(crate) fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// The largest.
    pub(crate) fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }
}

/// One line: a name, the figures with their unit, and what else there is to say.
pub(crate) fn show(name: &str, figures: &Figures, unit: &str, remark: &str) {
    let (min, median, max) = (figures.min(), figures.median(), figures.max());
    say(&format!(
        "{name:<44} min {min:>9.2}  median {median:>9.2}  max {max:>9.2} {unit:<3} {remark}"
    ));
}

/// One line.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").expect("somebody reads");
}

/// Time that this thread has had on a processor.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// Time that all threads of this process have had on a processor.
pub(crate) fn process_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// Time that the ended child processes have had on a processor, in user and system mode, in steps of a hundredth of a second.
pub(crate) fn children_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    // The name may hold blanks. The first field behind it is the third of all; those of the children are the 16th and the 17th.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = fields.split_whitespace().skip(13).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// How long it takes.
pub(crate) fn time<T>(what: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let result = what();
    (begun.elapsed(), result)
}

/// The most memory that this process has had, in MiB; `None` where the system does not tell.
pub(crate) fn peak_mib() -> Option<f64> {
    let status = fs::read_to_string(Path::new("/proc/self/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}
