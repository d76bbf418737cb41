//! The messages to models and their replies, for each execution, from the records of a run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};

use ensemble_core::conversation::{
    AttemptScope, ConversationState, Event, ExecutionEnd, IllegalRecord, NestedRequestAnswered, Record, ToolCallEnded,
};
use ensemble_core::thread::{Attachment, LEFT_OUT_KEY, Message, StopReason, ThreadIteration, ToolCall, ToolCallEnd};
use ensemble_language::data::{ExecutionFailure, FailureKind};
use ensemble_language::ensemble::AgentKind;
use ensemble_language::plan::Plan;

/// The messages between an agent and its model in one attempt of an execution, of a part, or of an agent that is used as a tool. An
/// interrupted attempt and its continuation are one exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelExchange {
    /// The attempt, with its part and outer tool calls.
    pub scope: AttemptScope,
    /// The messages of earlier executions that were sent before these.
    pub remembered_messages: Vec<Message>,
    /// The requests with their replies, and the calls of the replies, numbered from 1.
    pub iterations: Vec<ThreadIteration>,
    /// The end of the attempt.
    pub end: ExchangeEnd,
}

/// The end of an attempt with a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum ExchangeEnd {
    /// The attempt has not ended, or was interrupted.
    Open,
    /// The attempt succeeded.
    Succeeded,
    /// The attempt failed.
    Failed {
        /// The failure.
        failure: ExecutionFailure,
    },
    /// The agent was used as a tool, and its call ended with an error.
    CallFailed {
        /// The error that the calling model received.
        error: String,
    },
}

impl ModelExchange {
    /// Converts the exchange to JSON. Replaces the bytes of files by names, types, sizes, digests and the number of the record with the
    /// bytes.
    pub fn to_json(&self, files: &FileRecordNumbers) -> Value {
        let mut document = json!(self.scope);
        document["remembered"] = self
            .remembered_messages
            .iter()
            .map(Message::to_json_without_bytes)
            .collect();
        document["iterations"] = self
            .iterations
            .iter()
            .map(ThreadIteration::to_json_without_bytes)
            .collect();
        if let (Value::Object(document), Value::Object(end)) = (&mut document, json!(self.end)) {
            document.extend(end);
        }
        files.add_record_numbers(&mut document);
        document
    }
}

/// The number of the first record with the bytes of each file, by the digest of the file.
#[derive(Debug, Default)]
pub struct FileRecordNumbers(HashMap<Arc<str>, u64>);

impl FileRecordNumbers {
    /// Collects the files of these records.
    pub fn from_records(records: &[Record]) -> Self {
        let mut file_records = Self::default();
        for record in records {
            let mut add = |file: &Attachment| {
                file_records.0.entry(file.sha256.clone()).or_insert(record.seq);
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
            iterations
                .iter()
                .flat_map(ThreadIteration::list_attachments)
                .for_each(add);
        }
        file_records
    }

    /// Adds the number of its record to each file in the JSON value, recursively.
    fn add_record_numbers(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.add_record_numbers(item)),
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
                    map.get_mut(key)
                        .into_iter()
                        .for_each(|inner| self.add_record_numbers(inner));
                }
            }
            _ => {}
        }
    }
}

/// Collects the exchanges with models in these records, in the order in which they started. `plan` is the plan of the run.
///
/// # Errors
///
/// An event is illegal after the records before it.
pub fn collect_model_exchanges(records: &[Record], plan: &Arc<Plan>) -> Result<Vec<ModelExchange>, IllegalRecord> {
    let mut collector = ExchangeCollector {
        state: ConversationState::new(plan.clone()),
        exchanges: Vec::new(),
        open: HashMap::new(),
        stopped: HashSet::new(),
    };
    for record in records {
        collector.apply_record(record)?;
    }
    for at in std::mem::take(&mut collector.stopped) {
        if let Some(last) = collector.exchanges[at].iterations.last_mut() {
            last.set_stop_reason(StopReason::Cancelled);
        }
    }
    let mut exchanges = collector.exchanges;
    exchanges.retain(|exchange| !exchange.iterations.is_empty());
    for exchange in &mut exchanges {
        remove_left_out_messages(exchange);
        number_iterations(exchange);
    }
    Ok(exchanges)
}

/// Numbers the requests of the exchange, from 1.
fn number_iterations(exchange: &mut ModelExchange) {
    for (number, iteration) in (1..).zip(&mut exchange.iterations) {
        iteration.number = number;
    }
}

