//! The events inside an execution: the replies of a model and its tool calls, each recorded when it happened.
//!
//! A run that goes on after a crash continues the execution from these records: a request that was answered is not sent
//! again, and a call that ended is not made again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attempt_scope::{AttemptScope, ExchangeKey, flat_within};
use super::permission::{PermissionDecided, PermissionDecision};
use crate::request::RequestDigest;
use crate::thread::{ThreadIteration, ToolCall};
use ensemble_language::data::ModelUsage;

/// A model replied, and the execution goes on: the reply calls tools, or it was sent back to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyReceived {
    /// Where.
    pub within: AttemptScope,
    /// The messages that were new to the model, and the reply with its calls, none of which has ended.
    pub iteration: ThreadIteration,
    /// What was used since the previous record of the attempt.
    pub usage: ModelUsage,
}

/// A request to a model was stopped with the run, before its reply was complete.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestStopped {
    /// Where.
    pub within: AttemptScope,
    /// The messages that were new to the model.
    pub iteration: ThreadIteration,
    /// What was used since the previous record of the attempt.
    pub usage: ModelUsage,
}

/// A tool is about to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallStarted {
    /// Where.
    pub within: AttemptScope,
    /// The id of the call.
    pub call: Arc<str>,
}

/// A tool call ended.
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

/// The recorded messages between an agent and its model in one execution that has not ended.
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
    /// Returns whether the decision is about the call with this digest.
    pub fn applies_to_call(&self, digest: &RequestDigest) -> bool {
        self.digest.as_ref().is_none_or(|decided| decided == digest)
    }
}

impl RecordedExchange {
    /// Returns what the records of attempts that were cut short have used.
    pub fn usage_of_all_attempts(&self) -> ModelUsage {
        self.lost_usage + self.usage
    }
}

/// The exchanges of one execution: its own, those of its parts, and those of agents that are used as tools in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedExchanges(BTreeMap<ExchangeKey, RecordedExchange>);

impl RecordedExchanges {
    /// Returns whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the recorded exchange of the part, or of the whole execution, inside these calls.
    pub fn get_exchange(&self, part: Option<&Arc<str>>, inside: &[Arc<str>]) -> Option<&RecordedExchange> {
        self.0.get(&(part.cloned(), inside.to_vec()))
    }

    /// Returns the iterations of the execution itself.
    pub fn own_iterations(&self) -> &[ThreadIteration] {
        self.get_exchange(None, &[])
            .map_or(&[], |exchange| &exchange.iterations)
    }

    /// Returns all exchanges, each with its part and the calls that contain it.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &[Arc<str>], &RecordedExchange)> {
        let all = self.0.iter();
        all.map(|((part, inside), exchange)| (part.as_ref(), inside.as_slice(), exchange))
    }

    /// Adds a reply.
    pub fn apply_reply(&mut self, event: &ReplyReceived) {
        let exchange = self.0.entry(event.within.exchange_key()).or_default();
        if let Some(previous) = exchange.iterations.last_mut() {
            previous.completed_at = previous.completed_at.or(event.iteration.started_at);
        }
        exchange.stopped_request = None;
        exchange.iterations.push(event.iteration.clone());
        exchange.usage = exchange.usage + event.usage;
    }

    /// Adds a request that was stopped.
    pub fn apply_stopped_request(&mut self, event: &RequestStopped) {
        let exchange = self.0.entry(event.within.exchange_key()).or_default();
        exchange.stopped_request = (!event.iteration.messages.is_empty()).then(|| event.iteration.clone());
        exchange.usage = exchange.usage + event.usage;
    }

    /// Adds a decision about a call.
    pub fn apply_decision(&mut self, event: &PermissionDecided) {
        let exchange = self.0.entry(event.within.exchange_key()).or_default();
        let decided = CallDecision {
            decision: event.decision,
            digest: event.digest.clone(),
        };
        exchange.decisions.insert(event.call.clone(), decided);
    }

    /// Adds the start of a call.
    pub fn apply_call_start(&mut self, event: &ToolCallStarted) {
        let exchange = self.0.entry(event.within.exchange_key()).or_default();
        exchange.started_calls.insert(event.call.clone());
    }

    /// Adds the end of a call. What an agent that was used as a tool has recorded inside the call is contained in the
    /// usage of the call.
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

    /// Removes what was recorded of a part, or of the whole execution, and returns its iterations.
    pub fn remove_exchanges(&mut self, part: Option<&Arc<str>>) -> Vec<ThreadIteration> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let own_exchange = self.0.remove(&(part.cloned(), Vec::new()));
        self.0.retain(|(of, _), _| of.as_ref() != part);
        own_exchange.map_or_else(Vec::new, |exchange| exchange.iterations)
    }

    /// Removes the request of the execution itself that was stopped, and returns it.
    pub fn take_stopped_request(&mut self) -> Option<ThreadIteration> {
        self.0.get_mut(&(None, Vec::new()))?.stopped_request.take()
    }

    /// Takes what the records so far have used; it counts once.
    pub fn take_uncounted_usage(&mut self) -> Option<ModelUsage> {
        let used = self.uncounted_usage();
        for exchange in self.0.values_mut() {
            exchange.lost_usage = exchange.lost_usage + std::mem::take(&mut exchange.usage);
        }
        used
    }

    /// Returns the usage that the records contain so far.
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
