//! Runs of ensembles as OpenTelemetry traces.
//!
//! [`RunSpanBuilder`] converts the records of a run to spans. The same records always give the same spans. [`RunTrace::from_run_tree`] folds a
//! recorded run with its nested runs. [`LiveTelemetry`] folds a run while it is driven, and passes the spans to a [`SpanExporter`], which sends the
//! spans on a separate thread.

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
