//! The way from the runners of a turn to the log, and what a runner has for it.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::conversation::{AttemptScope, ConversationState, ExecutionSlot, ExecutionStarted};
use crate::runner::{ExecutionRecorder, LogSender, PartedExecutionInput, UncommittedEvent};

/// The channel of events from the runners to the log, with a signal that the turn's time is up.
pub(super) struct TurnRecordChannel {
    pub(super) events: mpsc::UnboundedReceiver<Box<UncommittedEvent>>,
    log: LogSender,
    pub(super) time_is_up: watch::Sender<bool>,
}

impl TurnRecordChannel {
    /// Creates an empty channel.
    pub(super) fn new() -> Self {
        let (log, events) = mpsc::unbounded_channel();
        Self {
            events,
            log,
            time_is_up: watch::Sender::new(false),
        }
    }
}

/// Waits for the next event inside an execution. Waits forever without a channel.
pub(super) async fn wait_for_record(records: &mut Option<TurnRecordChannel>) -> Option<Box<UncommittedEvent>> {
    match records {
        Some(records) => records.events.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns the recorder of events inside this attempt, with the exchanges recorded before.
pub(super) fn build_attempt_records(
    started: &ExecutionStarted,
    slot: &ExecutionSlot,
    running: &TurnRecordChannel,
) -> ExecutionRecorder {
    let within = AttemptScope {
        turn: started.turn,
        agent: started.agent.clone(),
        execution: started.execution,
        attempt: started.attempt,
        ..AttemptScope::default()
    };
    let before = (!slot.exchanges.is_empty()).then(|| Arc::new(slot.exchanges.clone()));
    ExecutionRecorder::new(running.log.clone(), within, before)
}

/// Returns the data of the run that the parts of an execution need.
pub(super) fn build_parts_input(
    state: &ConversationState,
    slot: &ExecutionSlot,
    running: &TurnRecordChannel,
) -> PartedExecutionInput {
    PartedExecutionInput {
        facts: state.condition_values_without_output(),
        earlier_parts: slot.parts.clone(),
        earlier_warnings: state.agent_warnings_without_prefix(slot.agent),
        reusable_parts: Arc::default(),
        threads: state.agent_state(slot.agent).threads_by_key().clone(),
        time_is_up: running.time_is_up.subscribe(),
    }
}
