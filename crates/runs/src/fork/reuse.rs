//! The results of a recorded run that a repeating run can reuse instead of executing agents again.
//!
//! Invariant: the results of executions that followed from a repeated execution are not reused.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ensemble_core::conversation::{
    ConversationState, Event, ExecutionFinished, ExecutionSlot, NestedRequestAnswered, OpenTurn, PartAttemptEnded,
};
use ensemble_core::executor::build_attempt_input;
use ensemble_core::runner::AttemptResult;
use ensemble_core::stopwatch::Stopwatch;
use ensemble_history::list_copied_answers;
use ensemble_language::data::ModelUsage;
use ensemble_language::ensemble::{AgentKind, MemoryMode};
use ensemble_language::plan::Plan;

use crate::error::RunError;
use crate::fork::reused_results::{AddedInputNames, OptionalReads, ReusableResults, digest_reads};
use crate::start::recorded_run::RecordedRun;

/// The name of an agent, and the number of one of its executions.
type ExecutionKey = (Arc<str>, u32);

/// An execution, or one part of it, that is repeated even if its result could be reused.
pub(crate) struct ExecutionToRepeat {
    pub(crate) execution_key: ExecutionKey,
    /// Only the part of this key.
    pub(crate) part: Option<Arc<str>>,
}

/// Collects the results of the origin from turn `from` on. Excludes executions for which `is_out` is true, the repeated execution, and
/// everything that followed from it.
pub(crate) fn collect_reusable_results(
    origin: &RecordedRun,
    from: u32,
    is_out: impl Fn(&str, u32) -> bool,
    repeated: Option<ExecutionToRepeat>,
) -> Result<ReusableResults, RunError> {
    let plan = &origin.prepared.plan;
    let mut state = ConversationState::new(plan.clone());
    let mut reuse = ReusableResults::default();
    let executed = repeated.as_ref().map(|repeated| repeated.execution_key.clone());
    let mut followed: HashSet<ExecutionKey> = executed.into_iter().collect();
    let mut read: HashMap<Arc<str>, String> = HashMap::new();
    let mut nested_answers: HashMap<Arc<str>, Vec<NestedRequestAnswered>> = HashMap::new();
    for record in &origin.journal.records {
        state.apply_record(record)?;
        let answers = list_copied_answers(record, true);
        if let (Some(agent), false) = (record.event.agent_name(), answers.is_empty()) {
            nested_answers.entry(agent.into()).or_default().extend(answers);
        }
        let ended_answers = match &record.event {
            Event::ExecutionFinished(finished) => nested_answers.remove(&finished.agent),
            _ => None,
        };
        match &record.event {
            Event::TurnStarted(turn) if turn.turn >= from => {
                if let Some(open) = state.open_turn() {
                    read = digest_reads_and_mark_followers(plan, &state, open, &mut followed);
                }
            }
            Event::PartEnded(part)
                if part.turn >= from && !is_out(&part.agent, part.execution) && part.output().is_some() =>
            {
                let key = (part.agent.clone(), part.execution);
                let is_repeated = repeated.as_ref().is_some_and(|repeated| {
                    repeated.execution_key == key && repeated.part.as_ref().is_none_or(|name| *name == part.key)
                });
                if !is_repeated {
                    reuse.insert_part_result(with_earlier_iterations(part, &state));
                }
            }
            Event::ExecutionFinished(finished)
                if finished.turn >= from && !is_out(&finished.agent, finished.execution) =>
            {
                let key = (finished.agent.clone(), finished.execution);
                if let (false, Some(read)) = (followed.contains(&key), read.get(&finished.agent)) {
                    let finished = state.finished_execution(&finished.agent).unwrap_or(finished);
                    let observation = AttemptResult {
                        nested_answers: ended_answers.unwrap_or_default(),
                        ..result_with_total_usage(finished, &state)
                    };
                    reuse.insert_execution_result(key.0, key.1, read.clone(), observation);
                }
            }
            _ => {}
        }
    }
    Ok(reuse)
}

