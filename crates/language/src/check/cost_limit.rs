//! A budget in money and models without a price.

use std::collections::HashSet;

use super::check_subject::CheckSubject;
use super::usable_profiles::UsableProfiles;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ensemble, ModelChoice, ToolKind};
use crate::loader::codes;
use crate::source::{Route, RouteLocation};

/// The models of an ensemble, by whether their use counts for `max_cost`.
#[derive(Default)]
struct ModelCosts {
    /// Whether a model has a price, or can report its costs.
    has_price: bool,
    /// The models without a price, for messages, each with its place.
    unpriced: Vec<(String, RouteLocation)>,
    /// Whether external agents or nested ensembles have costs of their own.
    has_other_costs: bool,
}

/// Warns of a `max_cost` that nothing can reach, and of models that it does not count, unless a profile is not known.
pub(super) fn check_cost_limit(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let is_known = subject.context.configured_profiles().is_some();
    if !is_known || subject.ensemble.limits.max_cost.is_none() {
        return Vec::new();
    }
    let Some(costs) = list_model_costs(subject.ensemble, subject.usable_profiles()) else {
        return Vec::new();
    };
    match costs {
        ModelCosts { has_price: true, .. } => costs.unpriced.into_iter().map(uncounted_model_finding).collect(),
        ModelCosts {
            has_other_costs: true, ..
        } => Vec::new(),
        ModelCosts { .. } => vec![missing_price_finding()],
    }
}

/// Lists the models of the ensemble without nested ensembles. Returns `None` if a profile is not known.
fn list_model_costs(ensemble: &Ensemble, profiles: &UsableProfiles<'_>) -> Option<ModelCosts> {
    let is_nested_tool = |kind: &ToolKind| matches!(kind, ToolKind::Ensemble { .. });
    let mut costs = ModelCosts {
        has_other_costs: ensemble.tools.iter().any(|(_, tool)| is_nested_tool(&tool.kind)),
        ..ModelCosts::default()
    };
    let (mut open, mut seen_names) = (Vec::new(), HashSet::new());
    for (at, agent) in ensemble.agents.iter().enumerate() {
        costs.has_other_costs |= matches!(agent.kind, AgentKind::Ensemble { .. });
        for choice in ensemble.list_agent_models(agent) {
            match choice {
                ModelChoice::Profile(name) => open.push(name),
                ModelChoice::Model { provider, model } => {
                    let place = Agent::route_at(at).with_key("model").into_value_location();
                    costs.unpriced.push((format!("`{provider}/{model}`"), place));
                }
                ModelChoice::Acp(_) => costs.has_other_costs = true,
            }
        }
    }
    while let Some(name) = open.pop() {
        let is_built_in = &*name == "simulated" && profiles.get(&name).is_none();
        if is_built_in || !seen_names.insert(name.clone()) {
            continue;
        }
        let profile = profiles.get(&name)?;
        match profile.cost {
            Some(_) => costs.has_price = true,
            None => {
                let is_in_file = ensemble.model_profiles.iter().any(|(known, _)| *known == name);
                let place = match is_in_file {
                    true => Route::root().with_key("model_profiles").with_key(name.clone()),
                    false => limit_route(),
                };
                let text = format!("the model of the profile `{name}`");
                costs.unpriced.push((text, place.into_value_location()));
            }
        }
        open.extend(profile.fallback.clone());
    }
    Some(costs)
}

/// Returns the route of `max_cost`.
fn limit_route() -> Route {
    Route::root().with_key("conversation_limits").with_key("max_cost")
}

/// Builds the warning that `max_cost` has no effect, because no model has a price.
fn missing_price_finding() -> Finding {
    let message = "`max_cost` has no effect: no model of this ensemble has a price";
    let finding = Finding::new_warning(codes::NO_PRICE, limit_route().into_value_location(), message);
    finding.with_help("give the profiles of the models a `cost`, or limit tokens with `max_total_tokens`")
}

/// Builds the warning that `max_cost` does not count this model.
fn uncounted_model_finding((model, place): (String, RouteLocation)) -> Finding {
    let message = format!("`max_cost` does not count {model}, because it has no price");
    Finding::new_warning(codes::NO_PRICE, place, message)
        .with_help("give the model a profile with a `cost`; the prices of a free model are 0")
}
