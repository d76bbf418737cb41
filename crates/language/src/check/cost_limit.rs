//! A budget in money where no model in use has a price.

use std::collections::HashSet;

use super::check_subject::CheckSubject;
use super::usable_profiles::{UsableProfiles, list_used_profiles};
use crate::diagnostic::Finding;
use crate::ensemble::{AgentKind, Ensemble, ToolKind};
use crate::loader::codes;
use crate::source::Route;

/// Warns of a `max_cost` that nothing can reach, unless a profile is not known or another ensemble has a part in the costs.
pub(super) fn check_cost_limit(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let is_known = subject.context.configured_profiles().is_some();
    let finding = is_known.then(|| missing_price_finding(subject.ensemble, subject.usable_profiles()));
    finding.flatten().into_iter().collect()
}

fn missing_price_finding(ensemble: &Ensemble, profiles: &UsableProfiles<'_>) -> Option<Finding> {
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
    let mut seen_names = HashSet::new();
    let mut open: Vec<&str> = list_used_profiles(ensemble).map(|(name, _)| name).collect();
    while let Some(name) = open.pop() {
        if !seen_names.insert(name) || name == "simulated" && profiles.get(name).is_none() {
            continue;
        }
        let profile = profiles.get(name)?;
        if profile.cost.is_some() {
            return None;
        }
        open.extend(profile.fallback.as_deref());
    }
    let place = Route::root().with_key("conversation_limits").with_key("max_cost");
    let message = "`max_cost` has no effect: no model of this ensemble has a price";
    let finding = Finding::new_warning(codes::NO_PRICE, place.into_value_location(), message);
    Some(finding.with_help("give the profiles of the models a `cost`, or limit tokens with `max_total_tokens`"))
}
