//! The keys of the outputs of agents, and the agents that write them into the context.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::check_graph::CheckGraph;
use super::context::{CheckContext, OutputKeys};
use crate::ensemble::{Agent, AgentKind};

/// The keys of the outputs of agents, computed only if needed.
pub(super) struct OutputKeyCache<'c> {
    graph: &'c CheckGraph<'c>,
    files: &'c dyn CheckContext,
    /// The keys of each agent, once they were needed.
    known: Vec<OnceCell<Option<OutputKeys>>>,
    context: Option<Rc<ContextKeys>>,
}

/// The keys that agents and inputs write into the context.
pub(super) struct ContextKeys {
    /// The keys under which whole outputs and inputs are stored.
    pub(super) stored: BTreeSet<String>,
    /// The first two agents that are known to write each key.
    pub(super) merged: BTreeMap<String, (usize, Option<usize>)>,
    /// Whether all written keys are known.
    pub(super) is_all: bool,
}

impl ContextKeys {
    /// Returns all keys of the context that are known.
    pub(super) fn key_names(&self) -> impl Iterator<Item = &str> {
        self.merged.keys().chain(&self.stored).map(String::as_str)
    }
}

impl<'c> OutputKeyCache<'c> {
    /// Creates an empty cache. Keys are computed on first use.
    pub(super) fn new(graph: &'c CheckGraph<'c>, files: &'c dyn CheckContext) -> Self {
        Self {
            graph,
            files,
            known: vec![OnceCell::new(); graph.agent_count()],
            context: None,
        }
    }

    /// Returns the keys of an agent's output, if they are known. Computes them once.
    pub(super) fn keys_for_agent(&mut self, agent: usize) -> Option<&OutputKeys> {
        let (graph, files) = (self.graph, self.files);
        let known_keys = self.known[agent].get_or_init(|| {
            let agent = graph.agent_at(agent);
            if let Some(spec) = &agent.for_each {
                return Some(spec.output_keys().map(str::to_owned).collect());
            }
            closed_schema_keys(agent).or_else(|| files.output_keys(graph.ensemble, agent))
        });
        known_keys.as_ref()
    }

    /// Returns the agents that write this key of the context. Returns `None` if the writers are not all known.
    pub(super) fn find_context_key_writers(&mut self, key: &str) -> Option<Vec<usize>> {
        let graph = self.graph;
        let agents = 0..graph.agent_count();
        let stores = |at: &usize| **graph.agent_at(*at).state_key() == *key;
        let stored: Vec<usize> = agents.clone().filter(stores).collect();
        // The names of agents and their `state_key`s are reserved.
        if !stored.is_empty() || graph.find_agent_index(key).is_some() {
            return Some(stored);
        }
        let mut writers = Vec::new();
        // What an agent with parts says is not merged.
        for agent in agents.filter(|agent| graph.agent_at(*agent).for_each.is_none()) {
            if self.keys_for_agent(agent)?.contains(key) {
                writers.push(agent);
            }
        }
        Some(writers)
    }

    /// Returns the keys that agents and inputs write into the context. Computes them once.
    pub(super) fn context_keys(&mut self) -> Rc<ContextKeys> {
        if let Some(cached_keys) = &self.context {
            return cached_keys.clone();
        }
        let agents = self.graph.ensemble.agents.iter();
        let mut context_keys = ContextKeys {
            stored: agents
                .map(|agent| agent.state_key().to_string())
                .chain(
                    self.graph
                        .ensemble
                        .inputs
                        .iter()
                        .flatten()
                        .map(|input| input.name.to_string()),
                )
                .collect(),
            merged: BTreeMap::new(),
            is_all: true,
        };
        // What an agent with parts says is not merged.
        let merges = |agent: &usize| self.graph.agent_at(*agent).for_each.is_none();
        for agent in (0..self.graph.agent_count()).filter(merges).collect::<Vec<_>>() {
            let Some(keys) = self.keys_for_agent(agent) else {
                context_keys.is_all = false;
                continue;
            };
            for key in keys {
                match context_keys.merged.get_mut(key) {
                    Some((_, second)) => *second = second.or(Some(agent)),
                    None => drop(context_keys.merged.insert(key.clone(), (agent, None))),
                }
            }
        }
        self.context.insert(Rc::new(context_keys)).clone()
    }
}

/// Returns the keys that the `output_schema` allows, if it allows no other keys.
fn closed_schema_keys(agent: &Agent) -> Option<OutputKeys> {
    let schema = agent.output_schema.as_ref()?.as_object()?;
    let is_closed = schema.get("additionalProperties") == Some(&false.into());
    let has_patterns = schema.contains_key("patternProperties");
    if !is_closed || has_patterns {
        return None;
    }
    let properties = schema.get("properties").and_then(|keys| keys.as_object());
    let mut keys: OutputKeys = properties.map_or_else(BTreeSet::new, |keys| keys.keys().cloned().collect());
    if matches!(agent.kind, AgentKind::Llm(_)) {
        // The full text of a model is stored beside the keys of its output.
        keys.insert("response".to_owned());
    }
    Some(keys)
}
