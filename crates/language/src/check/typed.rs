//! Conditions, expressions and templates that do not fit what their values can be: a number compared with a text, a word
//! that is none of the choices, a count above its limit, a key that an output never has.
//!
//! What an agent puts out is known from its `output_schema`, its choices, and what the caller knows of scripts,
//! prepared replies and inner ensembles. Where nothing is known, nothing is reported.

mod known;
mod parts;
mod prompts;

use super::subject::Subject;
use std::rc::Rc;

use super::graph::{Edge, Graph};
use super::templates::advised;
use crate::condition::{Expression, Fields, Known, Misfit, Mistake, Reading, Type, Verdict};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ending, Ensemble, ResultSpec};
use crate::loader::codes;
use crate::source::Route;
use known::{failure, output, shared};

/// The limit of findings.
const MOST: usize = 100;

/// What the caller knows of an agent's output beyond the text of the ensemble.
pub(super) type Ask<'a> = dyn Fn(&Agent) -> Option<Type> + 'a;

/// The types of all values of an ensemble.
pub(super) struct Types {
    /// The output of each agent, if it succeeds.
    pub(super) outputs: Rc<[Type]>,
    /// What all conditions can read.
    pub(super) shared: Known,
}

impl Types {
    pub(super) fn of(graph: &Graph<'_>, ask: &Ask<'_>) -> Self {
        let outputs: Rc<[Type]> = (0..graph.len()).map(|at| output(graph.agent(at), ask)).collect();
        let shared = shared(graph, &outputs);
        Self { outputs, shared }
    }
}

/// Warns of what never fits, unless another check has reported the place.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ask = |agent: &Agent| subject.output_type(agent);
    let mut findings = find_misfits(subject.graph, &ask);
    // One fault is one finding.
    findings.retain(|finding| !subject.has_reported_at(finding));
    findings
}

fn find_misfits(graph: &Graph<'_>, ask: &Ask<'_>) -> Vec<Finding> {
    let types = Types::of(graph, ask);
    let mut findings = Vec::new();
    for (to, edge) in graph.all_edges() {
        let Some((reading, Verdict::Open)) = &edge.condition else {
            continue;
        };
        let known = Known {
            output: of_edge(edge, &types.outputs),
            ..types.shared.clone()
        };
        add(reading, &known, &edge.route(to).key("condition"), &mut findings);
        if findings.len() >= MOST {
            return findings;
        }
    }
    for (reading, route) in graph.result() {
        add(&reading, &types.shared, &route, &mut findings);
    }
    parts::check(graph, ask, &types.shared, &mut findings);
    prompts::check(graph, &types, &mut findings);
    findings.truncate(MOST);
    findings
}

/// Returns the type of the result of a run of the ensemble, as an agent that is this ensemble returns it.
pub(super) fn result(ensemble: &Ensemble, ask: &Ask<'_>) -> Option<Type> {
    let spec = ensemble.result.as_ref()?;
    let graph = Graph::of(ensemble);
    let types = Types::of(&graph, ask);
    match spec {
        ResultSpec::Agent(name) => {
            let of = types.outputs[graph.find(name)?].clone();
            // An agent without an output gives `null`, and a value that is no map is the `response`.
            let none = ("response".to_owned(), Type::nothing());
            Some(of.or(Type::map(Fields::exactly([none]))))
        }
        ResultSpec::Map(entries) => {
            let entry = |(key, text): &(std::sync::Arc<str>, String)| {
                let of = Expression::read(text).map_or_else(|_| Type::any(), |reading| reading.value(&types.shared));
                (key.to_string(), of)
            };
            Some(Type::map(Fields::exactly(entries.iter().map(entry))))
        }
    }
}

fn add(reading: &Reading, known: &Known, route: &Route, findings: &mut Vec<Finding>) {
    findings.extend(reading.misfits(known).into_iter().map(|misfit| finding(misfit, route)));
}

fn finding(misfit: Misfit, route: &Route) -> Finding {
    let code = match misfit.mistake {
        Mistake::Never | Mistake::Always => codes::NEVER_FITS,
        Mistake::Fails | Mistake::Unknown => codes::MISFIT,
        Mistake::NoKey => codes::UNWRITTEN_KEY,
    };
    let finding = Finding::warning(code, route.clone().text(misfit.span), misfit.message);
    advised(finding, misfit.help, route)
}

fn of_edge(edge: &Edge<'_>, outputs: &[Type]) -> Type {
    match edge.dependency.on {
        Ending::Success => outputs[edge.from].clone(),
        Ending::Failure => failure(),
        Ending::Any => outputs[edge.from].clone().or(failure()),
    }
}
