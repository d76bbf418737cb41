//! Conditions of loops whose result does not change any more while the loop runs: only a limit ends the loop.
//!
//! A condition decides on a loop if every cycle through its agents passes its dependency, and if no other dependency
//! of these agents has a condition. There are two cases. In the first, everything that the condition reads is
//! written before the loop, by agents that run only once. In the second, an agent of the loop writes a key as `true` in
//! some outputs and does not write it in the others: an output without the key does not change the context.

use super::check_subject::CheckSubject;
use std::collections::BTreeSet;

use super::check_graph::{CheckGraph, GraphEdge};
use super::context::OutputKeys;
use super::idle_turns::max_executions_by_agent;
use super::output_keys::OutputKeyCache;
use crate::condition::ParsedCondition;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, RequiredResult};
use crate::loader::codes;
use crate::plan::graph_walks::{find_components, has_cycle};
use crate::source::RouteLocation;

/// Warns of every condition of a loop whose result does not change while the loop runs.
pub(super) fn check_fixed_conditions(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let outputs = &mut *subject.outputs.borrow_mut();
    let latched = &|agent: &Agent| subject.context.always_true_keys(subject.ensemble, agent);
    // An agent that is requested runs without its dependencies.
    if graph.any_agent_can_request() {
        return Vec::new();
    }
    let mut loops = None;
    let mut findings = Vec::new();
    for (to, edge) in graph.list_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        if reading.list_sufficient_context_keys().is_empty()
            && reading.list_context_keys_if_sole().is_none_or(|keys| keys.is_empty())
        {
            continue;
        }
        let execution_limits = max_executions_by_agent(graph);
        let loops = loops.get_or_insert_with(|| CyclicAgentGroups::from_graph(graph));
        let Some(members) = loops
            .find_decided_loop(graph, to, edge)
            .filter(|_| execution_limits[to] > 2)
        else {
            continue;
        };
        let place = || edge.dependency_route(to).with_key("condition").into_value_location();
        let finding = find_earlier_writers(graph, to, edge, reading, execution_limits, outputs)
            .map(|writers| earlier_writers_finding(graph, &writers, place()))
            .or_else(|| {
                let (key, writer) = find_never_reset_key(graph, members, reading, outputs, latched)?;
                Some(never_reset_finding(graph, edge, &key, writer, place()))
            });
        findings.extend(finding);
    }
    findings
}

/// The groups of agents that depend on each other in cycles.
struct CyclicAgentGroups {
    /// The group of each agent.
    group: Vec<usize>,
    members: Vec<Vec<usize>>,
}

impl CyclicAgentGroups {
    /// Computes the groups. Ignores dependencies that are never fulfilled.
    fn from_graph(graph: &CheckGraph<'_>) -> Self {
        let members = find_components(graph.agent_count(), |to| {
            let edges = graph
                .dependency_edges(to)
                .iter()
                .filter(|edge| !edge.is_never_fulfilled());
            edges.map(|edge| edge.from)
        });
        let mut group = vec![0; graph.agent_count()];
        for (number, members) in members.iter().enumerate() {
            members.iter().for_each(|at| group[*at] = number);
        }
        Self { group, members }
    }

    /// Returns the agents of the loop that the condition of this dependency ends. Returns `None` if there is no such loop.
    fn find_decided_loop(&self, graph: &CheckGraph<'_>, to: usize, edge: &GraphEdge<'_>) -> Option<&[usize]> {
        let group = self.group[to];
        let members = self.members[group].as_slice();
        let is_other = |one: &&GraphEdge<'_>| !std::ptr::eq(*one, edge);
        let mut other_edges = members
            .iter()
            .flat_map(|at| graph.dependency_edges(*at))
            .filter(is_other);
        let is_plain =
            |one: &GraphEdge<'_>| one.dependency.condition.is_none() && one.dependency.on != RequiredResult::Failure;
        let is_decided = self.group[edge.from] == group
            && other_edges.all(is_plain)
            && Self::is_broken_without(graph, members, edge);
        is_decided.then_some(members)
    }

