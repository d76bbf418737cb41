//! The progress of a round that somebody else than a model performs: an external program, whose tool calls are its own.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::DialogueErrorKind;
use super::round::{RoundEnd, RoundParameters, SESSION_KEY, complete_iteration};
use ensemble_core::runner::{AttemptLedger, ExecutionRecorder};
use ensemble_core::thread::{
    INTERRUPTED_CALL_ERROR, Message, MessageRole, Reasoning, StopReason, TASK_KEY, Thread, ThreadAppendError,
    ThreadIteration, ToolCall, ToolCallEnd,
};
use ensemble_language::data::ModelUsage;

/// Completes the current iteration with the stop reason of the round.
pub(in crate::agent) fn complete_last_iteration(ledger: &AttemptLedger, end: &RoundEnd, at: DateTime<Utc>) {
    let reason = end
        .as_ref()
        .map_or_else(DialogueErrorKind::stop_reason, |(_, reason)| Some(*reason));
    complete_iteration(ledger, at, reason);
}

/// Resumes a round with an interrupted iteration. Gives its open calls an error, because their results are unknown.
pub(in crate::agent) async fn resume_interrupted_iteration(
    ledger: &AttemptLedger,
    iteration: &ThreadIteration,
    records: &ExecutionRecorder,
) {
    let mut iteration = iteration.clone();
    let open = iteration.tool_calls.iter_mut().filter(|call| call.end.is_none());
    let mut ended_calls = Vec::new();
    for call in open {
        call.end = Some(ToolCallEnd::Error(INTERRUPTED_CALL_ERROR.to_owned()));
        ended_calls.push(call.clone());
    }
    ledger.start_round(Thread::from_iterations(vec![iteration]), 1);
    for call in ended_calls {
        records.record_call_end_and_wait(&call, ModelUsage::default()).await;
    }
}

/// Opens an iteration with this message and these metadata notes.
pub(in crate::agent) fn open_external_iteration(
    ledger: &AttemptLedger,
    opening: &RoundParameters,
    text: String,
    at: DateTime<Utc>,
    notes: &[(&str, Value)],
) {
    let messages = vec![Message::new(MessageRole::User, text)];
    ledger.update_exchange(|exchange| {
        let exchange = exchange.start_iteration(messages, at);
        let exchange = match &opening.remembered_text {
            Some(text) => exchange.set_metadata(TASK_KEY, text.as_str()),
            None => exchange,
        };
        notes.iter().fold(exchange, |exchange, (key, value)| {
            exchange.set_metadata(key, value.clone())
        })
    });
}

/// Reply of an external program, with the tool calls that follow it.
pub(in crate::agent) struct ExternalReply {
    /// The text.
    pub(in crate::agent) text: String,
    /// The reasoning before the text.
    pub(in crate::agent) thought: String,
    /// The name of the program.
    pub(in crate::agent) from: String,
    /// The calls.
    pub(in crate::agent) calls: Vec<ToolCall>,
}

/// Adds a reply of the program to the exchange: to the last iteration, or to a new iteration if the last one has a reply.
pub(in crate::agent) fn add_program_reply(ledger: &AttemptLedger, message: ExternalReply, at: DateTime<Utc>) {
    let ExternalReply {
        text,
        thought,
        from,
        calls,
    } = message;
    let is_recorded = ledger.read_exchange(|exchange| {
        let last = exchange.iterations().last();
        last.is_none_or(ThreadIteration::has_reply)
    });
    let reasoning = (!thought.trim().is_empty()).then(|| Reasoning {
        from: from.clone(),
        text: thought,
        ..Reasoning::default()
    });
    ledger.update_exchange(|exchange| {
        let exchange = if is_recorded {
            open_next_iteration(exchange, at)
        } else {
            exchange
        };
        exchange
            .add_assistant_message(text, calls)
            .unwrap_or_else(ThreadAppendError::into_thread)
            .set_reply_reasoning(reasoning)
            .set_metadata("model", from)
    });
}

/// Adds metadata to the current iteration.
pub(in crate::agent) fn add_iteration_metadata(ledger: &AttemptLedger, key: &str, value: Value) {
    ledger.update_exchange(|exchange| exchange.set_metadata(key, value));
}

/// Sets the end of a call in the iteration that contains the call.
pub(in crate::agent) fn replace_open_call(ledger: &AttemptLedger, ended: &ToolCall) {
    ledger.update_exchange(|exchange| {
        let mut iterations = exchange.into_iterations();
        let mut calls = iterations.iter_mut().rev().flat_map(|one| &mut one.tool_calls);
        if let Some(call) = calls.find(|call| call.end.is_none() && call.id == ended.id) {
            *call = ended.clone();
        }
        Thread::from_iterations(iterations)
    });
}

/// The metadata key of an iteration for the program that made the session.
pub(in crate::agent) const SESSION_PROGRAM_KEY: &str = "session_program";

/// Opens a new iteration with the session metadata of the last one.
fn open_next_iteration(exchange: Thread, at: DateTime<Utc>) -> Thread {
    let last = exchange.iterations().last();
    let session: Vec<(&str, Value)> = [SESSION_KEY, SESSION_PROGRAM_KEY]
        .into_iter()
        .filter_map(|key| Some((key, last?.metadata.get(key)?.clone())))
        .collect();
    let exchange = exchange.start_iteration(Vec::new(), at);
    match session.is_empty() {
        false => session
            .into_iter()
            .fold(exchange, |exchange, (key, value)| exchange.set_metadata(key, value)),
        true => exchange.set_metadata("stop_reason", json!(StopReason::EndTurn)),
    }
}
