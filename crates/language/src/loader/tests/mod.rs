//! What the loader says about texts, where, and how fast.

mod bombs;
mod defaults;
mod errors;
mod fixes;
mod for_each;
mod given_errors;
mod meant;
mod model_errors;
mod places;
mod sandbox;
mod schema;
mod settings;
mod valid;
mod yaml;

use super::{EnsembleLoadResult, load_ensemble};
use crate::diagnostic::Diagnostic;
use crate::source::SourceText;

fn loaded(text: &str) -> EnsembleLoadResult {
    load_ensemble(&SourceText::new("test.yaml", text))
}

/// `E020 5:11 two agents …` for every diagnostic.
fn shown(text: &str) -> Vec<String> {
    show(&loaded(text).diagnostics())
}

fn show(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics
        .iter()
        .map(|it| {
            let place = it.source.line_column(it.span.start);
            format!("{} {}:{} {}", it.code.0, place.line, place.column, it.message)
        })
        .collect()
}

/// Returns the bytes that a diagnostic is about.
fn marked(diagnostic: &Diagnostic) -> &str {
    &diagnostic.source.text()[diagnostic.span.start..diagnostic.span.end]
}
