//! One loop for runs and resumed runs: whatever was cut, and in whatever order agents finish, the end is the same.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Clock, Executor};
use crate::conversation::RunResult;
use crate::conversation::{CompletionReason, ConversationState, Event, Record, RunResumed, RunStarted};
use crate::explore::{Budget, explore};
use crate::records::{decode, encode};
use crate::reporter::Silent;
use crate::runner::{BoxFuture, Execution, Observed, Runner};
use crate::store::{Durability, LogEnd, MemoryStore, RunId, RunStore, StoredRun};
use ensemble_language::data::{Context, FailureKind};
use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::{conversation, strict};

/// The same output for the same execution, after as many detours as the seed says.
struct Fated {
    fate: Arc<Vec<u8>>,
    detours: u64,
}

impl Runner for Fated {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, Observed> {
        if execution.parts.is_some() {
            return super::part_tests::perform(self.fate.clone(), self.detours, execution);
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
                return Observed::failure(FailureKind::Exit, format!("fate {fate}"));
            }
            let target = format!("a{}", fate % 7);
            let output = json!({
                "n": fate % 3,
                "said": format!("{} {}", execution.agent_name, execution.execution),
                "agent_requests": [{"target_agent": target, "priority": fate % 4}],
            });
            match output {
                Value::Object(output) => Observed::success(output),
                _ => unreachable!("an object"),
            }
        })
    }
}

pub(super) struct Frozen;

impl Clock for Frozen {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }
}

pub(crate) fn started() -> Event {
    Event::RunStarted(Box::new(RunStarted {
        format: 1,
        run_id: "r".into(),
        ensemble: "random".into(),
        ensemble_file: String::new(),
        ensemble_digest: String::new(),
        project_root: String::new(),
        input: "go".into(),
        context: Context::default(),
        inputs: Default::default(),
        models: Vec::new(),
        simulated: Vec::new(),
        stubs: Default::default(),
        responders: Default::default(),
        definitions: None,
        forked_from: None,
        trace: None,
        program: String::new(),
    }))
}

/// Goes on from `records` with `first`, on a store in memory; the final state and all records.
pub(crate) fn drive(
    plan: &Arc<Plan>,
    fate: &Arc<Vec<u8>>,
    detours: u64,
    records: &[Record],
    first: Event,
) -> (ConversationState, Vec<Record>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let runner: Arc<dyn Runner> = Arc::new(Fated {
        fate: fate.clone(),
        detours,
    });
    let (_keep, interruptions) = tokio::sync::mpsc::unbounded_channel();
    runtime.block_on(async {
        let run = stored(records).await;
        let mut state = ConversationState::new(plan.clone());
        let mut end = LogEnd::NEW;
        if !records.is_empty() {
            let journal = run.read_all().await.expect("memory can be read");
            journal.records.iter().for_each(|record| state.apply(record));
            end = journal.end;
        }
        let mut log = run.log(end, Durability::Commit).await.expect("memory opens");
        let mut executor = Executor {
            runners: vec![runner; plan.len()],
            log: &mut *log,
            reporter: &mut Silent,
            clock: &Frozen,
            interruptions,
            timeout: None,
            secrets: crate::secrets::Secrets::default(),
            around: None,
            turn_ends_in: None,
        };
        let first = executor.commit(&mut state, first).await;
        first.expect("memory takes everything");
        executor.drive(&mut state).await.expect("memory takes everything");
        let all = run.read_all().await.expect("memory can be read").records;
        all.iter().for_each(survives_a_journal);
        (state, all)
    })
}

/// A run that holds these records.
async fn stored(records: &[Record]) -> Arc<dyn StoredRun> {
    let store = MemoryStore::new();
    let run = store.create(&RunId::new("r"), "").await.expect("memory is empty");
    let mut log = run.log(LogEnd::NEW, Durability::Commit).await.expect("memory opens");
    for record in records {
        log.append(record).await.expect("memory takes everything");
    }
    run
}

/// An event comes back from a line of a journal as it was.
fn survives_a_journal(record: &Record) {
    let mut line = Vec::new();
    encode(record, &mut line);
    let read = decode(line.strip_suffix(b"\n").expect("a line ends")).expect("what was written can be read");
    assert_eq!(read, *record);
}

