//! Keys of a model's free answer of which a condition asks whether they are true.
//!
//! A model without an `output_schema` may write `"false"` instead of `false`. Asking for the truth of that string is an
//! error at run time.

use super::check_graph::{CheckGraph, GraphEdge};
use super::check_subject::CheckSubject;
use super::condition_keys::FAILURE_KEYS;
use super::usable_profiles::UsableProfiles;
use crate::condition::{OutputSource, TruthRead};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, ModelChoice, RequiredResult};
use crate::loader::codes;
use crate::source::Route;

/// Gives a hint for each such key of an LLM agent without an `output_schema`. Simulated models are not checked.
pub(super) fn check_answer_truths(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let (graph, profiles) = (subject.graph, subject.usable_profiles());
    let mut findings = Vec::new();
    for (to, edge) in graph.list_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        for read in reading.list_truth_reads() {
            let agent = find_key_writer(graph, Some(edge), &read).map(|at| graph.agent_at(at));
            if let Some(agent) = agent.filter(|agent| has_unconstrained_model(agent, profiles)) {
                let at = edge
                    .dependency_route(to)
                    .with_key("condition")
                    .into_text_location(read.span);
                findings.push(answer_truth_finding(agent, &read.key, at));
            }
        }
    }
    for read in graph
        .parsed_success_condition()
        .iter()
        .flat_map(|reading| reading.list_truth_reads())
    {
        let agent = find_key_writer(graph, None, &read).map(|at| graph.agent_at(at));
        if let Some(agent) = agent.filter(|agent| has_unconstrained_model(agent, profiles)) {
            let at = Route::root().with_key("success").into_text_location(read.span);
            findings.push(answer_truth_finding(agent, &read.key, at));
        }
    }
    findings
}

/// Returns the agent whose output contains the key. Returns `None` if the key belongs to a failure, or no agent writes it.
fn find_key_writer(graph: &CheckGraph<'_>, edge: Option<&GraphEdge<'_>>, read: &TruthRead) -> Option<usize> {
    match &read.output {
        OutputSource::Dependency => {
            let edge = edge?;
            let on = edge.dependency.on;
            let is_of_failure =
                on == RequiredResult::Failure || on == RequiredResult::Any && FAILURE_KEYS.contains(&&*read.key);
            (!is_of_failure).then_some(edge.from)
        }
        OutputSource::Agent(name) => graph.find_agent_index(name),
        OutputSource::ContextKey(key) => {
            let stores = |at: &usize| **graph.agent_at(*at).state_key() == **key;
            graph
                .find_agent_index(key)
                .filter(stores)
                .or_else(|| (0..graph.agent_count()).find(stores))
        }
    }
}

/// Returns whether a real model writes the output without an `output_schema`: no simulated model, and no `for_each`.
fn has_unconstrained_model(agent: &Agent, profiles: &UsableProfiles<'_>) -> bool {
    let AgentKind::Llm(llm) = &agent.kind else {
        return false;
    };
    // The keys of a list of outputs are ours.
    if agent.for_each.is_some() {
        return false;
    }
    let is_simulated = match &llm.model {
        ModelChoice::Acp(acp) => acp.is_simulated(),
        ModelChoice::Model { provider, .. } => **provider == *"simulated",
        ModelChoice::Profile(name) => match profiles.get(name) {
            Some(profile) => *profile.provider == *"simulated",
            None => **name == *"simulated",
        },
    };
    agent.output_schema.is_none() && !is_simulated
}

/// Builds the hint that the condition asks for the truth of a key that a model might write as a string.
fn answer_truth_finding(agent: &Agent, key: &str, at: crate::source::RouteLocation) -> Finding {
    let name = &agent.name;
    let message = format!(
        "the model of `{name}` might write `{key}` as a string such as 'false', which this condition cannot evaluate"
    );
    let help = match key {
        "response" => {
            format!("compare the text, or ask `{name}` for a boolean under a separate key with an `output_schema`")
        }
        _ => format!(
            "give `{name}` the `output_schema` {{type: object, required: [{key}], properties: {{{key}: {{type: boolean}}}}}}, or compare the value"
        ),
    };
    Finding::new_hint(codes::TRUTH_OF_ANSWER, at, message).with_help(help)
}