/// Computes the digest of the values that each execution of the turn reads. Adds the executions that follow from a repeated one to
/// `followed`.
fn digest_reads_and_mark_followers(
    plan: &Plan,
    state: &ConversationState,
    open: &OpenTurn,
    followed: &mut HashSet<ExecutionKey>,
) -> HashMap<Arc<str>, String> {
    let mut reads = HashMap::new();
    let mut following = Vec::new();
    for slot in &open.slots {
        let execution = build_attempt_input(plan, state, slot, Stopwatch::default());
        let also = OptionalReads::for_agent(plan, slot.agent);
        let heard_of = || (0..execution.history.len()).filter_map(|at| execution.history.find_execution(at));
        if follows_from_repeated(plan, state, slot, followed)
            || (also.history && heard_of().any(|one| followed.contains(&one)))
        {
            following.push((slot.start.agent.clone(), slot.start.execution));
        }
        let digest = digest_reads(&execution, also, &AddedInputNames::default());
        reads.insert(slot.start.agent.clone(), digest);
    }
    followed.extend(following);
    reads
}

/// Returns whether the execution follows from one of the `followed` executions: by its reads, its request or its memory.
fn follows_from_repeated(
    plan: &Plan,
    state: &ConversationState,
    slot: &ExecutionSlot,
    followed: &HashSet<ExecutionKey>,
) -> bool {
    let start = &slot.start;
    let is_among = |agent: &Arc<str>, execution: u32| followed.contains(&(agent.clone(), execution));
    let reads = start.reads.iter().any(|(agent, execution)| is_among(agent, *execution));
    let is_requested = start.request.as_ref().is_some_and(|request| {
        let latest = plan
            .find_agent_id(&request.from)
            .map_or(0, |id| state.next_execution_number(id) - 1);
        is_among(&request.from, latest)
    });
    let remembers =
        matches!(&plan.agent(slot.agent).kind, AgentKind::Llm(llm) if llm.memory == MemoryMode::Conversation);
    reads || is_requested || (remembers && is_among(&start.agent, start.execution - 1))
}

/// Returns the part with the iterations of earlier records.
fn with_earlier_iterations(part: &PartAttemptEnded, state: &ConversationState) -> PartAttemptEnded {
    let slots = state.open_turn().into_iter().flat_map(|turn| &turn.slots);
    let slot = slots.into_iter().find(|slot| slot.start.agent == part.agent);
    let ended_part = slot.and_then(|slot| slot.parts.ended_parts.last());
    let matching_part = ended_part.filter(|ended| ended.key == part.key);
    matching_part.map_or_else(|| part.clone(), |ended| PartAttemptEnded::clone(ended))
}

/// Lists the ended parts of the execution, each with the usage of all its attempts.
fn list_parts_with_total_usage(slot: &ExecutionSlot) -> Vec<Arc<PartAttemptEnded>> {
    let with_all = |part: &Arc<PartAttemptEnded>| match slot.parts.failed_attempts.get(&part.key) {
        None => part.clone(),
        Some(failed) => Arc::new(PartAttemptEnded {
            usage: ModelUsage::sum_optional(failed.usage, part.usage),
            ..PartAttemptEnded::clone(part)
        }),
    };
    slot.parts.ended_parts.iter().map(with_all).collect()
}

/// Returns the recorded result with the usage of all its attempts and parts.
fn result_with_total_usage(finished: &ExecutionFinished, state: &ConversationState) -> AttemptResult {
    let slots = state.open_turn().into_iter().flat_map(|turn| &turn.slots);
    let slot = slots.into_iter().find(|slot| slot.start.agent == finished.agent);
    let parts = slot.map_or_else(Vec::new, list_parts_with_total_usage);
    let recorded = AttemptResult::from_record(finished.clone());
    AttemptResult {
        // What its parts used is told with them.
        usage: match parts.is_empty() {
            true => slot.and_then(|slot| slot.usage),
            false => recorded.usage,
        },
        parts,
        ..recorded
    }
}
