//! The `config` of agents whose prompts do not use it.

use std::collections::HashSet;

use super::profiles::Profiles;
use super::subject::Subject;
use super::templates::templates;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ensemble, ModelChoice, Responses};
use crate::loader::codes;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Warns of LLM agents and input agents with a `config` that no prompt uses. Scripts and ensembles receive it whole.
///
/// A key that all agents have is probably in `defaults` because of other agents, so it is not reported.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let (ensemble, profiles) = (subject.ensemble, subject.profiles());
    if ensemble.agents.iter().all(|agent| agent.config.is_empty()) {
        return Vec::new();
    }
    let shared = shared_keys(ensemble);
    let has_own = |agent: &Agent| agent.config.keys().any(|key| !shared.contains(key.as_str()));
    let agents = ensemble.agents.iter().enumerate();
    let unread = agents.filter(|(_, agent)| has_own(agent) && !may_use_config(agent, profiles));
    unread
        .map(|(at, agent)| {
            let message = format!(
                "the `config` of `{}` has no effect: none of its prompts uses `parameters`",
                agent.name
            );
            let route = Agent::route(at).key("config");
            let fix = RouteFix::not_safe("remove `config`", RouteEdit::Remove(route.clone()));
            Finding::warning(codes::UNREAD_CONFIG, route.as_key(), message)
                .with_fix(fix)
                .help("write `{{ parameters.KEY }}` in its prompt or its `arguments`, or remove `config`; settings of the model belong to its profile")
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

fn may_use_config(agent: &Agent, profiles: &Profiles<'_>) -> bool {
    let model = match &agent.kind {
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } => return true,
        AgentKind::Llm(llm) => match &llm.model {
            ModelChoice::Profile(name) => Some(name),
            // The built-in agent finds its replies there.
            ModelChoice::Acp(acp) if acp.is_simulated() => return true,
            ModelChoice::Model { .. } | ModelChoice::Acp(_) => None,
        },
        AgentKind::Input(input) => match &input.responses {
            Some(Responses::Profile(name)) => Some(name),
            Some(Responses::Script(_)) => return true,
            Some(Responses::List(_)) | None => None,
        },
        AgentKind::Tool { .. } => None,
    };
    let own = templates(agent, &crate::source::Route::root());
    own.iter().any(|(text, _)| may_use(text))
        || model.is_some_and(|name| {
            profiles
                .prompts(&[name])
                .is_none_or(|texts| texts.into_iter().any(may_use))
        })
}

/// Returns whether the template may use `parameters`; `debug` prints all variables.
fn may_use(template: &str) -> bool {
    template.contains("parameters") || template.contains("debug")
}
