//! Runs of ensembles as OpenTelemetry traces.
//!
//! [`RunSpanBuilder`] turns the records of a run into spans; the same records always give the same spans. [`RunTrace::from_run_tree`] folds a recorded run with
//! the runs inside it, and [`LiveTelemetry`] does so while a run is driven and hands the spans to an [`SpanExporter`], which sends them from a thread of its
//! own.

mod content;
mod exporter;
mod live;
mod otlp_request;
mod run_trace;
mod settings;
mod span;
mod span_fold;

pub use exporter::{ExportReport, HttpClientBuilder, SpanExporter};
pub use live::LiveTelemetry;
pub use otlp_request::TelemetryResource;
pub use run_trace::{RecordedRunTree, RunTrace};
pub use settings::{
    BodyCompression, BodyEncoding, CollectorEndpoint, TelemetrySettings, TelemetrySettingsError, TraceSampler,
};
pub use span_fold::{ExecutionSpan, OuterSpanCandidates, RunSpanBuilder};
