//! Conversations that the executor drives, with runners whose results follow from a fate.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::conversation::{ConversationState, Event, ExecutionEnd, PartAttemptEnded, Record, RunStarted};
use crate::executor::{Executor, WallClock};
use crate::records::{append_record_line, parse_record_line};
use crate::reporter::NoReporter;
use crate::runner::{AttemptEnd, BoxFuture, ExecutionInput, Runner};
use crate::store::{Durability, LogEnd, MemoryStore, RunId, RunStore, StoredRun};
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap, RunContext};
use ensemble_language::ensemble::AgentKind;
use ensemble_language::plan::Plan;

/// Runner whose outputs depend only on the execution and the fate. The detours change the order in which executions end.
struct FateRunner {
    fate: Arc<Vec<u8>>,
    detours: u64,
}

impl Runner for FateRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        if execution.parts.is_some() {
            return perform_parts(self.fate.clone(), self.detours, execution);
        }
        let name: usize = execution.agent_name.bytes().map(usize::from).sum();
        let at = (name * 31 + execution.execution as usize * 7) % self.fate.len();
        let fate = self.fate[at];
        let detours = (self.detours.wrapping_mul(at as u64 + 1) >> 5) % 7;
        Box::pin(async move {
            for _ in 0..detours {
                tokio::task::yield_now().await;
            }
            if fate.is_multiple_of(5) {
                return AttemptEnd::from_failure(FailureKind::Exit, format!("fate {fate}"));
            }
            let target = format!("a{}", fate % 7);
            let output = json!({
                "n": fate % 3,
                "said": format!("{} {}", execution.agent_name, execution.execution),
                "agent_requests": [{"target_agent": target, "priority": fate % 4}],
            });
            match output {
                Value::Object(output) => AttemptEnd::from_output(output),
                _ => unreachable!("an object"),
            }
        })
    }
}

/// Runner whose executions succeed or fail as planned, by the number of the execution; it begins again after the last.
#[derive(Debug)]
struct PlannedResults(Vec<bool>);

impl Runner for PlannedResults {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        let number = execution.execution as usize;
        let is_success = self.0.get(number % self.0.len().max(1)).copied().unwrap_or_default();
        Box::pin(async move {
            match is_success {
                true => AttemptEnd::from_output(JsonMap::from_iter([("n".to_owned(), json!(number % 3))])),
                false => AttemptEnd::from_failure(FailureKind::Reported, "as planned"),
            }
        })
    }
}

/// A clock that always shows the same time.
#[derive(Debug)]
pub struct FrozenClock;

impl WallClock for FrozenClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }
}

/// Returns the first event of a run with the input `go`.
pub fn run_started_event() -> Event {
    Event::RunStarted(Box::new(RunStarted {
        format: 1,
        run_id: "r".into(),
        ensemble: "random".into(),
        ensemble_file: String::new(),
        ensemble_digest: String::new(),
        project_root: String::new(),
        input: "go".into(),
        context: RunContext::default(),
        inputs: Default::default(),
        models: Vec::new(),
        simulated: Vec::new(),
        stubs: Default::default(),
        responders: Default::default(),
        caller: crate::request::RequestOrigin::default(),
        definitions: None,
        forked_from: None,
        trace: None,
        program: String::new(),
    }))
}

/// Drives the run from `records` with the event `first`, on a store in memory. Returns the final state and all records.
pub fn drive_from_records(
    plan: &Arc<Plan>,
    fate: &Arc<Vec<u8>>,
    detours: u64,
    records: &[Record],
    first: Event,
) -> (ConversationState, Vec<Record>) {
    drive_around(plan, fate, detours, (records, first), &[])
}

/// Likewise; the executions of agents that are ensembles succeed or fail as `nested` says, by their numbers.
pub fn drive_around(
    plan: &Arc<Plan>,
    fate: &Arc<Vec<u8>>,
    detours: u64,
    (records, first): (&[Record], Event),
    nested: &[bool],
) -> (ConversationState, Vec<Record>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let fated: Arc<dyn Runner> = Arc::new(FateRunner {
        fate: fate.clone(),
        detours,
    });
    let planned: Arc<dyn Runner> = Arc::new(PlannedResults(nested.to_vec()));
    let runner_for = |id| match plan.agent(id).kind {
        AgentKind::Ensemble { .. } => planned.clone(),
        _ => fated.clone(),
    };
    let (_keep, interruptions) = tokio::sync::mpsc::unbounded_channel();
    runtime.block_on(async {
        let run = store_run(records).await;
        let mut state = ConversationState::new(plan.clone());
        let mut end = LogEnd::NEW;
        if !records.is_empty() {
            let journal = run.read_journal().await.expect("memory can be read");
            state = ConversationState::from_records(plan.clone(), &journal.records).expect("legal records");
            end = journal.end;
        }
        let mut log = run.open_log(end, Durability::Commit).await.expect("memory opens");
        let mut executor = Executor {
            runners: plan.agent_ids().map(runner_for).collect(),
            log: &mut *log,
            reporter: &mut NoReporter,
            clock: &FrozenClock,
            interruptions,
            timeout: None,
            secrets: crate::secrets::Secrets::default(),
            outer_stopwatch: None,
            refuses_exhausted: false,
            turn_ends_in: None,
        };
        let first = executor.commit(&mut state, first).await;
        first.expect("memory takes everything");
        executor
            .drive_conversation(&mut state)
            .await
            .expect("memory takes everything");
        let all = run.read_journal().await.expect("memory can be read").records;
        all.iter().for_each(assert_journal_round_trip);
        (state, all)
    })
}

