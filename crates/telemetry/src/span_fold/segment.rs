//! Span `invoke_workflow` of a segment: a run, or the part of a run after a resumption or a message.

use std::sync::Arc;

use chrono::DateTime;
use ensemble_core::conversation::{AttemptScope, CompletionReason, Event, RunEnded, RunStarted};
use ensemble_core::trace::{SpanContext, TraceParent};
use ensemble_language::data::ModelUsage;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event as SpanEvent, Link};

use super::RunSpanBuilder;
use super::execution::{OpenExecutionSpan, UnfinishedExecutionEnd};
use crate::content;
use crate::span::{SpanAttributes, SpanParent, error_status, new_internal_span, new_span_link, new_timed_event};

/// First record of a segment: a start, a resumption, or a message.
#[derive(Debug)]
pub(super) enum SegmentStart {
    /// The run starts.
    Started,
    /// The run continues after an interruption.
    Resumed,
    /// A message continues the run after its end.
    Continued(Arc<str>),
}

/// Open span of a segment.
#[derive(Debug)]
pub(super) struct SegmentSpan {
    context: SpanContext,
    outer: Option<SpanContext>,
    start: SegmentStart,
    run_id: Arc<str>,
    ensemble: Arc<str>,
    digest: String,
    input: Arc<str>,
    began: u64,
    links: Vec<Link>,
    events: Vec<SpanEvent>,
    turns: u64,
    executions: u64,
    usage: ModelUsage,
    open: Vec<OpenExecutionSpan>,
}

impl SegmentSpan {
    /// Creates the open span of the segment that starts with record `seq`.
    pub(super) fn new(
        started: &RunStarted,
        seq: u64,
        outer: Option<SpanContext>,
        start: SegmentStart,
        now: u64,
    ) -> Self {
        let run_id = started.run_id.clone();
        let links = origin_links(started, seq);
        Self {
            context: SpanContext::for_segment(&run_id, seq, outer.as_ref()),
            outer,
            start,
            run_id,
            ensemble: started.ensemble.clone(),
            digest: started.ensemble_digest.clone(),
            input: started.input.clone(),
            began: now,
            links,
            events: Vec::new(),
            turns: 0,
            executions: 0,
            usage: ModelUsage::default(),
            open: Vec::new(),
        }
    }

    /// Applies an event, and adds the spans that end with it to `ended`.
    pub(super) fn apply_event(&mut self, event: &Event, fold: &mut RunSpanBuilder, ended: &mut Vec<Span>) {
        if let Some(place) = find_attempt_scope(event) {
            let at = DateTime::from_timestamp_nanos(i64::try_from(fold.now).unwrap_or(i64::MAX));
            self.open_execution_or_new(&place, fold.now).count_event(event, at);
        }
        if let Some(within) = event.attempt_scope() {
            let execution = self.open_execution_or_new(within, fold.now);
            execution.apply_event(event, fold, ended);
            return;
        }
        match event {
            Event::TurnStarted(_) => self.turns += 1,
            Event::ExecutionStarted(started) => {
                let place = scope_of_execution(started.turn, &started.agent, started.execution);
                self.open_execution_or_new(&place, fold.now).start_attempt(fold.now);
            }
            Event::AttemptFailed(failed) => {
                let place = scope_of_execution(failed.turn, &failed.agent, failed.execution);
                self.open_execution_or_new(&place, fold.now)
                    .apply_failed_attempt(failed, fold, ended);
            }
            Event::PartEnded(part) => {
                let place = scope_of_execution(part.turn, &part.agent, part.execution);
                self.open_execution_or_new(&place, fold.now)
                    .apply_part_attempt_end(part, fold, ended);
            }
            Event::ExecutionFinished(finished) => {
                let place = scope_of_execution(finished.turn, &finished.agent, finished.execution);
                self.open_execution_or_new(&place, fold.now);
                let open_index = self
                    .open
                    .iter()
                    .position(|open| open.has_agent_and_number(&place.agent, place.execution));
                if let Some(open_index) = open_index {
                    let execution = self.open.remove(open_index);
                    self.usage = self.usage + execution.current_segment_usage();
                    execution.finish_execution(finished, fold, ended);
                }
            }
            Event::InputRequested(asked) => {
                let place = scope_of_execution(asked.turn, &asked.agent, asked.execution);
                self.open_execution_or_new(&place, fold.now)
                    .add_question_event(fold.now);
            }
            Event::Interrupted(_) => self.add_span_event("ensemble.interrupted", fold.now),
            Event::MessageAdded(_) => self.add_span_event("ensemble.message_added", fold.now),
            Event::ContextSet(_) => self.add_span_event("ensemble.context_set", fold.now),
            _ => {}
        }
    }

