//! Model profiles that are used but not defined, that are defined but not used, or that form a cycle over several
//! files.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::{Agent, AgentKind, ContextWindow, Ensemble, Llm, ModelChoice, Profile, Responses, Strategy};
use crate::loader::codes;
use crate::source::{At, Route};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The profiles that an ensemble can use, by name; those of its file come before those of the configuration.
pub(super) struct Known<'e>(HashMap<&'e str, &'e Profile>);

impl<'e> Known<'e> {
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

/// Warns of every profile that is neither in the file nor in `known`; another computer may have the profile.
pub(super) fn unknown(ensemble: &Ensemble, known: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let inline: HashSet<&str> = ensemble.model_profiles.iter().map(|(name, _)| &**name).collect();
    named(ensemble)
        .filter(|(name, _)| !inline.contains(name) && !known(name))
        .map(|(name, at)| {
            let finding = Finding::warning(codes::UNKNOWN_PROFILE, at, format!("unknown model profile `{name}`"));
            match did_you_mean(name, inline.iter().copied()) {
                Some(near) => finding.meant_name(name, near),
                None => finding.help("define it under `model_profiles`, in this file or in `.ensemble/config.yaml`"),
            }
        })
        .collect()
}

/// Gives a hint for every profile of the file that is used by no agent and no fallback.
pub(super) fn unused(ensemble: &Ensemble) -> Vec<Finding> {
    let used: HashSet<&str> = named(ensemble).map(|(name, _)| name).collect();
    let profiles = ensemble.model_profiles.iter();
    profiles
        .filter(|(name, _)| !used.contains(&**name))
        .map(|(name, _)| {
            let route = Route::root().key("model_profiles").key(name.clone());
            Finding::hint(
                codes::UNUSED_PROFILE,
                route.clone().as_key(),
                format!("the model profile `{name}` is not used"),
            )
            .with_fix(RouteFix::not_safe("remove the profile", RouteEdit::Remove(route)))
            .help("remove the profile, or use it as the `model_profile` of an agent or as a `fallback`")
        })
        .collect()
}

/// Warns of fallbacks that lead from this file over `configured` profiles back to their start.
///
/// A cycle within one file is an error that the loader reports.
pub(super) fn circles_through(ensemble: &Ensemble, configured: &[(Arc<str>, Profile)]) -> Vec<Finding> {
    let mut fallbacks: HashMap<&str, Option<&str>> = HashMap::new();
    for (name, profile) in ensemble.model_profiles.iter().chain(configured) {
        fallbacks.entry(name).or_insert(profile.fallback.as_deref());
    }
    let own: HashSet<&str> = ensemble.model_profiles.iter().map(|(name, _)| &**name).collect();
    // The number of the walk that visited a profile first. A walk that visits a profile twice has found a cycle.
    let mut walked: HashMap<&str, usize> = HashMap::new();
    let mut findings = Vec::new();
    for (walk, (start, _)) in ensemble.model_profiles.iter().enumerate() {
        let mut way: Vec<&str> = Vec::new();
        let mut next = Some(&**start);
        while let Some(here) = next.filter(|here| !walked.contains_key(here)) {
            walked.insert(here, walk);
            way.push(here);
            next = fallbacks.get(here).copied().flatten();
        }
        let Some(from) = next.and_then(|met| way.iter().position(|name| *name == met)) else {
            continue;
        };
        let circle = &mut way[from..];
        // A cycle within the configuration is not a finding about this file.
        if let Some(first) = circle.iter().position(|name| own.contains(name)) {
            circle.rotate_left(first);
            let message = format!(
                "the fallbacks of these profiles form a cycle: {} → {}",
                circle.join(" → "),
                circle[0]
            );
            let place = Route::root().key("model_profiles").key(circle[0]).key("fallback");
            findings.push(
                Finding::warning(codes::FALLBACK_AROUND, place.value(), message)
                    .help("remove the `fallback` of one of these profiles"),
            );
        }
    }
    findings
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
