//! Keys that conditions read, and that no agent or several agents write.
//!
//! A key is checked only if everything that could write it is known. `--set`, `--context` and the `config` of an outer
//! ensemble can add any key to the context, so the finding is only a warning.

use std::collections::BTreeSet;

use super::graph::{Edge, Graph};
use super::output_keys::Outputs;
use super::subject::Subject;
use crate::condition::{KeyRead, Keyed};
use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::{Agent, Ending};
use crate::loader::codes;
use crate::source::Span;

/// The limit of findings, and of reads that are searched for spelling mistakes, because each is compared with many
/// names.
const MOST: usize = 100;

/// Warns of keys that no agent writes, and gives hints for keys that several agents write.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let outputs = &mut *subject.outputs.borrow_mut();
    let mut findings = Vec::new();
    let mut questions = 0;
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
            questions += usize::from(read.is_question);
            if !read.is_question || questions <= MOST {
                findings.extend(of_context(graph, &read, outputs).map(|finding| finding(place(read.span))));
            }
        }
        if findings.len() >= MOST {
            break;
        }
    }
    findings
}

type AtPlace = Box<dyn FnOnce(crate::source::At) -> Finding>;

/// The keys of what stands for the output of a failed execution.
pub(super) const OF_FAILURES: [&str; 2] = ["error", "kind"];

/// A key of the output of the agent that is depended on.
fn of_output(edge: &Edge<'_>, key: &str, outputs: &mut Outputs<'_>) -> Option<AtPlace> {
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

/// The end of the help for a key of the context.
const ELSE: &str = "; `--set`, `--context` or the `config` of an outer ensemble could add it";

/// The number of bytes from which on the likeness of two keys tells something.
const SHORTEST: usize = 5;

/// The help for a key of the context that nobody writes and that is probably another one. A script may expect any other
/// key from `--set`, `--context` or the `config` of an outer ensemble.
pub(super) fn mistaken(graph: &Graph<'_>, key: &str, outputs: &mut Outputs<'_>) -> Option<String> {
    let written = outputs.written();
    if written.stored.contains(key) || written.merged.contains_key(key) {
        return None;
    }
    if let Some(agent) = graph.find(key).map(|at| graph.agent(at)) {
        return Some(stored_elsewhere(agent));
    }
    // Short names resemble each other by chance.
    let is_telling = written.is_all && key.len() >= SHORTEST;
    let near = did_you_mean(key, written.names()).filter(|_| is_telling)?;
    Some(format!("did you mean `{near}`?"))
}

fn stored_elsewhere(agent: &Agent) -> String {
    format!(
        "the output of that agent is stored under its `state_key`, `{}`",
        agent.state_key()
    )
}

/// A key of the context. A condition that only tests whether the key exists expects that it may be missing, so it is
/// reported only if it is probably a spelling mistake.
fn of_context(graph: &Graph<'_>, read: &KeyRead, outputs: &mut Outputs<'_>) -> Option<AtPlace> {
    let key = read.key.as_str();
    let written = outputs.written();
    if written.stored.contains(key) {
        return None;
    }
    let message = format!("no agent writes `{key}` into the context");
    if let Some(agent) = graph.find(key).map(|at| graph.agent(at)) {
        if read.is_question {
            return None;
        }
        // The name of the key stays reserved, so no other agent can write it.
        let help = stored_elsewhere(agent);
        return Some(Box::new(move |at| {
            Finding::warning(codes::UNWRITTEN_KEY, at, message).help(help)
        }));
    }
    match written.merged.get(key) {
        Some((first, Some(second))) => return Some(shared(graph, key, *first, *second)),
        Some((_, None)) => return None,
        None => {}
    }
    let is_slip = || did_you_mean(key, written.names()).is_some();
    if !written.is_all || (read.is_question && !is_slip()) {
        return None;
    }
    Some(unwritten(message, key, written.names(), ELSE))
}

fn unwritten<'k>(message: String, key: &str, known: impl Iterator<Item = &'k str>, or_else: &str) -> AtPlace {
    const SHOWN: usize = 8;
    let known: Vec<&str> = known.collect();
    let near = did_you_mean(key, known.iter().copied());
    let names = near.map(|near| (key.to_owned(), near.to_owned()));
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => format!("no keys are known{or_else}"),
        None => {
            let more = if known.len() > SHOWN { ", …" } else { "" };
            let names: Vec<String> = known.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
            format!("the known keys are {}{more}{or_else}", names.join(", "))
        }
    };
    Box::new(move |at| {
        let finding = Finding::warning(codes::UNWRITTEN_KEY, at, message);
        match names {
            Some((key, near)) => finding.meant_name(&key, &near),
            None => finding.help(help),
        }
    })
}

/// A key that several agents are known to write: the condition reads the value of the agent that ran last.
fn shared(graph: &Graph<'_>, key: &str, first: usize, second: usize) -> AtPlace {
    let message = format!(
        "`{}` and `{}` both write `{key}`: this condition reads the value of the agent that ran last",
        graph.name(first),
        graph.name(second)
    );
    let help = format!(
        "use `context.{}.{key}` to read the output of that agent only",
        graph.agent(first).state_key()
    );
    Box::new(move |at| Finding::hint(codes::SHARED_KEY, at, message).help(help))
}
