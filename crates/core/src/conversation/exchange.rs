//! The events inside an execution: the replies of a model and its tool calls, each recorded when it happened.
//!
//! A run that goes on after a crash continues the execution from these records: a request that was answered is not sent
//! again, and a call that ended is not made again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::attempt_scope::{AttemptScope, ExchangeKey, flat_within};
use super::permission::{PermissionDecided, PermissionDecision};
use super::question::NestedRequestAnswered;
use crate::request::{RequestAddress, RequestDigest};
use crate::thread::{ThreadIteration, ToolCall};
use ensemble_language::data::ModelUsage;

/// The event of a model reply after which the execution continues: the reply calls tools, or needs a correction.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyReceived {
    /// Where.
    pub within: AttemptScope,
    /// The messages that were new to the model, and the reply with its calls, none of which has ended.
    pub iteration: ThreadIteration,
    /// What was used since the previous record of the attempt.
    pub usage: ModelUsage,
}

/// The event of a request to a model that was stopped with the run, before the reply was complete.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestStopped {
    /// Where.
    pub within: AttemptScope,
    /// The messages that were new to the model.
    pub iteration: ThreadIteration,
    /// What was used since the previous record of the attempt.
    pub usage: ModelUsage,
}

/// The event of a tool call that is about to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallStarted {
    /// Where.
    pub within: AttemptScope,
    /// The id of the call.
    pub call: Arc<str>,
}

/// The event of a tool call that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallEnded {
    /// Where.
    pub within: AttemptScope,
    /// The call with its result or error.
    pub call: ToolCall,
    /// What the tool used of models.
    pub usage: Option<ModelUsage>,
}

flat_within! { ReplyReceived { iteration: ThreadIteration, usage: ModelUsage, } }
flat_within! { RequestStopped { iteration: ThreadIteration, usage: ModelUsage, } }
flat_within! { ToolCallStarted { call: Arc<str>, } }
flat_within! { ToolCallEnded { call: ToolCall, ? usage: ModelUsage, } }

/// Recorded messages between an agent and its model in one unfinished execution.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedExchange {
    /// The iterations, with the ends of their calls.
    pub iterations: Vec<ThreadIteration>,
    /// The ids of the calls that were started.
    pub started_calls: BTreeSet<Arc<str>>,
    /// The request that was stopped with the run. It is sent again if the execution goes on.
    pub stopped_request: Option<ThreadIteration>,
    /// The latest decision about each call, by the id of the call. A program can use an id for several calls.
    pub decisions: BTreeMap<Arc<str>, CallDecision>,
    /// The answers of nested runs: the addresses, and when they were recorded in the nested run.
    pub nested_answers: Vec<(RequestAddress, DateTime<Utc>)>,
    /// What the recorded replies, and the calls that ended, have used since the attempt began.
    pub usage: ModelUsage,
    /// What attempts that were cut short have used. The usage of the execution contains it.
    pub lost_usage: ModelUsage,
}

/// A recorded decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDecision {
    /// The decision.
    pub decision: PermissionDecision,
    /// The digest of the call. `None`: the record names only the id of the call.
    digest: Option<RequestDigest>,
}

impl CallDecision {
    /// Returns whether the decision concerns the call with this digest. A decision without a digest concerns every call.
    pub fn applies_to_call(&self, digest: &RequestDigest) -> bool {
        self.digest.as_ref().is_none_or(|decided| decided == digest)
    }
}

impl RecordedExchange {
    /// Returns whether the answer of a nested run at this address, recorded at this time, is among the records.
    pub fn has_nested_answer(&self, address: &RequestAddress, at: DateTime<Utc>) -> bool {
        let mut answers = self.nested_answers.iter();
        answers.any(|(known, known_at)| known == address && *known_at == at)
    }

    /// Returns what the records of attempts that were cut short have used.
    pub fn usage_of_all_attempts(&self) -> ModelUsage {
        self.lost_usage + self.usage
    }
}

/// Exchanges of one execution: of the execution itself, of its parts, and of agents that are used as tools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedExchanges(BTreeMap<ExchangeKey, RecordedExchange>);

impl RecordedExchanges {
    /// Returns whether no exchange is recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the exchange of the part, or of the whole execution if `part` is `None`, within the tool calls `inside`.
    pub fn get_exchange(&self, part: Option<&Arc<str>>, inside: &[Arc<str>]) -> Option<&RecordedExchange> {
        self.0.get(&(part.cloned(), inside.to_vec()))
    }

    /// Returns the iterations of the execution itself, without those of parts and of agents used as tools.
    pub fn own_iterations(&self) -> &[ThreadIteration] {
        self.get_exchange(None, &[])
            .map_or(&[], |exchange| &exchange.iterations)
    }

