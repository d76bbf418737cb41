//! The span `invoke_agent`: an execution, with its requests to models, its calls of tools and its parts.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{AttemptFailed, AttemptScope, Event, ExecutionFinished, PartEnded};
use ensemble_core::thread::{ThreadIteration, ToolCall, ToolEnd};
use ensemble_core::trace::SpanContext;
use ensemble_history::ExecutionAccount;
use ensemble_language::data::{ExecutionFailure, ModelUsage};
use ensemble_language::ensemble::list_provider_names;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event as SpanEvent, SpanKind};
use serde_json::Value;

use super::{SpanFold, to_nanoseconds};
use crate::content;
use crate::span::{SpanAttributes, SpanParent, failed_status, new_event, new_span};

/// Where inside an execution: the part, and the calls around it.
type Key = (Option<Arc<str>>, Vec<Arc<str>>);

/// The end of an execution that has no end of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum UnfinishedEnd {
    /// With this error.
    CutOff(&'static str),
    /// It waits for an answer.
    WaitsForAnswer,
}

/// An execution that has not ended.
#[derive(Debug)]
pub(super) struct ExecutionLedger {
    pub(super) agent: Arc<str>,
    pub(super) number: u32,
    pub(super) context: SpanContext,
    pub(super) began: u64,
    parent: SpanContext,
    run: Arc<str>,
    turn: u32,
    attempts: u64,
    account: ExecutionAccount,
    model: Option<String>,
    events: Vec<SpanEvent>,
    /// How many requests and calls there were at each place, so that each has a name of its own.
    counts: HashMap<String, u32>,
    /// When the request under way began, by place.
    marks: HashMap<Key, u64>,
    calls: Vec<OpenCallSpan>,
    parts: HashMap<Arc<str>, (u64, u64)>,
}

/// A call of a tool that was announced by a reply.
#[derive(Debug)]
struct OpenCallSpan {
    key: Key,
    call: ToolCall,
    /// Its span, and when it began; `None`: it has not begun.
    begun_span: Option<(SpanContext, u64)>,
}

impl ExecutionLedger {
    pub(super) fn new(
        place: &AttemptScope,
        context: SpanContext,
        parent: SpanContext,
        run: Arc<str>,
        now: u64,
    ) -> Self {
        Self {
            agent: place.agent.clone(),
            number: place.execution,
            context,
            began: now,
            parent,
            run,
            turn: place.turn,
            attempts: 0,
            account: ExecutionAccount::new(place.agent.clone(), place.turn),
            model: None,
            events: Vec::new(),
            counts: HashMap::new(),
            marks: HashMap::new(),
            calls: Vec::new(),
            parts: HashMap::new(),
        }
    }

    pub(super) fn is_execution(&self, agent: &str, number: u32) -> bool {
        *self.agent == *agent && self.number == number
    }

    pub(super) fn start_attempt(&mut self, now: u64) {
        self.attempts += 1;
        self.marks.clear();
        self.marks.insert((None, Vec::new()), now);
    }

    /// Adds an event to the account.
    pub(super) fn count(&mut self, event: &Event, at: DateTime<Utc>) {
        self.account.apply_event(event, at);
    }

    /// Returns the usage in this segment.
    pub(super) fn usage(&self) -> ModelUsage {
        self.account.current_totals().usage
    }

    pub(super) fn add_input_request(&mut self, now: u64) {
        self.add_span_event("ensemble.input_requested", now, SpanAttributes::default());
    }

