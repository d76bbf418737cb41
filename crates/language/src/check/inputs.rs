//! Inputs of the run that conditions and templates read, and that are not declared.

use super::subject::Subject;
use super::templates;
use crate::condition::Keyed;
use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::Ensemble;
use crate::loader::codes;
use crate::source::At;
use crate::template;

/// Reports an error for every input that is read by a literal name and not declared.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let ensemble = graph.ensemble;
    let mut findings = Vec::new();
    for (to, edge) in graph.all_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        for read in reading.keys_read(Keyed::Inputs) {
            let place = || edge.route(to).key("condition").text(read.span);
            findings.extend(undeclared(ensemble, &read.key, place));
        }
    }
    for (reading, route) in graph.result() {
        for read in reading.keys_read(Keyed::Inputs) {
            findings.extend(undeclared(ensemble, &read.key, || route.clone().text(read.span)));
        }
    }
    for (text, route) in templates::all(ensemble) {
        for (name, span) in template::inputs_read(text) {
            findings.extend(undeclared(ensemble, &name, || route.clone().text(span)));
        }
    }
    findings
}

pub(super) fn undeclared(ensemble: &Ensemble, name: &str, at: impl FnOnce() -> At) -> Option<Finding> {
    if ensemble.input(name).is_some() {
        return None;
    }
    let known: Vec<&str> = ensemble.inputs.iter().flatten().map(|input| &*input.name).collect();
    let finding = Finding::error(
        codes::UNKNOWN_INPUT,
        at(),
        format!("the input `{name}` is not declared"),
    );
    Some(match did_you_mean(name, known.iter().copied()) {
        Some(near) => finding.meant_name(name, near),
        None if known.is_empty() => {
            let help = format!("declare it at the top of the file: `inputs: {{{name}: {{type: string}}}}`");
            finding.help(help)
        }
        None => finding.help(format!("the inputs are {}", known.join(", "))),
    })
}
