//! A budget in money and models without a price.

use std::collections::HashSet;

use super::check_subject::CheckSubject;
use super::usable_profiles::UsableProfiles;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ensemble, ModelChoice, ToolDefinition, ToolKind};
use crate::loader::codes;
use crate::source::{Route, RouteLocation};

/// The models of an ensemble, by whether their use counts for `max_cost`.
#[derive(Default)]
struct ModelCosts {
    /// Whether a model has a price, or can report its costs.
    has_price: bool,
    /// The models without a price, for messages, each with its place.
    unpriced: Vec<(String, RouteLocation)>,
    /// Whether external agents, or nested ensembles whose models are not known, have costs of their own.
    has_other_costs: bool,
}

/// Warns of a `max_cost` that nothing can reach, and of models that it does not count, unless a profile is not known.
pub(super) fn check_cost_limit(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let is_known = subject.context.configured_profiles().is_some();
    if !is_known || subject.ensemble.limits.max_cost.is_none() {
        return Vec::new();
    }
    let Some(mut costs) = list_model_costs(subject.ensemble, subject.usable_profiles()) else {
        return Vec::new();
    };
    add_nested_costs(subject, &mut costs);
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
    let mut costs = ModelCosts::default();
    let (mut open, mut seen_names) = (Vec::new(), HashSet::new());
    for (at, agent) in ensemble.agents.iter().enumerate() {
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
                    false => max_cost_route(),
                };
                let text = format!("the model of the profile `{name}`");
                costs.unpriced.push((text, place.into_value_location()));
            }
        }
        open.extend(profile.fallback.clone());
    }
    Some(costs)
}

/// Adds the models of nested ensembles, each at the place where the ensemble itself names the nested one.
fn add_nested_costs(subject: &CheckSubject<'_>, costs: &mut ModelCosts) {
    let configured = subject.context.configured_profiles().unwrap_or_default();
    let mut open: Vec<(String, RouteLocation)> = list_nested_names(subject.ensemble);
    let mut seen_names = HashSet::new();
    while let Some((name, place)) = open.pop() {
        if !seen_names.insert(name.clone()) {
            continue;
        }
        let nested = subject.context.find_nested_ensemble(&name);
        let nested_costs = nested.as_ref().and_then(|nested| {
            let profiles = UsableProfiles::collect(nested, configured);
            list_model_costs(nested, &profiles)
        });
        let (Some(nested), Some(found)) = (nested, nested_costs) else {
            costs.has_other_costs = true;
            continue;
        };
        costs.has_price |= found.has_price;
        costs.has_other_costs |= found.has_other_costs;
        let unpriced = found.unpriced.into_iter();
        costs
            .unpriced
            .extend(unpriced.map(|(model, _)| (format!("{model} in `{name}`"), place.clone())));
        let below = list_nested_names(&nested).into_iter();
        open.extend(below.map(|(name, _)| (name, place.clone())));
    }
}

/// Lists the ensembles that agents and tools name, each with its place.
fn list_nested_names(ensemble: &Ensemble) -> Vec<(String, RouteLocation)> {
    let agents = ensemble
        .agents
        .iter()
        .enumerate()
        .filter_map(|(at, agent)| match &agent.kind {
            AgentKind::Ensemble { ensemble, .. } => Some((ensemble.to_string(), Agent::route_at(at))),
            _ => None,
        });
    let tools = ensemble.tools.iter().filter_map(|(name, tool)| match &tool.kind {
        ToolKind::Ensemble { ensemble, .. } => Some((ensemble.to_string(), ToolDefinition::route_for(name))),
        _ => None,
    });
    let named = agents.chain(tools);
    named
        .map(|(name, route)| (name, route.with_key("ensemble").into_value_location()))
        .collect()
}

/// Returns the route of `max_cost`.
fn max_cost_route() -> Route {
    Route::root().with_key("conversation_limits").with_key("max_cost")
}

/// Builds the warning that `max_cost` has no effect, because no model has a price.
fn missing_price_finding() -> Finding {
    let message = "`max_cost` has no effect: no model of this ensemble has a price";
    let finding = Finding::new_warning(codes::NO_PRICE, max_cost_route().into_value_location(), message);
    finding.with_help("give the profiles of the models a `cost`, or limit tokens with `max_total_tokens`")
}

/// Builds the warning that `max_cost` does not count this model.
fn uncounted_model_finding((model, place): (String, RouteLocation)) -> Finding {
    let message = format!("`max_cost` does not count {model}, because it has no price");
    Finding::new_warning(codes::NO_PRICE, place, message)
        .with_help("give the model a profile with a `cost`; the prices of a free model are 0")
}
