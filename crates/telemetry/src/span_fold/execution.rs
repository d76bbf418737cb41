//! Span `invoke_agent` of an execution, with its requests to models, tool calls and parts.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{AttemptFailed, AttemptScope, Event, ExecutionFinished, PartAttemptEnded};
use ensemble_core::thread::{ThreadIteration, ToolCall, ToolCallEnd};
use ensemble_core::trace::SpanContext;
use ensemble_history::ExecutionAccount;
use ensemble_language::data::{ExecutionFailure, ModelUsage};
use ensemble_language::ensemble::list_provider_names;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event as SpanEvent, SpanKind};
use serde_json::Value;

use super::{RunSpanBuilder, to_nanoseconds};
use crate::content;
use crate::span::{SpanAttributes, SpanParent, error_status, new_internal_span, new_timed_event};

/// Scope inside of an execution: the part, and the outer tool calls.
type ScopeKey = (Option<Arc<str>>, Vec<Arc<str>>);

/// End of the span of an unfinished execution: an error, or an open question.
#[derive(Debug, Clone, Copy)]
pub(super) enum UnfinishedExecutionEnd {
    /// The execution ended with this error.
    CutOff(&'static str),
    /// The execution waits for an answer.
    WaitsForAnswer,
}

/// Open span of an execution, with its parts, calls and usage.
#[derive(Debug)]
pub(super) struct OpenExecutionSpan {
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
    /// Number of requests and calls in each scope, so that each span has its own name.
    counts: HashMap<String, u32>,
    /// Start time of the running request, by scope.
    marks: HashMap<ScopeKey, u64>,
    calls: Vec<OpenCallSpan>,
    parts: HashMap<Arc<str>, (u64, u64)>,
}

/// Span of a tool call that a reply has announced.
#[derive(Debug)]
struct OpenCallSpan {
    key: ScopeKey,
    call: ToolCall,
    /// Context and start time of the span, if the call has started.
    begun_span: Option<(SpanContext, u64)>,
}

impl OpenExecutionSpan {
    /// Creates the open span of an execution.
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

    /// Returns whether this is the span of the execution with this number.
    pub(super) fn has_agent_and_number(&self, agent: &str, number: u32) -> bool {
        *self.agent == *agent && self.number == number
    }

    /// Counts an attempt, and resets the start times of later requests.
    pub(super) fn start_attempt(&mut self, now: u64) {
        self.attempts += 1;
        self.marks.clear();
        self.marks.insert((None, Vec::new()), now);
    }

    /// Adds an event to the usage totals.
    pub(super) fn count_event(&mut self, event: &Event, at: DateTime<Utc>) {
        self.account.apply_event(event, at);
    }

    /// Returns the usage in this segment.
    pub(super) fn current_segment_usage(&self) -> ModelUsage {
        self.account.current_totals().usage
    }

    /// Adds a span event for a question to the operator.
    pub(super) fn add_question_event(&mut self, now: u64) {
        self.add_span_event("ensemble.input_requested", now, SpanAttributes::default());
    }

