//! Agents that require two branches of which a run takes at most one.
//!
//! Two dependencies exclude each other in two cases. In the first, one agent requires both, so their conditions are
//! evaluated on the same snapshot. In the second, both are dependencies on one agent that runs at most once, and their
//! conditions read only its output or what the run was given: then neither result changes during the run. **Invariant:**
//! an agent that needs both before its first execution never runs.

use super::subject::Subject;
use std::collections::HashSet;

use fixedbitset::FixedBitSet;

use super::graph::{Edge, Graph};
use super::turns::most_executions;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ending};
use crate::loader::codes;
use crate::plan::walks::reach;

/// The highest number of pairs of dependencies that are compared, because each pair of conditions is parsed.
const MOST: usize = 300;

/// Two dependencies that are never both fulfilled, each with the agent that has it.
struct Pair<'g, 'e> {
    one: (usize, &'g Edge<'e>),
    other: (usize, &'g Edge<'e>),
}

/// Warns of every agent that needs such a pair and that waits for no other agent that needs it.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let mut reported = HashSet::new();
    let mut findings = Vec::new();
    let pairs = exclusive_pairs(graph);
    if pairs.is_empty() {
        return findings;
    }
    let needs = Needs::of(graph);
    for pair in pairs {
        let never = needs.both(&pair);
        for agent in never.iter().copied() {
            let is_first = needed(graph, agent).all(|from| never.binary_search(&from).is_err());
            if is_first && reported.insert(agent) {
                findings.push(report(graph, agent, &pair));
            }
        }
    }
    findings
}

/// All agents that no run executes because of such a pair.
pub(super) fn never_joined(graph: &Graph<'_>) -> Vec<usize> {
    let needs = Needs::of(graph);
    let pairs = exclusive_pairs(graph);
    pairs.iter().flat_map(|pair| needs.both(pair)).collect()
}

fn exclusive_pairs<'g, 'e>(graph: &'g Graph<'e>) -> Vec<Pair<'g, 'e>> {
    // An agent that is requested runs without its dependencies.
    if graph.has_requests() {
        return Vec::new();
    }
    let may_exclude = |edge: &Edge<'_>| edge.condition.is_some() || edge.dependency.on != Ending::Any;
    let edges = graph.all_edges().filter(|(_, edge)| edge.is_needed_first());
    let edges: Vec<_> = edges
        .filter(|(_, edge)| may_exclude(edge) && !edge.never_holds())
        .collect();
    let mut by_agent = edges.clone();
    by_agent.retain(|(_, edge)| edge.condition.is_some());
    let same_agent = by_agent.chunk_by(|one, other| one.0 == other.0);
    let mut pairs = pairs_of(same_agent, &|one, other| excludes(one, other));
    let most = most_executions(graph);
    let mut by_source = edges;
    by_source.retain(|(_, edge)| most[edge.from] <= 1);
    by_source.sort_by_key(|(_, edge)| edge.from);
    let same_source = by_source.chunk_by(|one, other| one.1.from == other.1.from);
    pairs.extend(pairs_of(same_source, &are_branches));
    pairs.sort_by_key(|pair| (pair.one.0, pair.other.0));
    pairs
}

fn pairs_of<'x, 'g: 'x, 'e: 'x>(
    groups: impl Iterator<Item = &'x [(usize, &'g Edge<'e>)]>,
    excludes: &dyn Fn(&Edge<'e>, &Edge<'e>) -> bool,
) -> Vec<Pair<'g, 'e>> {
    let all = groups.flat_map(|group| {
        let others = |at: usize| group[at + 1..].iter().copied();
        let numbered = group.iter().copied().enumerate();
        numbered.flat_map(move |(at, one)| others(at).map(move |other| Pair { one, other }))
    });
    let compared = all.take(MOST);
    compared.filter(|pair| excludes(pair.one.1, pair.other.1)).collect()
}

/// Returns whether the conditions are never both true in one snapshot.
fn excludes(one: &Edge<'_>, other: &Edge<'_>) -> bool {
    match (&one.condition, &other.condition) {
        (Some((condition, _)), Some((other_condition, _))) => condition.excludes(one.from, other_condition, other.from),
        _ => false,
    }
}

/// Returns whether the only execution of their agent fulfils at most one of the two.
fn are_branches(one: &Edge<'_>, other: &Edge<'_>) -> bool {
    let endings = [one.dependency.on, other.dependency.on];
    if endings.contains(&Ending::Success) && endings.contains(&Ending::Failure) {
        return true;
    }
    let is_fixed = |edge: &Edge<'_>| matches!(&edge.condition, Some((condition, _)) if condition.reads_only_output());
    is_fixed(one) && is_fixed(other) && excludes(one, other)
}

/// For each agent, the agents that need its output before their first execution.
struct Needs(Vec<Vec<usize>>);

impl Needs {
    fn of(graph: &Graph<'_>) -> Self {
        let mut listeners = vec![Vec::new(); graph.len()];
        for to in 0..graph.len() {
            needed(graph, to).for_each(|from| listeners[from].push(to));
        }
        Self(listeners)
    }

    /// The agents that need both dependencies before their first execution, in declaration order.
    fn both(&self, pair: &Pair<'_, '_>) -> Vec<usize> {
        let (with_one, with_other) = (self.all(pair.one.0), self.all(pair.other.0));
        (0..self.0.len())
            .filter(|at| with_one.contains(*at) && with_other.contains(*at))
            .collect()
    }

    /// The agent, and all agents that need it, directly or through others.
    fn all(&self, agent: usize) -> FixedBitSet {
        reach(self.0.len(), [agent], |at| self.0[at].iter().copied())
    }
}

fn needed<'g>(graph: &'g Graph<'_>, agent: usize) -> impl Iterator<Item = usize> + use<'g> {
    let edges = graph.edges(agent).iter();
    edges.filter(|edge| edge.is_needed_first()).map(|edge| edge.from)
}

fn report(graph: &Graph<'_>, agent: usize, pair: &Pair<'_, '_>) -> Finding {
    let message = format!(
        "agent `{}` can never run: it requires two dependencies that exclude each other",
        graph.name(agent)
    );
    let mut finding = Finding::warning(codes::EXCLUSIVE_JOIN, Agent::route(agent).key("name").value(), message);
    for (to, edge) in [pair.one, pair.other] {
        let route = edge.route(to);
        let place = match edge.condition {
            Some(_) => route.key("condition").value(),
            None => route.value(),
        };
        finding = finding.also(place, format!("`{}` requires this", graph.name(to)));
    }
    finding.help("set `requires_all: false` for the dependencies of which one is enough, or correct a condition")
}
