//! The model profiles that an ensemble can use, and those that it names.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ensemble::{Agent, AgentKind, ContextWindow, Ensemble, Llm, ModelChoice, Profile, Responses, Strategy};
use crate::source::{At, Route};

/// The profiles that an ensemble can use, by name; those of its file come before those of the configuration.
pub(super) struct Profiles<'e>(HashMap<&'e str, &'e Profile>);

impl<'e> Profiles<'e> {
    pub(super) fn of(ensemble: &'e Ensemble, configured: &'e [(Arc<str>, Profile)]) -> Self {
        let least_first = configured.iter().rev().chain(ensemble.model_profiles.iter().rev());
        Self(least_first.map(|(name, profile)| (&**name, profile)).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&'e Profile> {
        self.0.get(name).copied()
    }

    /// The system prompts of these profiles and of their fallbacks; `None` if one of the profiles is unknown.
    pub(super) fn prompts(&self, names: &[&str]) -> Option<Vec<&'e str>> {
        let mut seen = HashSet::new();
        let mut prompts = Vec::new();
        for name in names {
            let mut next = Some(*name);
            while let Some(name) = next.filter(|name| seen.insert(*name)) {
                let Some(profile) = self.get(name) else {
                    if name == "simulated" {
                        break;
                    }
                    return None;
                };
                prompts.extend(profile.system_prompt.as_deref());
                next = profile.fallback.as_deref();
            }
        }
        Some(prompts)
    }
}

/// Every profile that is used, with its place.
pub(super) fn named(ensemble: &Ensemble) -> impl Iterator<Item = (&str, At)> {
    let agents = ensemble.agents.iter().enumerate().filter_map(|(index, agent)| {
        let route = Agent::route(index);
        match &agent.kind {
            AgentKind::Llm(llm) => match &llm.model {
                ModelChoice::Profile(name) => Some((&**name, route.key("model_profile").value())),
                ModelChoice::Model { .. } | ModelChoice::Acp(_) => None,
            },
            AgentKind::Input(input) => match &input.responses {
                Some(Responses::Profile(name)) => Some((
                    &**name,
                    route.key("input").key("responses").key("model_profile").value(),
                )),
                _ => None,
            },
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => None,
        }
    });
    let fallbacks = ensemble.model_profiles.iter().filter_map(|(name, profile)| {
        let route = Route::root().key("model_profiles").key(name.clone()).key("fallback");
        Some((&**profile.fallback.as_ref()?, route.value()))
    });
    agents.chain(summing_up(ensemble)).chain(fallbacks)
}

/// The profiles that summarize the messages that a context window leaves out.
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