    /// Returns whether the agents of the group form no cycle without this dependency.
    fn is_broken_without(graph: &CheckGraph<'_>, members: &[usize], without: &GraphEdge<'_>) -> bool {
        !has_cycle(members.len(), |to| {
            let edges = graph.dependency_edges(members[to]).iter();
            let other_edges = edges.filter(|edge| !std::ptr::eq(*edge, without));
            other_edges.filter_map(|edge| members.binary_search(&edge.from).ok())
        })
    }
}

/// Returns the agents that write what the condition reads. Returns `None` if one of them can run after the condition was evaluated.
fn find_earlier_writers(
    graph: &CheckGraph<'_>,
    to: usize,
    edge: &GraphEdge<'_>,
    reading: &ParsedCondition,
    most: &[u64],
    outputs: &mut OutputKeyCache<'_>,
) -> Option<BTreeSet<usize>> {
    // Whoever limits the number of rounds does not expect that the condition ends them.
    if edge.dependency.max_executions.is_some() {
        return None;
    }
    let mut all = BTreeSet::new();
    for read in reading.list_context_keys_if_sole()? {
        let writers = outputs.find_context_key_writers(&read.key)?;
        let is_given = writers.is_empty() && graph.ensemble.find_input(&read.key).is_some();
        if writers.is_empty() && !is_given {
            return None;
        }
        all.extend(writers);
    }
    let needed = graph.agents_and_upstream([to, edge.from]);
    let is_before = |writer: usize| writer != to && needed.contains(writer);
    let is_fixed = |writer: &usize| most[*writer] <= 1 && is_before(*writer);
    (!all.is_empty() && all.iter().all(is_fixed)).then_some(all)
}

/// Returns a key that stays true and keeps the condition true, and an agent of the loop that writes the key.
fn find_never_reset_key(
    graph: &CheckGraph<'_>,
    members: &[usize],
    reading: &ParsedCondition,
    outputs: &mut OutputKeyCache<'_>,
    latched: &dyn Fn(&Agent) -> OutputKeys,
) -> Option<(String, usize)> {
    reading.list_sufficient_context_keys().into_iter().find_map(|key| {
        let is_stored = graph.ensemble.agents.iter().any(|agent| **agent.state_key() == *key);
        let writers = outputs.find_context_key_writers(&key).filter(|_| !is_stored)?;
        let is_latched = |writer: &usize| latched(graph.agent_at(*writer)).contains(&key);
        let writer = *writers.iter().find(|writer| members.contains(writer))?;
        writers.iter().all(is_latched).then_some((key, writer))
    })
}

/// Builds the warning about a condition that reads only values from before the loop.
fn earlier_writers_finding(graph: &CheckGraph<'_>, writers: &BTreeSet<usize>, at: RouteLocation) -> Finding {
    let names: Vec<String> = writers
        .iter()
        .map(|writer| format!("`{}`", graph.agent_name(*writer)))
        .collect();
    let message = format!(
        "this condition has the same result in every round of the loop: it reads only what {} writes, which runs once, before the loop",
        names.join(" and ")
    );
    Finding::new_warning(codes::FIXED_CONDITION, at, message).with_help(
        "read a key that an agent of the loop writes, or remove the condition and let `max_turns` end the loop",
    )
}

/// Builds the warning about a condition that stays true, because no output resets its key.
fn never_reset_finding(
    graph: &CheckGraph<'_>,
    edge: &GraphEdge<'_>,
    key: &str,
    writer: usize,
    at: RouteLocation,
) -> Finding {
    let name = graph.agent_name(writer);
    let message = format!(
        "once `{name}` has written `{key}: true`, this condition stays true, because the other outputs of `{name}` do not contain `{key}`; only a limit ends the loop"
    );
    let read = match writer == edge.from {
        true => format!("output.{key}"),
        false => format!("context.{}.{key}", graph.agent_at(writer).state_key()),
    };
    Finding::new_warning(codes::FIXED_CONDITION, at, message).with_help(format!(
        "write `{key}: false` in the other outputs, or read the latest output: `{read}`"
    ))
}
