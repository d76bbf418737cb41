//! The span `invoke_agent`: an execution, with its requests to models, its calls of tools and its parts.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{AttemptFailed, Event, ExecutionFinished, PartEnded, Within};
use ensemble_core::thread::{Iteration, ToolCall, ToolEnd};
use ensemble_core::trace::SpanContext;
use ensemble_history::ExecutionAccount;
use ensemble_language::data::{Failure, Usage};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event as SpanEvent, SpanKind};
use serde_json::Value;

use super::{Fold, nanos};
use crate::content;
use crate::span::{Attributes, Parent, event, failed, span};

/// Where inside an execution: the part, and the calls around it.
type Key = (Option<Arc<str>>, Vec<Arc<str>>);

/// The end of an execution that has no end of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    /// With this error.
    Cut(&'static str),
    /// It waits for an answer.
    Waits,
}

/// An execution that has not ended.
#[derive(Debug)]
pub(super) struct OpenExecution {
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
    calls: Vec<OpenCall>,
    parts: HashMap<Arc<str>, (u64, u64)>,
}

/// A call of a tool that was announced by a reply.
#[derive(Debug)]
struct OpenCall {
    key: Key,
    call: ToolCall,
    /// Its span, and when it began; `None`: it has not begun.
    begun: Option<(SpanContext, u64)>,
}

