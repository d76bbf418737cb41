//! Agents that require two branches of which a run takes at most one.
//!
//! Two dependencies exclude each other in two cases. In the first, one agent requires both, so their conditions and the
//! latest results of their agents are evaluated on the same snapshot. In the second, both are dependencies on one agent that runs at most once, and their
//! conditions read only its output or what the run was given: then neither result changes during the run. **Invariant:**
//! an agent that needs both before its first execution never runs.

use super::check_subject::CheckSubject;
use std::collections::HashSet;

use fixedbitset::FixedBitSet;

use super::check_graph::{CheckGraph, GraphEdge};
use super::idle_turns::max_executions_by_agent;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, RequiredResult};
use crate::loader::codes;
use crate::plan::graph_walks::find_reachable;

/// The highest number of pairs of dependencies that are compared, because each pair of conditions is parsed.
const MOST: usize = 300;

/// Two dependencies that are never both fulfilled, each with the agent that has it.
struct ExclusiveDependencies<'g, 'e> {
    one: (usize, &'g GraphEdge<'e>),
    other: (usize, &'g GraphEdge<'e>),
}

/// Warns of every agent that requires two exclusive dependencies and waits for no other agent with the same problem.
pub(super) fn check_exclusive_joins(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let mut reported = HashSet::new();
    let mut findings = Vec::new();
    let pairs = find_exclusive_pairs(graph);
    if pairs.is_empty() {
        return findings;
    }
    let needs = RequiringAgents::from_graph(graph);
    for pair in pairs {
        let never = needs.agents_needing_both(&pair);
        for agent in never.iter().copied() {
            let is_first = required_agents(graph, agent).all(|from| never.binary_search(&from).is_err());
            if is_first && reported.insert(agent) {
                findings.push(exclusive_join_finding(graph, agent, &pair));
            }
        }
    }
    findings
}

/// Returns all agents that no run executes, because they require two exclusive dependencies.
pub(super) fn list_never_joined_agents(graph: &CheckGraph<'_>) -> Vec<usize> {
    let needs = RequiringAgents::from_graph(graph);
    let pairs = find_exclusive_pairs(graph);
    pairs.iter().flat_map(|pair| needs.agents_needing_both(pair)).collect()
}

/// Finds the pairs of dependencies of which a run fulfils at most one.
fn find_exclusive_pairs<'g, 'e>(graph: &'g CheckGraph<'e>) -> Vec<ExclusiveDependencies<'g, 'e>> {
    // An agent that is requested runs without its dependencies.
    if graph.any_agent_can_request() {
        return Vec::new();
    }
    let may_exclude = |edge: &GraphEdge<'_>| edge.condition.is_some() || edge.dependency.on != RequiredResult::Any;
    let edges = graph.list_edges().filter(|(_, edge)| edge.is_required_at_start());
    let edges: Vec<_> = edges
        .filter(|(_, edge)| may_exclude(edge) && !edge.is_never_fulfilled())
        .collect();
    let same_agent = edges.chunk_by(|one, other| one.0 == other.0);
    let mut pairs = find_excluding_pairs_in_groups(same_agent, &|one, other| {
        need_success_and_failure(one, other) || have_exclusive_conditions(one, other)
    });
    let execution_limits = max_executions_by_agent(graph);
    let mut by_source = edges;
    by_source.retain(|(_, edge)| execution_limits[edge.from] <= 1);
    by_source.sort_by_key(|(_, edge)| edge.from);
    let same_source = by_source.chunk_by(|one, other| one.1.from == other.1.from);
    pairs.extend(find_excluding_pairs_in_groups(same_source, &are_exclusive_branches));
    pairs.sort_by_key(|pair| (pair.one.0, pair.other.0));
    pairs
}

/// Compares the pairs within each group, up to a limit, and returns the pairs for which `excludes` is true.
fn find_excluding_pairs_in_groups<'x, 'g: 'x, 'e: 'x>(
    groups: impl Iterator<Item = &'x [(usize, &'g GraphEdge<'e>)]>,
    excludes: &dyn Fn(&GraphEdge<'e>, &GraphEdge<'e>) -> bool,
) -> Vec<ExclusiveDependencies<'g, 'e>> {
    let all = groups.flat_map(|group| {
        let later_edges = |at: usize| group[at + 1..].iter().copied();
        let numbered = group.iter().copied().enumerate();
        numbered.flat_map(move |(at, one)| later_edges(at).map(move |other| ExclusiveDependencies { one, other }))
    });
    let compared = all.take(MOST);
    compared.filter(|pair| excludes(pair.one.1, pair.other.1)).collect()
}