    /// Returns all exchanges, each with its part and the ids of the tool calls that contain the agent.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &[Arc<str>], &RecordedExchange)> {
        let all = self.0.iter();
        all.map(|((part, inside), exchange)| (part.as_ref(), inside.as_slice(), exchange))
    }

    /// Adds a reply and its usage. Removes the stopped request, which the reply replaces.
    pub fn apply_reply(&mut self, event: &ReplyReceived) {
        let exchange = self.0.entry(event.within.exchange_key()).or_default();
        if let Some(previous) = exchange.iterations.last_mut() {
            previous.completed_at = previous.completed_at.or(event.iteration.started_at);
        }
        exchange.stopped_request = None;
        exchange.iterations.push(event.iteration.clone());
        exchange.usage = exchange.usage + event.usage;
    }

    /// Stores the stopped request if it has messages, and adds its usage.
    pub fn apply_stopped_request(&mut self, event: &RequestStopped) {
        let exchange = self.0.entry(event.within.exchange_key()).or_default();
        exchange.stopped_request = (!event.iteration.messages.is_empty()).then(|| event.iteration.clone());
        exchange.usage = exchange.usage + event.usage;
    }

    /// Stores a decision about a tool call.
    pub fn apply_decision(&mut self, event: &PermissionDecided) {
        let exchange = self.0.entry(event.within.exchange_key()).or_default();
        let decided = CallDecision {
            decision: event.decision,
            digest: event.digest.clone(),
        };
        exchange.decisions.insert(event.call.clone(), decided);
    }

    /// Adds an answer of a nested run.
    pub fn apply_nested_answer(&mut self, event: &NestedRequestAnswered) {
        let exchange = self.0.entry(event.within.exchange_key()).or_default();
        exchange.nested_answers.push((event.answer.address.clone(), event.at));
    }

    /// Adds the start of a call.
    pub fn apply_call_start(&mut self, event: &ToolCallStarted) {
        let exchange = self.0.entry(event.within.exchange_key()).or_default();
        exchange.started_calls.insert(event.call.clone());
    }

    /// Stores the end of a tool call and its usage. Removes the exchanges of agents inside the call, because the usage of the call contains
    /// theirs.
    pub fn apply_call_end(&mut self, event: &ToolCallEnded) {
        let key = event.within.exchange_key();
        let mut inside = key.1.clone();
        inside.push(event.call.id.as_str().into());
        self.0
            .retain(|(part, path), _| *part != key.0 || !path.starts_with(&inside));
        let exchange = self.0.entry(key).or_default();
        exchange.usage = exchange.usage + event.usage.unwrap_or_default();
        // The calls of an external program may be in several iterations.
        let mut calls = exchange.iterations.iter_mut().rev().flat_map(|one| &mut one.tool_calls);
        let is_it = |call: &&mut ToolCall| call.end.is_none() && call.id == event.call.id;
        if let Some(call) = calls.find(is_it) {
            *call = event.call.clone();
        }
    }

    /// Removes all exchanges of the part, or of the whole execution if `part` is `None`. Returns the iterations.
    pub fn remove_exchanges(&mut self, part: Option<&Arc<str>>) -> Vec<ThreadIteration> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let own_exchange = self.0.remove(&(part.cloned(), Vec::new()));
        self.0.retain(|(of, _), _| of.as_ref() != part);
        own_exchange.map_or_else(Vec::new, |exchange| exchange.iterations)
    }

    /// Takes the stopped request of the execution itself out of the records.
    pub fn take_stopped_request(&mut self) -> Option<ThreadIteration> {
        self.0.get_mut(&(None, Vec::new()))?.stopped_request.take()
    }

    /// Returns the usage since the last call, and adds this usage to the usage of lost attempts. Returns `None` without usage.
    pub fn take_uncounted_usage(&mut self) -> Option<ModelUsage> {
        let used = self.uncounted_usage();
        for exchange in self.0.values_mut() {
            exchange.lost_usage = exchange.lost_usage + std::mem::take(&mut exchange.usage);
        }
        used
    }

    /// Returns the recorded usage since the last call of the taking function. Usage inside tool calls counts as tool usage.
    /// Returns `None` without usage.
    pub fn uncounted_usage(&self) -> Option<ModelUsage> {
        let used = self.0.iter().map(|((_, inside), exchange)| match inside.is_empty() {
            true => exchange.usage,
            false => exchange.usage.as_tool_usage(),
        });
        let used = used.fold(ModelUsage::default(), |sum, one| sum + one);
        (used != ModelUsage::default()).then_some(used)
    }
}

#[cfg(test)]
mod tests;
