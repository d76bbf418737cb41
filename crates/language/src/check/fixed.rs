//! Conditions of loops whose result does not change any more while the loop runs: only a limit ends the loop.
//!
//! A condition decides on a loop if every cycle through its agents passes its dependency, and if no other dependency
//! of these agents has a condition. There are two cases. In the first, everything that the condition reads is
//! written before the loop, by agents that run only once. In the second, an agent of the loop writes a key as `true` in
//! some outputs and does not write it in the others: an output without the key does not change the context.

use super::subject::Subject;
use std::collections::BTreeSet;

use super::context::OutputKeys;
use super::graph::{Edge, Graph};
use super::output_keys::Outputs;
use super::turns::most_executions;
use crate::condition::Reading;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ending};
use crate::loader::codes;
use crate::plan::walks::{components, has_cycle};
use crate::source::At;

/// Warns of every such condition.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let outputs = &mut *subject.outputs.borrow_mut();
    let latched = &|agent: &Agent| subject.context.latched_keys(subject.ensemble, agent);
    // An agent that is requested runs without its dependencies.
    if graph.has_requests() {
        return Vec::new();
    }
    let mut loops = None;
    let mut findings = Vec::new();
    for (to, edge) in graph.all_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        if reading.context_truths().is_empty() && reading.context_alone().is_none_or(|keys| keys.is_empty()) {
            continue;
        }
        let most = most_executions(graph);
        let loops = loops.get_or_insert_with(|| Loops::of(graph));
        let Some(members) = loops.decided(graph, to, edge).filter(|_| most[to] > 2) else {
            continue;
        };
        let place = || edge.route(to).key("condition").value();
        let finding = written_before(graph, to, edge, reading, most, outputs)
            .map(|writers| before(graph, &writers, place()))
            .or_else(|| {
                let (key, writer) = never_reset(graph, members, reading, outputs, latched)?;
                Some(stays(graph, edge, &key, writer, place()))
            });
        findings.extend(finding);
    }
    findings
}

/// The groups of agents that lead back to themselves.
struct Loops {
    /// The group of each agent.
    group: Vec<usize>,
    members: Vec<Vec<usize>>,
}

impl Loops {
    fn of(graph: &Graph<'_>) -> Self {
        let members = components(graph.len(), |to| {
            let edges = graph.edges(to).iter().filter(|edge| !edge.never_holds());
            edges.map(|edge| edge.from)
        });
        let mut group = vec![0; graph.len()];
        for (number, members) in members.iter().enumerate() {
            members.iter().for_each(|at| group[*at] = number);
        }
        Self { group, members }
    }

    /// The agents of the loop on which the condition of the dependency decides; `None` if there is no such loop.
    fn decided(&self, graph: &Graph<'_>, to: usize, edge: &Edge<'_>) -> Option<&[usize]> {
        let group = self.group[to];
        let members = self.members[group].as_slice();
        let is_other = |one: &&Edge<'_>| !std::ptr::eq(*one, edge);
        let mut others = members.iter().flat_map(|at| graph.edges(*at)).filter(is_other);
        let is_plain = |one: &Edge<'_>| one.dependency.condition.is_none() && one.dependency.on != Ending::Failure;
        let is_decided = self.group[edge.from] == group && others.all(is_plain) && Self::is_open(graph, members, edge);
        is_decided.then_some(members)
    }

    /// Returns whether no agent of the group leads back to itself without this dependency.
    fn is_open(graph: &Graph<'_>, members: &[usize], without: &Edge<'_>) -> bool {
        !has_cycle(members.len(), |to| {
            let edges = graph.edges(members[to]).iter();
            let others = edges.filter(|edge| !std::ptr::eq(*edge, without));
            others.filter_map(|edge| members.binary_search(&edge.from).ok())
        })
    }
}

/// The agents that write what the condition reads, if all of them have run before the condition is evaluated, and do
/// not run again.
fn written_before(
    graph: &Graph<'_>,
    to: usize,
    edge: &Edge<'_>,
    reading: &Reading,
    most: &[u64],
    outputs: &mut Outputs<'_>,
) -> Option<BTreeSet<usize>> {
    // Whoever limits the number of rounds does not expect that the condition ends them.
    if edge.dependency.max_executions.is_some() {
        return None;
    }
    let mut all = BTreeSet::new();
    for read in reading.context_alone()? {
        let writers = outputs.writers(&read.key)?;
        let is_given = writers.is_empty() && graph.ensemble.input(&read.key).is_some();
        if writers.is_empty() && !is_given {
            return None;
        }
        all.extend(writers);
    }
    let needed = graph.upstream([to, edge.from]);
    let is_before = |writer: usize| writer != to && needed.contains(writer);
    let is_fixed = |writer: &usize| most[*writer] <= 1 && is_before(*writer);
    (!all.is_empty() && all.iter().all(is_fixed)).then_some(all)
}

/// A key that stays true and keeps the condition true, and an agent of the loop that writes it.
fn never_reset(
    graph: &Graph<'_>,
    members: &[usize],
    reading: &Reading,
    outputs: &mut Outputs<'_>,
    latched: &dyn Fn(&Agent) -> OutputKeys,
) -> Option<(String, usize)> {
    reading.context_truths().into_iter().find_map(|key| {
        let is_stored = graph.ensemble.agents.iter().any(|agent| **agent.state_key() == *key);
        let writers = outputs.writers(&key).filter(|_| !is_stored)?;
        let is_latched = |writer: &usize| latched(graph.agent(*writer)).contains(&key);
        let writer = *writers.iter().find(|writer| members.contains(writer))?;
        writers.iter().all(is_latched).then_some((key, writer))
    })
}

fn before(graph: &Graph<'_>, writers: &BTreeSet<usize>, at: At) -> Finding {
    let names: Vec<String> = writers
        .iter()
        .map(|writer| format!("`{}`", graph.name(*writer)))
        .collect();
    let message = format!(
        "this condition has the same result in every round of the loop: it reads only what {} writes, which runs once, before the loop",
        names.join(" and ")
    );
    Finding::warning(codes::FIXED_CONDITION, at, message)
        .help("read a key that an agent of the loop writes, or remove the condition and let `max_turns` end the loop")
}

fn stays(graph: &Graph<'_>, edge: &Edge<'_>, key: &str, writer: usize, at: At) -> Finding {
    let name = graph.name(writer);
    let message = format!(
        "once `{name}` has written `{key}: true`, this condition stays true, because its other outputs do not contain `{key}`; only a limit ends the loop"
    );
    let read = match writer == edge.from {
        true => format!("output.{key}"),
        false => format!("context.{}.{key}", graph.agent(writer).state_key()),
    };
    Finding::warning(codes::FIXED_CONDITION, at, message).help(format!(
        "write `{key}: false` in the other outputs, or read the latest output: `{read}`"
    ))
}