/// Returns a run in memory with these records.
async fn store_run(records: &[Record]) -> Arc<dyn StoredRun> {
    let store = MemoryStore::new();
    let run = store.create_run(&RunId::new("r"), "").await.expect("memory is empty");
    let mut log = run
        .open_log(LogEnd::NEW, Durability::Commit)
        .await
        .expect("memory opens");
    for record in records {
        log.append(record).await.expect("memory takes everything");
    }
    run
}

/// Panics if the record changes when it is written to a journal line and read again.
fn assert_journal_round_trip(record: &Record) {
    let mut line = Vec::new();
    append_record_line(record, &mut line);
    let read = parse_record_line(line.strip_suffix(b"\n").expect("a line ends")).expect("what was written can be read");
    assert_eq!(read, *record);
}

/// Performs an execution with parts. The fate decides whether the list is invalid, how many parts run, and which parts fail.
/// Reuses the parts that ended before.
fn perform_parts(fate: Arc<Vec<u8>>, detours: u64, mut execution: ExecutionInput) -> BoxFuture<'static, AttemptEnd> {
    let parts = execution.parts.take().expect("it has parts");
    let name: usize = execution.agent_name.bytes().map(usize::from).sum();
    let at = name * 31 + execution.execution as usize * 7;
    let fate = move |more: usize| fate[(at + more) % fate.len()];
    Box::pin(async move {
        let list = fate(0);
        if list.is_multiple_of(7) {
            return AttemptEnd::from_failure(
                FailureKind::Schema,
                "`for_each.in` evaluates to nothing; expected a list or a map",
            );
        }
        let count = u32::from(list % 5);
        let mut ends: Vec<ExecutionEnd> = Vec::new();
        for part in 0..count {
            let key: Arc<str> = part.to_string().into();
            if let Some(before) = parts.earlier_parts.ended_parts.iter().find(|before| before.key == key) {
                ends.push(before.end.clone());
                continue;
            }
            let luck = fate(11 + part as usize);
            for _ in 0..(detours.wrapping_mul(u64::from(luck)) >> 3) % 4 {
                tokio::task::yield_now().await;
            }
            let log = |end: ExecutionEnd, pause: Option<f64>| {
                let part_ended = PartAttemptEnded {
                    turn: execution.turn_count + 1,
                    agent: execution.agent_name.clone(),
                    execution: execution.execution,
                    attempt: execution.attempt,
                    part,
                    key: key.clone(),
                    count,
                    item_digest: key.clone(),
                    end,
                    execution_time: 0.5,
                    usage: None,
                    stderr: String::new(),
                    warnings: Vec::new(),
                    exchange: Vec::new(),
                    pause,
                    reused: false,
                };
                execution.records.record_part_end(part_ended);
            };
            let failed = || ExecutionEnd::Failed(ExecutionFailure::new(FailureKind::Exit, format!("luck {luck}")));
            if luck.is_multiple_of(3) && !parts.earlier_parts.failed_attempts.contains_key(&key) {
                log(failed(), Some(0.0));
                tokio::task::yield_now().await;
            }
            let end = match luck % 4 {
                0 => failed(),
                _ => ExecutionEnd::Succeeded(Arc::new(json!({"n": luck % 3}))),
            };
            log(end.clone(), None);
            ends.push(end);
        }
        combine_part_ends(&ends, fate(5))
    })
}

/// Returns a failure if a part has failed and the fate decides so. Otherwise returns the results of all parts.
fn combine_part_ends(ends: &[ExecutionEnd], fate: u8) -> AttemptEnd {
    let failed: Vec<Value> = ends
        .iter()
        .enumerate()
        .filter_map(|(key, end)| match end {
            ExecutionEnd::Failed(failure) => Some(json!({"key": key.to_string(), "error": failure.error})),
            ExecutionEnd::Succeeded(_) => None,
        })
        .collect();
    if !failed.is_empty() && fate.is_multiple_of(2) {
        return AttemptEnd::from_failure(FailureKind::Exit, format!("{} parts failed", failed.len()));
    }
    let items: Vec<Value> = ends
        .iter()
        .map(|end| match end {
            ExecutionEnd::Succeeded(output) => Value::clone(output),
            ExecutionEnd::Failed(_) => Value::Null,
        })
        .collect();
    let output = json!({
        "items": items,
        "failed": failed,
        "count": ends.len(),
        "answer": fate % 3,
        "agreed": fate.is_multiple_of(3),
    });
    match output {
        Value::Object(output) => AttemptEnd::from_output(output),
        _ => unreachable!("an object"),
    }
}
