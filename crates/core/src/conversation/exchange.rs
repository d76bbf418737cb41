//! The events inside an execution: the replies of a model and its tool calls, each recorded when it happened.
//!
//! A run that goes on after a crash continues the execution from these records: a request that was answered is not sent
//! again, and a call that ended is not made again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::permission::{PermissionDecided, PermissionDecision};
use super::within::{ExchangeKey, Within, flat_within};
use crate::thread::{Iteration, ToolCall};
use ensemble_language::data::Usage;

/// A model replied, and the execution goes on: the reply calls tools, or it was sent back to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyReceived {
    /// Where.
    pub within: Within,
    /// The messages that were new to the model, and the reply with its calls, none of which has ended.
    pub iteration: Iteration,
    /// What was used since the previous record of the attempt.
    pub usage: Usage,
}

/// A request to a model was stopped with the run, before its reply was complete.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestStopped {
    /// Where.
    pub within: Within,
    /// The messages that were new to the model.
    pub iteration: Iteration,
    /// What was used since the previous record of the attempt.
    pub usage: Usage,
}

/// A tool is about to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallStarted {
    /// Where.
    pub within: Within,
    /// The id of the call.
    pub call: Arc<str>,
}

/// A tool call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallEnded {
    /// Where.
    pub within: Within,
    /// The call with its result or error.
    pub call: ToolCall,
    /// What the tool used of models.
    pub usage: Option<Usage>,
}

flat_within! { ReplyReceived { iteration: Iteration, usage: Usage, } }
flat_within! { RequestStopped { iteration: Iteration, usage: Usage, } }
flat_within! { ToolCallStarted { call: Arc<str>, } }
flat_within! { ToolCallEnded { call: ToolCall, ? usage: Usage, } }

/// The recorded messages between an agent and its model in one execution that has not ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Exchange {
    /// The iterations, with the ends of their calls.
    pub iterations: Vec<Iteration>,
    /// The ids of the calls that were started.
    pub started: BTreeSet<Arc<str>>,
    /// The request that was stopped with the run. It is sent again if the execution goes on.
    pub stopped: Option<Iteration>,
    /// The decisions about calls, by the ids of the calls.
    pub decided: BTreeMap<Arc<str>, PermissionDecision>,
    /// What the recorded replies, and the calls that ended, have used since the attempt began.
    pub usage: Usage,
    /// What attempts that were cut short have used. The usage of the execution contains it.
    pub lost_usage: Usage,
}

impl Exchange {
    /// Returns what the records of attempts that were cut short have used.
    pub fn recorded_usage(&self) -> Usage {
        self.lost_usage + self.usage
    }
}

/// The exchanges of one execution: its own, those of its parts, and those of agents that are used as tools in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Exchanges(BTreeMap<ExchangeKey, Exchange>);

impl Exchanges {
    /// Returns whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the recorded exchange of the part, or of the whole execution, inside these calls.
    pub fn get(&self, part: Option<&Arc<str>>, inside: &[Arc<str>]) -> Option<&Exchange> {
        self.0.get(&(part.cloned(), inside.to_vec()))
    }

    /// The iterations of the execution itself.
    pub fn own(&self) -> &[Iteration] {
        self.get(None, &[]).map_or(&[], |exchange| &exchange.iterations)
    }

    /// All exchanges, each with its part and the calls that contain it.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &[Arc<str>], &Exchange)> {
        let all = self.0.iter();
        all.map(|((part, inside), exchange)| (part.as_ref(), inside.as_slice(), exchange))
    }

    /// Adds a reply.
    pub fn replied(&mut self, event: &ReplyReceived) {
        let exchange = self.0.entry(event.within.key()).or_default();
        if let Some(previous) = exchange.iterations.last_mut() {
            previous.completed_at = previous.completed_at.or(event.iteration.started_at);
        }
        exchange.stopped = None;
        exchange.iterations.push(event.iteration.clone());
        exchange.usage = exchange.usage + event.usage;
    }

    /// Adds a request that was stopped.
    pub fn stopped(&mut self, event: &RequestStopped) {
        let exchange = self.0.entry(event.within.key()).or_default();
        exchange.stopped = (!event.iteration.messages.is_empty()).then(|| event.iteration.clone());
        exchange.usage = exchange.usage + event.usage;
    }

    /// Adds a decision about a call.
    pub fn decided(&mut self, event: &PermissionDecided) {
        let exchange = self.0.entry(event.within.key()).or_default();
        exchange.decided.insert(event.call.clone(), event.decision);
    }

    /// Adds the start of a call.
    pub fn call_started(&mut self, event: &ToolCallStarted) {
        let exchange = self.0.entry(event.within.key()).or_default();
        exchange.started.insert(event.call.clone());
    }

    /// Adds the end of a call. What an agent that was used as a tool has recorded inside the call is contained in the
    /// usage of the call.
    pub fn call_ended(&mut self, event: &ToolCallEnded) {
        let key = event.within.key();
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
    pub fn take(&mut self, part: Option<&Arc<str>>) -> Vec<Iteration> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let own = self.0.remove(&(part.cloned(), Vec::new()));
        self.0.retain(|(of, _), _| of.as_ref() != part);
        own.map_or_else(Vec::new, |exchange| exchange.iterations)
    }

    /// Removes the request of the execution itself that was stopped, and returns it.
    pub fn take_stopped(&mut self) -> Option<Iteration> {
        self.0.get_mut(&(None, Vec::new()))?.stopped.take()
    }

    /// Takes what the records so far have used; it counts once.
    pub fn take_usage(&mut self) -> Option<Usage> {
        let used = self.usage();
        for exchange in self.0.values_mut() {
            exchange.lost_usage = exchange.lost_usage + std::mem::take(&mut exchange.usage);
        }
        used
    }

    /// Returns the usage that the records contain so far.
    pub fn usage(&self) -> Option<Usage> {
        let used = self.0.iter().map(|((_, inside), exchange)| match inside.is_empty() {
            true => exchange.usage,
            false => exchange.usage.by_a_tool(),
        });
        let used = used.fold(Usage::default(), |sum, one| sum + one);
        (used != Usage::default()).then_some(used)
    }
}

#[cfg(test)]
mod tests;
