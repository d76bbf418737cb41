//! Checks of an ensemble without errors, before a run: one file for each check, and one line in `CHECKS`.
//!
//! Checks are pure functions. [`check_ensemble`] reads only the typed ensemble; [`check_with_context`] also reads the files
//! that the caller knows, and [`check_file_errors`] returns the errors in these files, which refuse a run; [`TextSecrets`]
//! reads the text. **Invariant:** an error means that no run is possible as written; anything that is only suspicious is a
//! warning or a hint.
//!
//! `check/check_graph.rs` is the graph that several checks share: the dependencies of each agent, with conditions parsed and not
//! compiled. `check/check_subject.rs` has the other facts that checks share. Code that implements [`CheckContext`] supplies what
//! is outside the file (configuration, scripts); no check opens a file. `check/allowances.rs` runs last and removes the findings
//! that a comment in the file allows. After it, `check/secrets.rs` replaces secrets in messages with stars.

mod allowances;
mod answer_truths;
mod blocked_agents;
mod budget_scope;
mod check_graph;
mod check_subject;
mod condition_keys;
mod constant_conditions;
mod context;
mod contradictory_schemas;
mod cost_limit;
mod early_counts;
mod exclusive_joins;
mod execution_limits;
mod failing_agents;
mod fallback_cycles;
mod fixed_conditions;
mod for_each;
mod hidden_values;
mod idle_dependencies;
mod idle_turns;
mod independent_agents;
mod loop_turns;
mod model_costs;
mod one_sided_loops;
mod output_keys;
mod prepared_answers;
mod process_texts;
mod required_agents;
mod rhai_equivalents;
mod run_bounds;
mod script_arguments;
mod script_reads;
mod script_text;
mod secrets;
mod start_cycles;
mod state_keys;
mod stopped_handlers;
mod template_keys;
mod templates;
mod text_secrets;
mod time_limits;
mod tool_use;
mod unanswered_questions;
mod unasked_loops;
mod uncertain_outputs;
mod undeclared_inputs;
mod unheard_dependencies;
mod unknown_agents;
mod unknown_news;
mod unknown_profiles;
mod unreached_agents;
mod unread_config;
mod unread_environment;
mod unread_inputs;
mod unrequested_agents;
mod unused_profiles;
mod usable_profiles;
mod value_types;

use crate::condition::ValueType;
use crate::diagnostic::{Finding, FindingSeverity};
use crate::ensemble::Ensemble;
use check_graph::CheckGraph;
use check_subject::CheckSubject;
use context::NoFileContext;

pub use allowances::filter_allowed_diagnostics;
pub use context::CheckContext;
pub use context::OutputKeys;
pub use cost_limit::{budget_without_price_finding, collect_model_costs};
pub use model_costs::ModelCosts;
pub use run_bounds::{EarlyCountBound, RunBounds, compute_run_bounds, infer_condition_types};
pub use script_text::{
    MODEL_VARIABLES, SCRIPT_VARIABLES, ScriptCallMismatch, ScriptName, ScriptText, ScriptVariableKeyRead,
    UnknownFunction, WINDOW_VARIABLES,
};
pub use text_secrets::TextSecrets;

/// A check: its file, the least input that it reads, and its function.
struct RegisteredCheck {
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the files"))]
    file: &'static str,
    reads: CheckScope,
    run: fn(&CheckSubject<'_>) -> Vec<Finding>,
}

/// The least input that a check reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckScope {
    /// Only the ensemble.
    Ensemble,
    /// The files around it. The findings are never errors.
    Files,
    /// The files around it. The findings can be errors, which refuse a run.
    FileErrors,
}

macro_rules! checks {
    ($($scope:ident: $file:ident::$function:ident,)*) => {
        &[$(RegisteredCheck { file: stringify!($file), reads: CheckScope::$scope, run: $file::$function }),*]
    };
}

