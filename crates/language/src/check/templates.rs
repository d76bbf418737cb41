//! Prompts and questions that cannot be rendered.

use super::check_subject::CheckSubject;
use std::sync::Arc;

use serde_json::Value;

use crate::condition::{PartVariables, SuggestedReplacement, TypeProblem, TypeProblemKind};
use crate::diagnostic::{Finding, find_similar_word};
use crate::ensemble::{Agent, AgentKind, Ensemble};
use crate::loader::codes;
use crate::source::{Route, Span};
use crate::template;
use crate::template::{TemplateCheckError, VARIABLES};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Reports templates that do not compile, and variables, filters and tests that do not exist.
pub(super) fn check_templates(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let of_agents = ensemble.agents.iter().enumerate().flat_map(|(index, agent)| {
        let mut listens_to: Vec<Arc<str>> = agent.dependencies.iter().map(|one| one.agent_name.clone()).collect();
        if let Some(spec) = &agent.for_each {
            listens_to.extend([spec.item_name.clone(), PartVariables::PART.into()]);
        }
        let of_agent = list_agent_templates(agent, &Agent::route_at(index));
        of_agent
            .into_iter()
            .flat_map(move |(text, route)| check_template_text(text, &route, Some(&listens_to)))
    });
    // A profile is used by several agents with different dependencies, so its variables are checked for each agent.
    let of_profiles =
        list_profile_system_prompts(ensemble).flat_map(|(text, route)| check_template_text(text, &route, None));
    of_agents.chain(of_profiles).collect()
}

/// Returns all templates of the ensemble, each with its route.
pub(super) fn list_templates(ensemble: &Ensemble) -> impl Iterator<Item = (&str, Route)> {
    let agents = ensemble.agents.iter().enumerate();
    let of_agents = agents.flat_map(|(index, agent)| list_agent_templates(agent, &Agent::route_at(index)));
    of_agents.chain(list_profile_system_prompts(ensemble))
}

/// Returns the system prompts of the profiles, each with its route.
fn list_profile_system_prompts(ensemble: &Ensemble) -> impl Iterator<Item = (&str, Route)> {
    ensemble.model_profiles.iter().filter_map(|(name, profile)| {
        let route = Route::root().with_key("model_profiles").with_key(name.clone());
        Some((profile.system_prompt.as_deref()?, route.with_key("system_prompt")))
    })
}

/// Returns the templates of the agent, each with its route.
pub(super) fn list_agent_templates<'a>(agent: &'a Agent, route: &Route) -> Vec<(&'a str, Route)> {
    match &agent.kind {
        AgentKind::Llm(llm) => {
            let prompt = llm.prompt.as_deref().map(|text| (text, route.with_key("prompt")));
            let system = llm
                .system_prompt
                .as_deref()
                .map(|text| (text, route.with_key("system_prompt")));
            let attachments = route.with_key("attachments");
            let attached = llm.attachments.iter().enumerate();
            let attached = attached.map(|(at, text)| (text.as_str(), attachments.with_index(at)));
            prompt.into_iter().chain(system).chain(attached).collect()
        }
        AgentKind::Input(input) => vec![(input.prompt.as_str(), route.with_key("input").with_key("prompt"))],
        AgentKind::Ensemble { prompt, inputs, .. } => {
            let mut templates: Vec<(&str, Route)> = Vec::new();
            templates.extend(prompt.as_deref().map(|text| (text, route.with_key("prompt"))));
            for (name, value) in inputs {
                collect_json_texts(value, route.with_key("inputs").with_key(name.as_str()), &mut templates);
            }
            templates
        }
        AgentKind::Tool { arguments, .. } => {
            let mut templates = Vec::new();
            for (name, value) in arguments {
                collect_json_texts(
                    value,
                    route.with_key("arguments").with_key(name.as_str()),
                    &mut templates,
                );
            }
            templates
        }
        AgentKind::Script { args, stdin, .. } => {
            let arguments = args.iter().enumerate();
            let mut templates: Vec<(&str, Route)> = arguments
                .map(|(at, text)| (text.as_str(), route.with_key("args").with_index(at)))
                .collect();
            templates.extend(stdin.as_deref().map(|text| (text, route.with_key("stdin"))));
            templates
        }
    }
}

/// Adds all texts in a JSON value, each with its route.
pub(super) fn collect_json_texts<'v>(value: &'v Value, route: Route, found: &mut Vec<(&'v str, Route)>) {
    match value {
        Value::String(text) => found.push((text, route)),
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered.for_each(|(at, item)| collect_json_texts(item, route.with_index(at), found));
        }
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| collect_json_texts(value, route.with_key(key.as_str()), found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Checks one template. `listens_to`: the names of the agent's dependencies; `None` if they are not checked.
fn check_template_text(text: &str, route: &Route, listens_to: Option<&[Arc<str>]>) -> Vec<Finding> {
    match template_error_finding(text, route, listens_to) {
        Some(fault) => vec![fault],
        None => check_filters_and_tests(text, route),
    }
}

/// Reports filters and tests that do not exist, because rendering that part of the template fails.
fn check_filters_and_tests(text: &str, route: &Route) -> Vec<Finding> {
    if !text.contains('|') && !text.contains("filter") && !text.contains(" is ") {
        return Vec::new();
    }
    let problems = template::find_type_problems(text, &|_| None).into_iter();
    let unknown = problems.filter(|misfit| misfit.kind == TypeProblemKind::UnknownName);
    let finding = |misfit: TypeProblem| {
        let finding = Finding::new_error(
            codes::UNKNOWN_FILTER,
            route.clone().into_text_location(misfit.span),
            misfit.message,
        );
        with_suggested_replacement(finding, misfit.help, route)
    };
    unknown.map(finding).collect()
}

/// Adds the suggested replacement to the finding, as help and as a fix of the text at the route.
pub(super) fn with_suggested_replacement(
    finding: Finding,
    advice: Option<SuggestedReplacement>,
    route: &Route,
) -> Finding {
    let Some(SuggestedReplacement { sentence: words, edit }) = advice else {
        return finding;
    };
    let finding = finding.with_help(words);
    let Some((span, text)) = edit else { return finding };
    let title = format!("write `{text}`");
    finding.with_fix(RouteFix::new_unsafe(
        title,
        RouteEdit::WriteText(route.clone().into_text_location(span), text),
    ))
}

/// Returns the finding if the template does not compile, is too deep or uses an unknown variable.
fn template_error_finding(text: &str, route: &Route, listens_to: Option<&[Arc<str>]>) -> Option<Finding> {
    let (code, error) = match template::check_template(text, listens_to).err()? {
        TemplateCheckError::Syntax(error) => (codes::TEMPLATE, error),
        TemplateCheckError::Depth(error) => (codes::TEMPLATE_DEPTH, error),
        TemplateCheckError::Variable(error) => (codes::TEMPLATE_NAME, error),
    };
    let span = error.span.unwrap_or(Span::new(0, text.len()));
    let finding = Finding::new_error(code, route.clone().into_text_location(span), error.message);
    let suggestion = error.span.filter(|_| code == codes::TEMPLATE_NAME).and_then(|span| {
        let name = text.get(span.start..span.end)?;
        let agents = listens_to.unwrap_or_default().iter().map(|name| &**name);
        let similar_name = find_similar_word(name, agents.chain(VARIABLES).filter(|name| !name.contains('-')))?;
        Some((name, similar_name.to_owned()))
    });
    Some(match suggestion {
        Some((name, near)) => finding.with_near_name_fix(name, &near),
        None => finding,
    })
}
