//! What was sent to models and what came back, execution by execution, as the records tell.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use ensemble_core::conversation::{
    ConversationState, Event, ExecutionEnd, IllegalRecord, Record, ToolCallEnded, Within,
};
use ensemble_core::thread::{Attachment, Iteration, Message, ToolCall, ToolEnd};
use ensemble_language::data::Failure;
use ensemble_language::plan::Plan;

/// The messages between an agent and its model in one attempt of an execution, of one of its parts, or of an agent that is
/// used as a tool. An attempt that was cut short and went on is one with its successor.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelExchange {
    /// Where.
    pub within: Within,
    /// The messages of earlier executions that were sent before these.
    pub remembered: Vec<Message>,
    /// The requests with their replies, and the calls of the replies.
    pub iterations: Vec<Iteration>,
    /// How the attempt ended.
    pub end: ExchangeEnd,
}

/// The way in which an attempt with a model ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum ExchangeEnd {
    /// It has not ended, or it was cut short.
    Open,
    /// It gave an output.
    Succeeded,
    /// It failed.
    Failed {
        /// The failure.
        failure: Failure,
    },
    /// The agent was used as a tool, and its call ended with an error.
    CallFailed {
        /// The error that the calling model received.
        error: String,
    },
}

impl ModelExchange {
    /// The exchange as JSON. Files have names, types, sizes and digests in place of their bytes, and the number of the
    /// record that holds the bytes.
    pub fn described(&self, files: &FileRecords) -> Value {
        let mut document = json!(self.within);
        document["remembered"] = self.remembered.iter().map(Message::described).collect();
        document["iterations"] = self.iterations.iter().map(Iteration::described).collect();
        if let (Value::Object(document), Value::Object(end)) = (&mut document, json!(self.end)) {
            document.extend(end);
        }
        files.add_to(&mut document);
        document
    }
}

/// For each file, by its digest, the number of the first record that holds its bytes.
#[derive(Debug, Default)]
pub struct FileRecords(HashMap<Arc<str>, u64>);

impl FileRecords {
    /// The files of these records.
    pub fn of(records: &[Record]) -> Self {
        let mut found = Self::default();
        for record in records {
            let mut add = |file: &Attachment| {
                found.0.entry(file.sha256.clone()).or_insert(record.seq);
            };
            let iterations = match &record.event {
                Event::ReplyReceived(reply) => std::slice::from_ref(&reply.iteration),
                Event::RequestStopped(request) => std::slice::from_ref(&request.iteration),
                Event::AttemptFailed(failed) => &failed.exchange,
                Event::PartEnded(part) => &part.exchange,
                Event::ExecutionFinished(finished) => &finished.exchange,
                Event::ToolCallEnded(ended) => {
                    ended.call.attachments.iter().for_each(&mut add);
                    &[]
                }
                _ => &[],
            };
            iterations.iter().flat_map(Iteration::attachments).for_each(add);
        }
        found
    }

    /// Adds the numbers to all files in the document.
    fn add_to(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.add_to(item)),
            Value::Object(map) => {
                for file in map
                    .get_mut("attachments")
                    .and_then(Value::as_array_mut)
                    .into_iter()
                    .flatten()
                {
                    let record = file["sha256"].as_str().and_then(|digest| self.0.get(digest));
                    if let (Some(record), Some(file)) = (record, file.as_object_mut()) {
                        file.insert("record".to_owned(), json!(record));
                    }
                }
                for key in ["remembered", "iterations", "messages", "tool_calls"] {
                    map.get_mut(key).into_iter().for_each(|inner| self.add_to(inner));
                }
            }
            _ => {}
        }
    }
}

/// Returns the exchanges with models in these records, in the order in which they began. The plan is that of the run.
///
/// # Errors
/// The event of a record is illegal after the records before it.
pub fn model_exchanges(records: &[Record], plan: &Arc<Plan>) -> Result<Vec<ModelExchange>, IllegalRecord> {
    let mut collector = Collector {
        state: ConversationState::new(plan.clone()),
        exchanges: Vec::new(),
        open: HashMap::new(),
    };
    for record in records {
        collector.take(record)?;
    }
    let mut exchanges = collector.exchanges;
    exchanges.retain(|exchange| !exchange.iterations.is_empty());
    Ok(exchanges)
}

/// The agent, its part and the calls around it: there is one open exchange for each.
type Key = (Arc<str>, Option<Arc<str>>, Vec<Arc<str>>);

struct Collector {
    state: ConversationState,
    exchanges: Vec<ModelExchange>,
    open: HashMap<Key, usize>,
}

