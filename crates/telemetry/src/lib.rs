//! Runs of ensembles as OpenTelemetry traces.
//!
//! [`Fold`] turns the records of a run into spans; the same records always give the same spans. [`Trace::of_run`] folds a recorded run with
//! the runs inside it, and [`Live`] does so while a run is driven and hands the spans to an [`Exporter`], which sends them from a thread of its
//! own.

mod content;
mod document;
mod exporter;
mod fold;
mod live;
mod recorded;
mod settings;
mod span;

pub use document::Resource;
pub use exporter::{Exporter, HttpClient, Report};
pub use fold::{Around, Fold, Placed};
pub use live::Live;
pub use recorded::{Recorded, Trace};
pub use settings::{Compression, Encoding, Endpoint, Off, Sampler, Settings};
