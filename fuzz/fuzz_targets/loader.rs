//! An ensemble's text: loaded, checked in every way, planned and shown.
#![no_main]

use std::collections::BTreeSet;
use std::sync::Arc;

use ensemble::check::{Around, OutputKeys, Text, apply_allowances, check, check_around};
use ensemble::diagnostic::{Finding, Severity};
use ensemble::ensemble::{Agent, AgentKind, Ensemble, Profile};
use ensemble::loader::load;
use ensemble::plan::Plan;
use ensemble::report::diagnostics;
use ensemble::source::Source;
use libfuzzer_sys::fuzz_target;

/// Scripts put out a key named after themselves, and every profile of the file is configured too.
struct Beside(Vec<(Arc<str>, Profile)>);

impl Around for Beside {
    fn configured(&self) -> Option<&[(Arc<str>, Profile)]> {
        Some(&self.0)
    }
    fn output_keys(&self, _: &Ensemble, agent: &Agent) -> Option<OutputKeys> {
        match &agent.kind {
            AgentKind::Script { script } => Some(BTreeSet::from([script.clone(), "score".to_owned()])),
            _ => None,
        }
    }
    fn files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}

fuzz_target!(|text: &str| {
    let source = Source::new("fuzz.yaml", text);
    let mut loaded = load(&source);
    let mut findings = Vec::new();
    let is_sound = loaded.ensemble.is_some();
    match loaded.ensemble.take() {
        None => assert!(!loaded.findings.is_empty(), "no ensemble needs a reason"),
        Some(ensemble) => {
            let configured = ensemble.model_profiles.iter().rev().cloned().collect();
            findings.extend(check_around(&ensemble, &Beside(configured)));
            let is_error = |finding: &Finding| finding.severity == Severity::Error;
            let errors = check(&ensemble).iter().filter(|one| is_error(one)).count();
            assert!(errors <= findings.iter().filter(|one| is_error(one)).count());
            let plan = Plan::build(Arc::new(ensemble));
            if errors == 0 {
                assert!(!plan.expect("the checks have found every error").is_empty());
            }
        }
    }
    let looked = Text::look(&source, loaded.document.as_ref());
    findings.extend(looked.findings());
    let mut shown = loaded.diagnostics_with(&findings);
    if let Some(document) = &loaded.document {
        shown = apply_allowances(document, shown, is_sound);
    }
    for diagnostic in &shown {
        let span = diagnostic.span;
        assert!(text.get(span.start..span.end).is_some(), "{span:?}: {}", diagnostic.message);
        source.place(span.start);
    }
    looked.conceal(&mut shown);
    for diagnostic in &shown {
        assert_eq!(diagnostic.source.text().len(), text.len());
        assert_eq!(diagnostic.source.place(diagnostic.span.start), source.place(diagnostic.span.start));
    }
    diagnostics::human(&shown, false);
    diagnostics::json(&shown);
});
