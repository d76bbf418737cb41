//! Templates that ask whether an agent is new (`news.critic`), and that no output of the agent can start.

use super::check_graph::CheckGraph;
use super::check_subject::CheckSubject;
use super::templates::list_agent_templates;
use crate::diagnostic::{Finding, find_similar_word};
use crate::ensemble::Agent;
use crate::loader::codes;
use crate::source::RouteLocation;
use crate::template;

/// Warns of every `news.NAME` in templates that is always false.
pub(super) fn check_unknown_news(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let mut findings = Vec::new();
    for at in 0..graph.agent_count() {
        for (text, route) in list_agent_templates(graph.agent_at(at), &Agent::route_at(at)) {
            for (name, span) in template::list_news_agents(text) {
                let location = || route.clone().into_text_location(span);
                findings.extend(unknown_news_finding(graph, at, &name, location));
            }
        }
    }
    findings
}

/// Returns a warning if no output of the named agent can start this agent.
fn unknown_news_finding(
    graph: &CheckGraph<'_>,
    at: usize,
    name: &str,
    location: impl FnOnce() -> RouteLocation,
) -> Option<Finding> {
    let agent = graph.agent_at(at);
    // An agent without dependencies is started by the outputs of all others.
    let sources: Vec<&str> = match agent.dependencies.is_empty() {
        true => (0..graph.agent_count())
            .filter(|other| *other != at)
            .map(|other| graph.agent_name(other))
            .collect(),
        false => agent.dependencies.iter().map(|one| &*one.agent_name).collect(),
    };
    if sources.contains(&name) {
        return None;
    }
    let (message, help) = match graph.find_agent_index(name) {
        Some(_) => (
            format!(
                "`news.{name}` is always false: `{}` does not depend on `{name}`",
                agent.name
            ),
            format!("add `{name}` to the dependencies of `{}`", agent.name),
        ),
        None => (
            format!("`news.{name}` is always false: there is no agent `{name}`"),
            format!(
                "the agents whose outputs start `{}` are {}",
                agent.name,
                sources.join(", ")
            ),
        ),
    };
    let finding = Finding::new_warning(codes::UNKNOWN_NEWS, location(), message);
    Some(match find_similar_word(name, sources.iter().copied()) {
        Some(similar_name) => finding.with_near_name_fix(name, similar_name),
        None => finding.with_help(help),
    })
}
