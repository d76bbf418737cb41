//! Fold of the records of one run to spans.
//!
//! A segment of a run is a span `invoke_workflow`. It contains the executions, which contain requests to models, tool calls and parts. A span
//! is returned when it has ended.
//!
//! Invariant: the same records give the same spans, during the run and later. Every span lies inside the time of its parent.

mod execution;
mod segment;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{Event, Record, RunStarted};
use ensemble_core::trace::{SpanContext, TraceParent};
use opentelemetry_proto::tonic::trace::v1::Span;

use self::execution::OpenExecutionSpan;
use self::segment::{SegmentSpan, SegmentStart};

/// Span of an execution with its start and end time in nanoseconds.
#[derive(Debug, Clone)]
pub struct ExecutionSpan {
    /// Agent of the execution.
    pub agent: Arc<str>,
    /// Number of the execution.
    pub execution: u32,
    /// Context of the span.
    pub context: SpanContext,
    /// Start and end time, in nanoseconds.
    pub time: (u64, u64),
}

/// Executions that can contain a run whose records do not name its outer span.
#[derive(Debug, Clone, Default)]
pub struct OuterSpanCandidates(pub Vec<ExecutionSpan>);

/// Builder of spans from the records of one run.
#[derive(Debug, Default)]
pub struct RunSpanBuilder {
    /// Set if spans contain messages.
    with_content: bool,
    is_inside: bool,
    outer_spans: OuterSpanCandidates,
    origin: Option<RunOriginRecord>,
    segment: Option<SegmentSpan>,
    /// Latest time, so that no span goes back in time.
    now: u64,
    /// Set while the records are copies of another run.
    is_copying: bool,
    execution_spans: Vec<ExecutionSpan>,
}

/// Start event of a run.
#[derive(Debug, Clone)]
struct RunOriginRecord {
    started: RunStarted,
}

impl RunSpanBuilder {
    /// Creates a builder. `with_content` includes messages in the spans.
    pub fn new(with_content: bool) -> Self {
        Self {
            with_content,
            ..Self::default()
        }
    }

    /// Creates the builder for a nested run, whose outer span is one of the candidates.
    pub fn for_nested_run(with_content: bool, outer_spans: OuterSpanCandidates) -> Self {
        Self {
            outer_spans,
            is_inside: true,
            ..Self::new(with_content)
        }
    }

    /// Returns the ended executions with their spans.
    pub fn executions_with_spans(&self) -> &[ExecutionSpan] {
        &self.execution_spans
    }

    /// Applies a record, and adds the spans that end with it to `ended`.
    ///
    /// `started` is the first event of the run, for a builder that starts later.
    pub fn apply_record_to_spans(&mut self, record: &Record, started: Option<&RunStarted>, ended: &mut Vec<Span>) {
        if let Event::RunStarted(started) = &record.event {
            self.is_copying = started.forked_from.is_some();
            self.origin = Some(RunOriginRecord {
                started: RunStarted::clone(started),
            });
        } else if self.origin.is_none()
            && let Some(started) = started
        {
            self.origin = Some(RunOriginRecord {
                started: started.clone(),
            });
        }
        let at = to_nanoseconds(record.at);
        if self.track_copied_record(record, at) {
            return;
        }
        let opens = match &record.event {
            Event::RunStarted(_) | Event::RunResumed(_) => true,
            Event::MessageAdded(_) => self.segment.is_none(),
            _ => false,
        };
        if opens {
            self.close_open_spans(ended);
            // Another process may have had another clock.
            self.now = at;
        }
        self.now = self.now.max(at);
        match &record.event {
            Event::RunStarted(started) => self.open_segment(record.seq, started.trace.as_ref(), SegmentStart::Started),
            Event::RunResumed(resumed) => self.open_segment(record.seq, resumed.trace.as_ref(), SegmentStart::Resumed),
            Event::MessageAdded(message) if self.segment.is_none() => {
                let text = message.text.clone();
                self.open_segment(record.seq, message.trace.as_ref(), SegmentStart::Continued(text));
            }
            Event::RunEnded(end) => {
                if let Some(segment) = self.segment.take() {
                    segment.close_with_run_end(end, self, ended);
                }
            }
            event => self.apply_event_in_segment(event, ended),
        }
    }

    /// Ends the open spans, and adds them to `ended`.
    pub fn close_open_spans(&mut self, ended: &mut Vec<Span>) {
        if let Some(segment) = self.segment.take() {
            segment.close_without_end(self, ended);
        }
    }

    /// Returns whether the record belongs to the run from which this run was copied. Tracks the start and end of the copied records.
    fn track_copied_record(&mut self, record: &Record, at: u64) -> bool {
        if !self.is_copying || record.seq == 0 {
            return false;
        }
        // A merge executes nothing: its last copied record is its end.
        let from = self
            .origin
            .as_ref()
            .and_then(|origin| origin.started.forked_from.as_ref());
        let merge = from.filter(|from| from.merged_with.is_some());
        let is_end = merge.is_some_and(|from| from.given == Some(record.seq));
        self.is_copying = at < self.now && !is_end;
        self.is_copying
    }

    /// Opens the span of a segment that starts with record `seq`.
    fn open_segment(&mut self, seq: u64, trace: Option<&TraceParent>, opened: SegmentStart) {
        let Some(origin) = &self.origin else { return };
        let recorded = trace.and_then(TraceParent::to_span_context);
        let outer = recorded.or_else(|| self.find_outer_span_by_time());
        self.segment = Some(SegmentSpan::new(&origin.started, seq, outer, opened, self.now));
    }

    /// Finds the execution that contains this run by the current time.
    fn find_outer_span_by_time(&self) -> Option<SpanContext> {
        let holds = |placed: &&ExecutionSpan| placed.time.0 <= self.now && self.now <= placed.time.1;
        let all = &self.outer_spans.0;
        let outer_span = all.iter().find(holds).or_else(|| all.last());
        outer_span.map(|placed| placed.context.clone())
    }

    /// Applies an event to the open segment.
    fn apply_event_in_segment(&mut self, event: &Event, ended: &mut Vec<Span>) {
        let Some(mut segment) = self.segment.take() else {
            return;
        };
        segment.apply_event(event, self, ended);
        self.segment = Some(segment);
    }

    /// Stores the span of an ended execution.
    fn store_execution_span(&mut self, execution: &OpenExecutionSpan) {
        self.execution_spans.push(ExecutionSpan {
            agent: execution.agent.clone(),
            execution: execution.number,
            context: execution.context.clone(),
            time: (execution.began, self.now),
        });
    }
}

/// Converts a time to nanoseconds since 1970.
fn to_nanoseconds(at: DateTime<Utc>) -> u64 {
    let nanos = at.timestamp_nanos_opt().unwrap_or_default();
    u64::try_from(nanos).unwrap_or_default()
}
