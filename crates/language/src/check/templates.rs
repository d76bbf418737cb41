//! Prompts and questions that cannot be rendered.

use std::sync::Arc;

use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ensemble};
use crate::loader::codes;
use crate::source::{Route, Span};
use crate::template::{self, Fault};

/// Reports templates that do not compile, and variables that do not exist.
pub(super) fn check(ensemble: &Ensemble) -> Vec<Finding> {
    let of_agents = ensemble.agents.iter().enumerate().flat_map(|(index, agent)| {
        let listens_to: Vec<Arc<str>> = agent.dependencies.iter().map(|one| one.agent_name.clone()).collect();
        let of_agent = templates(agent, &Agent::route(index));
        of_agent
            .into_iter()
            .filter_map(move |(text, route)| finding(text, route, Some(&listens_to)))
    });
    // A profile is used by several agents with different dependencies, so its variables are checked for each agent.
    let of_profiles = of_profiles(ensemble).filter_map(|(text, route)| finding(text, route, None));
    of_agents.chain(of_profiles).collect()
}

/// All templates of the ensemble and their places.
pub(super) fn all(ensemble: &Ensemble) -> impl Iterator<Item = (&str, Route)> {
    let agents = ensemble.agents.iter().enumerate();
    let of_agents = agents.flat_map(|(index, agent)| templates(agent, &Agent::route(index)));
    of_agents.chain(of_profiles(ensemble))
}

fn of_profiles(ensemble: &Ensemble) -> impl Iterator<Item = (&str, Route)> {
    ensemble.model_profiles.iter().filter_map(|(name, profile)| {
        let route = Route::root().key("model_profiles").key(name.clone());
        Some((profile.system_prompt.as_deref()?, route.key("system_prompt")))
    })
}

/// The templates of the agent and their places.
fn templates<'a>(agent: &'a Agent, route: &Route) -> Vec<(&'a str, Route)> {
    match &agent.kind {
        AgentKind::Llm(llm) => {
            let prompt = llm.prompt.as_deref().map(|text| (text, route.key("prompt")));
            let system = llm
                .system_prompt
                .as_deref()
                .map(|text| (text, route.key("system_prompt")));
            prompt.into_iter().chain(system).collect()
        }
        AgentKind::Input(input) => vec![(input.prompt.as_str(), route.key("input").key("prompt"))],
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } => Vec::new(),
    }
}

fn finding(text: &str, route: Route, listens_to: Option<&[Arc<str>]>) -> Option<Finding> {
    let (code, error) = match template::check(text, listens_to).err()? {
        Fault::Syntax(error) => (codes::TEMPLATE, error),
        Fault::Variable(error) => (codes::TEMPLATE_NAME, error),
    };
    let span = error.span.unwrap_or(Span::new(0, text.len()));
    Some(Finding::error(code, route.text(span), error.message))
}
