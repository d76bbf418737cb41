//! Conditions, expressions and templates that do not fit what their values can be: a number compared with a text, a word
//! that is none of the choices, a count above its limit, a key that an output never has.
//!
//! What an agent puts out is known from its `output_schema`, its choices, and what the caller knows of scripts,
//! prepared replies and inner ensembles. Where nothing is known, nothing is reported.

mod part_types;
mod template_types;
mod variable_types;

use super::check_subject::CheckSubject;
use std::rc::Rc;

use super::check_graph::{CheckGraph, GraphEdge};
use super::templates::with_suggested_replacement;
use crate::condition::{
    MapFields, ParsedCondition, StaticResult, TypeProblem, TypeProblemKind, ValueExpression, ValueType, VariableTypes,
};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ensemble, RequiredResult, ResultSpec};
use crate::loader::codes;
use crate::source::Route;
use variable_types::{failure_type, infer_output_type, infer_shared_variable_types};

/// The limit of findings.
const MOST: usize = 100;

/// A function that returns the type of an agent's output, if files outside of the ensemble define the type.
pub(super) type OutputTypeSource<'a> = dyn Fn(&Agent) -> Option<ValueType> + 'a;

/// The types of all values of an ensemble.
pub(super) struct EnsembleTypes {
    /// The output of each agent, if it succeeds.
    pub(super) outputs: Rc<[ValueType]>,
    /// What all conditions can read.
    pub(super) shared: VariableTypes,
}

impl EnsembleTypes {
    /// Infers the types of all outputs, and of the variables that conditions share.
    pub(super) fn infer(graph: &CheckGraph<'_>, ask: &OutputTypeSource<'_>) -> Self {
        let outputs: Rc<[ValueType]> = (0..graph.agent_count())
            .map(|at| infer_output_type(graph.agent_at(at), ask))
            .collect();
        let shared = infer_shared_variable_types(graph, &outputs);
        Self { outputs, shared }
    }
}

/// Warns of comparisons and reads that never fit the type of the value, unless another check has reported the location.
pub(super) fn check_value_types(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ask = |agent: &Agent| subject.output_type(agent);
    let mut findings = find_type_findings(subject.graph, &ask);
    // One fault is one finding.
    findings.retain(|finding| !subject.has_reported_at(finding));
    findings
}

/// Finds the type problems in conditions, `for_each`, the result and templates.
fn find_type_findings(graph: &CheckGraph<'_>, ask: &OutputTypeSource<'_>) -> Vec<Finding> {
    let types = EnsembleTypes::infer(graph, ask);
    let mut findings = Vec::new();
    for (to, edge) in graph.list_edges() {
        let Some((reading, StaticResult::DependsOnValues)) = &edge.condition else {
            continue;
        };
        let known_types = VariableTypes {
            output: dependency_value_type(edge, &types.outputs),
            ..types.shared.clone()
        };
        add_type_findings(
            reading,
            &known_types,
            &edge.dependency_route(to).with_key("condition"),
            &mut findings,
        );
        if findings.len() >= MOST {
            return findings;
        }
    }
    for (reading, route) in graph.parse_result_expressions() {
        add_type_findings(&reading, &types.shared, &route, &mut findings);
    }
    part_types::check_for_each_types(graph, ask, &types.shared, &mut findings);
    template_types::check_template_types(graph, &types, &mut findings);
    findings.truncate(MOST);
    findings
}

/// Infers the type of the result that an agent with this nested ensemble returns.
pub(super) fn infer_result_type(ensemble: &Ensemble, ask: &OutputTypeSource<'_>) -> Option<ValueType> {
    let spec = ensemble.result.as_ref()?;
    let graph = CheckGraph::build(ensemble);
    let types = EnsembleTypes::infer(&graph, ask);
    match spec {
        ResultSpec::Agent(name) => {
            let of = types.outputs[graph.find_agent_index(name)?].clone();
            // An agent without an output gives `null`, and a value that is no map is the `response`.
            let none = ("response".to_owned(), ValueType::nothing_value());
            Some(of.union_with(ValueType::map_with_fields(MapFields::with_exact_keys([none]))))
        }
        ResultSpec::Map(entries) => {
            let entry = |(key, text): &(std::sync::Arc<str>, String)| {
                let of = ValueExpression::parse(text)
                    .map_or_else(|_| ValueType::any_value(), |reading| reading.infer_type(&types.shared));
                (key.to_string(), of)
            };
            Some(ValueType::map_with_fields(MapFields::with_exact_keys(
                entries.iter().map(entry),
            )))
        }
    }
}

/// Adds a finding for each type problem of the condition at the route.
fn add_type_findings(reading: &ParsedCondition, known: &VariableTypes, route: &Route, findings: &mut Vec<Finding>) {
    findings.extend(
        reading
            .find_type_problems(known)
            .into_iter()
            .map(|misfit| type_problem_finding(misfit, route)),
    );
}

/// Builds the warning about a type problem, with its suggested replacement.
fn type_problem_finding(misfit: TypeProblem, route: &Route) -> Finding {
    let code = match misfit.kind {
        TypeProblemKind::NeverTrue | TypeProblemKind::AlwaysTrue => codes::NEVER_FITS,
        TypeProblemKind::Fails | TypeProblemKind::UnknownName => codes::MISFIT,
        TypeProblemKind::NoKey => codes::UNWRITTEN_KEY,
    };
    let finding = Finding::new_warning(code, route.clone().into_text_location(misfit.span), misfit.message);
    with_suggested_replacement(finding, misfit.help, route)
}

/// Returns the type of the value that the dependency passes on: the output, the failure (`on: failure`), or either (`on: any`).
fn dependency_value_type(edge: &GraphEdge<'_>, outputs: &[ValueType]) -> ValueType {
    match edge.dependency.on {
        RequiredResult::Success => outputs[edge.from].clone(),
        RequiredResult::Failure => failure_type(),
        RequiredResult::Any => outputs[edge.from].clone().union_with(failure_type()),
    }
}
