//! Keys that conditions read, and that no agent or several agents write.
//!
//! A key is checked only if everything that could write it is known. `--set`, `--context` and the `config` of an outer
//! ensemble can add any key to the context, so the finding is only a warning.

use std::collections::BTreeSet;

use super::check_graph::{CheckGraph, GraphEdge};
use super::check_subject::CheckSubject;
use super::output_keys::OutputKeyCache;
use crate::condition::{ConditionKeyRead, KeyedVariable};
use crate::data::ExecutionFailure;
use crate::diagnostic::{Finding, find_similar_word};
use crate::ensemble::{Agent, RequiredResult};
use crate::loader::codes;
use crate::source::Span;

/// The limit of findings, and of reads that are searched for spelling mistakes, because each is compared with many
/// names.
const MAX_KEY_FINDINGS: usize = 100;

/// Warns of keys that no agent writes, and gives hints for keys that several agents write.
pub(super) fn check_condition_keys(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let outputs = &mut *subject.outputs.borrow_mut();
    let mut findings = Vec::new();
    for (to, edge) in graph.list_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        let place = |span: Span| edge.dependency_route(to).with_key("condition").into_text_location(span);
        // Whoever asks for a key expects that it may be missing.
        let is_expected = |read: &ConditionKeyRead| !read.is_question;
        let output_reads = reading.list_literal_key_reads(KeyedVariable::Output).into_iter();
        for read in output_reads.filter(is_expected) {
            if let Some(finding) = check_output_key(edge, &read.key, outputs) {
                findings.push(finding(place(read.span)));
            }
        }
        let context_reads = reading.list_literal_key_reads(KeyedVariable::Context).into_iter();
        for read in context_reads.filter(is_expected) {
            findings.extend(check_context_key(graph, &read, outputs).map(|finding| finding(place(read.span))));
        }
        if findings.len() >= MAX_KEY_FINDINGS {
            break;
        }
    }
    findings
}

/// A function that builds a finding for a location.
type LocatedFindingBuilder = Box<dyn FnOnce(crate::source::RouteLocation) -> Finding>;

/// The keys of the value that replaces the output of a failed execution.
pub(super) const FAILURE_KEYS: [&str; 5] = ExecutionFailure::KEYS;

/// Checks a key of the output of the dependency. Returns a finding if no output or failure has this key.
fn check_output_key(
    edge: &GraphEdge<'_>,
    key: &str,
    outputs: &mut OutputKeyCache<'_>,
) -> Option<LocatedFindingBuilder> {
    let on = edge.dependency.on;
    let mut known_keys: BTreeSet<&str> = BTreeSet::new();
    if on != RequiredResult::Failure {
        known_keys.extend(outputs.keys_for_agent(edge.from)?.iter().map(String::as_str));
    }
    if on != RequiredResult::Success {
        known_keys.extend(FAILURE_KEYS);
    }
    if known_keys.contains(key) {
        return None;
    }
    let subject = match on {
        RequiredResult::Failure => "a failure",
        _ => "the output",
    };
    let message = format!("{subject} of `{}` has no key `{key}`", edge.dependency.agent_name);
    Some(unwritten_key_finding(message, key, known_keys.into_iter(), ""))
}

/// The end of the help for a key of the context.
const OTHER_WRITERS_HELP: &str = "; `--set`, `--context` or the `config` of an outer ensemble could add it";

/// The minimum length in bytes of a key that is compared with similar keys.
const MIN_COMPARED_KEY_BYTES: usize = 5;

/// Returns the help for a key of the context that no agent writes and that is probably a spelling mistake. Returns `None`
/// if the key can be intended.
pub(super) fn suggest_context_key(
    graph: &CheckGraph<'_>,
    key: &str,
    outputs: &mut OutputKeyCache<'_>,
) -> Option<String> {
    let context_keys = outputs.context_keys();
    if context_keys.stored.contains(key) || context_keys.merged.contains_key(key) {
        return None;
    }
    if let Some(agent) = graph.find_agent_index(key).map(|at| graph.agent_at(at)) {
        return Some(state_key_help(agent));
    }
    // Short names resemble each other by chance.
    let is_telling = context_keys.is_all && key.len() >= MIN_COMPARED_KEY_BYTES;
    let similar_key = find_similar_word(key, context_keys.key_names()).filter(|_| is_telling)?;
    Some(format!("did you mean `{similar_key}`?"))
}

/// Returns the help that names the `state_key` of the agent.
fn state_key_help(agent: &Agent) -> String {
    format!(
        "the output of that agent is stored under its `state_key`, `{}`",
        agent.state_key()
    )
}

/// Checks a key of the context. Returns a finding if no agent writes the key, or if several agents write it.
fn check_context_key(
    graph: &CheckGraph<'_>,
    read: &ConditionKeyRead,
    outputs: &mut OutputKeyCache<'_>,
) -> Option<LocatedFindingBuilder> {
    let key = read.key.as_str();
    let context_keys = outputs.context_keys();
    if context_keys.stored.contains(key) {
        return None;
    }
    let message = format!("no agent writes `{key}` into the context");
    if let Some(agent) = graph.find_agent_index(key).map(|at| graph.agent_at(at)) {
        // The name of the key stays reserved, so no other agent can write it.
        let help = state_key_help(agent);
        return Some(Box::new(move |at| {
            Finding::new_warning(codes::UNWRITTEN_KEY, at, message).with_help(help)
        }));
    }
    match context_keys.merged.get(key) {
        Some((first, Some(second))) => return Some(shared_key_finding(graph, key, *first, *second)),
        Some((_, None)) => return None,
        None => {}
    }
    if !context_keys.is_all {
        return None;
    }
    Some(unwritten_key_finding(
        message,
        key,
        context_keys.key_names(),
        OTHER_WRITERS_HELP,
    ))
}

/// Builds the finding about a key that no agent writes, with a similar key or the list of known keys as help.
fn unwritten_key_finding<'k>(
    message: String,
    key: &str,
    known: impl Iterator<Item = &'k str>,
    or_else: &str,
) -> LocatedFindingBuilder {
    const SHOWN: usize = 8;
    let known_keys: Vec<&str> = known.collect();
    let similar_key = find_similar_word(key, known_keys.iter().copied());
    let names = similar_key.map(|near| (key.to_owned(), near.to_owned()));
    let help = match similar_key {
        Some(similar_key) => format!("did you mean `{similar_key}`?"),
        None if known_keys.is_empty() => format!("no keys are known{or_else}"),
        None => {
            let more = if known_keys.len() > SHOWN { ", …" } else { "" };
            let names: Vec<String> = known_keys.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
            format!("the known keys are {}{more}{or_else}", names.join(", "))
        }
    };
    Box::new(move |at| {
        let finding = Finding::new_warning(codes::UNWRITTEN_KEY, at, message);
        match names {
            Some((key, near)) => finding.with_near_name_fix(&key, &near),
            None => finding.with_help(help),
        }
    })
}

/// Builds the hint that two agents write this key, and the condition reads the value of the agent that ran last.
fn shared_key_finding(graph: &CheckGraph<'_>, key: &str, first: usize, second: usize) -> LocatedFindingBuilder {
    let message = format!(
        "`{}` and `{}` both write `{key}`: this condition reads the value of the agent that ran last",
        graph.agent_name(first),
        graph.agent_name(second)
    );
    let help = format!(
        "use `context.{}.{key}` to read the output of that agent only",
        graph.agent_at(first).state_key()
    );
    Box::new(move |at| Finding::new_hint(codes::SHARED_KEY, at, message).with_help(help))
}