/// All checks, in the order in which they run.
const CHECKS: &[RegisteredCheck] = checks![
    Ensemble: start_cycles::check_start_cycles,
    Ensemble: independent_agents::check_independent_agents,
    Ensemble: execution_limits::check_execution_limits,
    Ensemble: state_keys::check_state_keys,
    Ensemble: unused_profiles::check_unused_profiles,
    Ensemble: templates::check_templates,
    Ensemble: tool_use::check_tools,
    Ensemble: unread_environment::check_script_environment,
    Ensemble: process_texts::check_process_texts,
    Ensemble: script_arguments::check_script_arguments,
    Ensemble: prepared_answers::check_prepared_answers,
    Ensemble: for_each::check_for_each,
    Ensemble: time_limits::check_time_limits,
    Ensemble: budget_scope::check_budget_scope,
    Ensemble: contradictory_schemas::check_contradictory_schemas,
    Ensemble: unknown_agents::check_unknown_agents,
    Ensemble: undeclared_inputs::check_undeclared_inputs,
    Ensemble: unknown_news::check_unknown_news,
    Ensemble: constant_conditions::check_constant_conditions,
    Ensemble: blocked_agents::check_blocked_agents,
    Ensemble: exclusive_joins::check_exclusive_joins,
    Ensemble: unreached_agents::check_unreached_agents,
    Ensemble: unrequested_agents::check_unrequested_agents,
    Ensemble: idle_turns::check_idle_turns,
    Ensemble: idle_dependencies::check_idle_dependencies,
    Ensemble: one_sided_loops::check_one_sided_loops,
    Ensemble: early_counts::check_early_counts,
    Ensemble: loop_turns::check_loop_turns,
    Ensemble: unasked_loops::check_unasked_loops,
    Ensemble: stopped_handlers::check_stopped_handlers,
    Ensemble: required_agents::check_required_agents,
    Ensemble: uncertain_outputs::check_uncertain_outputs,
    Ensemble: unheard_dependencies::check_unheard_dependencies,
    Files: condition_keys::check_condition_keys,
    Files: template_keys::check_template_keys,
    Files: value_types::check_value_types,
    Files: fixed_conditions::check_fixed_conditions,
    FileErrors: script_reads::check_script_reads,
    Files: unread_config::check_unread_config,
    Files: answer_truths::check_answer_truths,
    FileErrors: cost_limit::check_cost_limit,
    Files: failing_agents::check_failing_agents,
    Files: unread_inputs::check_unread_inputs,
    Files: unknown_profiles::check_unknown_profiles,
    Files: fallback_cycles::check_fallback_cycles,
    Files: unanswered_questions::check_unanswered_questions,
];

/// Returns all findings about the ensemble alone.
pub fn check_ensemble(ensemble: &Ensemble) -> Vec<Finding> {
    let graph = CheckGraph::build(ensemble);
    let subject = CheckSubject::new(&graph, &NoFileContext);
    run_checks_with_scopes(&subject, &[CheckScope::Ensemble]);
    subject.into_findings()
}

/// Returns all findings about the ensemble and the files around it.
pub fn check_with_context(ensemble: &Ensemble, context: &dyn CheckContext) -> Vec<Finding> {
    let graph = CheckGraph::build(ensemble);
    let subject = CheckSubject::new(&graph, context);
    run_checks_with_scopes(&subject, &[CheckScope::Ensemble]);
    run_checks_with_scopes(&subject, &[CheckScope::Files, CheckScope::FileErrors]);
    subject.add_findings(context.check_files(ensemble));
    subject.into_findings()
}

/// Returns the errors in the files around an ensemble: those of [`check_with_context`] that [`check_ensemble`] cannot
/// report.
pub fn check_file_errors(ensemble: &Ensemble, context: &dyn CheckContext) -> Vec<Finding> {
    let graph = CheckGraph::build(ensemble);
    let subject = CheckSubject::new(&graph, context);
    run_checks_with_scopes(&subject, &[CheckScope::FileErrors]);
    subject.add_findings(context.check_files(ensemble));
    let mut findings = subject.into_findings();
    findings.retain(|finding| finding.severity == FindingSeverity::Error);
    findings
}

/// Runs the checks with one of these scopes, and adds their findings to the subject.
fn run_checks_with_scopes(subject: &CheckSubject<'_>, reads: &[CheckScope]) {
    for check in CHECKS.iter().filter(|check| reads.contains(&check.reads)) {
        let findings = (check.run)(subject);
        debug_assert!(
            check.reads != CheckScope::Files || findings.iter().all(|one| one.severity != FindingSeverity::Error),
            "a run does not ask the check {:?} for errors",
            findings.first().map(|one| one.code)
        );
        subject.add_findings(findings);
    }
}

/// Returns the type of the result of a run of the ensemble, as far as the type is known.
pub fn ensemble_result_type(ensemble: &Ensemble, context: &dyn CheckContext) -> Option<ValueType> {
    value_types::infer_result_type(ensemble, &|agent| context.output_type(ensemble, agent))
}

#[cfg(test)]
mod tests;
