//! An ensemble's text: loaded, checked in every way, planned, walked through, drawn and shown in every form.
#![no_main]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ensemble_language::check::{CheckContext, OutputKeys, Text, apply_allowances, check, check_around};
use ensemble_language::diagnostic::{Finding, Severity};
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, Profile};
use ensemble_explore::{Budget, explore};
use ensemble_language::loader::load;
use ensemble_language::plan::Plan;
use ensemble_reports::report::graph::{Arrow, CountedIn, Ending, Node, Picture, Shape, ascii, dot, mermaid, svg};
use ensemble_reports::report::{CheckedFile, Form, Github, Junit, Sarif, Totals, diagnostics, exploration};
use ensemble_language::source::Source;
use libfuzzer_sys::fuzz_target;

/// Scripts put out a key named after themselves, and every profile of the file is configured too.
struct Beside(Vec<(Arc<str>, Profile)>);

impl CheckContext for Beside {
    fn configured(&self) -> Option<&[(Arc<str>, Profile)]> {
        Some(&self.0)
    }
    fn output_keys(&self, _: &Ensemble, agent: &Agent) -> Option<OutputKeys> {
        match &agent.kind {
            AgentKind::Script { script, .. } => Some(BTreeSet::from([script.clone(), "score".to_owned()])),
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
                let plan = Arc::new(plan.expect("the checks have found every error"));
                assert!(!plan.is_empty());
                walk(&plan);
                draw(plan.ensemble());
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
    tell(shown);
});

/// A walk that soon gives up.
fn walk(plan: &Arc<Plan>) {
    let found = explore(plan, Budget::of_states(8));
    assert!(found.coverage.states <= 8);
    for agent in &found.agents {
        assert!(agent.most <= agent.limit, "{agent:?}");
    }
    for end in &found.ends {
        assert!(end.turns <= found.turns, "{end:?}");
    }
    let explored = exploration::Explored {
        name: plan.ensemble().name.to_string(),
        file: "a.yaml".to_owned(),
        found,
    };
    exploration::all_human(&explored, &[]);
    serde_json::from_str::<serde_json::Value>(&exploration::all_json(&explored, &[])).expect("JSON");
}

/// The picture in every form; a layout of many agents takes its time, so only of few.
fn draw(ensemble: &Ensemble) {
    if ensemble.agents.len() > 24 {
        return;
    }
    let shape = |agent: &Agent| match &agent.kind {
        AgentKind::Script { .. } => Shape::Script,
        AgentKind::Llm(_) => Shape::Llm,
        AgentKind::Input(_) => Shape::Input,
        AgentKind::Ensemble { .. } => Shape::Ensemble,
    };
    let node = |agent: &Agent| Node {
        name: agent.name.to_string(),
        shape: shape(agent),
        is_stack: agent.for_each.is_some(),
        notes: Vec::new(),
        run_data: None,
    };
    let find = |name: &str| ensemble.agents.iter().position(|agent| *agent.name == *name);
    let mut arrows = Vec::new();
    for (to, agent) in ensemble.agents.iter().enumerate() {
        for edge in &agent.dependencies {
            arrows.extend(find(&edge.agent_name).map(|from| Arrow {
                from,
                to,
                ending: Ending::Any,
                condition: edge.condition.clone(),
                most: edge.max_executions.map(u32::from),
                feedback: edge.feedback,
                any_of: !edge.requires_all,
                started: None,
            }));
        }
    }
    let picture = Picture {
        title: ensemble.name.to_string(),
        subtitle: None,
        counted_in: CountedIn::Run,
        nodes: ensemble.agents.iter().map(node).collect(),
        arrows,
    };
    is_clean(&svg(&picture));
    mermaid(&picture);
    dot(&picture);
    ascii(&picture);
}

/// The forms for other programs.
fn tell(findings: Vec<ensemble_language::diagnostic::Diagnostic>) {
    let folder = Path::new("/");
    let file = CheckedFile {
        name: "fuzz.yaml".to_owned(),
        fails: !findings.is_empty(),
        findings,
    };
    let github = Github { folder }.file(&file);
    assert_eq!(github.lines().count(), file.findings.len(), "{github}");
    let sarif = Sarif { rules: Vec::new(), folder };
    let part = sarif.file(&file);
    let totals = Totals {
        files: 1,
        failed: 0,
        is_blank: part.is_empty(),
    };
    let whole = format!("{}{part}{}", sarif.begin(), sarif.end(&totals, ""));
    serde_json::from_str::<serde_json::Value>(&whole).expect("JSON");
    let fails = |finding: &ensemble_language::diagnostic::Diagnostic| finding.severity == Severity::Error;
    is_clean(&Junit { fails: &fails, folder }.file(&file));
}

/// Holds nothing that XML forbids.
fn is_clean(xml: &str) {
    let is_allowed = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r' | '\u{7f}'..='\u{9f}');
    let bad = xml.chars().find(|c| !is_allowed(*c) || matches!(c, '\u{fffe}' | '\u{ffff}'));
    assert_eq!(bad, None);
}
