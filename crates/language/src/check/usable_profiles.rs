//! The model profiles that an ensemble can use, and those that it names.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ensemble::{
    Agent, AgentKind, ContextWindow, Ensemble, LlmSpec, ModelChoice, ModelProfile, PreparedResponses, ToolDefinition,
    WindowStrategy,
};
use crate::source::{Route, RouteLocation};

/// The profiles that an ensemble can use, by name. Profiles of its file replace those of the configuration.
pub(super) struct UsableProfiles<'e>(HashMap<&'e str, &'e ModelProfile>);

impl<'e> UsableProfiles<'e> {
    /// Indexes the profiles by name. Profiles of the ensemble replace `configured` profiles with the same name.
    pub(super) fn collect(ensemble: &'e Ensemble, configured: &'e [(Arc<str>, ModelProfile)]) -> Self {
        let least_first = configured.iter().rev().chain(ensemble.model_profiles.iter().rev());
        Self(least_first.map(|(name, profile)| (&**name, profile)).collect())
    }

    /// Returns the profile with this name.
    pub(super) fn get(&self, name: &str) -> Option<&'e ModelProfile> {
        self.0.get(name).copied()
    }

    /// Returns the system prompts of these profiles and of their fallbacks. Returns `None` if a profile is unknown.
    pub(super) fn system_prompts(&self, names: &[&str]) -> Option<Vec<&'e str>> {
        let mut seen_names = HashSet::new();
        let mut prompts = Vec::new();
        for name in names {
            let mut next = Some(*name);
            while let Some(name) = next.filter(|name| seen_names.insert(*name)) {
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

/// Returns the name of every profile that the ensemble uses, with the location of the use.
pub(super) fn list_used_profiles(ensemble: &Ensemble) -> impl Iterator<Item = (&str, RouteLocation)> {
    let agents = ensemble.agents.iter().enumerate().filter_map(|(index, agent)| {
        let route = Agent::route_at(index);
        match &agent.kind {
            AgentKind::Llm(llm) => match &llm.model {
                ModelChoice::Profile(name) => Some((&**name, route.with_key("model_profile").into_value_location())),
                ModelChoice::Model { .. } | ModelChoice::Acp(_) => None,
            },
            AgentKind::Input(input) => match &input.responses {
                Some(PreparedResponses::Profile(name)) => Some((
                    &**name,
                    route
                        .with_key("input")
                        .with_key("responses")
                        .with_key("model_profile")
                        .into_value_location(),
                )),
                _ => None,
            },
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => None,
        }
    });
    let fallbacks = ensemble.model_profiles.iter().filter_map(|(name, profile)| {
        let route = Route::root()
            .with_key("model_profiles")
            .with_key(name.clone())
            .with_key("fallback");
        Some((&**profile.fallback.as_ref()?, route.into_value_location()))
    });
    agents
        .chain(list_window_summary_profiles(ensemble))
        .chain(list_tool_summary_profiles(ensemble))
        .chain(fallbacks)
}

/// Returns the profiles that summarize the results of tools.
fn list_tool_summary_profiles(ensemble: &Ensemble) -> impl Iterator<Item = (&str, RouteLocation)> {
    ensemble.tools.iter().filter_map(|(name, tool)| {
        let profile = tool.summarize_with.as_ref()?;
        let route = ToolDefinition::route_for(name).with_key("summarize_with");
        Some((&**profile, route.into_value_location()))
    })
}

/// Returns the profiles that summarize messages outside of a context window.
fn list_window_summary_profiles(ensemble: &Ensemble) -> impl Iterator<Item = (&str, RouteLocation)> {
    let agents = ensemble.agents.iter().enumerate();
    agents.filter_map(|(index, agent)| match &agent.kind {
        AgentKind::Llm(LlmSpec {
            context_window:
                Some(ContextWindow {
                    strategy: WindowStrategy::Summarize(Some(name)),
                    ..
                }),
            ..
        }) => {
            let route = Agent::route_at(index).with_key("context_window").with_key("strategy");
            Some((&**name, route.with_key("summarize").into_value_location()))
        }
        _ => None,
    })
}
