//! Questions that nobody answers in CI.

use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ensemble};
use crate::loader::codes;

/// Warns of every input agent without `default` and `responses`, if no operator can answer.
pub(super) fn check_unanswered_questions(subject: &CheckSubject<'_>) -> Vec<Finding> {
    if !subject.context.has_no_operator() {
        return Vec::new();
    }
    let ensemble = subject.ensemble;
    let agents = ensemble.agents.iter().enumerate();
    let asking = agents.filter(|(_, agent)| {
        matches!(&agent.kind, AgentKind::Input(input) if input.default.is_none() && input.responses.is_none())
    });
    asking
        .map(|(at, agent)| {
            let message = format!(
                "no person answers the question of `{}` in CI: the run ends with the outcome `waiting_for_input`",
                agent.name
            );
            let place = Agent::route_at(at).with_key("input").into_value_location();
            let run_with = format!(
                "run the ensemble with `--answer {}=…` and allow this warning",
                agent.name
            );
            let help = match decides_what_runs(ensemble, agent) {
                // A default would approve or reject without a person.
                true => format!("{run_with}, or let the run wait and answer with `ensemble resume`"),
                false => format!("add a `default` or `responses`, or {run_with}"),
            };
            Finding::new_warning(codes::UNANSWERED, place, message).with_help(help)
        })
        .collect()
}

/// Returns whether the answer of the input agent decides which agents run: it has choices, or a condition depends on it.
fn decides_what_runs(ensemble: &Ensemble, agent: &Agent) -> bool {
    let has_choices = matches!(&agent.kind, AgentKind::Input(input) if !input.choices.is_empty());
    let mut dependencies = ensemble.agents.iter().flat_map(|agent| &agent.dependencies);
    has_choices || dependencies.any(|dependency| dependency.agent_name == agent.name && dependency.condition.is_some())
}
