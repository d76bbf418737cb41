//! The executor with executions that have parts, in loops, and with agents that wait until others have settled.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{drive, repeated, result, started};
use crate::conversation::{Event, ExecutionEnd, PartEnded, RunResumed};
use crate::runner::{BoxFuture, Execution, Observed};
use ensemble_language::data::{Failure, FailureKind};
use ensemble_language::random_ensembles::listed_conversation;

/// Performs an execution with parts, as the fate says: the list cannot be read, or has up to four items of which some fail,
/// for good or at the first attempt. Parts that ended before are taken over.
pub(super) fn perform(fate: Arc<Vec<u8>>, detours: u64, mut execution: Execution) -> BoxFuture<'static, Observed> {
    let parts = execution.parts.take().expect("it has parts");
    let name: usize = execution.agent_name.bytes().map(usize::from).sum();
    let at = name * 31 + execution.execution as usize * 7;
    let fate = move |more: usize| fate[(at + more) % fate.len()];
    Box::pin(async move {
        let list = fate(0);
        if list.is_multiple_of(7) {
            return Observed::failure(FailureKind::Schema, "`for_each.in` gives nothing, and no list");
        }
        let count = u32::from(list % 5);
        let mut ends: Vec<ExecutionEnd> = Vec::new();
        for part in 0..count {
            let key: Arc<str> = part.to_string().into();
            if let Some(before) = parts.before.ended.iter().find(|before| before.key == key) {
                ends.push(before.end.clone());
                continue;
            }
            let luck = fate(11 + part as usize);
            for _ in 0..(detours.wrapping_mul(u64::from(luck)) >> 3) % 4 {
                tokio::task::yield_now().await;
            }
            let log = |end: ExecutionEnd, pause: Option<f64>| {
                let ended = PartEnded {
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
                execution.records.part_ended(ended);
            };
            let failed = || ExecutionEnd::Failed(Failure::new(FailureKind::Exit, format!("luck {luck}")));
            if luck.is_multiple_of(3) && !parts.before.failed.contains_key(&key) {
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
        combined(&ends, fate(5))
    })
}

/// What the parts come to: a failure if one has failed, or everything together.
fn combined(ends: &[ExecutionEnd], fate: u8) -> Observed {
    let failed: Vec<Value> = ends
        .iter()
        .enumerate()
        .filter_map(|(key, end)| match end {
            ExecutionEnd::Failed(failure) => Some(json!({"key": key.to_string(), "error": failure.error})),
            ExecutionEnd::Succeeded(_) => None,
        })
        .collect();
    if !failed.is_empty() && fate.is_multiple_of(2) {
        return Observed::failure(FailureKind::Exit, format!("{} parts failed", failed.len()));
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
        Value::Object(output) => Observed::success(output),
        _ => unreachable!("an object"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn resuming_from_every_prefix_with_parts_ends_in_the_same_state(
        (plan, fate) in listed_conversation(),
        detours in any::<u64>(),
    ) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (whole, records) = drive(&plan, &fate, detours, &[], started());
        for cut in 1..records.len() - 1 {
            let resumed = Event::RunResumed(RunResumed::default());
            let (state, all) = drive(&plan, &fate, detours, &records[..cut], resumed);
            prop_assert_eq!(result(&state), result(&whole), "cut after {} of {} records", cut, records.len());
            prop_assert_eq!(repeated(&all), Vec::<String>::new(), "cut after {} of {} records", cut, records.len());
        }
    }

    #[test]
    fn the_order_in_which_parts_end_does_not_matter(
        (plan, fate) in listed_conversation(),
        one in any::<u64>(),
        other in any::<u64>(),
    ) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (one, _) = drive(&plan, &fate, one, &[], started());
        let (other, _) = drive(&plan, &fate, other, &[], started());
        prop_assert_eq!(result(&one), result(&other));
    }
}
