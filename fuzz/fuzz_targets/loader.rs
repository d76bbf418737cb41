//! An ensemble's text: loaded, checked in every way, planned, walked through, drawn and shown in every form.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "`fuzz_target` writes the file that `RUST_LIBFUZZER_DEBUG_PATH` names"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ensemble_explore::{ExplorationBudget, explore_plan};
use ensemble_language::check::{
    CheckContext, OutputKeys, TextSecrets, check_ensemble, check_with_context, filter_allowed_diagnostics,
};
use ensemble_language::diagnostic::{Finding, FindingSeverity};
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, ModelProfile};
use ensemble_language::loader::load_ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;
use ensemble_reports::report::graph::{
    DependencyArrow, DependencyTrigger, ExecutionCountUnit, GraphPicture, NodeShape, PictureNode, render_ascii,
    render_dot, render_mermaid, render_svg,
};
use ensemble_reports::report::{
    FileFindings, FindingsReportFormat, FindingsReportTotals, GithubFindingsFormat, JunitFindingsFormat,
    SarifFindingsFormat, diagnostics, exploration,
};
use libfuzzer_sys::fuzz_target;

/// Scripts put out a key named after themselves, and every profile of the file is configured too.
struct NearbyFiles(Vec<(Arc<str>, ModelProfile)>);

impl CheckContext for NearbyFiles {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        Some(&self.0)
    }
    fn output_keys(&self, _: &Ensemble, agent: &Agent) -> Option<OutputKeys> {
        match &agent.kind {
            AgentKind::Script { script, .. } => Some(BTreeSet::from([script.clone(), "score".to_owned()])),
            _ => None,
        }
    }
    fn check_files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}

fuzz_target!(|text: &str| {
    let source = SourceText::new("fuzz.yaml", text);
    let mut loaded = load_ensemble(&source);
    let mut findings = Vec::new();
    let is_sound = loaded.ensemble.is_some();
    match loaded.ensemble.take() {
        None => assert!(!loaded.findings.is_empty(), "no ensemble needs a reason"),
        Some(ensemble) => {
            let configured = ensemble.model_profiles.iter().rev().cloned().collect();
            findings.extend(check_with_context(&ensemble, &NearbyFiles(configured)));
            let is_error = |finding: &Finding| finding.severity == FindingSeverity::Error;
            let errors = check_ensemble(&ensemble).iter().filter(|one| is_error(one)).count();
            assert!(errors <= findings.iter().filter(|one| is_error(one)).count());
            let plan = Plan::build(Arc::new(ensemble));
            if errors == 0 {
                let plan = Arc::new(plan.expect("the checks have found every error"));
                assert!(!plan.is_empty());
                explore_briefly(&plan);
                draw_graph(plan.ensemble());
            }
        }
    }
    let looked = TextSecrets::find_in(&source, loaded.document.as_ref());
    findings.extend(looked.secret_warnings());
    let mut shown = loaded.diagnostics_with(&findings);
    if let Some(document) = &loaded.document {
        shown = filter_allowed_diagnostics(document, shown, is_sound);
    }
    for diagnostic in &shown {
        let span = diagnostic.span;
        assert!(
            text.get(span.start..span.end).is_some(),
            "{span:?}: {}",
            diagnostic.message
        );
        source.line_column(span.start);
    }
    looked.redact_diagnostics(&mut shown);
    for diagnostic in &shown {
        assert_eq!(diagnostic.source.text().len(), text.len());
        assert_eq!(
            diagnostic.source.line_column(diagnostic.span.start),
            source.line_column(diagnostic.span.start)
        );
    }
    diagnostics::render_diagnostics(&shown, false);
    diagnostics::render_json_diagnostics(&shown);
    render_machine_forms(shown);
});

/// A walk that soon gives up.
fn explore_briefly(plan: &Arc<Plan>) {
    let found = explore_plan(plan, ExplorationBudget::with_max_states(8));
    assert!(found.coverage.states <= 8);
    for agent in &found.agents {
        assert!(agent.most <= agent.limit, "{agent:?}");
    }
    for end in &found.ends {
        assert!(end.turns <= found.turns, "{end:?}");
    }
    let explored = exploration::ExploredEnsemble {
        name: plan.ensemble().name.to_string(),
        file: "a.yaml".to_owned(),
        found,
    };
    exploration::render_explorations(&explored, &[]);
    serde_json::from_str::<serde_json::Value>(&exploration::render_explorations_json(&explored, &[])).expect("JSON");
}

/// The picture in every form; a layout of many agents takes its time, so only of few.
fn draw_graph(ensemble: &Ensemble) {
    if ensemble.agents.len() > 24 {
        return;
    }
    let shape = |agent: &Agent| match &agent.kind {
        AgentKind::Script { .. } => NodeShape::Script,
        AgentKind::Llm(_) => NodeShape::Llm,
        AgentKind::Input(_) => NodeShape::Input,
        AgentKind::Ensemble { .. } => NodeShape::Ensemble,
        AgentKind::Tool { .. } => NodeShape::Tool,
    };
    let node = |agent: &Agent| PictureNode {
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
            arrows.extend(find(&edge.agent_name).map(|from| DependencyArrow {
                from,
                to,
                ending: DependencyTrigger::Any,
                condition: edge.condition.as_ref().map(ToString::to_string),
                most: edge.max_executions.map(u32::from),
                feedback: edge.feedback,
                any_of: !edge.requires_all,
                start_count: None,
            }));
        }
    }
    let picture = GraphPicture {
        title: ensemble.name.to_string(),
        subtitle: None,
        count_unit: ExecutionCountUnit::Run,
        nodes: ensemble.agents.iter().map(node).collect(),
        arrows,
    };
    // A graph that is too large is refused.
    if let Ok(svg) = render_svg(&picture) {
        assert_clean_xml(&svg);
    }
    render_mermaid(&picture);
    render_dot(&picture);
    render_ascii(&picture);
}

/// The forms for other programs.
fn render_machine_forms(findings: Vec<ensemble_language::diagnostic::Diagnostic>) {
    let folder = Path::new("/");
    let file = FileFindings {
        name: "fuzz.yaml".to_owned(),
        fails: !findings.is_empty(),
        findings,
    };
    let github = GithubFindingsFormat { folder }.render_file(&file);
    assert_eq!(github.lines().count(), file.findings.len(), "{github}");
    let sarif = SarifFindingsFormat {
        rules: Vec::new(),
        folder,
    };
    let part = sarif.render_file(&file);
    let totals = FindingsReportTotals {
        files: 1,
        failed: 0,
        is_blank: part.is_empty(),
    };
    let whole = format!("{}{part}{}", sarif.render_header(), sarif.render_footer(&totals, ""));
    serde_json::from_str::<serde_json::Value>(&whole).expect("JSON");
    let fails = |finding: &ensemble_language::diagnostic::Diagnostic| finding.severity == FindingSeverity::Error;
    assert_clean_xml(&JunitFindingsFormat { fails: &fails, folder }.render_file(&file));
}

/// Holds nothing that XML forbids.
fn assert_clean_xml(xml: &str) {
    let is_allowed = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r' | '\u{7f}'..='\u{9f}');
    let bad = xml
        .chars()
        .find(|c| !is_allowed(*c) || matches!(c, '\u{fffe}' | '\u{ffff}'));
    assert_eq!(bad, None);
}
