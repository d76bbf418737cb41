//! Model profiles that are named and not known.

use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::{Agent, AgentKind, ContextWindow, Ensemble, Llm, ModelChoice, Responses, Strategy};
use crate::loader::codes;
use crate::source::{At, Route};

/// Warns of every profile that neither the file nor `known` has; another machine may have it.
pub fn unknown_profiles(ensemble: &Ensemble, known: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let inline: std::collections::HashSet<&str> = ensemble.model_profiles.iter().map(|(name, _)| &**name).collect();
    named(ensemble)
        .filter(|(name, _)| !inline.contains(name) && !known(name))
        .map(|(name, at)| {
            Finding::warning(
                codes::UNKNOWN_PROFILE,
                at,
                format!("there is no model profile `{name}` here"),
            )
            .help(match did_you_mean(name, inline.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "define it under `model_profiles`, in this file or in `.ensemble/config.yaml`".to_owned(),
            })
        })
        .collect()
}

/// Every profile that is named, with its place.
fn named(ensemble: &Ensemble) -> impl Iterator<Item = (&str, At)> {
    let agents = ensemble.agents.iter().enumerate().filter_map(|(index, agent)| {
        let route = Agent::route(index);
        match &agent.kind {
            AgentKind::Llm(llm) => match &llm.model {
                ModelChoice::Profile(name) => Some((&**name, route.key("model_profile").value())),
                ModelChoice::Model { .. } => None,
            },
            AgentKind::Input(input) => match &input.responses {
                Some(Responses::Profile(name)) => Some((
                    &**name,
                    route.key("input").key("responses").key("model_profile").value(),
                )),
                _ => None,
            },
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } => None,
        }
    });
    let fallbacks = ensemble.model_profiles.iter().filter_map(|(name, profile)| {
        let route = Route::root().key("model_profiles").key(name.clone()).key("fallback");
        Some((&**profile.fallback.as_ref()?, route.value()))
    });
    agents.chain(summing_up(ensemble)).chain(fallbacks)
}

/// Profiles that sum up what a context window leaves out.
fn summing_up(ensemble: &Ensemble) -> impl Iterator<Item = (&str, At)> {
    let agents = ensemble.agents.iter().enumerate();
    agents.filter_map(|(index, agent)| match &agent.kind {
        AgentKind::Llm(Llm {
            context_window:
                Some(ContextWindow {
                    strategy: Strategy::Summarize(Some(name)),
                    ..
                }),
            ..
        }) => {
            let route = Agent::route(index).key("context_window").key("strategy");
            Some((&**name, route.key("summarize").value()))
        }
        _ => None,
    })
}
