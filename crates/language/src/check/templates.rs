//! Prompts and questions that cannot be rendered.

use super::subject::Subject;
use std::sync::Arc;

use serde_json::Value;

use crate::condition::{Advice, Misfit, Mistake, PartNames};
use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::{Agent, AgentKind, Ensemble};
use crate::loader::codes;
use crate::source::{Route, Span};
use crate::template;
use crate::template::{Fault, VARIABLES};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Reports templates that do not compile, and variables that do not exist.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let of_agents = ensemble.agents.iter().enumerate().flat_map(|(index, agent)| {
        let mut listens_to: Vec<Arc<str>> = agent.dependencies.iter().map(|one| one.agent_name.clone()).collect();
        if let Some(spec) = &agent.for_each {
            listens_to.extend([spec.item_name.clone(), PartNames::PART.into()]);
        }
        let of_agent = templates(agent, &Agent::route(index));
        of_agent
            .into_iter()
            .flat_map(move |(text, route)| findings(text, &route, Some(&listens_to)))
    });
    // A profile is used by several agents with different dependencies, so its variables are checked for each agent.
    let of_profiles = of_profiles(ensemble).flat_map(|(text, route)| findings(text, &route, None));
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
pub(super) fn templates<'a>(agent: &'a Agent, route: &Route) -> Vec<(&'a str, Route)> {
    match &agent.kind {
        AgentKind::Llm(llm) => {
            let prompt = llm.prompt.as_deref().map(|text| (text, route.key("prompt")));
            let system = llm
                .system_prompt
                .as_deref()
                .map(|text| (text, route.key("system_prompt")));
            let attachments = route.key("attachments");
            let attached = llm.attachments.iter().enumerate();
            let attached = attached.map(|(at, text)| (text.as_str(), attachments.index(at)));
            prompt.into_iter().chain(system).chain(attached).collect()
        }
        AgentKind::Input(input) => vec![(input.prompt.as_str(), route.key("input").key("prompt"))],
        AgentKind::Ensemble { prompt, inputs, .. } => {
            let mut found: Vec<(&str, Route)> = Vec::new();
            found.extend(prompt.as_deref().map(|text| (text, route.key("prompt"))));
            for (name, value) in inputs {
                texts(value, route.key("inputs").key(name.as_str()), &mut found);
            }
            found
        }
        AgentKind::Tool { arguments, .. } => {
            let mut found = Vec::new();
            for (name, value) in arguments {
                texts(value, route.key("arguments").key(name.as_str()), &mut found);
            }
            found
        }
        AgentKind::Script { .. } => Vec::new(),
    }
}

/// All texts in a value, with their places.
fn texts<'v>(value: &'v Value, route: Route, found: &mut Vec<(&'v str, Route)>) {
    match value {
        Value::String(text) => found.push((text, route)),
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered.for_each(|(at, item)| texts(item, route.index(at), found));
        }
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| texts(value, route.key(key.as_str()), found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn findings(text: &str, route: &Route, listens_to: Option<&[Arc<str>]>) -> Vec<Finding> {
    match fault(text, route, listens_to) {
        Some(fault) => vec![fault],
        None => unknown_filters(text, route),
    }
}

/// Filters and tests that do not exist: whoever renders the part of the template fails.
fn unknown_filters(text: &str, route: &Route) -> Vec<Finding> {
    if !text.contains('|') && !text.contains("filter") && !text.contains(" is ") {
        return Vec::new();
    }
    let found = template::misfits(text, &|_| None).into_iter();
    let unknown = found.filter(|misfit| misfit.mistake == Mistake::Unknown);
    let finding = |misfit: Misfit| {
        let finding = Finding::error(codes::UNKNOWN_FILTER, route.clone().text(misfit.span), misfit.message);
        advised(finding, misfit.help, route)
    };
    unknown.map(finding).collect()
}

/// The finding with what to write instead, which is in the text at the route.
pub(super) fn advised(finding: Finding, advice: Option<Advice>, route: &Route) -> Finding {
    let Some(Advice { words, edit }) = advice else {
        return finding;
    };
    let finding = finding.help(words);
    let Some((span, text)) = edit else { return finding };
    let title = format!("write `{text}`");
    finding.with_fix(RouteFix::not_safe(
        title,
        RouteEdit::WriteText(route.clone().text(span), text),
    ))
}

fn fault(text: &str, route: &Route, listens_to: Option<&[Arc<str>]>) -> Option<Finding> {
    let (code, error) = match template::check(text, listens_to).err()? {
        Fault::Syntax(error) => (codes::TEMPLATE, error),
        Fault::Depth(error) => (codes::TEMPLATE_DEPTH, error),
        Fault::Variable(error) => (codes::TEMPLATE_NAME, error),
    };
    let span = error.span.unwrap_or(Span::new(0, text.len()));
    let finding = Finding::error(code, route.clone().text(span), error.message);
    let meant = error.span.filter(|_| code == codes::TEMPLATE_NAME).and_then(|span| {
        let name = text.get(span.start..span.end)?;
        let agents = listens_to.unwrap_or_default().iter().map(|name| &**name);
        let near = did_you_mean(name, agents.chain(VARIABLES).filter(|name| !name.contains('-')))?;
        Some((name, near.to_owned()))
    });
    Some(match meant {
        Some((name, near)) => finding.meant_name(name, &near),
        None => finding,
    })
}
