//! Keys that conditions read: written by nobody, or by several.
//!
//! A key is judged only where everything that could write it is known. `--set`, `--context` and the `config` of
//! an outer ensemble can add any key to the context, so what is found is a warning.

use std::collections::BTreeSet;

use super::graph::{Edge, Graph};
use crate::condition::{KeyRead, Keyed};
use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::{Agent, AgentKind, Ending};
use crate::loader::codes;
use crate::source::Span;

/// The top-level keys of an agent's outputs, where they are known.
pub type OutputKeys = BTreeSet<String>;

/// What outputs of agents can hold, asked for only where it matters.
pub(super) struct Outputs<'g, 'e> {
    graph: &'g Graph<'e>,
    ask: &'g dyn Fn(&Agent) -> Option<OutputKeys>,
    known: Vec<Option<Option<OutputKeys>>>,
}

impl<'g, 'e> Outputs<'g, 'e> {
    pub(super) fn new(graph: &'g Graph<'e>, ask: &'g dyn Fn(&Agent) -> Option<OutputKeys>) -> Self {
        Self {
            graph,
            ask,
            known: vec![None; graph.len()],
        }
    }

    fn of(&mut self, agent: usize) -> Option<&OutputKeys> {
        let (graph, ask) = (self.graph, self.ask);
        let known = self.known[agent].get_or_insert_with(|| {
            let agent = graph.agent(agent);
            closed_schema(agent).or_else(|| ask(agent))
        });
        known.as_ref()
    }

    /// What all agents together merge into the context; `None` where one of them may merge anything.
    fn of_all(&mut self) -> Option<BTreeSet<String>> {
        // Where one is unknown, the others need not be looked at.
        let unknowable = |agent: &Agent| matches!(agent.kind, AgentKind::Ensemble { .. });
        let mut agents = self.graph.ensemble.agents.iter();
        if agents.any(|agent| agent.output_schema.is_none() && unknowable(agent)) {
            return None;
        }
        let mut all = BTreeSet::new();
        for agent in 0..self.graph.len() {
            all.extend(self.of(agent)?.iter().cloned());
        }
        Some(all)
    }
}

/// The keys that an `output_schema` allows, where it allows no others.
fn closed_schema(agent: &Agent) -> Option<OutputKeys> {
    let schema = agent.output_schema.as_ref()?.as_object()?;
    let is_closed = schema.get("additionalProperties") == Some(&false.into());
    let has_patterns = schema.contains_key("patternProperties");
    if !is_closed || has_patterns {
        return None;
    }
    let properties = schema.get("properties").and_then(|keys| keys.as_object());
    let mut keys: OutputKeys = properties.map_or_else(BTreeSet::new, |keys| keys.keys().cloned().collect());
    if matches!(agent.kind, AgentKind::Llm(_)) {
        // A model's full text is kept beside what it says.
        keys.insert("response".to_owned());
    }
    Some(keys)
}

/// Warns of keys that nobody writes, and hints at those that several agents write.
pub(super) fn check(graph: &Graph<'_>, outputs: &mut Outputs<'_, '_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (to, edge) in graph.all_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        let place = |span: Span| edge.route(to).key("condition").text(span);
        for read in reading.keys_read(Keyed::Output) {
            if let Some(finding) = of_output(edge, &read.key, outputs) {
                findings.push(finding(place(read.span)));
            }
        }
        for read in reading.keys_read(Keyed::Context) {
            findings.extend(of_context(graph, &read, outputs).map(|finding| finding(place(read.span))));
        }
    }
    findings
}

type AtPlace = Box<dyn FnOnce(crate::source::At) -> Finding>;

/// A key of the output of the dependency's own agent.
fn of_output(edge: &Edge<'_>, key: &str, outputs: &mut Outputs<'_, '_>) -> Option<AtPlace> {
    const OF_FAILURES: [&str; 2] = ["error", "kind"];
    let on = edge.dependency.on;
    let mut known: BTreeSet<&str> = BTreeSet::new();
    if on != Ending::Failure {
        known.extend(outputs.of(edge.from)?.iter().map(String::as_str));
    }
    if on != Ending::Success {
        known.extend(OF_FAILURES);
    }
    if known.contains(key) {
        return None;
    }
    let who = match on {
        Ending::Failure => "a failure",
        _ => "the output",
    };
    let message = format!("{who} of `{}` has no key `{key}`", edge.dependency.agent_name);
    Some(unwritten(message, key, known.into_iter(), ""))
}

/// A key of the context. Whoever asks whether it is there reckons with that it is not, so only what looks like a
/// slip is a finding then.
fn of_context(graph: &Graph<'_>, read: &KeyRead, outputs: &mut Outputs<'_, '_>) -> Option<AtPlace> {
    const ELSE: &str = "; `--set`, `--context` or an outer ensemble's `config` could";
    let key = read.key.as_str();
    let is_stored = |agent: &Agent| **agent.state_key() == *key;
    if graph.ensemble.agents.iter().any(is_stored) {
        return None;
    }
    if let Some(agent) = graph.find(key).map(|at| graph.agent(at)) {
        if read.is_question {
            return None;
        }
        // Its name stays reserved, so nobody else can write it either.
        let stored = agent.state_key().clone();
        let message = format!("no agent writes `{key}` into the context");
        return Some(Box::new(move |at| {
            let help = format!("the output of that agent is stored under its `state_key`, `{stored}`");
            Finding::warning(codes::UNWRITTEN_KEY, at, message).help(help)
        }));
    }
    if let Some(finding) = shared(graph, key, outputs) {
        return Some(finding);
    }
    let all = outputs.of_all()?;
    if all.contains(key) {
        return None;
    }
    let stored = graph.ensemble.agents.iter().map(|agent| &**agent.state_key());
    let known: Vec<&str> = all.iter().map(String::as_str).chain(stored).collect();
    if read.is_question && did_you_mean(key, known.iter().copied()).is_none() {
        return None;
    }
    let message = format!("no agent writes `{key}` into the context");
    Some(unwritten(message, key, known.into_iter(), ELSE))
}

fn unwritten<'k>(message: String, key: &str, known: impl Iterator<Item = &'k str>, or_else: &str) -> AtPlace {
    const SHOWN: usize = 8;
    let known: Vec<&str> = known.collect();
    let help = match did_you_mean(key, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => format!("there are no keys{or_else}"),
        None => {
            let more = if known.len() > SHOWN { ", …" } else { "" };
            let names: Vec<String> = known.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
            format!("written are {}{more}{or_else}", names.join(", "))
        }
    };
    Box::new(move |at| Finding::warning(codes::UNWRITTEN_KEY, at, message).help(help))
}

/// A key that several agents are known to write: which of them is read depends on who ran last.
fn shared(graph: &Graph<'_>, key: &str, outputs: &mut Outputs<'_, '_>) -> Option<AtPlace> {
    let mut writers = Vec::new();
    for agent in 0..graph.len() {
        if outputs.of(agent).is_some_and(|keys| keys.contains(key)) {
            writers.push(agent);
        }
    }
    let [first, second, ..] = writers.as_slice() else {
        return None;
    };
    let message = format!(
        "`{key}` is written by `{}` and by `{}`: this reads whichever came last",
        graph.name(*first),
        graph.name(*second)
    );
    let help = format!(
        "read `context.{}.{key}`, the output of that agent alone",
        graph.agent(*first).state_key()
    );
    Some(Box::new(move |at| {
        Finding::hint(codes::SHARED_KEY, at, message).help(help)
    }))
}