impl Collector {
    fn take(&mut self, record: &Record) -> Result<(), IllegalRecord> {
        match &record.event {
            Event::ReplyReceived(reply) => self.open(&reply.within).iterations.push(reply.iteration.clone()),
            // Usage of a nested run has no request of its own.
            Event::RequestStopped(request) if request.iteration.messages.is_empty() => {}
            Event::RequestStopped(request) => {
                let mut iteration = request.iteration.clone();
                iteration.metadata.insert("stopped".to_owned(), true.into());
                self.open(&request.within).iterations.push(iteration);
            }
            Event::ToolCallEnded(ended) => {
                let last = self.open(&ended.within).iterations.last_mut();
                let mut calls = last.into_iter().flat_map(|last| &mut last.tool_calls);
                let is_it = |call: &&mut ToolCall| call.end.is_none() && call.id == ended.call.id;
                if let Some(call) = calls.find(is_it) {
                    *call = ended.call.clone();
                }
                self.end_inside(ended);
            }
            Event::AttemptFailed(failed) => {
                let within = own(failed.turn, &failed.agent, failed.execution, failed.attempt);
                self.end(&within, &failed.exchange, failed_with(&failed.failure));
            }
            Event::PartEnded(part) => {
                let within = Within {
                    part: Some(part.key.clone()),
                    ..own(part.turn, &part.agent, part.execution, part.attempt)
                };
                self.end(&within, &part.exchange, end(&part.end));
            }
            Event::ExecutionFinished(finished) => {
                let within = own(finished.turn, &finished.agent, finished.execution, finished.attempt);
                self.end(&within, &finished.exchange, end(&finished.end));
            }
            Event::TurnFinished(_) | Event::MessageAdded(_) => self.open.clear(),
            _ => {}
        }
        self.state.apply(record)
    }

    /// The exchange that goes on there, or a new one.
    fn open(&mut self, within: &Within) -> &mut ModelExchange {
        let key = (within.agent.clone(), within.part.clone(), within.inside.clone());
        let at = *self.open.entry(key).or_insert(self.exchanges.len());
        if at == self.exchanges.len() {
            self.exchanges.push(ModelExchange {
                within: within.clone(),
                remembered: remembered(&self.state, within),
                iterations: Vec::new(),
                end: ExchangeEnd::Open,
            });
        }
        &mut self.exchanges[at]
    }

    /// The call has ended, and so have the exchanges of the agent that it used.
    fn end_inside(&mut self, ended: &ToolCallEnded) {
        let mut inside = ended.within.inside.clone();
        inside.push(ended.call.id.as_str().into());
        let key = (ended.within.agent.clone(), ended.within.part.clone(), inside);
        if let Some(at) = self.open.remove(&key) {
            self.exchanges[at].end = match &ended.call.end {
                Some(ToolEnd::Error(error)) => ExchangeEnd::CallFailed { error: error.clone() },
                _ => ExchangeEnd::Succeeded,
            };
        }
    }

    fn end(&mut self, within: &Within, rest: &[Iteration], end: ExchangeEnd) {
        let exchange = self.open(within);
        exchange.iterations.extend_from_slice(rest);
        exchange.within.attempt = within.attempt;
        exchange.end = end;
        let key = (within.agent.clone(), within.part.clone(), within.inside.clone());
        self.open.remove(&key);
    }
}

/// Returns the messages of earlier executions that the agent remembers.
fn remembered(state: &ConversationState, within: &Within) -> Vec<Message> {
    let id = state.plan().id(&within.agent).filter(|_| within.inside.is_empty());
    let Some(agent) = id.map(|id| state.agent(id)) else {
        return Vec::new();
    };
    match &within.part {
        None => agent.thread().to_messages(),
        Some(part) => agent
            .threads_by_key()
            .get(part)
            .map_or_else(Vec::new, |thread| thread.to_messages()),
    }
}

fn own(turn: u32, agent: &Arc<str>, execution: u32, attempt: u32) -> Within {
    Within {
        turn,
        agent: agent.clone(),
        execution,
        attempt,
        ..Within::default()
    }
}

fn end(end: &ExecutionEnd) -> ExchangeEnd {
    match end {
        ExecutionEnd::Succeeded(_) => ExchangeEnd::Succeeded,
        ExecutionEnd::Failed(failure) => failed_with(failure),
    }
}

fn failed_with(failure: &Failure) -> ExchangeEnd {
    ExchangeEnd::Failed {
        failure: failure.clone(),
    }
}
