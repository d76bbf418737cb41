//! Agents that can never succeed with what is known of them: outputs that never match their schema, and lists that are
//! always too long. And requests in prepared replies that lead to nobody.

use super::check_graph::CheckGraph;
use super::check_subject::CheckSubject;
use super::usable_profiles::UsableProfiles;
use crate::condition::{MapFields, ValueType};
use crate::diagnostic::{Finding, find_similar_word};
use crate::ensemble::{Agent, AgentKind, ForEachItems, ModelChoice};
use crate::loader::codes;

/// Warns of every agent that can never succeed, and of requests in prepared replies that have no effect.
pub(super) fn check_failing_agents(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let (graph, profiles) = (subject.graph, subject.usable_profiles());
    let mut findings = Vec::new();
    for at in 0..graph.agent_count() {
        let agent = graph.agent_at(at);
        findings.extend(too_many_items_finding(agent, at));
        let of = match agent.kind {
            AgentKind::Input(_) => continue,
            AgentKind::Llm(_) => subject
                .output_type(agent)
                .filter(|_| !may_have_fallback(agent, profiles)),
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => {
                subject.output_type(agent)
            }
        };
        let Some(of) = of.filter(|of| !of.is_any() && !of.is_impossible()) else {
            continue;
        };
        findings.extend(schema_mismatch_finding(agent, at, &of));
        if matches!(agent.kind, AgentKind::Llm(_)) {
            findings.extend(check_simulated_requests(graph, at, &of));
        }
    }
    findings
}

/// Returns a warning if the list of `for_each` has more than `max_items` items.
fn too_many_items_finding(agent: &Agent, at: usize) -> Option<Finding> {
    let spec = agent.for_each.as_ref()?;
    let count = match &spec.items {
        ForEachItems::List(items) => items.len() as u64,
        ForEachItems::Times(times) => u64::from(*times),
        ForEachItems::Expression(_) => return None,
    };
    if count <= u64::from(spec.max_items) {
        return None;
    }
    let route = Agent::route_at(at).with_key("for_each");
    let place = match &spec.items {
        ForEachItems::Times(_) => route.with_key("times"),
        _ => route.with_key("in"),
    };
    let message = format!(
        "`{}` can never succeed: `for_each` has {count} items, but `max_items` is {}",
        agent.name, spec.max_items
    );
    let finding = Finding::new_warning(codes::NEVER_SUCCEEDS, place.into_value_location(), message);
    Some(finding.with_help(format!("set `max_items: {count}`, or shorten the list")))
}

/// Returns whether the model of the agent has a fallback, or may have one.
fn may_have_fallback(agent: &Agent, profiles: &UsableProfiles<'_>) -> bool {
    let AgentKind::Llm(llm) = &agent.kind else {
        return false;
    };
    match &llm.model {
        ModelChoice::Profile(name) => profiles.get(name).is_none_or(|profile| profile.fallback.is_some()),
        ModelChoice::Model { .. } | ModelChoice::Acp(_) => true,
    }
}

/// Returns a warning if no known output of the agent matches its `output_schema`.
fn schema_mismatch_finding(agent: &Agent, at: usize, of: &ValueType) -> Option<Finding> {
    let schema = agent.output_schema.as_ref()?;
    let output_type = match agent.kind {
        AgentKind::Llm(_) => type_without_response_key(of)?,
        _ => of.clone(),
    };
    if output_type.can_overlap(&ValueType::from_output_schema(schema)) {
        return None;
    }
    let explanation = match agent.kind {
        AgentKind::Llm(_) => "no prepared reply matches the schema",
        AgentKind::Tool { .. } => "no result of its tool matches the schema",
        AgentKind::Ensemble { .. } => "the result of the nested ensemble never matches the schema",
        _ => "no output of its script matches the schema",
    };
    let message = format!(
        "the output of `{}` never matches its `output_schema`: {explanation}",
        agent.name
    );
    let place = Agent::route_at(at).with_key("output_schema");
    let finding = Finding::new_warning(codes::NEVER_SUCCEEDS, place.into_value_location(), message);
    Some(finding.with_help(format!(
        "correct the schema or the agent; the known output: {}",
        describe_output_keys(&output_type)
    )))
}

/// Describes the first keys of an output type with their types, for a message.
fn describe_output_keys(of: &ValueType) -> String {
    let Some(fields) = of.map_fields() else {
        return of.to_string();
    };
    let keys = fields.known_keys.iter().take(8);
    let keys: Vec<String> = keys.map(|(key, (of, _))| format!("`{key}` is {of}")).collect();
    match keys.is_empty() {
        true => "a map without keys".to_owned(),
        false => keys.join(", "),
    }
}

/// Returns the type without the `response` key that is added to outputs of models. Returns `None` if a text may contain an object.
fn type_without_response_key(of: &ValueType) -> Option<ValueType> {
    let fields = of.map_fields()?;
    let (response, _) = fields.known_keys.get("response")?;
    let texts = response.known_texts()?;
    if texts.iter().any(|text| text.contains("```") || text.contains("~~~")) {
        return None;
    }
    let is_alone =
        fields.known_keys.values().filter(|(_, always)| *always).count() <= 1 && fields.known_keys.len() == 1;
    let mut known_keys = fields.known_keys.clone();
    if !is_alone {
        known_keys.remove("response");
    }
    Some(ValueType::map_with_fields(MapFields {
        known_keys,
        other_values: fields.other_values.clone(),
        is_strict: false,
    }))
}

/// Checks `agent_requests` in prepared replies: requests without effect, and requests of unknown agents.
fn check_simulated_requests(graph: &CheckGraph<'_>, at: usize, of: &ValueType) -> Option<Finding> {
    let agent = graph.agent_at(at);
    let (requests, _) = of.map_fields()?.known_keys.get("agent_requests")?;
    let target = requests.list_item_type()?.key_type("target_agent");
    let place = || Agent::route_at(at).with_key("name").into_value_location();
    if !agent.conversation.triggers_conversation || agent.for_each.is_some() {
        let message = format!("the requests in the replies of `{}` are ignored", agent.name);
        let finding = Finding::new_warning(codes::LOST_REQUEST, place(), message);
        return Some(match agent.for_each {
            Some(_) => finding.with_help("parts of a `for_each` cannot request other agents"),
            None => finding.with_help("set `conversation: {triggers_conversation: true}` for this agent"),
        });
    }
    let unknown = target
        .only_known_texts()?
        .iter()
        .find(|name| graph.find_agent_index(name).is_none())?;
    let message = format!(
        "a reply of `{}` requests the agent `{unknown}`, which does not exist",
        agent.name
    );
    let finding = Finding::new_warning(codes::LOST_REQUEST, place(), message);
    Some(match find_similar_word(unknown, graph.agent_names()) {
        Some(similar_name) => finding.with_help(format!("did you mean `{similar_name}`?")),
        None => finding,
    })
}
