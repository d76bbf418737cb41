//! Agents that did not run in a turn, those with the same reason together.

use std::sync::Arc;

use ensemble_core::conversation::Waiting;

/// Agents, and the reason that they share; reasons in the order of their first agent.
pub(super) fn grouped(waiting: &[&Waiting]) -> Vec<(Vec<Arc<str>>, String)> {
    let mut groups: Vec<(Vec<Arc<str>>, String)> = Vec::new();
    for one in waiting {
        let reason = one.reason.to_string();
        match groups.iter_mut().find(|(_, known)| *known == reason) {
            Some((agents, _)) => agents.push(one.agent.clone()),
            None => groups.push((vec![one.agent.clone()], reason)),
        }
    }
    groups
}
