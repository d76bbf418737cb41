//! An ensemble's text: loaded, checked, planned and shown.
#![no_main]

use std::sync::Arc;

use ensemble::check::check;
use ensemble::diagnostic::Severity;
use ensemble::loader::load;
use ensemble::plan::Plan;
use ensemble::report::diagnostics;
use ensemble::source::Source;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let source = Source::new("fuzz.yaml", text);
    let mut loaded = load(&source);
    let mut findings = Vec::new();
    match loaded.ensemble.take() {
        None => assert!(!loaded.findings.is_empty(), "no ensemble needs a reason"),
        Some(ensemble) => {
            let ensemble = Arc::new(ensemble);
            findings.extend(check(&ensemble));
            match Plan::build(ensemble) {
                Ok(plan) => assert!(!plan.is_empty()),
                Err(errors) => {
                    assert!(errors.iter().any(|error| error.severity == Severity::Error));
                    findings.extend(errors);
                }
            }
        }
    }
    let shown = loaded.diagnostics_with(&findings);
    for diagnostic in &shown {
        let span = diagnostic.span;
        assert!(text.get(span.start..span.end).is_some(), "{span:?}: {}", diagnostic.message);
        source.place(span.start);
    }
    diagnostics::human(&shown, false);
    diagnostics::json(&shown);
});
