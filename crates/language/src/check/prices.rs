//! A budget in money where no model in use has a price.

use std::collections::HashSet;

use super::profiles::{Profiles, named};
use super::subject::Subject;
use crate::diagnostic::Finding;
use crate::ensemble::{AgentKind, Ensemble, ToolKind};
use crate::loader::codes;
use crate::source::Route;

/// Warns of a `max_cost` that nothing can reach, unless a profile is not known or another ensemble has a part in the costs.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let is_known = subject.context.configured().is_some();
    let finding = is_known.then(|| without_price(subject.ensemble, subject.profiles()));
    finding.flatten().into_iter().collect()
}

fn without_price(ensemble: &Ensemble, profiles: &Profiles<'_>) -> Option<Finding> {
    ensemble.limits.max_cost?;
    let is_ensemble = |kind: &AgentKind| matches!(kind, AgentKind::Ensemble { .. });
    let has_inner = ensemble.agents.iter().any(|agent| is_ensemble(&agent.kind))
        || ensemble
            .tools
            .iter()
            .any(|(_, tool)| matches!(tool.kind, ToolKind::Ensemble { .. }));
    if has_inner {
        return None;
    }
    let mut seen = HashSet::new();
    let mut open: Vec<&str> = named(ensemble).map(|(name, _)| name).collect();
    while let Some(name) = open.pop() {
        if !seen.insert(name) || name == "simulated" && profiles.get(name).is_none() {
            continue;
        }
        let profile = profiles.get(name)?;
        if profile.cost.is_some() {
            return None;
        }
        open.extend(profile.fallback.as_deref());
    }
    let place = Route::root().key("conversation_limits").key("max_cost");
    let message = "`max_cost` has no effect: no model of this ensemble has a price";
    let finding = Finding::warning(codes::NO_PRICE, place.value(), message);
    Some(finding.help("give the profiles of the models a `cost`, or limit tokens with `max_total_tokens`"))
}
