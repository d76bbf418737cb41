//! Conditions and results that do not fit what their values can be: a number compared with a text, a word that is none of
//! the choices, a count above its limit.
//!
//! What an agent puts out is known from its `output_schema`, its choices, and what the caller knows of scripts and
//! prepared replies. Where nothing is known, nothing is reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::graph::{Edge, Graph};
use crate::condition::{Fields, HISTORY_FIELDS, Known, Misfit, Mistake, Range, Reading, Type, Verdict};
use crate::data::FailureKind;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ending, Ensemble};
use crate::loader::codes;
use crate::source::Route;

/// The limit of findings.
const MOST: usize = 100;

/// What the caller knows of an agent's output beyond the text of the ensemble.
pub(super) type Ask<'a> = dyn Fn(&Agent) -> Option<Type> + 'a;

/// Warns of what never fits.
pub(super) fn check(graph: &Graph<'_>, ask: &Ask<'_>) -> Vec<Finding> {
    let outputs: Vec<Type> = (0..graph.len()).map(|at| output(graph.agent(at), ask)).collect();
    let shared = shared(graph, &outputs);
    let mut findings = Vec::new();
    for (to, edge) in graph.all_edges() {
        let Some((reading, Verdict::Open)) = &edge.condition else {
            continue;
        };
        let known = Known {
            output: of_edge(edge, &outputs),
            ..shared.clone()
        };
        add(reading, &known, &edge.route(to).key("condition"), &mut findings);
        if findings.len() >= MOST {
            return findings;
        }
    }
    for (reading, route) in graph.result() {
        add(&reading, &shared, &route, &mut findings);
    }
    findings.truncate(MOST);
    findings
}

fn add(reading: &Reading, known: &Known, route: &Route, findings: &mut Vec<Finding>) {
    findings.extend(reading.misfits(known).into_iter().map(|misfit| finding(misfit, route)));
}

fn finding(misfit: Misfit, route: &Route) -> Finding {
    let code = match misfit.mistake {
        Mistake::Never | Mistake::Always => codes::NEVER_FITS,
        Mistake::Fails => codes::MISFIT,
        Mistake::NoKey => codes::UNWRITTEN_KEY,
    };
    let finding = Finding::warning(code, route.clone().text(misfit.span), misfit.message);
    match misfit.help {
        Some(help) => finding.help(help),
        None => finding,
    }
}

/// What the agent puts out when it succeeds.
fn output(agent: &Agent, ask: &Ask<'_>) -> Type {
    if agent.for_each.is_some() {
        return Type::any();
    }
    let of_schema = || agent.output_schema.as_ref().map(Type::of_output_schema);
    match &agent.kind {
        AgentKind::Input(input) => match input.choices.as_slice() {
            [] => Type::any(),
            // Such an answer would be the whole output.
            choices if choices.iter().any(|choice| choice.trim_start().starts_with('{')) => Type::any(),
            choices => Type::map(Fields::exactly([(
                "response".to_owned(),
                Type::one_of(choices.iter().map(String::as_str)),
            )])),
        },
        AgentKind::Llm(_) => match of_schema() {
            Some(of) => with_response(&of),
            None => ask(agent).unwrap_or_default(),
        },
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } => of_schema().or_else(|| ask(agent)).unwrap_or_default(),
    }
}

/// The full text of a model is stored beside the keys of its output.
fn with_response(of: &Type) -> Type {
    let Some(fields) = of.fields() else {
        return Type::any();
    };
    let mut fields = fields.clone();
    let own = fields.known.get("response").map(|(own, _)| own.clone());
    let text = own.map_or_else(Type::text, |own| own.or(Type::text()));
    fields.known.insert("response".to_owned(), (text, true));
    Type::map(fields)
}

/// What stands for the output of a failed execution.
fn failure() -> Type {
    let kinds = FailureKind::ALL
        .iter()
        .filter_map(|kind| serde_json::to_value(kind).ok());
    let kinds: Vec<String> = kinds.filter_map(|kind| kind.as_str().map(str::to_owned)).collect();
    Type::map(Fields::exactly([
        ("error".to_owned(), Type::text()),
        ("kind".to_owned(), Type::one_of(kinds)),
    ]))
}

fn of_edge(edge: &Edge<'_>, outputs: &[Type]) -> Type {
    match edge.dependency.on {
        Ending::Success => outputs[edge.from].clone(),
        Ending::Failure => failure(),
        Ending::Any => outputs[edge.from].clone().or(failure()),
    }
}

