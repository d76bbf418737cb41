//! Loops of which only one side may run often: `writer` five times, and `reviewer`, which starts it again, once.

use super::graph::{Edge, Graph};
use super::subject::Subject;
use super::turns::most_executions;
use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;

/// Warns of agents that cannot reach their `max_turns` because the other side of their loop may run too rarely.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let turns = |at: usize| graph.agent(at).conversation.max_turns.get();
    let may_loop = |at: usize| turns(at) > 2 && loops(graph, at).next().is_some();
    let looping: Vec<usize> = (0..graph.len()).filter(|at| may_loop(*at)).collect();
    if looping.is_empty() {
        return Vec::new();
    }
    let most = most_executions(graph);
    let short = looping.into_iter().filter(|at| most[*at] < u64::from(turns(*at)));
    let finding = |at: usize| {
        let other = loops(graph, at)
            .map(|edge| edge.from)
            .min_by_key(|other| turns(*other))?;
        (turns(other) + 1 < turns(at)).then(|| report(graph, at, other, most[at]))
    };
    short.filter_map(finding).collect()
}

/// The feedback of an agent from agents that listen to it.
fn loops<'g, 'e>(graph: &'g Graph<'e>, agent: usize) -> impl Iterator<Item = &'g Edge<'e>> {
    let listens = move |other: usize| graph.edges(other).iter().any(|edge| edge.from == agent);
    let feedback = graph.edges(agent).iter().filter(|edge| edge.dependency.feedback);
    feedback.filter(move |edge| edge.from != agent && !edge.never_holds() && listens(edge.from))
}

fn report(graph: &Graph<'_>, agent: usize, other: usize, most: u64) -> Finding {
    let wanted = graph.agent(agent).conversation.max_turns;
    let turns = graph.agent(other).conversation.max_turns;
    let (name, other_name) = (graph.name(agent), graph.name(other));
    let place = |at: usize| Agent::route(at).key("conversation").key("max_turns").value();
    let default = if turns.get() == 1 { ", the default," } else { "" };
    let message = format!(
        "`{name}` may run {wanted} times, but `max_turns: {turns}`{default} of `{other_name}` ends their loop: `{name}` runs at most {most} times, \
         and `{other_name}` never reads its last output"
    );
    let mut finding = Finding::warning(codes::ONE_SIDED_LOOP, place(agent), message);
    if turns.get() > 1 {
        finding = finding.also(place(other), "this limit is reached first");
    }
    finding.help(format!(
        "set `conversation.max_turns: {wanted}` for `{other_name}`, or lower it for `{name}`"
    ))
}
