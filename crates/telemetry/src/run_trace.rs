//! Trace of a recorded run and its nested runs.
//!
//! Invariant: a trace is a fold of records.

use ensemble_core::conversation::Record;
use ensemble_core::store::NestedRunName;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::otlp_request::TelemetryResource;
use crate::span_fold::{ExecutionSpan, OuterSpanCandidates, RunSpanBuilder};

/// Recorded run with its nested runs.
#[derive(Debug, Default)]
pub struct RecordedRunTree {
    /// Name of the run in its outer run; empty for the outermost run.
    pub name: String,
    /// Records of the run.
    pub records: Vec<Record>,
    /// Nested runs.
    pub inner_runs: Vec<Self>,
}

/// Spans of a run and of its nested runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunTrace(Vec<Span>);

impl RunTrace {
    /// Builds the spans of a run and its nested runs. `with_content` includes messages.
    pub fn from_run_tree(run: &RecordedRunTree, with_content: bool) -> Self {
        let mut spans = Vec::new();
        add_spans_of_run_tree(run, RunSpanBuilder::new(with_content), with_content, &mut spans);
        spans.sort_by(|one, other| {
            let place = |span: &Span| (span.start_time_unix_nano, std::cmp::Reverse(span.end_time_unix_nano));
            place(one)
                .cmp(&place(other))
                .then_with(|| one.span_id.cmp(&other.span_id))
        });
        Self(spans)
    }

    /// Returns the spans, sorted by start time.
    pub fn all_spans(&self) -> &[Span] {
        &self.0
    }

    /// Converts the spans to OTLP JSON.
    pub fn to_json(self, resource: &TelemetryResource) -> String {
        resource.spans_to_json(self.0)
    }

    /// Converts the spans to OTLP protobuf.
    pub fn to_protobuf(self, resource: &TelemetryResource) -> Vec<u8> {
        resource.spans_to_protobuf(self.0)
    }
}

/// Adds the spans of a run and its nested runs to `spans`.
fn add_spans_of_run_tree(run: &RecordedRunTree, mut folded: RunSpanBuilder, with_content: bool, spans: &mut Vec<Span>) {
    for record in &run.records {
        folded.apply_record_to_spans(record, None, spans);
    }
    folded.close_open_spans(spans);
    for inner in &run.inner_runs {
        let around = outer_span_candidates(&inner.name, folded.executions_with_spans());
        add_spans_of_run_tree(
            inner,
            RunSpanBuilder::for_nested_run(with_content, around),
            with_content,
            spans,
        );
    }
}

/// Returns the executions that can contain the nested run with this name.
fn outer_span_candidates(name: &str, placed: &[ExecutionSpan]) -> OuterSpanCandidates {
    let is_it = |one: &&ExecutionSpan| NestedRunName::belongs_to_execution(name, &one.agent, one.execution);
    OuterSpanCandidates(placed.iter().filter(is_it).cloned().collect())
}
