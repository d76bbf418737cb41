//! Keys of a model's free answer of which a condition asks whether they are true.
//!
//! A model without an `output_schema` may write `"false"` instead of `false`. Asking for the truth of that string is an
//! error at run time.

use super::graph::{Edge, Graph};
use super::keys::OF_FAILURES;
use super::profiles::Profiles;
use super::subject::Subject;
use crate::condition::{OutputOf, TruthRead};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ending, ModelChoice};
use crate::loader::codes;

/// Gives a hint for each such key of an LLM agent without `output_schema`. Simulated models answer as they are told.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let (graph, profiles) = (subject.graph, subject.profiles());
    let mut findings = Vec::new();
    for (to, edge) in graph.all_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        for read in reading.truths_read() {
            let agent = source(graph, edge, &read).map(|at| graph.agent(at));
            if let Some(agent) = agent.filter(|agent| answers_freely(agent, profiles)) {
                let at = edge.route(to).key("condition").text(read.span);
                findings.push(report(agent, &read.key, at));
            }
        }
    }
    findings
}

/// The agent that writes the key.
fn source(graph: &Graph<'_>, edge: &Edge<'_>, read: &TruthRead) -> Option<usize> {
    match &read.of {
        OutputOf::Dependency => {
            let on = edge.dependency.on;
            let is_of_failure = on == Ending::Failure || on == Ending::Any && OF_FAILURES.contains(&&*read.key);
            (!is_of_failure).then_some(edge.from)
        }
        OutputOf::Agent(name) => graph.find(name),
        OutputOf::Stored(key) => {
            let stores = |at: &usize| **graph.agent(*at).state_key() == **key;
            graph.find(key).filter(stores).or_else(|| (0..graph.len()).find(stores))
        }
    }
}

fn answers_freely(agent: &Agent, profiles: &Profiles<'_>) -> bool {
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

fn report(agent: &Agent, key: &str, at: crate::source::At) -> Finding {
    let name = &agent.name;
    let message =
        format!("the model of `{name}` may answer a string such as 'false' for `{key}`, and its truth is an error");
    let help = match key {
        "response" => {
            format!("compare the text, or ask `{name}` for a boolean under a key of its own with an `output_schema`")
        }
        _ => format!(
            "give `{name}` the `output_schema` {{type: object, required: [{key}], properties: {{{key}: {{type: boolean}}}}}}, or compare the value"
        ),
    };
    Finding::hint(codes::TRUTH_OF_ANSWER, at, message).help(help)
}
