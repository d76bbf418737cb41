//! Keys in templates that the outputs of the named agents never have.

use std::collections::BTreeSet;

use super::graph::Graph;
use super::keys::OF_FAILURES;
use super::output_keys::Outputs;
use super::subject::Subject;
use super::templates::templates;
use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::{Agent, Ending};
use crate::loader::codes;
use crate::template::{Path, VARIABLES, printed};

/// The limit of findings, because each is compared with many names.
const MOST: usize = 100;

/// Warns of keys that templates print and that the outputs of the named agents never have.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let outputs = &mut *subject.outputs.borrow_mut();
    let mut findings = Vec::new();
    for agent in 0..graph.len() {
        for (text, route) in templates(graph.agent(agent), &Agent::route(agent)) {
            for path in printed(text).iter().filter(|path| !is_other(text, path)) {
                let finding = missing_key(graph, agent, path, outputs);
                findings.extend(finding.map(|finding| finding(route.clone().text(path.span))));
                if findings.len() >= MOST {
                    return findings;
                }
            }
        }
    }
    findings
}

/// Returns whether the name may stand for something else than the output of an agent.
fn is_other(text: &str, path: &Path) -> bool {
    const ASSIGNING: [&str; 5] = ["set ", "for ", "with ", "macro ", ", "];
    let name = path.name.as_str();
    let is_set = |at: usize| ASSIGNING.iter().any(|word| text[..at].ends_with(word));
    VARIABLES.contains(&name) || text.match_indices(name).any(|(at, _)| is_set(at))
}

fn missing_key(
    graph: &Graph<'_>,
    agent: usize,
    path: &Path,
    outputs: &mut Outputs<'_>,
) -> Option<impl FnOnce(crate::source::At) -> Finding + use<>> {
    let key = path.keys.first()?.clone();
    let edges = graph.edges(agent).iter();
    let mut edges = edges
        .filter(|edge| *edge.dependency.agent_name == *path.name)
        .peekable();
    let from = edges.peek()?.from;
    let ends: Vec<Ending> = edges.map(|edge| edge.dependency.on).collect();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    if ends.iter().any(|on| on.admits(true)) {
        known.extend(outputs.of(from)?.iter().map(String::as_str));
    }
    if ends.iter().any(|on| on.admits(false)) {
        known.extend(OF_FAILURES);
    }
    if known.contains(key.as_str()) {
        return None;
    }
    let near = did_you_mean(&key, known.iter().copied()).map(str::to_owned);
    let help = match &near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "the known keys are {}",
            known.into_iter().take(8).collect::<Vec<_>>().join(", ")
        ),
    };
    let message = format!(
        "the output of `{}` has no key `{key}`, so this prints nothing",
        path.name
    );
    Some(move |at| {
        let finding = Finding::warning(codes::MISSING_TEMPLATE_KEY, at, message);
        match near {
            Some(near) => finding.meant_name(&key, &near),
            None => finding.help(help),
        }
    })
}