    /// Takes an event that happened inside.
    pub(super) fn apply_event(&mut self, event: &Event, fold: &SpanFold, ended: &mut Vec<Span>) {
        match event {
            Event::ReplyReceived(reply) => {
                let key = span_key(&reply.within);
                // An agent that calls a tool without a model has no request.
                if !reply.iteration.messages.is_empty() {
                    self.add_chat_span(&key, &reply.iteration, fold.now, None, fold, ended);
                }
                self.announce_calls(&key, &reply.iteration);
            }
            Event::RequestStopped(stopped) if stopped.iteration.messages.is_empty() => {}
            Event::RequestStopped(stopped) => {
                let key = span_key(&stopped.within);
                self.add_chat_span(&key, &stopped.iteration, fold.now, Some("cancelled"), fold, ended);
            }
            Event::ToolCallStarted(started) => self.start_call(&span_key(&started.within), &started.call, fold.now),
            Event::ToolCallEnded(call) => self.end_call(&span_key(&call.within), &call.call, fold, ended),
            Event::PermissionDecided(decided) => {
                let decision = serde_json::to_value(decided.decision).unwrap_or_default();
                let attributes = SpanAttributes::default()
                    .with_text("gen_ai.tool.name", &*decided.tool)
                    .with_text("gen_ai.tool.call.id", &*decided.call)
                    .with_text("ensemble.decision", decision.as_str().unwrap_or_default());
                self.add_span_event("ensemble.permission_decided", fold.now, attributes);
            }
            _ => {}
        }
    }

    pub(super) fn apply_failed_attempt(&mut self, attempt: &AttemptFailed, fold: &SpanFold, ended: &mut Vec<Span>) {
        self.add_iterations(&(None, Vec::new()), &attempt.exchange, fold, ended);
        let attributes = SpanAttributes::default()
            .with_number("ensemble.attempt", u64::from(attempt.attempt))
            .with_text("error.type", failure_kind(&attempt.failure))
            .with_optional_text("exception.message", failure_content(&attempt.failure, fold));
        self.add_span_event("ensemble.attempt_failed", fold.now, attributes);
        self.close_calls("cancelled", fold, ended);
    }

    pub(super) fn apply_part_end(&mut self, part: &PartEnded, fold: &SpanFold, ended: &mut Vec<Span>) {
        let key = (Some(part.key.clone()), Vec::new());
        let took = seconds_to_nanoseconds(part.execution_time);
        let began = fold.now.saturating_sub(took).max(self.began);
        let (began, attempts) = *self.parts.entry(part.key.clone()).or_insert((began, 0));
        self.parts.insert(part.key.clone(), (began, attempts + 1));
        self.add_iterations(&key, &part.exchange, fold, ended);
        if !part.is_final() {
            return;
        }
        let context = self.part_context(&part.key);
        let mut span = new_span(
            &context,
            &SpanParent::Own(&self.context),
            format!("invoke_agent {}", self.agent),
            (began, fold.now),
        );
        let failure = part.failure();
        let attributes = self
            .identity_attributes()
            .with_number("ensemble.part", u64::from(part.part))
            .with_number("ensemble.parts", u64::from(part.count))
            .with_number("ensemble.attempts", attempts + 1)
            .with_flag("ensemble.reused", part.reused)
            .with_optional_text(
                "ensemble.part.key",
                fold.with_content.then(|| content::limit_length(&part.key)),
            )
            .with_usage(part.usage)
            .with_optional_text(
                "ensemble.output",
                output_content(part.output().map(|output| &**output), fold),
            );
        span.attributes = with_failure(&mut span, attributes, failure, fold);
        ended.push(span);
    }

    /// The end of the execution.
    pub(super) fn finish_execution(mut self, end: &ExecutionFinished, fold: &mut SpanFold, ended: &mut Vec<Span>) {
        self.add_iterations(&(None, Vec::new()), &end.exchange, fold, ended);
        self.close_calls("cancelled", fold, ended);
        let attributes = self
            .total_attributes()
            .with_flag("ensemble.reused", end.reused)
            .with_optional_text(
                "ensemble.output",
                output_content(end.output().map(|output| &**output), fold),
            );
        let mut span = self.build_span(fold);
        span.attributes = with_failure(&mut span, attributes, end.failure(), fold);
        ended.push(span);
        fold.add_execution_span(&self);
    }

    /// The end of the segment comes before that of the execution.
    pub(super) fn close_unfinished(mut self, ending: UnfinishedEnd, fold: &mut SpanFold, ended: &mut Vec<Span>) {
        let error = match ending {
            UnfinishedEnd::CutOff(error) => Some(error),
            UnfinishedEnd::WaitsForAnswer => None,
        };
        self.close_calls(error.unwrap_or("cancelled"), fold, ended);
        let mut span = self.build_span(fold);
        span.attributes = self.total_attributes().with_optional_text("error.type", error).0;
        span.status = error.and_then(|_| failed_status(None));
        ended.push(span);
        fold.add_execution_span(&self);
    }

