//! The progress of a round that somebody else than a model performs: an external program, whose tool calls are its own.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::Cause;
use super::round::{Progress, RoundOutcome, RoundRequest};
use crate::agent::Notes;
use ensemble_core::runner::ExecutionRecords;
use ensemble_core::thread::{
    Iteration, Message, Reasoning, Role, StopReason, TASK, Thread, ToolCall, ToolEnd, UNKNOWN_FATE,
};
use ensemble_language::data::Usage;

pub(in crate::agent) use super::round::Booked;

impl<'n> Booked<'n> {
    /// The progress of a new round.
    pub(in crate::agent) fn new(notes: &'n Notes) -> Self {
        Self {
            progress: Progress::default(),
            notes,
        }
    }

    pub(in crate::agent) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The outcome of the round, which has ended.
    pub(in crate::agent) fn finish(self, end: Result<(String, StopReason), Cause>, at: DateTime<Utc>) -> RoundOutcome {
        let reason = end
            .as_ref()
            .map_or_else(Cause::stop_reason, |(_, reason)| Some(*reason));
        self.progress.close(at, reason);
        self.progress.lock().end = Some(end);
        self.progress.lock().clone()
    }
}

impl Progress {
    /// Begins with the iteration in which the execution was cut short. What has become of its open calls is not known.
    pub(in crate::agent) async fn go_on_with(&self, iteration: &Iteration, records: &ExecutionRecords) {
        let mut iteration = iteration.clone();
        let open = iteration.tool_calls.iter_mut().filter(|call| call.end.is_none());
        let mut ended = Vec::new();
        for call in open {
            call.end = Some(ToolEnd::Error(UNKNOWN_FATE.to_owned()));
            ended.push(call.clone());
        }
        self.change(|_| Thread::of(vec![iteration]));
        self.lock().recorded.iterations = 1;
        for call in ended {
            records.call_ended(&call, Usage::default()).await;
        }
    }

    /// Opens an iteration with this message.
    pub(in crate::agent) fn open(
        &self,
        opening: &RoundRequest,
        text: String,
        at: DateTime<Utc>,
        notes: &[(&str, Value)],
    ) {
        let said = vec![Message::new(Role::User, text)];
        self.change(|exchange| {
            let exchange = exchange.opened(said, at);
            let exchange = match &opening.remembered_text {
                Some(text) => exchange.noted(TASK, text.as_str()),
                None => exchange,
            };
            notes
                .iter()
                .fold(exchange, |exchange, (key, value)| exchange.noted(key, value.clone()))
        });
    }

    /// Adds what was said, and the calls that follow it, to the iteration, or to a new one if it has been recorded.
    pub(in crate::agent) fn say(
        &self,
        text: String,
        thought: String,
        from: String,
        calls: Vec<ToolCall>,
        at: DateTime<Utc>,
    ) {
        let is_recorded = {
            let outcome = self.lock();
            let last = outcome.exchange.iterations().last();
            last.is_none_or(|last| last.messages.iter().any(|message| message.role == Role::Assistant))
        };
        let reasoning = (!thought.trim().is_empty()).then(|| Reasoning {
            from: from.clone(),
            text: thought,
            ..Reasoning::default()
        });
        self.change(|exchange| {
            let exchange = if is_recorded {
                opened_anew(exchange, at)
            } else {
                exchange
            };
            exchange
                .add_assistant_message(text, calls)
                .reasoned(reasoning)
                .noted("model", from)
        });
    }

    /// Adds data to the current iteration.
    pub(in crate::agent) fn note(&self, key: &str, value: Value) {
        self.change(|exchange| exchange.noted(key, value));
    }

    /// Adds the end of a call, wherever it stands.
    pub(in crate::agent) fn end_call(&self, ended: &ToolCall) {
        self.change(|exchange| {
            let mut iterations = exchange.into_iterations();
            let mut calls = iterations.iter_mut().rev().flat_map(|one| &mut one.tool_calls);
            if let Some(call) = calls.find(|call| call.end.is_none() && call.id == ended.id) {
                *call = ended.clone();
            }
            Thread::of(iterations)
        });
    }

    pub(in crate::agent) fn add_usage(&self, usage: Usage) {
        let mut outcome = self.lock();
        outcome.usage = outcome.usage + usage;
    }
}

/// A new iteration of the same session.
fn opened_anew(exchange: Thread, at: DateTime<Utc>) -> Thread {
    let session = exchange
        .iterations()
        .last()
        .and_then(|last| last.metadata.get("session").cloned());
    let exchange = exchange.opened(Vec::new(), at);
    match session {
        Some(session) => exchange.noted("session", session),
        None => exchange.noted("stop_reason", json!(StopReason::EndTurn)),
    }
}