/// Removes the remembered messages that the first request omitted, for example to save tokens.
fn remove_left_out_messages(exchange: &mut ModelExchange) {
    let ranges = exchange
        .iterations
        .first()
        .and_then(|first| first.metadata.get(LEFT_OUT_KEY));
    let ranges: Vec<(usize, usize)> = ranges
        .and_then(|ranges| serde_json::from_value(ranges.clone()).ok())
        .unwrap_or_default();
    let mut at = 0;
    exchange.remembered_messages.retain(|_| {
        let is_left_out = ranges.iter().any(|(start, end)| (*start..*end).contains(&at));
        at += 1;
        !is_left_out
    });
}

/// The agent, its part and the ids of the outer tool calls. Each key has at most one open exchange.
type ModelExchangeKey = (Arc<str>, Option<Arc<str>>, Vec<Arc<str>>);

/// A collector of exchanges, with the state of the conversation and the open exchanges.
struct ExchangeCollector {
    state: ConversationState,
    exchanges: Vec<ModelExchange>,
    open: HashMap<ModelExchangeKey, usize>,
    /// The exchanges that were open when the run was interrupted, and did not continue.
    stopped: HashSet<usize>,
}

impl ExchangeCollector {
    /// Adds the record to the exchange of its attempt, and applies the record to the state.
    ///
    /// # Errors
    ///
    /// The event is illegal in the current state.
    fn apply_record(&mut self, record: &Record) -> Result<(), IllegalRecord> {
        match &record.event {
            Event::ReplyReceived(reply) => self
                .get_or_open_exchange(&reply.within)
                .iterations
                .push(reply.iteration.clone()),
            // Usage of a nested run has no request of its own.
            Event::RequestStopped(request) if request.iteration.messages.is_empty() => {}
            Event::RequestStopped(request) => {
                let mut iteration = request.iteration.clone();
                iteration.metadata.insert("stopped".to_owned(), true.into());
                self.get_or_open_exchange(&request.within).iterations.push(iteration);
            }
            Event::ToolCallEnded(ended) => {
                let last = self.get_or_open_exchange(&ended.within).iterations.last_mut();
                let mut calls = last.into_iter().flat_map(|last| &mut last.tool_calls);
                let is_it = |call: &&mut ToolCall| call.end.is_none() && call.id == ended.call.id;
                if let Some(call) = calls.find(is_it) {
                    let nested_answers = std::mem::take(&mut call.answers);
                    *call = ended.call.clone();
                    call.answers.splice(..0, nested_answers);
                }
                self.end_called_agent_exchange(ended);
            }
            Event::NestedRequestAnswered(answered) => self.add_nested_answer(answered),
            Event::AttemptFailed(failed) => {
                let within = execution_scope(failed.turn, &failed.agent, failed.execution, failed.attempt);
                self.end_exchange(
                    &within,
                    &failed.exchange,
                    failed_exchange_end(&failed.failure),
                    record.at,
                );
            }
            Event::PartEnded(part) => {
                let within = AttemptScope {
                    part: Some(part.key.clone()),
                    ..execution_scope(part.turn, &part.agent, part.execution, part.attempt)
                };
                self.end_exchange(&within, &part.exchange, to_exchange_end(&part.end), record.at);
            }
            Event::ExecutionFinished(finished) => {
                let within = execution_scope(finished.turn, &finished.agent, finished.execution, finished.attempt);
                self.end_exchange(&within, &finished.exchange, to_exchange_end(&finished.end), record.at);
            }
            Event::Interrupted(_) => self.stopped.extend(self.open.values()),
            Event::TurnFinished(_) | Event::MessageAdded(_) => self.open.clear(),
            _ => {}
        }
        self.state.apply_record(record)
    }

    /// Adds an answer of a nested run to the open call that started the run.
    fn add_nested_answer(&mut self, answered: &NestedRequestAnswered) {
        let mut around = answered.within.clone();
        let Some(id) = around.outer_calls.pop() else { return };
        let key = (around.agent, around.part, around.outer_calls);
        let Some(at) = self.open.get(&key) else { return };
        let iterations = self.exchanges[*at].iterations.iter_mut().rev();
        let mut calls = iterations.flat_map(|iteration| &mut iteration.tool_calls);
        if let Some(call) = calls.find(|call| call.end.is_none() && *call.id == *id) {
            call.answers.push(answered.answer.clone());
        }
    }

    /// Returns the open exchange of this attempt, or opens a new exchange.
    fn get_or_open_exchange(&mut self, within: &AttemptScope) -> &mut ModelExchange {
        let key = (within.agent.clone(), within.part.clone(), within.outer_calls.clone());
        let at = *self.open.entry(key).or_insert(self.exchanges.len());
        self.stopped.remove(&at);
        if at == self.exchanges.len() {
            self.exchanges.push(ModelExchange {
                scope: within.clone(),
                remembered_messages: list_remembered_messages(&self.state, within),
                iterations: Vec::new(),
                end: ExchangeEnd::Open,
            });
        }
        &mut self.exchanges[at]
    }

