//! Checks of an ensemble without errors, before a run: one file for each check.
//!
//! Checks are pure functions. [`check`] examines only the typed ensemble; [`check_around`] also uses what the caller
//! knows about other files; [`Text`] examines the text. **Invariant:** an error means that no run is possible as
//! written; anything that is only suspicious is a warning or a hint.
//!
//! What can be known about a valid ensemble before it runs; one file for each check. `check/graph.rs` is the graph that several checks
//! share: which agent listens to which, with conditions parsed and not compiled. Code that implements `check::Around` supplies what is
//! outside the file (configuration, scripts); no check opens a file. `check/allow.rs` runs last and removes the findings that a comment in
//! the file allows. After it, `check/secrets.rs` replaces secrets in messages with stars.

mod allow;
mod bounds;
mod circle;
mod clocks;
mod config;
mod constant;
mod edges;
mod environment;
mod fixed;
mod for_each;
mod graph;
mod inputs;
mod joins;
mod keys;
mod limits;
mod named;
mod never;
mod news;
mod one_sided;
mod prices;
mod profiles;
mod responses;
mod schemas;
mod script;
mod scripts;
mod secrets;
mod state;
mod templates;
mod text;
mod too_early;
mod too_late;
mod tools;
mod truths;
mod turns;
mod typed;
mod unanswered;
mod unfit;
mod unread_inputs;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::condition::Type;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ensemble, Profile};
use crate::loader::codes;
use graph::Graph;

pub use allow::apply_allowances;
pub use bounds::{Bounds, EarlyCount, bounds, known};
pub use keys::OutputKeys;
pub use script::{
    MODEL_VARIABLES, SCRIPT_VARIABLES, ScriptArguments, ScriptKey, ScriptName, ScriptText, WINDOW_VARIABLES,
};
pub use text::Text;

/// What the caller knows about the files around an ensemble.
pub trait Around {
    /// The profiles of the configuration files, in the order of the search; `None` if the files cannot be read.
    fn configured(&self) -> Option<&[(Arc<str>, Profile)]>;
    /// The top-level keys of each agent's output, if its script or its model defines them.
    fn output_keys(&self, ensemble: &Ensemble, agent: &Agent) -> Option<OutputKeys>;
    /// What an agent's output can be, if its script or its model tells.
    fn output_type(&self, ensemble: &Ensemble, agent: &Agent) -> Option<Type> {
        let _ = (ensemble, agent);
        None
    }
    /// The keys of an agent's output that its script or its model writes only as `true`, and not with every output.
    fn latched_keys(&self, ensemble: &Ensemble, agent: &Agent) -> OutputKeys {
        let _ = (ensemble, agent);
        OutputKeys::new()
    }
    /// The text of a Rhai script that an agent or a tool names; `None` if it is no Rhai script, or cannot be read.
    fn script(&self, script: &str) -> Option<Arc<ScriptText>> {
        let _ = script;
        None
    }
    /// The ensemble that an agent or a tool names, if it is there and has no errors.
    fn inner(&self, named: &str) -> Option<Arc<Ensemble>> {
        let _ = named;
        None
    }
    /// Whether nobody is there who could answer a question.
    fn nobody_answers(&self) -> bool {
        false
    }
    /// The findings about the files that agents name.
    fn files(&self, ensemble: &Ensemble) -> Vec<Finding>;
}

/// All findings about the ensemble alone.
pub fn check(ensemble: &Ensemble) -> Vec<Finding> {
    of_graph(&Graph::of(ensemble))
}

/// All findings about the ensemble and the files around it.
pub fn check_around(ensemble: &Ensemble, around: &dyn Around) -> Vec<Finding> {
    let graph = Graph::of(ensemble);
    let mut findings = of_graph(&graph);
    let ask = |agent: &Agent| around.output_keys(ensemble, agent);
    let outputs = &mut keys::Outputs::new(&graph, &ask);
    findings.extend(keys::check(&graph, outputs));
    findings.extend(templates::missing_keys(&graph, outputs));
    let known = RefCell::new(BTreeMap::new());
    let types = |agent: &Agent| {
        let mut known = known.borrow_mut();
        let of = known.entry(agent.name.clone());
        of.or_insert_with(|| around.output_type(ensemble, agent)).clone()
    };
    let typed = typed::check(&graph, &types).into_iter();
    // One fault is one finding.
    let typed: Vec<Finding> = typed.filter(|one| !is_told(one, &findings)).collect();
    findings.extend(typed);
    let latched = |agent: &Agent| around.latched_keys(ensemble, agent);
    findings.extend(fixed::check(&graph, outputs, &latched));
    let script = |script: &str| around.script(script);
    findings.extend(scripts::check(&graph, outputs, &script));
    let profiles = profiles::Known::of(ensemble, around.configured().unwrap_or_default());
    findings.extend(config::check(ensemble, &profiles));
    findings.extend(truths::check(&graph, &profiles));
    findings.extend(prices::check(ensemble, &profiles).filter(|_| around.configured().is_some()));
    findings.extend(unfit::check(&graph, &profiles, &types));
    // Whoever misspells an input has not read it.
    let misspelt = [codes::UNKNOWN_INPUT, codes::SCRIPT_READS];
    if !findings.iter().any(|finding| misspelt.contains(&finding.code)) {
        findings.extend(unread_inputs::check(&graph, &profiles, &script));
    }
    if let Some(configured) = around.configured() {
        let known = |name: &str| name == "simulated" || configured.iter().any(|(known, _)| **known == *name);
        findings.extend(profiles::unknown(ensemble, &known));
        findings.extend(profiles::circles_through(ensemble, configured));
    }
    if around.nobody_answers() {
        findings.extend(unanswered::check(ensemble));
    }
    findings.extend(around.files(ensemble));
    findings
}

/// Whether a finding with the same code stands at the same place.
fn is_told(one: &Finding, others: &[Finding]) -> bool {
    others.iter().any(|other| other.code == one.code && other.at == one.at)
}

/// What a run of the ensemble gives as its result, as far as it is known: the output of an agent that is this ensemble.
pub fn result_type(ensemble: &Ensemble, around: &dyn Around) -> Option<Type> {
    typed::result(ensemble, &|agent| around.output_type(ensemble, agent))
}

fn of_graph(graph: &Graph<'_>) -> Vec<Finding> {
    let of_ensemble = [
        circle::check,
        news::check,
        limits::check,
        state::check,
        profiles::unused,
        templates::check,
        tools::check,
        environment::check,
        responses::check,
        for_each::check,
        clocks::check,
        schemas::check,
    ];
    let of_graph = [
        named::check,
        inputs::check,
        constant::check,
        never::check,
        joins::check,
        too_late::check,
        turns::check,
        edges::check,
        one_sided::check,
        too_early::check,
    ];
    let first = of_ensemble.iter().flat_map(|check| check(graph.ensemble));
    first.chain(of_graph.iter().flat_map(|check| check(graph))).collect()
}

#[cfg(test)]
mod tests;