impl OpenExecution {
    pub(super) fn new(place: &Within, context: SpanContext, parent: SpanContext, run: Arc<str>, now: u64) -> Self {
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

    pub(super) fn is(&self, agent: &str, number: u32) -> bool {
        *self.agent == *agent && self.number == number
    }

    pub(super) fn begin_attempt(&mut self, now: u64) {
        self.attempts += 1;
        self.marks.clear();
        self.marks.insert((None, Vec::new()), now);
    }

    /// Adds an event to the account.
    pub(super) fn count(&mut self, event: &Event, at: DateTime<Utc>) {
        self.account.apply(event, at);
    }

    /// Returns the usage in this segment.
    pub(super) fn usage(&self) -> Usage {
        self.account.totals().usage
    }

    pub(super) fn asked(&mut self, now: u64) {
        self.note("ensemble.input_requested", now, Attributes::default());
    }

    /// Takes an event that happened inside.
    pub(super) fn take(&mut self, event: &Event, fold: &Fold, ended: &mut Vec<Span>) {
        match event {
            Event::ReplyReceived(reply) => {
                let key = key(&reply.within);
                // An agent that calls a tool without a model has no request.
                if !reply.iteration.messages.is_empty() {
                    self.chat(&key, &reply.iteration, fold.now, None, fold, ended);
                }
                self.announce(&key, &reply.iteration);
            }
            Event::RequestStopped(stopped) if stopped.iteration.messages.is_empty() => {}
            Event::RequestStopped(stopped) => {
                let key = key(&stopped.within);
                self.chat(&key, &stopped.iteration, fold.now, Some("cancelled"), fold, ended);
            }
            Event::ToolCallStarted(started) => self.call_started(&key(&started.within), &started.call, fold.now),
            Event::ToolCallEnded(call) => self.call_ended(&key(&call.within), &call.call, fold, ended),
            Event::PermissionDecided(decided) => {
                let decision = serde_json::to_value(decided.decision).unwrap_or_default();
                let attributes = Attributes::default()
                    .text("gen_ai.tool.name", &*decided.tool)
                    .text("gen_ai.tool.call.id", &*decided.call)
                    .text("ensemble.decision", decision.as_str().unwrap_or_default());
                self.note("ensemble.permission_decided", fold.now, attributes);
            }
            _ => {}
        }
    }

    pub(super) fn attempt_failed(&mut self, attempt: &AttemptFailed, fold: &Fold, ended: &mut Vec<Span>) {
        self.exchange(&(None, Vec::new()), &attempt.exchange, fold, ended);
        let attributes = Attributes::default()
            .number("ensemble.attempt", u64::from(attempt.attempt))
            .text("error.type", kind(&attempt.failure))
            .maybe("exception.message", content_of(&attempt.failure, fold));
        self.note("ensemble.attempt_failed", fold.now, attributes);
        self.cut_calls("cancelled", fold, ended);
    }

    pub(super) fn part_ended(&mut self, part: &PartEnded, fold: &Fold, ended: &mut Vec<Span>) {
        let key = (Some(part.key.clone()), Vec::new());
        let took = seconds(part.execution_time);
        let began = fold.now.saturating_sub(took).max(self.began);
        let (began, attempts) = *self.parts.entry(part.key.clone()).or_insert((began, 0));
        self.parts.insert(part.key.clone(), (began, attempts + 1));
        self.exchange(&key, &part.exchange, fold, ended);
        if !part.is_final() {
            return;
        }
        let context = self.part(&part.key);
        let mut whole = span(
            &context,
            &Parent::Own(&self.context),
            format!("invoke_agent {}", self.agent),
            (began, fold.now),
        );
        let failure = part.failure();
        let attributes = self
            .named()
            .number("ensemble.part", u64::from(part.part))
            .number("ensemble.parts", u64::from(part.count))
            .number("ensemble.attempts", attempts + 1)
            .flag("ensemble.reused", part.reused)
            .maybe("ensemble.part.key", fold.with_content.then(|| content::cut(&part.key)))
            .usage(part.usage)
            .maybe("ensemble.output", output(part.output().map(|output| &**output), fold));
        whole.attributes = ended_with(&mut whole, attributes, failure, fold);
        ended.push(whole);
    }

    /// The end of the execution.
    pub(super) fn finish(mut self, end: &ExecutionFinished, fold: &mut Fold, ended: &mut Vec<Span>) {
        self.exchange(&(None, Vec::new()), &end.exchange, fold, ended);
        self.cut_calls("cancelled", fold, ended);
        let attributes = self
            .summed()
            .flag("ensemble.reused", end.reused)
            .maybe("ensemble.output", output(end.output().map(|output| &**output), fold));
        let mut whole = self.whole(fold);
        whole.attributes = ended_with(&mut whole, attributes, end.failure(), fold);
        ended.push(whole);
        fold.place(&self);
    }

    /// The end of the segment comes before that of the execution.
    pub(super) fn cut(mut self, ending: Ending, fold: &mut Fold, ended: &mut Vec<Span>) {
        let error = match ending {
            Ending::Cut(error) => Some(error),
            Ending::Waits => None,
        };
        self.cut_calls(error.unwrap_or("cancelled"), fold, ended);
        let mut whole = self.whole(fold);
        whole.attributes = self.summed().maybe("error.type", error).0;
        whole.status = error.and_then(|_| failed(None));
        ended.push(whole);
        fold.place(&self);
    }

    fn whole(&mut self, fold: &Fold) -> Span {
        let name = format!("invoke_agent {}", self.agent);
        let mut whole = span(&self.context, &Parent::Own(&self.parent), name, (self.began, fold.now));
        whole.events = std::mem::take(&mut self.events);
        whole
    }

    fn named(&self) -> Attributes {
        Attributes::default()
            .text("gen_ai.operation.name", "invoke_agent")
            .text("gen_ai.agent.name", &*self.agent)
            .text("gen_ai.conversation.id", &*self.run)
            .number("ensemble.turn", u64::from(self.turn))
            .number("ensemble.execution", u64::from(self.number))
    }

    fn summed(&self) -> Attributes {
        self.named()
            .number("ensemble.attempts", self.attempts)
            .maybe("gen_ai.request.model", self.model.clone())
            .usage(Some(self.usage()))
    }

    fn part(&self, key: &str) -> SpanContext {
        self.context.child(&format!("part {key}"))
    }

    /// The span around this place: a call, a part, or the execution itself.
    fn around(&self, key: &Key) -> SpanContext {
        let call = key.1.split_last().and_then(|(call, outer)| {
            let outer = (key.0.clone(), outer.to_vec());
            let is_it = |open: &&OpenCall| open.key == outer && *open.call.id == **call;
            let found = self.calls.iter().find(is_it)?;
            found.begun.as_ref().map(|(context, _)| context.clone())
        });
        let part = || {
            key.0
                .as_ref()
                .map_or_else(|| self.context.clone(), |part| self.part(part))
        };
        call.unwrap_or_else(part)
    }

    /// A span that is the next of its kind at this place.
    fn next(&mut self, kind: &str, key: &Key) -> SpanContext {
        let place = format!("{kind} {:?} {:?}", key.0, key.1);
        let count = self.counts.entry(place.clone()).or_default();
        *count += 1;
        self.context.child(&format!("{place} {count}"))
    }

    fn note(&mut self, name: &str, at: u64, attributes: Attributes) {
        self.events.push(event(name, at, attributes));
    }

    /// The earliest time of something that is in a part, or in the execution.
    fn earliest(&mut self, key: &Key, at: u64) -> u64 {
        let Some(part) = &key.0 else { return self.began };
        let began = self.parts.entry(part.clone()).or_insert((at.max(self.began), 0));
        began.0
    }

    /// Iterations that no record has shown before.
    fn exchange(&mut self, key: &Key, iterations: &[Iteration], fold: &Fold, ended: &mut Vec<Span>) {
        for (at, iteration) in iterations.iter().enumerate() {
            let next = iterations.get(at + 1).and_then(|next| next.started_at);
            let tools: u64 = iteration.tool_calls.iter().map(|call| seconds(call.duration)).sum();
            let end = iteration.completed_at.or(next).map_or(fold.now, nanos).min(fold.now);
            let replied = end.saturating_sub(tools);
            self.chat(key, iteration, replied, None, fold, ended);
            self.announce(key, iteration);
            for call in &iteration.tool_calls {
                self.call_ended_at(key, call, end, fold, ended);
            }
        }
    }

    /// A request to a model, and its reply at this time.
    fn chat(
        &mut self,
        key: &Key,
        iteration: &Iteration,
        end: u64,
        error: Option<&'static str>,
        fold: &Fold,
        ended: &mut Vec<Span>,
    ) {
        let mark = self.marks.get(key).copied().unwrap_or(self.began);
        let asked = iteration.started_at.map_or(mark, nanos);
        let start = asked.max(self.earliest(key, asked)).min(end.max(self.began));
        let end = end.max(start);
        self.marks.insert(key.clone(), end);
        let noted = |name: &str| iteration.metadata.get(name);
        let (provider, model) = noted("model").and_then(Value::as_str).map(answered_by).unzip();
        self.model = self.model.take().or_else(|| model.clone());
        let context = self.next("chat", key);
        let name = match &model {
            Some(model) => format!("chat {model}"),
            None => "chat".to_owned(),
        };
        let mut request = span(&context, &Parent::Own(&self.around(key)), name, (start, end));
        request.kind = SpanKind::Client as i32;
        let usage = noted("usage").map(used);
        let reason = noted("stop_reason").and_then(Value::as_str).map(str::to_owned);
        let attributes = Attributes::default()
            .text("gen_ai.operation.name", "chat")
            .text("gen_ai.agent.name", &*self.agent)
            .text("gen_ai.conversation.id", &*self.run)
            .maybe("gen_ai.provider.name", provider)
            .maybe("gen_ai.request.model", model)
            .texts("gen_ai.response.finish_reasons", reason)
            .number("ensemble.attempt", self.attempts)
            .usage(usage)
            .maybe("error.type", error);
        let said = fold.with_content.then(|| content::said(iteration));
        let (system, input, output) = said.map_or((None, None, None), |said| (said.system, said.input, said.output));
        request.attributes = attributes
            .maybe("gen_ai.system_instructions", system)
            .maybe("gen_ai.input.messages", input)
            .maybe("gen_ai.output.messages", output)
            .0;
        request.status = error.and_then(|_| failed(None));
        ended.push(request);
    }

    fn announce(&mut self, key: &Key, iteration: &Iteration) {
        let calls = iteration.tool_calls.iter().map(|call| OpenCall {
            key: key.clone(),
            call: call.clone(),
            begun: None,
        });
        self.calls.extend(calls);
    }

    fn call_started(&mut self, key: &Key, id: &str, now: u64) {
        let context = self.next("tool", key);
        let is_it = |open: &&mut OpenCall| open.key == *key && open.call.id == *id && open.begun.is_none();
        match self.calls.iter_mut().find(is_it) {
            Some(open) => open.begun = Some((context, now)),
            // The reply stands in another segment.
            None => self.calls.push(OpenCall {
                key: key.clone(),
                call: ToolCall::new(id, "_OTHER", Value::Null),
                begun: Some((context, now)),
            }),
        }
    }

    fn call_ended(&mut self, key: &Key, call: &ToolCall, fold: &Fold, ended: &mut Vec<Span>) {
        self.call_ended_at(key, call, fold.now, fold, ended);
        self.marks.insert(key.clone(), fold.now);
    }

    fn call_ended_at(&mut self, key: &Key, call: &ToolCall, end: u64, fold: &Fold, ended: &mut Vec<Span>) {
        let is_it = |open: &OpenCall| open.key == *key && open.call.id == call.id;
        let found = self.calls.iter().position(is_it).map(|at| self.calls.remove(at));
        let began = end.saturating_sub(seconds(call.duration));
        let (context, began) = match found.and_then(|open| open.begun) {
            Some(begun) => begun,
            None => (self.next("tool", key), began.max(self.earliest(key, began))),
        };
        let error = match &call.end {
            Some(ToolEnd::Error(_)) => Some("tool_error"),
            Some(ToolEnd::Result(_)) => None,
            None => Some("cancelled"),
        };
        self.tool(key, call, &context, (began.min(end), end), error, fold, ended);
    }

    /// Ends the calls that were begun.
    fn cut_calls(&mut self, error: &'static str, fold: &Fold, ended: &mut Vec<Span>) {
        for open in self.calls.split_off(0) {
            if let Some((context, began)) = open.begun {
                self.tool(
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
    fn tool(
        &self,
        key: &Key,
        call: &ToolCall,
        context: &SpanContext,
        time: (u64, u64),
        error: Option<&'static str>,
        fold: &Fold,
        ended: &mut Vec<Span>,
    ) {
        let parent = self.around(key);
        let mut whole = span(
            context,
            &Parent::Own(&parent),
            format!("execute_tool {}", call.name),
            time,
        );
        let attributes = Attributes::default()
            .text("gen_ai.operation.name", "execute_tool")
            .text("gen_ai.tool.name", &*call.name)
            .text("gen_ai.tool.call.id", &*call.id)
            .text("gen_ai.agent.name", &*self.agent)
            .text("gen_ai.conversation.id", &*self.run)
            .maybe("error.type", error);
        let told = fold.with_content && call.end.is_some();
        whole.attributes = attributes
            .maybe(
                "gen_ai.tool.call.arguments",
                fold.with_content.then(|| content::value(&call.arguments)),
            )
            .maybe("gen_ai.tool.call.result", told.then(|| content::cut(&call.told())))
            .0;
        whole.status = error.and_then(|_| failed(None));
        ended.push(whole);
    }
}

fn key(within: &Within) -> Key {
    (within.part.clone(), within.inside.clone())
}

/// The attributes, with those of the failure, if there is one; it is the status of the span, too.
fn ended_with(
    whole: &mut Span,
    attributes: Attributes,
    failure: Option<&Failure>,
    fold: &Fold,
) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
    let Some(failure) = failure else {
        return attributes.0;
    };
    whole.status = failed(content_of(failure, fold).as_deref());
    attributes.text("error.type", kind(failure)).0
}

/// The provider, by its name in the conventions, and the model of `PROVIDER/MODEL`.
fn answered_by(noted: &str) -> (String, String) {
    let (provider, model) = noted.split_once('/').unwrap_or(("_OTHER", noted));
    let name = match provider {
        "gemini" | "google" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        other => other,
    };
    let model = if model.is_empty() { provider } else { model };
    (name.to_owned(), model.to_owned())
}

/// The tokens of one request, as an iteration notes them.
fn used(noted: &Value) -> Usage {
    let tokens = |key: &str| noted[key].as_u64().unwrap_or_default();
    Usage {
        input_tokens: tokens("input_tokens"),
        output_tokens: tokens("output_tokens"),
        estimated: noted["estimated"].as_bool().unwrap_or_default(),
        ..Usage::default()
    }
}

fn kind(failure: &Failure) -> String {
    let kind = serde_json::to_value(failure.kind).unwrap_or_default();
    kind.as_str().unwrap_or("_OTHER").to_owned()
}

/// The words of the failure, which may repeat what an agent said.
fn content_of(failure: &Failure, fold: &Fold) -> Option<String> {
    fold.with_content.then(|| content::cut(&failure.error))
}

fn output(output: Option<&Value>, fold: &Fold) -> Option<String> {
    output.filter(|_| fold.with_content).map(content::value)
}

/// Seconds in nanoseconds.
fn seconds(seconds: f64) -> u64 {
    let whole = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX)
}
