//! A budget in money and models without a price.

use std::collections::HashSet;

use super::check_subject::CheckSubject;
use super::context::CheckContext;
use super::model_costs::{ModelCosts, UnpricedModel};
use super::usable_profiles::UsableProfiles;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ensemble, ModelChoice, ToolDefinition, ToolKind};
use crate::loader::codes;
use crate::source::{Route, RouteLocation};

/// Reports a `max_cost` that a run can never reach, and models that it does not count, unless a profile is not known.
pub(super) fn check_cost_limit(subject: &CheckSubject<'_>) -> Vec<Finding> {
    if subject.ensemble.limits.max_cost.is_none() {
        return Vec::new();
    }
    match collect_model_costs(subject.ensemble, subject.context) {
        None => Vec::new(),
        Some(ModelCosts {
            has_price: true,
            unpriced,
            ..
        }) => unpriced.into_iter().map(uncounted_model_finding).collect(),
        Some(ModelCosts {
            has_other_costs: true, ..
        }) => Vec::new(),
        Some(costs) if costs.asks_models() && !subject.context.executes_nothing() => {
            vec![budget_without_price_finding()]
        }
        Some(_) => vec![missing_price_finding()],
    }
}

/// Returns the error that a run with a `max_cost` does not start, because no model of the run has a price.
pub fn budget_without_price_finding() -> Finding {
    let message = "`max_cost` is never reached: no model of this run has a price";
    Finding::new_error(
        codes::BUDGET_WITHOUT_PRICE,
        max_cost_route().into_value_location(),
        message,
    )
    .with_help("give the profiles of the models a `cost`, or limit tokens with `max_total_tokens`")
}

/// Collects the models of the ensemble and of the ensembles that it names. Returns `None` if a profile is not known.
pub fn collect_model_costs(ensemble: &Ensemble, context: &dyn CheckContext) -> Option<ModelCosts> {
    let profiles = UsableProfiles::collect(ensemble, context.configured_profiles()?);
    let mut costs = list_model_costs(ensemble, &profiles)?;
    let mut seen_names = HashSet::new();
    for (named, place) in list_nested_names(ensemble) {
        if !seen_names.insert(named) {
            continue;
        }
        let Some(nested) = context.nested_model_costs(named) else {
            costs.has_other_costs = true;
            continue;
        };
        costs.has_price |= nested.has_price;
        costs.has_free_model |= nested.has_free_model;
        costs.has_other_costs |= nested.has_other_costs;
        costs.unpriced.extend(nested.unpriced.iter().map(|model| UnpricedModel {
            model: model.model.clone(),
            nested: Some(model.nested.clone().unwrap_or_else(|| named.to_owned())),
            place: place.clone(),
        }));
    }
    Some(costs)
}

/// Lists the models of the ensemble without nested ensembles. Returns `None` if a profile is not known.
fn list_model_costs(ensemble: &Ensemble, profiles: &UsableProfiles<'_>) -> Option<ModelCosts> {
    let mut costs = ModelCosts::default();
    let add_unpriced = |costs: &mut ModelCosts, model: String, place: Route| {
        costs.unpriced.push(UnpricedModel {
            model,
            nested: None,
            place: place.into_value_location(),
        });
    };
    let (mut open, mut seen_names) = (Vec::new(), HashSet::new());
    for (at, agent) in ensemble.agents.iter().enumerate() {
        for choice in ensemble.list_agent_models(agent) {
            match choice {
                ModelChoice::Profile(name) => open.push(name),
                ModelChoice::Model { provider, model } => {
                    let place = Agent::route_at(at).with_key("model");
                    add_unpriced(&mut costs, format!("`{provider}/{model}`"), place);
                }
                ModelChoice::Acp(_) => costs.has_other_costs = true,
            }
        }
    }
    while let Some(name) = open.pop() {
        let is_built_in = &*name == "simulated" && profiles.get(&name).is_none();
        costs.has_free_model |= is_built_in;
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
                add_unpriced(&mut costs, format!("the model of the profile `{name}`"), place);
            }
        }
        open.extend(profile.fallback.clone());
    }
    Some(costs)
}

/// Lists the ensembles that agents and usable tools name, each with its place.
fn list_nested_names(ensemble: &Ensemble) -> impl Iterator<Item = (&str, RouteLocation)> {
    let agents = ensemble.agents.iter().enumerate();
    let agents = agents.filter_map(|(at, agent)| match &agent.kind {
        AgentKind::Ensemble { ensemble, .. } => Some((&**ensemble, Agent::route_at(at))),
        _ => None,
    });
    let tools = ensemble.tools.iter().filter_map(|(name, tool)| match &tool.kind {
        ToolKind::Ensemble { ensemble: named, .. } if ensemble.can_call_tool(name) => {
            Some((&**named, ToolDefinition::route_for(name)))
        }
        _ => None,
    });
    let named = agents.chain(tools);
    named.map(|(name, route)| (name, route.with_key("ensemble").into_value_location()))
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
fn uncounted_model_finding(unpriced: UnpricedModel) -> Finding {
    let nested = unpriced.nested.map(|file| format!(" in `{file}`")).unwrap_or_default();
    let message = format!(
        "`max_cost` does not count {}{nested}, because it has no price",
        unpriced.model
    );
    Finding::new_warning(codes::NO_PRICE, unpriced.place, message)
        .with_help("give the model a profile with a `cost`; the prices of a free model are 0")
}
