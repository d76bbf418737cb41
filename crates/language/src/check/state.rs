//! Two agents that store their outputs under one key of the context.

use super::subject::Subject;
use std::collections::HashMap;

use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;
use crate::source::{At, Route};

/// Gives a hint for every `state_key` that an earlier agent uses too.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
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
                Finding::hint(codes::SHARED_STATE_KEY, place(index), message)
                    .also(place(earlier), "first here")
                    .help("a later output overwrites an earlier one; within one turn, the output of the agent that is declared last is kept"),
            );
        }
    }
    findings
}

fn place(index: usize) -> At {
    Route::key(&Agent::route(index).key("conversation"), "state_key").value()
}
