//! Checks of an ensemble without errors, before a run: one file for each check, and one line in `CHECKS`.
//!
//! Checks are pure functions. [`check`] reads only the typed ensemble; [`check_around`] also reads the files that the
//! caller knows; [`Text`] reads the text. **Invariant:** an error means that no run is possible as written; anything that
//! is only suspicious is a warning or a hint.
//!
//! `check/graph.rs` is the graph that several checks share: the dependencies of each agent, with conditions parsed and not
//! compiled. `check/subject.rs` has the other facts that checks share. Code that implements [`CheckContext`] supplies what
//! is outside the file (configuration, scripts); no check opens a file. `check/allow.rs` runs last and removes the findings
//! that a comment in the file allows. After it, `check/secrets.rs` replaces secrets in messages with stars.

mod allow;
mod bounds;
mod circle;
mod clocks;
mod config;
mod constant;
mod context;
mod edges;
mod environment;
mod fallback_circles;
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
mod output_keys;
mod prices;
mod profiles;
mod responses;
mod schemas;
mod script;
mod scripts;
mod secrets;
mod state;
mod subject;
mod template_keys;
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
mod unknown_profiles;
mod unread_inputs;
mod unused_profiles;

use crate::condition::Type;
use crate::diagnostic::Finding;
use crate::ensemble::Ensemble;
use context::NoFiles;
use graph::Graph;
use subject::Subject;

pub use allow::apply_allowances;
pub use bounds::{Bounds, EarlyCount, bounds, known};
pub use context::CheckContext;
pub use context::OutputKeys;
pub use script::{
    MODEL_VARIABLES, SCRIPT_VARIABLES, ScriptArguments, ScriptKey, ScriptName, ScriptText, WINDOW_VARIABLES,
};
pub use text::Text;

/// A check: its file, the least that it reads, and its function.
struct Check {
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the files"))]
    file: &'static str,
    reads: Reads,
    run: fn(&Subject<'_>) -> Vec<Finding>,
}

/// The least that a check reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Only the ensemble.
    Ensemble,
    /// The files around it.
    Files,
}

macro_rules! checks {
    ($($reads:ident: $file:ident,)*) => {
        &[$(Check { file: stringify!($file), reads: Reads::$reads, run: $file::check }),*]
    };
}

/// All checks, in the order in which they run.
const CHECKS: &[Check] = checks![
    Ensemble: circle,
    Ensemble: news,
    Ensemble: limits,
    Ensemble: state,
    Ensemble: unused_profiles,
    Ensemble: templates,
    Ensemble: tools,
    Ensemble: environment,
    Ensemble: responses,
    Ensemble: for_each,
    Ensemble: clocks,
    Ensemble: schemas,
    Ensemble: named,
    Ensemble: inputs,
    Ensemble: constant,
    Ensemble: never,
    Ensemble: joins,
    Ensemble: too_late,
    Ensemble: turns,
    Ensemble: edges,
    Ensemble: one_sided,
    Ensemble: too_early,
    Files: keys,
    Files: template_keys,
    Files: typed,
    Files: fixed,
    Files: scripts,
    Files: config,
    Files: truths,
    Files: prices,
    Files: unfit,
    Files: unread_inputs,
    Files: unknown_profiles,
    Files: fallback_circles,
    Files: unanswered,
];

/// Returns all findings about the ensemble alone.
pub fn check(ensemble: &Ensemble) -> Vec<Finding> {
    let graph = Graph::of(ensemble);
    let subject = Subject::new(&graph, &NoFiles);
    run_checks(&subject, Reads::Ensemble);
    subject.into_findings()
}

/// Returns all findings about the ensemble and the files around it.
pub fn check_around(ensemble: &Ensemble, context: &dyn CheckContext) -> Vec<Finding> {
    let graph = Graph::of(ensemble);
    let subject = Subject::new(&graph, context);
    run_checks(&subject, Reads::Ensemble);
    run_checks(&subject, Reads::Files);
    subject.add(context.files(ensemble));
    subject.into_findings()
}

fn run_checks(subject: &Subject<'_>, reads: Reads) {
    for check in CHECKS.iter().filter(|check| check.reads == reads) {
        subject.add((check.run)(subject));
    }
}

/// Returns the type of the result of the ensemble's runs, as far as it is known: the output of an agent that is this
/// ensemble.
pub fn result_type(ensemble: &Ensemble, context: &dyn CheckContext) -> Option<Type> {
    typed::result(ensemble, &|agent| context.output_type(ensemble, agent))
}

#[cfg(test)]
mod tests;
