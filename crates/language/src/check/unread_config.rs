//! The `config` of agents whose prompts do not use it.

use std::collections::HashSet;

use super::check_subject::CheckSubject;
use super::templates::list_agent_templates;
use super::usable_profiles::UsableProfiles;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ensemble, ModelChoice, PreparedResponses};
use crate::loader::codes;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Warns of LLM and input agents with a `config` that no prompt uses.
///
/// A key that all agents have is probably in `defaults` because of other agents, so it is not reported.
pub(super) fn check_unread_config(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let (ensemble, profiles) = (subject.ensemble, subject.usable_profiles());
    if ensemble.agents.iter().all(|agent| agent.config.is_empty()) {
        return Vec::new();
    }
    let shared = keys_in_all_configs(ensemble);
    let has_own = |agent: &Agent| agent.config.keys().any(|key| !shared.contains(key.as_str()));
    let agents = ensemble.agents.iter().enumerate();
    let unread = agents.filter(|(_, agent)| has_own(agent) && !can_use_config(agent, profiles));
    unread
        .map(|(at, agent)| {
            let message = format!(
                "the `config` of `{}` has no effect: none of its prompts uses `parameters`",
                agent.name
            );
            let route = Agent::route_at(at).with_key("config");
            let fix = RouteFix::new_unsafe("remove `config`", RouteEdit::Remove(route.clone()));
            Finding::new_warning(codes::UNREAD_CONFIG, route.into_key_location(), message)
                .with_fix(fix)
                .with_help("write `{{ parameters.KEY }}` in its prompt or its `arguments`, or remove `config`; settings of the model belong to its profile")
        })
        .collect()
}

/// Returns the `config` keys that all agents have. Returns none if there is only one agent.
fn keys_in_all_configs(ensemble: &Ensemble) -> HashSet<&str> {
    let [first, others @ ..] = ensemble.agents.as_slice() else {
        return HashSet::new();
    };
    let in_all = |key: &&String| others.iter().all(|other| other.config.contains_key(*key));
    let keys = first.config.keys().filter(|_| !others.is_empty());
    keys.filter(in_all).map(String::as_str).collect()
}

/// Returns whether the agent may use its `config`: in a script, a nested ensemble, or a template.
fn can_use_config(agent: &Agent, profiles: &UsableProfiles<'_>) -> bool {
    let model = match &agent.kind {
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } => return true,
        AgentKind::Llm(llm) => match &llm.model {
            ModelChoice::Profile(name) => Some(name),
            // The built-in agent finds its replies there.
            ModelChoice::Acp(acp) if acp.is_simulated() => return true,
            ModelChoice::Model { .. } | ModelChoice::Acp(_) => None,
        },
        AgentKind::Input(input) => match &input.responses {
            Some(PreparedResponses::Profile(name)) => Some(name),
            Some(PreparedResponses::Script(_)) => return true,
            Some(PreparedResponses::List(_)) | None => None,
        },
        AgentKind::Tool { .. } => None,
    };
    let own_templates = list_agent_templates(agent, &crate::source::Route::root());
    own_templates.iter().any(|(text, _)| can_read_parameters(text))
        || model.is_some_and(|name| {
            profiles
                .system_prompts(&[name])
                .is_none_or(|texts| texts.into_iter().any(can_read_parameters))
        })
}

/// Returns whether the template may use `parameters`. The function `debug` prints all variables.
fn can_read_parameters(template: &str) -> bool {
    template.contains("parameters") || template.contains("debug")
}
