//! The way from the runners of a turn to the log, and what a runner has for it.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::conversation::{ConversationState, ExecutionStarted, Slot, Within};
use crate::runner::{ExecutionRecords, LogSender, Parts, ToLog};

/// The way from the runners to the log, and back.
pub(super) struct Records {
    pub(super) events: mpsc::UnboundedReceiver<Box<ToLog>>,
    log: LogSender,
    pub(super) time_is_up: watch::Sender<bool>,
}

impl Records {
    pub(super) fn new() -> Self {
        let (log, events) = mpsc::unbounded_channel();
        Self {
            events,
            log,
            time_is_up: watch::Sender::new(false),
        }
    }
}

/// Waits for an event inside an execution.
pub(super) async fn record_of(records: &mut Option<Records>) -> Option<Box<ToLog>> {
    match records {
        Some(records) => records.events.recv().await,
        None => std::future::pending().await,
    }
}

/// Records what happens inside this attempt, which goes on from what is recorded of the execution.
pub(super) fn records(started: &ExecutionStarted, slot: &Slot, running: &Records) -> ExecutionRecords {
    let within = Within {
        turn: started.turn,
        agent: started.agent.clone(),
        execution: started.execution,
        attempt: started.attempt,
        ..Within::default()
    };
    let before = (!slot.exchanges.is_empty()).then(|| Arc::new(slot.exchanges.clone()));
    ExecutionRecords::new(running.log.clone(), within, before)
}

/// Returns the data that the run has for the parts of an execution.
pub(super) fn parts(state: &ConversationState, slot: &Slot, running: &Records) -> Parts {
    Parts {
        facts: state.facts_without_output(),
        before: slot.parts.clone(),
        known: Arc::default(),
        threads: state.agent(slot.agent).threads_by_key().clone(),
        time_is_up: running.time_is_up.subscribe(),
    }
}
