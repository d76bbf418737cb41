//! The `config` of agents whose prompts do not use it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::templates::templates;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ensemble, ModelChoice, Profile, Responses};
use crate::loader::codes;

/// Warns of LLM agents and input agents with a `config` that no prompt uses. Scripts and ensembles receive it whole.
///
/// A key that all agents have is probably in `defaults` because of other agents, so it is not reported.
pub(super) fn check(ensemble: &Ensemble, configured: Option<&[(Arc<str>, Profile)]>) -> Vec<Finding> {
    if ensemble.agents.iter().all(|agent| agent.config.is_empty()) {
        return Vec::new();
    }
    let profiles = ensemble.model_profiles.iter().rev();
    let profiles = configured.unwrap_or_default().iter().rev().chain(profiles);
    let profiles = Profiles(profiles.map(|(name, profile)| (&**name, profile)).collect());
    let shared = shared_keys(ensemble);
    let has_own = |agent: &Agent| agent.config.keys().any(|key| !shared.contains(key.as_str()));
    let agents = ensemble.agents.iter().enumerate();
    let unread = agents.filter(|(_, agent)| has_own(agent) && !profiles.may_use_config(agent));
    unread
        .map(|(at, agent)| {
            let message = format!(
                "the `config` of `{}` has no effect: none of its prompts uses `parameters`",
                agent.name
            );
            Finding::warning(codes::UNREAD_CONFIG, Agent::route(at).key("config").as_key(), message)
                .help("write `{{ parameters.KEY }}` in its prompt, or remove `config`; settings of the model belong to its profile")
        })
        .collect()
}

/// The keys that all agents have, if there are several agents.
fn shared_keys(ensemble: &Ensemble) -> HashSet<&str> {
    let [first, others @ ..] = ensemble.agents.as_slice() else {
        return HashSet::new();
    };
    let in_all = |key: &&String| others.iter().all(|other| other.config.contains_key(*key));
    let keys = first.config.keys().filter(|_| !others.is_empty());
    keys.filter(in_all).map(String::as_str).collect()
}

/// The profiles that the ensemble can use; those of the file come before those of the configuration.
struct Profiles<'e>(HashMap<&'e str, &'e Profile>);

impl Profiles<'_> {
    fn may_use_config(&self, agent: &Agent) -> bool {
        let model = match &agent.kind {
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } => return true,
            AgentKind::Llm(llm) => match &llm.model {
                ModelChoice::Profile(name) => Some(name),
                ModelChoice::Model { .. } => None,
            },
            AgentKind::Input(input) => match &input.responses {
                Some(Responses::Profile(name)) => Some(name),
                Some(Responses::Script(_)) => return true,
                Some(Responses::List(_)) | None => None,
            },
        };
        let own = templates(agent, &crate::source::Route::root());
        own.iter().any(|(text, _)| may_use(text)) || model.is_some_and(|name| self.prompts_may_use(name))
    }

    /// Whether the prompt of the profile or of one of its fallbacks may use `parameters`; true if one is unknown.
    fn prompts_may_use(&self, name: &str) -> bool {
        let mut seen = HashSet::new();
        let mut next = Some(name);
        while let Some(name) = next.filter(|name| seen.insert(*name)) {
            let Some(profile) = self.0.get(name) else {
                return name != "simulated";
            };
            if profile.system_prompt.as_deref().is_some_and(may_use) {
                return true;
            }
            next = profile.fallback.as_deref();
        }
        false
    }
}

/// Whether the template may use `parameters`; `debug` prints all variables.
fn may_use(template: &str) -> bool {
    template.contains("parameters") || template.contains("debug")
}
