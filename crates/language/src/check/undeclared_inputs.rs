//! Inputs of the run that conditions and templates read, and that are not declared.

use super::check_subject::CheckSubject;
use super::templates;
use crate::condition::KeyedVariable;
use crate::diagnostic::{Finding, find_similar_word};
use crate::ensemble::Ensemble;
use crate::loader::codes;
use crate::source::RouteLocation;
use crate::template;

/// Reports an error for every input that is read by a literal name and not declared.
pub(super) fn check_undeclared_inputs(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let ensemble = graph.ensemble;
    let mut findings = Vec::new();
    for (to, edge) in graph.list_edges() {
        let Some((reading, _)) = &edge.condition else {
            continue;
        };
        for read in reading.list_literal_key_reads(KeyedVariable::Inputs) {
            let place = || {
                edge.dependency_route(to)
                    .with_key("condition")
                    .into_text_location(read.span)
            };
            findings.extend(undeclared_input_finding(ensemble, &read.key, place));
        }
    }
    for (reading, route) in graph.parse_result_expressions() {
        for read in reading.list_literal_key_reads(KeyedVariable::Inputs) {
            findings.extend(undeclared_input_finding(ensemble, &read.key, || {
                route.clone().into_text_location(read.span)
            }));
        }
    }
    for (text, route) in templates::list_templates(ensemble) {
        for (name, span) in template::list_read_inputs(text) {
            findings.extend(undeclared_input_finding(ensemble, &name, || {
                route.clone().into_text_location(span)
            }));
        }
    }
    findings
}

/// Returns an error with a similar name as help, if the ensemble does not declare the input.
pub(super) fn undeclared_input_finding(
    ensemble: &Ensemble,
    name: &str,
    at: impl FnOnce() -> RouteLocation,
) -> Option<Finding> {
    if ensemble.find_input(name).is_some() {
        return None;
    }
    let input_names: Vec<&str> = ensemble.inputs.iter().flatten().map(|input| &*input.name).collect();
    let finding = Finding::new_error(
        codes::UNKNOWN_INPUT,
        at(),
        format!("the input `{name}` is not declared"),
    );
    Some(match find_similar_word(name, input_names.iter().copied()) {
        Some(similar_name) => finding.with_near_name_fix(name, similar_name),
        None if input_names.is_empty() => {
            let help = format!("declare it at the top of the file: `inputs: {{{name}: {{type: string}}}}`");
            finding.with_help(help)
        }
        None => finding.with_help(format!("the inputs are {}", input_names.join(", "))),
    })
}