/// What all conditions can read.
fn shared(graph: &Graph<'_>, outputs: &[Type]) -> Known {
    let ensemble = graph.ensemble;
    let turns = u64::from(ensemble.limits.max_total_turns.get());
    Known {
        context: context(graph, outputs),
        output: Type::any(),
        turn_count: Type::count(turns),
        history: history(graph, outputs),
        executions: executions(graph),
        input: Type::text(),
        inputs: inputs(ensemble),
        outputs: latest(graph, outputs),
        item: Type::any(),
        part: Type::any(),
    }
}

fn open(known: BTreeMap<String, (Type, bool)>) -> Type {
    Type::map(Fields {
        known,
        others: Some(Type::any()),
        strict: false,
    })
}

/// The whole outputs under their keys, and the keys of all outputs if they are all known. Values from outside can be added.
fn context(graph: &Graph<'_>, outputs: &[Type]) -> Type {
    let mut known: BTreeMap<String, (Type, bool)> = BTreeMap::new();
    let mut write = |key: &str, of: Type| {
        let before = known.remove(key);
        let of = before.map_or(of.clone(), |(before, _)| before.or(of));
        known.insert(key.to_owned(), (of, false));
    };
    for (at, output) in outputs.iter().enumerate() {
        write(graph.agent(at).state_key(), output.clone());
    }
    let merging = outputs.iter().enumerate();
    let merging = merging.filter(|(at, _)| graph.agent(*at).for_each.is_none());
    let closed: Option<Vec<&Fields>> = merging
        .map(|(_, output)| output.fields().filter(|fields| fields.others.is_none()))
        .collect();
    let is_stored =
        |key: &str| graph.find(key).is_some() || (0..graph.len()).any(|at| **graph.agent(at).state_key() == *key);
    for fields in closed.iter().flatten() {
        for (key, (of, _)) in fields.known.iter().filter(|(key, _)| !is_stored(key)) {
            write(key, of.clone());
        }
    }
    for input in graph.ensemble.inputs.iter().flatten() {
        // An agent of which less is known may write the key, too.
        let of = match closed {
            Some(_) => Type::of_schema(&input.schema),
            None => Type::any(),
        };
        write(&input.name, of);
    }
    open(known)
}

fn inputs(ensemble: &Ensemble) -> Type {
    let Some(inputs) = &ensemble.inputs else {
        return Type::any();
    };
    let of = |input: &crate::ensemble::Input| (input.name.to_string(), (Type::of_schema(&input.schema), false));
    open(inputs.iter().map(of).collect())
}

/// The number of executions of each agent: the smaller of its own limits and those of the conversation.
fn executions(graph: &Graph<'_>) -> Type {
    let limits = &graph.ensemble.limits;
    let most = |at: usize| {
        let agent = graph.agent(at);
        let caps = limits.max_agent_executions.iter();
        let cap = caps.filter(|(name, _)| **name == *agent.name).map(|(_, cap)| cap.get());
        cap.chain([agent.conversation.max_turns.get(), limits.max_total_turns.get()])
            .min()
            .unwrap_or(u32::MAX)
    };
    let of = |at: usize| (graph.name(at).to_owned(), (Type::count(u64::from(most(at))), true));
    open((0..graph.len()).map(of).collect())
}

fn latest(graph: &Graph<'_>, outputs: &[Type]) -> Type {
    let of = |(at, output): (usize, &Type)| {
        let names: Arc<str> = graph.name(at).into();
        (names.to_string(), (output.clone().or(failure()), false))
    };
    open(outputs.iter().enumerate().map(of).collect())
}

/// The executions so far. Their fields are a fixed set.
fn history(graph: &Graph<'_>, outputs: &[Type]) -> Type {
    let one = Type::number(Range::between(1.0, f64::INFINITY));
    let any_output = outputs.iter().cloned().fold(failure(), Type::or);
    let of = |field: &&str| {
        let of = match *field {
            "turn_number" | "execution" => one.clone(),
            "attempt" => Type::count(u64::MAX),
            "agent_name" => Type::one_of(graph.names()),
            "success" => Type::boolean(),
            "error" => Type::text().or(Type::nothing()),
            "timestamp" => Type::text(),
            "execution_time" => Type::number(Range::ALL),
            "output_data" => any_output.clone(),
            _ => Type::any(),
        };
        ((*field).to_owned(), (of, true))
    };
    Type::list(Type::map(Fields {
        known: HISTORY_FIELDS.iter().map(of).collect(),
        others: None,
        strict: true,
    }))
}