/// The result without durations and without the numbers of attempts.
pub(super) fn result(state: &ConversationState) -> Value {
    let mut result = serde_json::to_value(RunResult(state)).expect("results are JSON");
    for entry in result["conversation_history"].as_array_mut().expect("a history") {
        for key in ["execution_time", "attempt"] {
            entry[key] = Value::Null;
        }
    }
    result
}

/// Executions that ended twice, and attempts whose number was used before.
pub(super) fn repeated(records: &[Record]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let names = records.iter().filter_map(|record| match &record.event {
        Event::ExecutionFinished(end) => Some(format!("{} {} ended", end.agent, end.execution)),
        Event::ExecutionStarted(start) => {
            Some(format!("{} {} attempt {}", start.agent, start.execution, start.attempt))
        }
        Event::PartEnded(part) if part.is_final() => {
            Some(format!("{} {} part {}", part.agent, part.execution, part.key))
        }
        _ => None,
    });
    names.filter(|name| !seen.insert(name.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn resuming_from_every_prefix_ends_in_the_same_state((plan, fate) in conversation()) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (whole, records) = drive(&plan, &fate, 3, &[], started());
        let ended = records.len() - 1;
        for cut in 1..ended {
            let resumed = Event::RunResumed(RunResumed::default());
            let (state, all) = drive(&plan, &fate, 3, &records[..cut], resumed);
            prop_assert_eq!(result(&state), result(&whole), "cut after {} of {} records", cut, records.len());
            prop_assert_eq!(repeated(&all), Vec::<String>::new(), "cut after {} of {} records", cut, records.len());
        }
    }

    #[test]
    fn the_order_in_which_agents_finish_does_not_matter((plan, fate) in conversation(), one in any::<u64>(), other in any::<u64>()) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (one, _) = drive(&plan, &fate, one, &[], started());
        let (other, _) = drive(&plan, &fate, other, &[], started());
        prop_assert_eq!(result(&one), result(&other));
    }

    #[test]
    fn every_conversation_ends_with_an_outcome_and_within_its_limits((plan, fate) in conversation()) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (state, _) = drive(&plan, &fate, 1, &[], started());
        let reason = state.ended().expect("it ended").completion_reason;
        prop_assert!(matches!(reason, CompletionReason::Completed | CompletionReason::MaxTotalTurns), "{reason}");
        prop_assert!(state.turn_count() <= plan.ensemble().limits.max_total_turns.get());
        for id in plan.ids() {
            prop_assert!(state.execution_count(id) <= plan.agent(id).conversation.max_turns.get());
        }
        let total: u32 = plan.ids().map(|id| state.execution_count(id)).sum();
        prop_assert_eq!(state.history().count(), total as usize);
    }

    #[test]
    fn every_conversation_stays_inside_what_exploration_calls_possible(
        (plan, fate) in conversation(),
        knobs in any::<u8>(),
    ) {
        let (plan, fate) = (Arc::new(strict(&plan, knobs)), Arc::new(fate));
        let found = explore(&plan, Budget::of_states(100));
        if !found.coverage.is_complete() {
            return Ok(());
        }
        for detours in 0..8 {
            let fate: Vec<u8> = fate.iter().map(|fate| fate.rotate_left(detours)).collect();
            let (state, _) = drive(&plan, &Arc::new(fate), 1, &[], started());
            let ended = state.ended().expect("it ended");
            let known = found.ends.iter().any(|end| end.reason == ended.completion_reason);
            prop_assert!(known, "{} is not among {:?}", ended.completion_reason, found.ends);
            prop_assert!(state.turn_count() <= found.turns, "{} turns", state.turn_count());
            let total: u32 = plan.ids().map(|id| state.execution_count(id)).sum();
            prop_assert!(total <= found.executions, "{total} executions");
            for (id, outlook) in plan.ids().zip(&found.agents) {
                let count = state.execution_count(id);
                prop_assert!(count <= outlook.most, "{} ran {count} times", outlook.agent);
                prop_assert!(count > 0 || outlook.left_out.is_some(), "{} was left out", outlook.agent);
            }
        }
    }
}
