//! Two agents that store their outputs under one key of the context.

use super::check_subject::CheckSubject;
use std::collections::HashMap;

use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;
use crate::source::{Route, RouteLocation};

/// Gives a hint for every `state_key` that an earlier agent uses too.
pub(super) fn check_state_keys(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut findings = Vec::new();
    for (index, agent) in ensemble.agents.iter().enumerate() {
        let Some(key) = &agent.conversation.state_key else {
            continue;
        };
        let earlier = *first.entry(key).or_insert(index);
        if earlier != index {
            let message = format!(
                "`{}` and `{}` both store their output under `{key}`",
                ensemble.agents[earlier].name, agent.name
            );
            findings.push(
                Finding::new_hint(codes::SHARED_STATE_KEY, state_key_location(index), message)
                    .with_related(state_key_location(earlier), "first here")
                    .with_help("a later output overwrites an earlier output; within one turn, the output of the agent that is declared last is kept"),
            );
        }
    }
    findings
}

/// Returns the location of `state_key` of the agent.
fn state_key_location(index: usize) -> RouteLocation {
    Route::with_key(&Agent::route_at(index).with_key("conversation"), "state_key").into_value_location()
}
