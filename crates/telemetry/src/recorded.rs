//! A recorded run with the runs inside it, as one list of spans.
//!
//! Invariant: it is a fold of records.

use ensemble_core::conversation::Record;
use ensemble_core::store::InnerRunName;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::document::Resource;
use crate::fold::{Around, Fold, Placed};

/// A recorded run.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Its name in the run that contains it; the outermost has none.
    pub name: String,
    /// Its records.
    pub records: Vec<Record>,
    /// The runs inside it.
    pub inside: Vec<Self>,
}

/// The spans of a run, and of the runs inside it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace(Vec<Span>);

impl Trace {
    /// Folds a run, with what was said or without it.
    pub fn of_run(run: &Recorded, with_content: bool) -> Self {
        let mut spans = Vec::new();
        fold(run, Fold::new(with_content), with_content, &mut spans);
        spans.sort_by(|one, other| {
            let place = |span: &Span| (span.start_time_unix_nano, std::cmp::Reverse(span.end_time_unix_nano));
            place(one)
                .cmp(&place(other))
                .then_with(|| one.span_id.cmp(&other.span_id))
        });
        Self(spans)
    }

    /// The spans, by the time of their begin.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// As JSON of OTLP.
    pub fn json(self, resource: &Resource) -> String {
        resource.json(self.0)
    }

    /// As protobuf of OTLP.
    pub fn protobuf(self, resource: &Resource) -> Vec<u8> {
        resource.protobuf(self.0)
    }
}

fn fold(run: &Recorded, mut folded: Fold, with_content: bool, spans: &mut Vec<Span>) {
    for record in &run.records {
        folded.take(record, None, spans);
    }
    folded.close(spans);
    for inner in &run.inside {
        let around = around(&inner.name, folded.placed());
        fold(inner, Fold::inside(with_content, around), with_content, spans);
    }
}

/// The executions that may contain the run of this name.
fn around(name: &str, placed: &[Placed]) -> Around {
    let is_it = |one: &&Placed| InnerRunName::is_of(name, &one.agent, one.execution);
    Around(placed.iter().filter(is_it).cloned().collect())
}
