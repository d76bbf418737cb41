//! Spans of running runs: one fold for each run, and a bounded queue to the exporter.
//!
//! Invariant: applying a record never waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ensemble_core::conversation::{Event, Record, RunStarted};
use ensemble_core::trace::{SpanContext, TraceParent};
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::exporter::{ExportReport, SpanExporter};
use crate::settings::TraceSampler;
use crate::span_fold::RunSpanBuilder;

/// Builder of spans from committed records, which sends them to an exporter.
#[derive(Debug)]
pub struct LiveTelemetry {
    /// Span in which the program was started.
    pub parent: Option<TraceParent>,
    sampler: TraceSampler,
    with_content: bool,
    folds: Mutex<HashMap<Arc<str>, RunSpanBuilder>>,
    exporter: SpanExporter,
}

impl LiveTelemetry {
    /// Creates the telemetry of running runs. `with_content` adds messages to the spans.
    pub fn new(exporter: SpanExporter, sampler: TraceSampler, parent: Option<TraceParent>, with_content: bool) -> Self {
        Self {
            parent,
            sampler,
            with_content,
            folds: Mutex::default(),
            exporter,
        }
    }

    /// Returns whether the trace is exported, by the decision of the parent span or of the sampler.
    pub fn is_sampled(&self, trace: &[u8; 16]) -> bool {
        let parent = self.parent.as_ref().and_then(TraceParent::to_span_context);
        self.sampler
            .should_export(trace, parent.as_ref().map(|parent: &SpanContext| parent.is_sampled))
    }

    /// Applies a record of a run to its spans, and sends finished spans. `started` is the first event of the run.
    pub fn send_spans_of_record(&self, run: &Arc<str>, record: &Record, started: Option<&RunStarted>) {
        let mut spans = Vec::new();
        {
            let mut folds = self.folds.lock().unwrap_or_else(PoisonError::into_inner);
            let fold = folds
                .entry(run.clone())
                .or_insert_with(|| RunSpanBuilder::new(self.with_content));
            fold.apply_record_to_spans(record, started, &mut spans);
            if matches!(record.event, Event::RunEnded(_)) {
                folds.remove(run);
            }
        }
        self.queue_sampled_spans(spans);
    }

    /// Ends the open spans, waits a limited time until all are sent, and returns the report.
    pub fn close_and_finish_export(&self) -> ExportReport {
        let folds = std::mem::take(&mut *self.folds.lock().unwrap_or_else(PoisonError::into_inner));
        let mut spans = Vec::new();
        folds
            .into_values()
            .for_each(|mut fold| fold.close_open_spans(&mut spans));
        self.queue_sampled_spans(spans);
        self.exporter.close_and_wait_for_export()
    }

    /// Sends the spans of exported traces to the exporter, and drops the others.
    fn queue_sampled_spans(&self, spans: Vec<Span>) {
        for span in spans {
            let trace: Option<[u8; 16]> = span.trace_id.as_slice().try_into().ok();
            if trace.is_some_and(|trace| self.is_sampled(&trace)) {
                self.exporter.queue_or_drop_span(span);
            }
        }
    }
}