    fn build_span(&mut self, fold: &SpanFold) -> Span {
        let name = format!("invoke_agent {}", self.agent);
        let mut span = new_span(
            &self.context,
            &SpanParent::Own(&self.parent),
            name,
            (self.began, fold.now),
        );
        span.events = std::mem::take(&mut self.events);
        span
    }

    fn identity_attributes(&self) -> SpanAttributes {
        SpanAttributes::default()
            .with_text("gen_ai.operation.name", "invoke_agent")
            .with_text("gen_ai.agent.name", &*self.agent)
            .with_text("gen_ai.conversation.id", &*self.run)
            .with_number("ensemble.turn", u64::from(self.turn))
            .with_number("ensemble.execution", u64::from(self.number))
    }

    fn total_attributes(&self) -> SpanAttributes {
        self.identity_attributes()
            .with_number("ensemble.attempts", self.attempts)
            .with_optional_text("gen_ai.request.model", self.model.clone())
            .with_usage(Some(self.usage()))
    }

    fn part_context(&self, key: &str) -> SpanContext {
        self.context.child_span(&format!("part {key}"))
    }

    /// Returns the span around this place: a call, a part, or the execution itself.
    fn find_outer_context(&self, key: &Key) -> SpanContext {
        let call = key.1.split_last().and_then(|(call, outer)| {
            let outer = (key.0.clone(), outer.to_vec());
            let is_it = |open: &&OpenCallSpan| open.key == outer && *open.call.id == **call;
            let open_call = self.calls.iter().find(is_it)?;
            open_call.begun_span.as_ref().map(|(context, _)| context.clone())
        });
        let part = || {
            key.0
                .as_ref()
                .map_or_else(|| self.context.clone(), |part| self.part_context(part))
        };
        call.unwrap_or_else(part)
    }

    /// Returns a span that is the next of its kind at this place.
    fn next_context(&mut self, kind: &str, key: &Key) -> SpanContext {
        let place = format!("{kind} {:?} {:?}", key.0, key.1);
        let count = self.counts.entry(place.clone()).or_default();
        *count += 1;
        self.context.child_span(&format!("{place} {count}"))
    }

    fn add_span_event(&mut self, name: &str, at: u64, attributes: SpanAttributes) {
        self.events.push(new_event(name, at, attributes));
    }

    /// Returns the earliest time of something that is in a part, or in the execution.
    fn earliest_time(&mut self, key: &Key, at: u64) -> u64 {
        let Some(part) = &key.0 else { return self.began };
        let began = self.parts.entry(part.clone()).or_insert((at.max(self.began), 0));
        began.0
    }

    /// Iterations that no record has shown before.
    fn add_iterations(&mut self, key: &Key, iterations: &[ThreadIteration], fold: &SpanFold, ended: &mut Vec<Span>) {
        for (at, iteration) in iterations.iter().enumerate() {
            let next = iterations.get(at + 1).and_then(|next| next.started_at);
            let tools: u64 = iteration
                .tool_calls
                .iter()
                .map(|call| seconds_to_nanoseconds(call.duration))
                .sum();
            let end = iteration
                .completed_at
                .or(next)
                .map_or(fold.now, to_nanoseconds)
                .min(fold.now);
            let replied = end.saturating_sub(tools);
            self.add_chat_span(key, iteration, replied, None, fold, ended);
            self.announce_calls(key, iteration);
            for call in &iteration.tool_calls {
                self.end_call_at(key, call, end, fold, ended);
            }
        }
    }