    /// Applies an event inside of the execution, and adds the spans that end with it to `ended`.
    pub(super) fn apply_event(&mut self, event: &Event, fold: &RunSpanBuilder, ended: &mut Vec<Span>) {
        match event {
            Event::ReplyReceived(reply) => {
                let key = scope_key(&reply.within);
                // An agent that calls a tool without a model has no request.
                if !reply.iteration.messages.is_empty() {
                    self.add_chat_span(&key, &reply.iteration, fold.now, None, fold, ended);
                }
                self.announce_calls(&key, &reply.iteration);
            }
            Event::RequestStopped(stopped) if stopped.iteration.messages.is_empty() => {}
            Event::RequestStopped(stopped) => {
                let key = scope_key(&stopped.within);
                self.add_chat_span(&key, &stopped.iteration, fold.now, Some("cancelled"), fold, ended);
            }
            Event::ToolCallStarted(started) => self.start_call(&scope_key(&started.within), &started.call, fold.now),
            Event::ToolCallEnded(call) => self.end_call(&scope_key(&call.within), &call.call, fold, ended),
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

    /// Adds the spans of the attempt and a span event with its failure.
    pub(super) fn apply_failed_attempt(
        &mut self,
        attempt: &AttemptFailed,
        fold: &RunSpanBuilder,
        ended: &mut Vec<Span>,
    ) {
        self.add_iterations(&(None, Vec::new()), &attempt.exchange, fold, ended);
        let attributes = SpanAttributes::default()
            .with_number("ensemble.attempt", u64::from(attempt.attempt))
            .with_text("error.type", failure_kind(&attempt.failure))
            .with_optional_text("exception.message", failure_content(&attempt.failure, fold));
        self.add_span_event("ensemble.attempt_failed", fold.now, attributes);
        self.close_started_calls("cancelled", fold, ended);
    }

    /// Adds the spans of an attempt of a part; after the last attempt, also the span of the part.
    pub(super) fn apply_part_attempt_end(
        &mut self,
        part: &PartAttemptEnded,
        fold: &RunSpanBuilder,
        ended: &mut Vec<Span>,
    ) {
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
        let mut span = new_internal_span(
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

    /// Ends the execution, and adds its span to `ended`.
    pub(super) fn finish_execution(
        mut self,
        end: &ExecutionFinished,
        fold: &mut RunSpanBuilder,
        ended: &mut Vec<Span>,
    ) {
        self.add_iterations(&(None, Vec::new()), &end.exchange, fold, ended);
        self.close_started_calls("cancelled", fold, ended);
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
        fold.store_execution_span(&self);
    }

    /// Ends the span of an execution that is still open at the end of the segment.
    pub(super) fn close_at_segment_end(
        mut self,
        ending: UnfinishedExecutionEnd,
        fold: &mut RunSpanBuilder,
        ended: &mut Vec<Span>,
    ) {
        let error = match ending {
            UnfinishedExecutionEnd::CutOff(error) => Some(error),
            UnfinishedExecutionEnd::WaitsForAnswer => None,
        };
        self.close_started_calls(error.unwrap_or("cancelled"), fold, ended);
        let mut span = self.build_span(fold);
        span.attributes = self.total_attributes().with_optional_text("error.type", error).0;
        span.status = error.and_then(|_| error_status(None));
        ended.push(span);
        fold.store_execution_span(&self);
    }

    /// Builds the span with its events.
    fn build_span(&mut self, fold: &RunSpanBuilder) -> Span {
        let name = format!("invoke_agent {}", self.agent);
        let mut span = new_internal_span(
            &self.context,
            &SpanParent::Own(&self.parent),
            name,
            (self.began, fold.now),
        );
        span.events = std::mem::take(&mut self.events);
        span
    }

    /// Creates the attributes that identify the execution.
    fn identity_attributes(&self) -> SpanAttributes {
        SpanAttributes::default()
            .with_text("gen_ai.operation.name", "invoke_agent")
            .with_text("gen_ai.agent.name", &*self.agent)
            .with_text("gen_ai.conversation.id", &*self.run)
            .with_number("ensemble.turn", u64::from(self.turn))
            .with_number("ensemble.execution", u64::from(self.number))
    }

    /// Creates the attributes of the execution with its totals.
    fn total_attributes(&self) -> SpanAttributes {
        self.identity_attributes()
            .with_number("ensemble.attempts", self.attempts)
            .with_optional_text("gen_ai.request.model", self.model.clone())
            .with_usage(Some(self.current_segment_usage()))
    }

    /// Returns the span context of a part.
    fn part_context(&self, key: &str) -> SpanContext {
        self.context.child_span(&format!("part {key}"))
    }

    /// Returns the context of the span around this scope: a call, a part, or the execution.
    fn find_outer_context(&self, key: &ScopeKey) -> SpanContext {
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

    /// Returns the context of the next span of this kind in the scope.
    fn next_child_context(&mut self, kind: &str, key: &ScopeKey) -> SpanContext {
        let place = format!("{kind} {:?} {:?}", key.0, key.1);
        let count = self.counts.entry(place.clone()).or_default();
        *count += 1;
        self.context.child_span(&format!("{place} {count}"))
    }

    /// Adds an event to the span.
    fn add_span_event(&mut self, name: &str, at: u64, attributes: SpanAttributes) {
        self.events.push(new_timed_event(name, at, attributes));
    }

    /// Returns the earliest start time of a span in the part, or in the execution. Sets the start of an unknown part.
    fn earliest_start_time(&mut self, key: &ScopeKey, at: u64) -> u64 {
        let Some(part) = &key.0 else { return self.began };
        let began = self.parts.entry(part.clone()).or_insert((at.max(self.began), 0));
        began.0
    }

    /// Adds the spans of iterations that earlier records do not contain.
    fn add_iterations(
        &mut self,
        key: &ScopeKey,
        iterations: &[ThreadIteration],
        fold: &RunSpanBuilder,
        ended: &mut Vec<Span>,
    ) {
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

    /// Adds the span of a request to a model, whose reply arrived at `end`.
    fn add_chat_span(
        &mut self,
        key: &ScopeKey,
        iteration: &ThreadIteration,
        end: u64,
        error: Option<&'static str>,
        fold: &RunSpanBuilder,
        ended: &mut Vec<Span>,
    ) {
        let mark = self.marks.get(key).copied().unwrap_or(self.began);
        let request_time = iteration.started_at.map_or(mark, to_nanoseconds);
        let start = request_time
            .max(self.earliest_start_time(key, request_time))
            .min(end.max(self.began));
        let end = end.max(start);
        self.marks.insert(key.clone(), end);
        let metadata_value = |name: &str| iteration.metadata.get(name);
        let (provider, model) = metadata_value("model")
            .and_then(Value::as_str)
            .map(provider_and_model)
            .unzip();
        self.model = self.model.take().or_else(|| model.clone());
        let context = self.next_child_context("chat", key);
        let name = match &model {
            Some(model) => format!("chat {model}"),
            None => "chat".to_owned(),
        };
        let mut request = new_internal_span(
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
        request.status = error.and_then(|_| error_status(None));
        ended.push(request);
    }

    /// Registers the tool calls of a reply.
    fn announce_calls(&mut self, key: &ScopeKey, iteration: &ThreadIteration) {
        let calls = iteration.tool_calls.iter().map(|call| OpenCallSpan {
            key: key.clone(),
            call: call.clone(),
            begun_span: None,
        });
        self.calls.extend(calls);
    }

    /// Starts the span of a tool call.
    fn start_call(&mut self, key: &ScopeKey, id: &str, now: u64) {
        let context = self.next_child_context("tool", key);
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

    /// Ends the span of a tool call now.
    fn end_call(&mut self, key: &ScopeKey, call: &ToolCall, fold: &RunSpanBuilder, ended: &mut Vec<Span>) {
        self.end_call_at(key, call, fold.now, fold, ended);
        self.marks.insert(key.clone(), fold.now);
    }

    /// Ends the span of a tool call at this time.
    fn end_call_at(&mut self, key: &ScopeKey, call: &ToolCall, end: u64, fold: &RunSpanBuilder, ended: &mut Vec<Span>) {
        let is_it = |open: &OpenCallSpan| open.key == *key && open.call.id == call.id;
        let open_call = self.calls.iter().position(is_it).map(|at| self.calls.remove(at));
        let began = end.saturating_sub(seconds_to_nanoseconds(call.duration));
        let (context, began) = match open_call.and_then(|open| open.begun_span) {
            Some(begun_span) => begun_span,
            None => (
                self.next_child_context("tool", key),
                began.max(self.earliest_start_time(key, began)),
            ),
        };
        let error = match &call.end {
            Some(ToolCallEnd::Error(_)) => Some("tool_error"),
            Some(ToolCallEnd::Result(_)) => None,
            None => Some("cancelled"),
        };
        self.add_tool_span(key, call, &context, (began.min(end), end), error, fold, ended);
    }

    /// Ends the spans of started calls with this error.
    fn close_started_calls(&mut self, error: &'static str, fold: &RunSpanBuilder, ended: &mut Vec<Span>) {
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

    /// Adds the span of a tool call.
    #[expect(clippy::too_many_arguments, reason = "all of it is one span")]
    fn add_tool_span(
        &self,
        key: &ScopeKey,
        call: &ToolCall,
        context: &SpanContext,
        time: (u64, u64),
        error: Option<&'static str>,
        fold: &RunSpanBuilder,
        ended: &mut Vec<Span>,
    ) {
        let parent = self.find_outer_context(key);
        let mut span = new_internal_span(
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
                fold.with_content.then(|| content::limited_value_text(&call.arguments)),
            )
            .with_optional_text(
                "gen_ai.tool.call.result",
                includes_result.then(|| content::limit_length(&call.text_for_model())),
            )
            .0;
        span.status = error.and_then(|_| error_status(None));
        ended.push(span);
    }
}

/// Returns the part and the outer calls of a scope.
fn scope_key(within: &AttemptScope) -> ScopeKey {
    (within.part.clone(), within.outer_calls.clone())
}

/// Sets the status of the span to the failure, if there is one, and returns the attributes with those of the failure.
fn with_failure(
    whole: &mut Span,
    attributes: SpanAttributes,
    failure: Option<&ExecutionFailure>,
    fold: &RunSpanBuilder,
) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
    let Some(failure) = failure else {
        return attributes.0;
    };
    whole.status = error_status(failure_content(failure, fold).as_deref());
    attributes.with_text("error.type", failure_kind(failure)).0
}

/// Splits `PROVIDER/MODEL` into the provider name of the conventions and the model. A provider that needs no model is
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

/// Parses the tokens of one request in the metadata of an iteration.
fn parse_usage(noted: &Value) -> ModelUsage {
    let tokens = |key: &str| noted[key].as_u64().unwrap_or_default();
    ModelUsage {
        input_tokens: tokens("input_tokens"),
        output_tokens: tokens("output_tokens"),
        estimated: noted["estimated"].as_bool().unwrap_or_default(),
        ..ModelUsage::default()
    }
}

/// Returns the name of the failure kind in the journal.
fn failure_kind(failure: &ExecutionFailure) -> String {
    let kind = serde_json::to_value(failure.kind).unwrap_or_default();
    kind.as_str().unwrap_or("_OTHER").to_owned()
}

/// Returns the error message, if content is included, because it can repeat an output.
fn failure_content(failure: &ExecutionFailure, fold: &RunSpanBuilder) -> Option<String> {
    fold.with_content.then(|| content::limit_length(&failure.error))
}

/// Returns the output as text, if content is included.
fn output_content(output: Option<&Value>, fold: &RunSpanBuilder) -> Option<String> {
    output.filter(|_| fold.with_content).map(content::limited_value_text)
}

/// Converts seconds to nanoseconds.
fn seconds_to_nanoseconds(seconds: f64) -> u64 {
    let duration = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