    /// Ends the exchange of the agent that this tool call used, if any.
    fn end_called_agent_exchange(&mut self, ended: &ToolCallEnded) {
        let mut inside = ended.within.outer_calls.clone();
        inside.push(ended.call.id.as_str().into());
        let key = (ended.within.agent.clone(), ended.within.part.clone(), inside);
        if let Some(at) = self.open.remove(&key) {
            self.exchanges[at].end = match &ended.call.end {
                Some(ToolCallEnd::Error(error)) => ExchangeEnd::CallFailed { error: error.clone() },
                _ => ExchangeEnd::Succeeded,
            };
        }
    }

    /// Ends the exchange of this attempt with the remaining iterations. After a failed model request, adds the request or marks the last
    /// reply as stopped.
    fn end_exchange(
        &mut self,
        within: &AttemptScope,
        rest: &[ThreadIteration],
        end: ExchangeEnd,
        ended_at: DateTime<Utc>,
    ) {
        let exchange = self.get_or_open_exchange(within);
        exchange.iterations.extend_from_slice(rest);
        exchange.scope.attempt = within.attempt;
        if rest.is_empty() && is_failed_request(&end) && exchange.iterations.last().is_some_and(has_ended_calls) {
            // The failed request sent the results of these calls, and no message of its own.
            let started_at = exchange.iterations.last().and_then(|last| last.completed_at);
            exchange.iterations.push(ThreadIteration {
                started_at,
                completed_at: Some(ended_at),
                ..ThreadIteration::default()
            });
        }
        if let ExchangeEnd::Failed { failure } = &end
            && let Some(reason) = StopReason::from_failure_kind(failure.kind)
            && let Some(last) = exchange.iterations.last_mut()
        {
            last.set_stop_reason(reason);
        }
        exchange.end = end;
        let key = (within.agent.clone(), within.part.clone(), within.outer_calls.clone());
        self.open.remove(&key);
    }
}

/// Returns the messages of earlier executions that the agent, or its part, remembers. Returns an empty list for agents inside tool calls,
/// and for input and script agents.
fn list_remembered_messages(state: &ConversationState, within: &AttemptScope) -> Vec<Message> {
    let id = state
        .plan()
        .find_agent_id(&within.agent)
        .filter(|_| within.outer_calls.is_empty());
    let Some(agent) = id.map(|id| state.agent_state(id)) else {
        return Vec::new();
    };
    // A model that answers for a person or for a script agent receives each question alone.
    let is_answered = |kind: &AgentKind| matches!(kind, AgentKind::Input(_) | AgentKind::Script { .. });
    let is_responder = id.is_some_and(|id| is_answered(&state.plan().agent(id).kind));
    if is_responder {
        return Vec::new();
    }
    match &within.part {
        None => agent.thread().to_messages(),
        Some(part) => agent
            .threads_by_key()
            .get(part)
            .map_or_else(Vec::new, |thread| thread.to_messages()),
    }
}

/// Creates the scope of an attempt of a whole execution.
fn execution_scope(turn: u32, agent: &Arc<str>, execution: u32, attempt: u32) -> AttemptScope {
    AttemptScope {
        turn,
        agent: agent.clone(),
        execution,
        attempt,
        ..AttemptScope::default()
    }
}

/// Converts the end of an execution to the end of the exchange.
fn to_exchange_end(end: &ExecutionEnd) -> ExchangeEnd {
    match end {
        ExecutionEnd::Succeeded(_) => ExchangeEnd::Succeeded,
        ExecutionEnd::Failed(failure) => failed_exchange_end(failure),
    }
}

/// Returns whether the attempt ended because a request to the model failed.
fn is_failed_request(end: &ExchangeEnd) -> bool {
    matches!(end, ExchangeEnd::Failed { failure } if failure.kind == FailureKind::Model)
}

/// Returns whether the reply of the request has tool calls, and all of them have ended.
fn has_ended_calls(iteration: &ThreadIteration) -> bool {
    let calls = &iteration.tool_calls;
    !calls.is_empty() && calls.iter().all(|call| call.end.is_some())
}

/// Creates the end of a failed exchange.
fn failed_exchange_end(failure: &ExecutionFailure) -> ExchangeEnd {
    ExchangeEnd::Failed {
        failure: failure.clone(),
    }
}