    /// A request to a model, and its reply at this time.
    fn add_chat_span(
        &mut self,
        key: &Key,
        iteration: &ThreadIteration,
        end: u64,
        error: Option<&'static str>,
        fold: &SpanFold,
        ended: &mut Vec<Span>,
    ) {
        let mark = self.marks.get(key).copied().unwrap_or(self.began);
        let request_time = iteration.started_at.map_or(mark, to_nanoseconds);
        let start = request_time
            .max(self.earliest_time(key, request_time))
            .min(end.max(self.began));
        let end = end.max(start);
        self.marks.insert(key.clone(), end);
        let metadata_value = |name: &str| iteration.metadata.get(name);
        let (provider, model) = metadata_value("model")
            .and_then(Value::as_str)
            .map(provider_and_model)
            .unzip();
        self.model = self.model.take().or_else(|| model.clone());
        let context = self.next_context("chat", key);
        let name = match &model {
            Some(model) => format!("chat {model}"),
            None => "chat".to_owned(),
        };
        let mut request = new_span(
            &context,
            &SpanParent::Own(&self.find_outer_context(key)),
            name,
            (start, end),
        );
        request.kind = SpanKind::Client as i32;
        let usage = metadata_value("usage").map(parse_usage);
        let reason = metadata_value("stop_reason").and_then(Value::as_str).map(str::to_owned);
        let attributes = SpanAttributes::default()
            .with_text("gen_ai.operation.name", "chat")
            .with_text("gen_ai.agent.name", &*self.agent)
            .with_text("gen_ai.conversation.id", &*self.run)
            .with_optional_text("gen_ai.provider.name", provider)
            .with_optional_text("gen_ai.request.model", model)
            .with_texts("gen_ai.response.finish_reasons", reason)
            .with_number("ensemble.attempt", self.attempts)
            .with_usage(usage)
            .with_optional_text("error.type", error);
        let content_attributes = fold.with_content.then(|| content::message_attributes(iteration));
        let (system, input, output) =
            content_attributes.map_or((None, None, None), |said| (said.system, said.input, said.output));
        request.attributes = attributes
            .with_optional_text("gen_ai.system_instructions", system)
            .with_optional_text("gen_ai.input.messages", input)
            .with_optional_text("gen_ai.output.messages", output)
            .0;
        request.status = error.and_then(|_| failed_status(None));
        ended.push(request);
    }

    fn announce_calls(&mut self, key: &Key, iteration: &ThreadIteration) {
        let calls = iteration.tool_calls.iter().map(|call| OpenCallSpan {
            key: key.clone(),
            call: call.clone(),
            begun_span: None,
        });
        self.calls.extend(calls);
    }

    fn start_call(&mut self, key: &Key, id: &str, now: u64) {
        let context = self.next_context("tool", key);
        let is_it = |open: &&mut OpenCallSpan| open.key == *key && open.call.id == *id && open.begun_span.is_none();
        match self.calls.iter_mut().find(is_it) {
            Some(open) => open.begun_span = Some((context, now)),
            // The reply stands in another segment.
            None => self.calls.push(OpenCallSpan {
                key: key.clone(),
                call: ToolCall::new(id, "_OTHER", Value::Null),
                begun_span: Some((context, now)),
            }),
        }
    }

    fn end_call(&mut self, key: &Key, call: &ToolCall, fold: &SpanFold, ended: &mut Vec<Span>) {
        self.end_call_at(key, call, fold.now, fold, ended);
        self.marks.insert(key.clone(), fold.now);
    }

    fn end_call_at(&mut self, key: &Key, call: &ToolCall, end: u64, fold: &SpanFold, ended: &mut Vec<Span>) {
        let is_it = |open: &OpenCallSpan| open.key == *key && open.call.id == call.id;
        let open_call = self.calls.iter().position(is_it).map(|at| self.calls.remove(at));
        let began = end.saturating_sub(seconds_to_nanoseconds(call.duration));
        let (context, began) = match open_call.and_then(|open| open.begun_span) {
            Some(begun_span) => begun_span,
            None => (
                self.next_context("tool", key),
                began.max(self.earliest_time(key, began)),
            ),
        };
        let error = match &call.end {
            Some(ToolEnd::Error(_)) => Some("tool_error"),
            Some(ToolEnd::Result(_)) => None,
            None => Some("cancelled"),
        };
        self.add_tool_span(key, call, &context, (began.min(end), end), error, fold, ended);
    }