/// Returns whether the conditions are never both true in one snapshot.
fn have_exclusive_conditions(one: &GraphEdge<'_>, other: &GraphEdge<'_>) -> bool {
    match (&one.condition, &other.condition) {
        (Some((condition, _)), Some((other_condition, _))) => {
            condition.is_exclusive_with(one.from, other_condition, other.from)
        }
        _ => false,
    }
}

/// Returns whether one of the two dependencies needs a success of an agent's latest execution, and the other a failure.
fn need_success_and_failure(one: &GraphEdge<'_>, other: &GraphEdge<'_>) -> bool {
    let endings = [one.dependency.on, other.dependency.on];
    one.from == other.from && endings.contains(&RequiredResult::Success) && endings.contains(&RequiredResult::Failure)
}

/// Returns whether the only execution of their common source agent fulfils at most one of the two dependencies.
fn are_exclusive_branches(one: &GraphEdge<'_>, other: &GraphEdge<'_>) -> bool {
    if need_success_and_failure(one, other) {
        return true;
    }
    let is_fixed = |edge: &GraphEdge<'_>| matches!(&edge.condition, Some((condition, _)) if condition.reads_only_output_and_inputs());
    is_fixed(one) && is_fixed(other) && have_exclusive_conditions(one, other)
}

/// The agents that require the output of each agent before their first execution.
struct RequiringAgents(Vec<Vec<usize>>);

impl RequiringAgents {
    /// Lists for each agent the agents that require its output before their first execution.
    fn from_graph(graph: &CheckGraph<'_>) -> Self {
        let mut listeners = vec![Vec::new(); graph.agent_count()];
        for to in 0..graph.agent_count() {
            required_agents(graph, to).for_each(|from| listeners[from].push(to));
        }
        Self(listeners)
    }

    /// Returns the agents that need both dependencies before their first execution, in declaration order.
    fn agents_needing_both(&self, pair: &ExclusiveDependencies<'_, '_>) -> Vec<usize> {
        let (with_one, with_other) = (self.agents_needing(pair.one.0), self.agents_needing(pair.other.0));
        (0..self.0.len())
            .filter(|at| with_one.contains(*at) && with_other.contains(*at))
            .collect()
    }

    /// Returns the agent, and all agents that require the agent, directly or through others.
    fn agents_needing(&self, agent: usize) -> FixedBitSet {
        find_reachable(self.0.len(), [agent], |at| self.0[at].iter().copied())
    }
}

/// Returns the agents whose output this agent requires before its first execution.
fn required_agents<'g>(graph: &'g CheckGraph<'_>, agent: usize) -> impl Iterator<Item = usize> + use<'g> {
    let edges = graph.dependency_edges(agent).iter();
    edges.filter(|edge| edge.is_required_at_start()).map(|edge| edge.from)
}

/// Builds the warning that the agent can never run because of these two dependencies.
fn exclusive_join_finding(graph: &CheckGraph<'_>, agent: usize, pair: &ExclusiveDependencies<'_, '_>) -> Finding {
    let message = format!(
        "agent `{}` can never run: it requires two dependencies that exclude each other",
        graph.agent_name(agent)
    );
    let mut finding = Finding::new_warning(
        codes::EXCLUSIVE_JOIN,
        Agent::route_at(agent).with_key("name").into_value_location(),
        message,
    );
    for (to, edge) in [pair.one, pair.other] {
        let route = edge.dependency_route(to);
        let place = match edge.condition {
            Some(_) => route.with_key("condition").into_value_location(),
            None => route.into_value_location(),
        };
        finding = finding.with_related(place, format!("`{}` requires this", graph.agent_name(to)));
    }
    finding.with_help(
        "correct one of the conditions; if one of the dependencies is enough, set `requires_all: false` for both",
    )
}
