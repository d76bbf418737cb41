//! Prepared answers that no question allows.

use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, PreparedResponses};
use crate::loader::codes;

/// Warns of items of `responses` that are none of the `choices`: an execution with such an answer fails.
pub(super) fn check_prepared_answers(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let mut findings = Vec::new();
    for (index, agent) in ensemble.agents.iter().enumerate() {
        let AgentKind::Input(input) = &agent.kind else { continue };
        let Some(PreparedResponses::List(answers)) = &input.responses else {
            continue;
        };
        if input.choices.is_empty() {
            continue;
        }
        // The same comparison as at the question.
        let same = |one: &String, answer: &String| one.trim().to_lowercase() == answer.trim().to_lowercase();
        let list = Agent::route_at(index).with_key("input").with_key("responses");
        for (at, answer) in answers.iter().enumerate() {
            if !input.choices.iter().any(|choice| same(choice, answer)) {
                let message = format!("the response `{answer}` is not one of the choices");
                let finding = Finding::new_warning(
                    codes::RESPONSE_NOT_A_CHOICE,
                    list.with_index(at).into_value_location(),
                    message,
                );
                let finding = finding.with_near_choice_fix(answer, &input.choices);
                findings.push(finding.with_help(format!("the choices are {}", input.choices.join(", "))));
            }
        }
    }
    findings
}