    /// Ends the calls that were begun.
    fn close_calls(&mut self, error: &'static str, fold: &SpanFold, ended: &mut Vec<Span>) {
        for open in self.calls.split_off(0) {
            if let Some((context, began)) = open.begun_span {
                self.add_tool_span(
                    &open.key,
                    &open.call,
                    &context,
                    (began, fold.now),
                    Some(error),
                    fold,
                    ended,
                );
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is one span")]
    fn add_tool_span(
        &self,
        key: &Key,
        call: &ToolCall,
        context: &SpanContext,
        time: (u64, u64),
        error: Option<&'static str>,
        fold: &SpanFold,
        ended: &mut Vec<Span>,
    ) {
        let parent = self.find_outer_context(key);
        let mut span = new_span(
            context,
            &SpanParent::Own(&parent),
            format!("execute_tool {}", call.name),
            time,
        );
        let attributes = SpanAttributes::default()
            .with_text("gen_ai.operation.name", "execute_tool")
            .with_text("gen_ai.tool.name", &*call.name)
            .with_text("gen_ai.tool.call.id", &*call.id)
            .with_text("gen_ai.agent.name", &*self.agent)
            .with_text("gen_ai.conversation.id", &*self.run)
            .with_optional_text("error.type", error);
        let includes_result = fold.with_content && call.end.is_some();
        span.attributes = attributes
            .with_optional_text(
                "gen_ai.tool.call.arguments",
                fold.with_content.then(|| content::value_text(&call.arguments)),
            )
            .with_optional_text(
                "gen_ai.tool.call.result",
                includes_result.then(|| content::limit_length(&call.result_text())),
            )
            .0;
        span.status = error.and_then(|_| failed_status(None));
        ended.push(span);
    }
}

fn span_key(within: &AttemptScope) -> Key {
    (within.part.clone(), within.outer_calls.clone())
}

/// Returns the attributes, with those of the failure, if there is one; it is the status of the span, too.
fn with_failure(
    whole: &mut Span,
    attributes: SpanAttributes,
    failure: Option<&ExecutionFailure>,
    fold: &SpanFold,
) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
    let Some(failure) = failure else {
        return attributes.0;
    };
    whole.status = failed_status(failure_content(failure, fold).as_deref());
    attributes.with_text("error.type", failure_kind(failure)).0
}

/// Returns the provider, by its name in the conventions, and the model of `PROVIDER/MODEL`. A provider that needs no model is
/// noted alone.
fn provider_and_model(noted: &str) -> (String, String) {
    let (provider, model) = match noted.split_once('/') {
        Some(parts) => parts,
        None if list_provider_names().any(|name| name == noted) => (noted, ""),
        None => ("_OTHER", noted),
    };
    let name = match provider {
        "gemini" | "google" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        other => other,
    };
    let model = if model.is_empty() { provider } else { model };
    (name.to_owned(), model.to_owned())
}

/// Returns the tokens of one request, as an iteration notes them.
fn parse_usage(noted: &Value) -> ModelUsage {
    let tokens = |key: &str| noted[key].as_u64().unwrap_or_default();
    ModelUsage {
        input_tokens: tokens("input_tokens"),
        output_tokens: tokens("output_tokens"),
        estimated: noted["estimated"].as_bool().unwrap_or_default(),
        ..ModelUsage::default()
    }
}

fn failure_kind(failure: &ExecutionFailure) -> String {
    let kind = serde_json::to_value(failure.kind).unwrap_or_default();
    kind.as_str().unwrap_or("_OTHER").to_owned()
}

/// Returns the words of the failure, which may repeat what an agent said.
fn failure_content(failure: &ExecutionFailure, fold: &SpanFold) -> Option<String> {
    fold.with_content.then(|| content::limit_length(&failure.error))
}

fn output_content(output: Option<&Value>, fold: &SpanFold) -> Option<String> {
    output.filter(|_| fold.with_content).map(content::value_text)
}

/// Seconds in nanoseconds.
fn seconds_to_nanoseconds(seconds: f64) -> u64 {
    let duration = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
