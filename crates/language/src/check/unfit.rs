//! Agents that can never succeed with what is known of them: outputs that never match their schema, and lists that are
//! always too long. And requests in prepared replies that lead to nobody.

use super::graph::Graph;
use super::profiles::Profiles;
use super::subject::Subject;
use crate::condition::{Fields, Type};
use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::{Agent, AgentKind, Items, ModelChoice};
use crate::loader::codes;

/// Warns of every such agent.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let (graph, profiles) = (subject.graph, subject.profiles());
    let mut findings = Vec::new();
    for at in 0..graph.len() {
        let agent = graph.agent(at);
        findings.extend(too_many(agent, at));
        let of = match agent.kind {
            AgentKind::Input(_) => continue,
            AgentKind::Llm(_) => subject.output_type(agent).filter(|_| !has_fallback(agent, profiles)),
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => {
                subject.output_type(agent)
            }
        };
        let Some(of) = of.filter(|of| !of.is_any() && !of.is_never()) else {
            continue;
        };
        findings.extend(mismatch(agent, at, &of));
        if matches!(agent.kind, AgentKind::Llm(_)) {
            findings.extend(requests(graph, at, &of));
        }
    }
    findings
}

fn too_many(agent: &Agent, at: usize) -> Option<Finding> {
    let spec = agent.for_each.as_ref()?;
    let count = match &spec.items {
        Items::List(items) => items.len() as u64,
        Items::Times(times) => u64::from(*times),
        Items::Expression(_) => return None,
    };
    if count <= u64::from(spec.max_items) {
        return None;
    }
    let route = Agent::route(at).key("for_each");
    let place = match &spec.items {
        Items::Times(_) => route.key("times"),
        _ => route.key("in"),
    };
    let message = format!(
        "`{}` can never succeed: it has {count} items, and `max_items` is {}",
        agent.name, spec.max_items
    );
    let finding = Finding::warning(codes::NEVER_SUCCEEDS, place.value(), message);
    Some(finding.help(format!("set `max_items: {count}`, or shorten the list")))
}

fn has_fallback(agent: &Agent, profiles: &Profiles<'_>) -> bool {
    let AgentKind::Llm(llm) = &agent.kind else {
        return false;
    };
    match &llm.model {
        ModelChoice::Profile(name) => profiles.get(name).is_none_or(|profile| profile.fallback.is_some()),
        ModelChoice::Model { .. } | ModelChoice::Acp(_) => true,
    }
}

/// The output that is known of the agent against its `output_schema`.
fn mismatch(agent: &Agent, at: usize, of: &Type) -> Option<Finding> {
    let schema = agent.output_schema.as_ref()?;
    let own = match agent.kind {
        AgentKind::Llm(_) => written_by_model(of)?,
        _ => of.clone(),
    };
    if own.overlaps(&Type::of_output_schema(schema)) {
        return None;
    }
    let what = match agent.kind {
        AgentKind::Llm(_) => "none of the prepared replies matches it",
        AgentKind::Tool { .. } => "no result of its tool matches it",
        AgentKind::Ensemble { .. } => "the result of the inner ensemble never matches it",
        _ => "no output of its script matches it",
    };
    let message = format!("`{}` never fulfils its `output_schema`: {what}", agent.name);
    let place = Agent::route(at).key("output_schema");
    let finding = Finding::warning(codes::NEVER_SUCCEEDS, place.value(), message);
    Some(finding.help(format!("what is known of its output: {}", keys_of(&own))))
}

fn keys_of(of: &Type) -> String {
    let Some(fields) = of.fields() else {
        return of.to_string();
    };
    let keys = fields.known.iter().take(8);
    let keys: Vec<String> = keys.map(|(key, (of, _))| format!("`{key}` is {of}")).collect();
    match keys.is_empty() {
        true => "it has no keys".to_owned(),
        false => keys.join(", "),
    }
}

/// The keys that a model wrote: `response` is added to them. `None`: a text may hold an object.
fn written_by_model(of: &Type) -> Option<Type> {
    let fields = of.fields()?;
    let (response, _) = fields.known.get("response")?;
    let texts = response.texts()?;
    if texts.iter().any(|text| text.contains("```") || text.contains("~~~")) {
        return None;
    }
    let is_alone = fields.known.values().filter(|(_, always)| *always).count() <= 1 && fields.known.len() == 1;
    let mut known = fields.known.clone();
    if !is_alone {
        known.remove("response");
    }
    Some(Type::map(Fields {
        known,
        others: fields.others.clone(),
        strict: false,
    }))
}

/// `agent_requests` in prepared replies.
fn requests(graph: &Graph<'_>, at: usize, of: &Type) -> Option<Finding> {
    let agent = graph.agent(at);
    let (requests, _) = of.fields()?.known.get("agent_requests")?;
    let target = requests.item()?.key("target_agent");
    let place = || Agent::route(at).key("name").value();
    if !agent.conversation.triggers_conversation || agent.for_each.is_some() {
        let message = format!("the requests in the replies of `{}` are ignored", agent.name);
        let finding = Finding::warning(codes::LOST_REQUEST, place(), message);
        return Some(match agent.for_each {
            Some(_) => finding.help("parts of a `for_each` cannot request other agents"),
            None => finding.help("set `conversation: {triggers_conversation: true}` for this agent"),
        });
    }
    let unknown = target.only_texts()?.iter().find(|name| graph.find(name).is_none())?;
    let message = format!(
        "a reply of `{}` requests `{unknown}`, and there is no such agent",
        agent.name
    );
    let finding = Finding::warning(codes::LOST_REQUEST, place(), message);
    Some(match did_you_mean(unknown, graph.names()) {
        Some(near) => finding.help(format!("did you mean `{near}`?")),
        None => finding,
    })
}