    /// Ends the segment with the end of the run.
    pub(super) fn close_with_run_end(self, end: &RunEnded, fold: &mut RunSpanBuilder, ended: &mut Vec<Span>) {
        let reason = end.completion_reason;
        let error = match reason {
            CompletionReason::Cancelled => Some("cancelled"),
            CompletionReason::Timeout => Some("timeout"),
            CompletionReason::AgentFailed => Some("agent_failed"),
            CompletionReason::ConditionFailed => Some("condition_failed"),
            CompletionReason::Unsuccessful => Some("unsuccessful"),
            limit if limit.is_limit() && !end.is_success() => Some(limit.as_str()),
            _ => None,
        };
        let detail = end.detail.as_deref().filter(|_| fold.with_content);
        let open = match reason {
            CompletionReason::Timeout => UnfinishedExecutionEnd::CutOff("timeout"),
            CompletionReason::WaitingForInput => UnfinishedExecutionEnd::WaitsForAnswer,
            _ => UnfinishedExecutionEnd::CutOff("cancelled"),
        };
        let more = SpanAttributes::default().with_text("ensemble.completion_reason", reason.as_str());
        let more = more.with_flag("ensemble.success", end.is_success());
        self.finish_segment(open, error, detail, more, fold, ended);
    }

    /// Ends a segment without an end: the process was killed, the journal failed, or the run continues.
    pub(super) fn close_without_end(self, fold: &mut RunSpanBuilder, ended: &mut Vec<Span>) {
        let more = SpanAttributes::default().with_flag("ensemble.unfinished", true);
        self.finish_segment(
            UnfinishedExecutionEnd::CutOff("unfinished"),
            Some("unfinished"),
            None,
            more,
            fold,
            ended,
        );
    }

    /// Ends the open executions, and adds the span of the segment to `ended`.
    fn finish_segment(
        mut self,
        open: UnfinishedExecutionEnd,
        error: Option<&'static str>,
        detail: Option<&str>,
        more: SpanAttributes,
        fold: &mut RunSpanBuilder,
        ended: &mut Vec<Span>,
    ) {
        for execution in std::mem::take(&mut self.open) {
            self.usage = self.usage + execution.current_segment_usage();
            execution.close_at_segment_end(open, fold, ended);
        }
        let is_inside = fold.is_inside || self.run_id.contains("/sub/");
        let parent = match &self.outer {
            None => SpanParent::None,
            Some(outer) if is_inside => SpanParent::Own(outer),
            Some(outer) => SpanParent::Remote(outer),
        };
        let mut segment_span = new_internal_span(
            &self.context,
            &parent,
            format!("invoke_workflow {}", self.ensemble),
            (self.began, fold.now),
        );
        let attributes = SpanAttributes::default()
            .with_text("gen_ai.operation.name", "invoke_workflow")
            .with_text("gen_ai.workflow.name", &*self.ensemble)
            .with_text("gen_ai.conversation.id", &*self.run_id)
            .with_text("ensemble.digest", &*self.digest)
            .with_number("ensemble.turns", self.turns)
            .with_number("ensemble.executions", self.executions);
        let user_message = match &self.start {
            SegmentStart::Started => Some(&self.input),
            SegmentStart::Continued(text) => Some(text),
            SegmentStart::Resumed => None,
        };
        let user_message = user_message.filter(|said| fold.with_content && !said.is_empty());
        let mut attributes = attributes
            .with_optional_text(
                "gen_ai.input.messages",
                user_message.map(|said| content::single_message_json("user", said)),
            )
            .with_usage(Some(self.usage))
            .with_optional_text("error.type", error);
        attributes.0.extend(more.0);
        segment_span.attributes = attributes.0;
        segment_span.links = self.links;
        segment_span.events = self.events;
        segment_span.status = error.and_then(|_| error_status(detail));
        ended.push(segment_span);
    }

