//! The span `invoke_workflow`: a run, or what a resume or a message adds to it.

use std::sync::Arc;

use chrono::DateTime;
use ensemble_core::conversation::{CompletionReason, Event, RunEnded, RunStarted, Within};
use ensemble_core::trace::{SpanContext, TraceParent};
use ensemble_language::data::Usage;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event as SpanEvent, Link};

use super::Fold;
use super::execution::{Ending, OpenExecution};
use crate::content;
use crate::span::{Attributes, Parent, event, failed, link, span};

/// The first record of a segment.
#[derive(Debug)]
pub(super) enum Opened {
    /// The run.
    Started,
    /// The run goes on from where it was cut.
    Resumed,
    /// A message goes on from the end.
    Continued(Arc<str>),
}

/// A segment that has not ended.
#[derive(Debug)]
pub(super) struct Segment {
    context: SpanContext,
    outer: Option<SpanContext>,
    opened: Opened,
    run_id: Arc<str>,
    ensemble: Arc<str>,
    digest: String,
    input: Arc<str>,
    began: u64,
    links: Vec<Link>,
    events: Vec<SpanEvent>,
    turns: u64,
    executions: u64,
    usage: Usage,
    open: Vec<OpenExecution>,
}

impl Segment {
    pub(super) fn new(started: &RunStarted, seq: u64, outer: Option<SpanContext>, opened: Opened, now: u64) -> Self {
        let run_id = started.run_id.clone();
        let links = links(started, seq);
        Self {
            context: SpanContext::segment(&run_id, seq, outer.as_ref()),
            outer,
            opened,
            run_id,
            ensemble: started.ensemble.clone(),
            digest: started.ensemble_digest.clone(),
            input: started.input.clone(),
            began: now,
            links,
            events: Vec::new(),
            turns: 0,
            executions: 0,
            usage: Usage::default(),
            open: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, event: &Event, fold: &mut Fold, ended: &mut Vec<Span>) {
        if let Some(place) = place_of(event) {
            let at = DateTime::from_timestamp_nanos(i64::try_from(fold.now).unwrap_or(i64::MAX));
            self.execution(&place, fold.now).count(event, at);
        }
        if let Some(within) = event.within() {
            let execution = self.execution(within, fold.now);
            execution.take(event, fold, ended);
            return;
        }
        match event {
            Event::TurnStarted(_) => self.turns += 1,
            Event::ExecutionStarted(started) => {
                let place = at(started.turn, &started.agent, started.execution);
                self.execution(&place, fold.now).begin_attempt(fold.now);
            }
            Event::AttemptFailed(failed) => {
                let place = at(failed.turn, &failed.agent, failed.execution);
                self.execution(&place, fold.now).attempt_failed(failed, fold, ended);
            }
            Event::PartEnded(part) => {
                let place = at(part.turn, &part.agent, part.execution);
                self.execution(&place, fold.now).part_ended(part, fold, ended);
            }
            Event::ExecutionFinished(finished) => {
                let place = at(finished.turn, &finished.agent, finished.execution);
                self.execution(&place, fold.now);
                let found = self.open.iter().position(|open| open.is(&place.agent, place.execution));
                if let Some(found) = found {
                    let execution = self.open.remove(found);
                    self.usage = self.usage + execution.usage();
                    execution.finish(finished, fold, ended);
                }
            }
            Event::InputRequested(asked) => {
                let place = at(asked.turn, &asked.agent, asked.execution);
                self.execution(&place, fold.now).asked(fold.now);
            }
            Event::Interrupted(_) => self.note("ensemble.interrupted", fold.now),
            Event::MessageAdded(_) => self.note("ensemble.message_added", fold.now),
            Event::ContextSet(_) => self.note("ensemble.context_set", fold.now),
            _ => {}
        }
    }

    pub(super) fn end(self, end: &RunEnded, fold: &mut Fold, ended: &mut Vec<Span>) {
        let reason = end.completion_reason;
        let error = match reason {
            CompletionReason::Cancelled => Some("cancelled"),
            CompletionReason::Timeout => Some("timeout"),
            CompletionReason::AgentFailed => Some("agent_failed"),
            CompletionReason::ConditionFailed => Some("condition_failed"),
            _ => None,
        };
        let detail = end.detail.as_deref().filter(|_| fold.with_content);
        let open = match reason {
            CompletionReason::Timeout => Ending::Cut("timeout"),
            CompletionReason::WaitingForInput => Ending::Waits,
            _ => Ending::Cut("cancelled"),
        };
        let more = Attributes::default().text("ensemble.completion_reason", reason.as_str());
        self.finish(open, error, detail, more, fold, ended);
    }

    /// Ends a segment that has no end: its process was killed, its journal failed, or it continues.
    pub(super) fn cut(self, fold: &mut Fold, ended: &mut Vec<Span>) {
        let more = Attributes::default().flag("ensemble.unfinished", true);
        self.finish(Ending::Cut("unfinished"), Some("unfinished"), None, more, fold, ended);
    }

    fn finish(
        mut self,
        open: Ending,
        error: Option<&'static str>,
        detail: Option<&str>,
        more: Attributes,
        fold: &mut Fold,
        ended: &mut Vec<Span>,
    ) {
        for execution in std::mem::take(&mut self.open) {
            self.usage = self.usage + execution.usage();
            execution.cut(open, fold, ended);
        }
        let is_inside = fold.is_inside || self.run_id.contains("/sub/");
        let parent = match &self.outer {
            None => Parent::None,
            Some(outer) if is_inside => Parent::Own(outer),
            Some(outer) => Parent::Remote(outer),
        };
        let mut whole = span(
            &self.context,
            &parent,
            format!("invoke_workflow {}", self.ensemble),
            (self.began, fold.now),
        );
        let attributes = Attributes::default()
            .text("gen_ai.operation.name", "invoke_workflow")
            .text("gen_ai.workflow.name", &*self.ensemble)
            .text("gen_ai.conversation.id", &*self.run_id)
            .text("ensemble.digest", &*self.digest)
            .number("ensemble.turns", self.turns)
            .number("ensemble.executions", self.executions);
        let said = match &self.opened {
            Opened::Started => Some(&self.input),
            Opened::Continued(text) => Some(text),
            Opened::Resumed => None,
        };
        let said = said.filter(|said| fold.with_content && !said.is_empty());
        let mut attributes = attributes
            .maybe("gen_ai.input.messages", said.map(|said| content::message("user", said)))
            .usage(Some(self.usage))
            .maybe("error.type", error);
        attributes.0.extend(more.0);
        whole.attributes = attributes.0;
        whole.links = self.links;
        whole.events = self.events;
        whole.status = error.and_then(|_| failed(detail));
        ended.push(whole);
    }

    /// The open execution at this place, which begins now if it is not open.
    fn execution(&mut self, place: &Within, now: u64) -> &mut OpenExecution {
        let found = self.open.iter().position(|open| open.is(&place.agent, place.execution));
        let at = match found {
            Some(at) => at,
            None => {
                self.executions += 1;
                let context = self.context.execution(&place.agent, place.execution);
                let parent = self.context.clone();
                let run = self.run_id.clone();
                self.open.push(OpenExecution::new(place, context, parent, run, now));
                self.open.len() - 1
            }
        };
        &mut self.open[at]
    }

    fn note(&mut self, name: &str, now: u64) {
        self.events.push(event(name, now, Attributes::default()));
    }
}

/// Returns the execution of an event; `None` if the event has none.
fn place_of(event: &Event) -> Option<Within> {
    if let Some(within) = event.within() {
        return Some(at(within.turn, &within.agent, within.execution));
    }
    match event {
        Event::ExecutionStarted(event) => Some(at(event.turn, &event.agent, event.execution)),
        Event::AttemptFailed(event) => Some(at(event.turn, &event.agent, event.execution)),
        Event::PartEnded(event) => Some(at(event.turn, &event.agent, event.execution)),
        Event::ExecutionFinished(event) => Some(at(event.turn, &event.agent, event.execution)),
        Event::InputRequested(event) => Some(at(event.turn, &event.agent, event.execution)),
        _ => None,
    }
}

fn at(turn: u32, agent: &Arc<str>, execution: u32) -> Within {
    Within {
        turn,
        agent: agent.clone(),
        execution,
        ..Within::default()
    }
}

/// Returns the links to the origin of the segment: the beginning of its run, or the run that it was forked from.
fn links(started: &RunStarted, seq: u64) -> Vec<Link> {
    let (to, run, why) = match &started.forked_from {
        _ if seq > 0 => {
            let outer = started.trace.as_ref().and_then(TraceParent::context);
            let first = SpanContext::segment(&started.run_id, 0, outer.as_ref());
            (first, &started.run_id, "continues")
        }
        Some(from) => (SpanContext::segment(&from.run_id, 0, None), &from.run_id, "forked_from"),
        None => return Vec::new(),
    };
    let attributes = Attributes::default()
        .text("ensemble.link", why)
        .text("gen_ai.conversation.id", &**run);
    vec![link(&to, attributes)]
}