    /// Returns the open execution of this scope, or opens it now.
    fn open_execution_or_new(&mut self, place: &AttemptScope, now: u64) -> &mut OpenExecutionSpan {
        let open_index = self
            .open
            .iter()
            .position(|open| open.has_agent_and_number(&place.agent, place.execution));
        let at = match open_index {
            Some(at) => at,
            None => {
                self.executions += 1;
                let context = self.context.execution_span(&place.agent, place.execution);
                let parent = self.context.clone();
                let run = self.run_id.clone();
                self.open.push(OpenExecutionSpan::new(place, context, parent, run, now));
                self.open.len() - 1
            }
        };
        &mut self.open[at]
    }

    /// Adds an event without attributes to the span.
    fn add_span_event(&mut self, name: &str, now: u64) {
        self.events.push(new_timed_event(name, now, SpanAttributes::default()));
    }
}

/// Returns the scope of an event inside of an execution: of an attempt, a part or a call. Returns `None` for other events.
fn find_attempt_scope(event: &Event) -> Option<AttemptScope> {
    if let Some(within) = event.attempt_scope() {
        return Some(scope_of_execution(within.turn, &within.agent, within.execution));
    }
    match event {
        Event::ExecutionStarted(event) => Some(scope_of_execution(event.turn, &event.agent, event.execution)),
        Event::AttemptFailed(event) => Some(scope_of_execution(event.turn, &event.agent, event.execution)),
        Event::PartEnded(event) => Some(scope_of_execution(event.turn, &event.agent, event.execution)),
        Event::ExecutionFinished(event) => Some(scope_of_execution(event.turn, &event.agent, event.execution)),
        Event::InputRequested(event) => Some(scope_of_execution(event.turn, &event.agent, event.execution)),
        _ => None,
    }
}

/// Creates the scope of an execution without parts and calls.
fn scope_of_execution(turn: u32, agent: &Arc<str>, execution: u32) -> AttemptScope {
    AttemptScope {
        turn,
        agent: agent.clone(),
        execution,
        ..AttemptScope::default()
    }
}

/// Creates links to the origin of the segment: the start of its run, or the runs from which it was forked or merged.
fn origin_links(started: &RunStarted, seq: u64) -> Vec<Link> {
    let link_run = |to: &SpanContext, run: &str, why: &str| {
        let attributes = SpanAttributes::default()
            .with_text("ensemble.link", why)
            .with_text("gen_ai.conversation.id", run);
        new_span_link(to, attributes)
    };
    match &started.forked_from {
        _ if seq > 0 => {
            let outer = started.trace.as_ref().and_then(TraceParent::to_span_context);
            let first = SpanContext::for_segment(&started.run_id, 0, outer.as_ref());
            vec![link_run(&first, &started.run_id, "continues")]
        }
        Some(from) => {
            let why = match from.merged_with {
                Some(_) => "merged_from",
                None => "forked_from",
            };
            let runs = std::iter::once(&from.run_id).chain(&from.merged_with);
            runs.map(|run| link_run(&SpanContext::for_segment(run, 0, None), run, why))
                .collect()
        }
        None => Vec::new(),
    }
}
