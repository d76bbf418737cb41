//! What the variables of an ensemble can be: what agents put out, the context, the history.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use crate::check::graph::Graph;
use crate::check::turns;
use crate::condition::{Fields, HISTORY_FIELDS, Known, Later, Range, Type};
use crate::data::FailureKind;
use crate::ensemble::{Agent, AgentKind, Combine, Ensemble};

use super::Ask;

/// Returns the type of the output of the agent when it succeeds.
pub(super) fn output(agent: &Agent, ask: &Ask<'_>) -> Type {
    let of_part = output_of_part(agent, ask);
    match &agent.for_each {
        Some(spec) => output_of_parts(&spec.combine, of_part),
        None => of_part,
    }
}

/// The output of an execution with parts, of which each puts out this.
fn output_of_parts(combine: &Combine, of_part: Type) -> Type {
    let or_nothing = |of: Type| of.or(Type::nothing());
    let entry = |key: &str, of: Type| (key.to_owned(), of);
    let failed = Fields::exactly([
        entry("key", Type::any()),
        entry("error", Type::text()),
        entry("kind", failure().key("kind")),
    ]);
    let mut fields = vec![
        entry("items", Type::list(or_nothing(of_part.clone()))),
        entry("keys", Type::list(Type::any())),
        entry("failed", Type::list(Type::map(failed))),
        entry("count", Type::count(u64::MAX)),
    ];
    match combine {
        Combine::List => {}
        Combine::Best(_) => fields.push(entry("best", or_nothing(of_part))),
        Combine::First(_) => fields.push(entry("first", or_nothing(of_part))),
        Combine::Majority { .. } => {
            fields.push(entry("answer", Type::any()));
            fields.push(entry("votes", Type::any()));
            fields.push(entry("agreed", Type::boolean()));
        }
    }
    Type::map(Fields::exactly(fields))
}

/// Returns the type of the output of the agent when it succeeds, or of one of its parts.
pub(super) fn output_of_part(agent: &Agent, ask: &Ask<'_>) -> Type {
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
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => {
            of_schema().or_else(|| ask(agent)).unwrap_or_default()
        }
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

/// Returns the type that replaces the output of a failed execution.
pub(super) fn failure() -> Type {
    static FAILURE: LazyLock<Type> = LazyLock::new(|| {
        let kinds = FailureKind::ALL
            .iter()
            .filter_map(|kind| serde_json::to_value(kind).ok());
        let kinds: Vec<String> = kinds.filter_map(|kind| kind.as_str().map(str::to_owned)).collect();
        Type::map(Fields::exactly([
            ("error".to_owned(), Type::text()),
            ("kind".to_owned(), Type::one_of(kinds)),
        ]))
    });
    FAILURE.clone()
}

/// Returns the variables that all conditions can read.
pub(super) fn shared(graph: &Graph<'_>, outputs: &Rc<[Type]>) -> Known {
    let ensemble = graph.ensemble;
    let names: Rc<[Arc<str>]> = ensemble.agents.iter().map(|agent| agent.name.clone()).collect();
    let (all, those) = ((names.clone(), outputs.clone()), (names, outputs.clone()));
    let turns = u64::from(ensemble.limits.max_total_turns.get());
    Known {
        context: context(graph, outputs),
        output: Type::any(),
        turn_count: Type::count(turns),
        history: Later::new(move || history(&all.0, &all.1)),
        executions: executions(graph),
        input: Type::text(),
        inputs: inputs(ensemble),
        outputs: Later::new(move || latest(&those.0, &those.1)),
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

/// The number of executions of each agent: the smallest of its own limits, those of the conversation, and what the
/// executions of the agents that it listens to allow.
fn executions(graph: &Graph<'_>) -> Type {
    let limits = &graph.ensemble.limits;
    let possible = turns::most_executions(graph);
    let most = |at: usize| {
        let agent = graph.agent(at);
        let caps = limits.max_agent_executions.iter();
        let cap = caps.filter(|(name, _)| **name == *agent.name).map(|(_, cap)| cap.get());
        let cap = cap.chain([limits.max_total_turns.get()]).min();
        possible[at].min(cap.map_or(u64::MAX, u64::from))
    };
    let of = |at: usize| (graph.name(at).to_owned(), (Type::count(most(at)), true));
    open((0..graph.len()).map(of).collect())
}

fn latest(names: &[Arc<str>], outputs: &[Type]) -> Type {
    let of = |(name, output): (&Arc<str>, &Type)| (name.to_string(), (output.clone().or(failure()), false));
    open(names.iter().zip(outputs).map(of).collect())
}

/// The executions so far. Their fields are a fixed set.
fn history(names: &[Arc<str>], outputs: &[Type]) -> Type {
    let one = Type::number(Range::between(1.0, f64::INFINITY));
    let any_output = outputs.iter().cloned().fold(failure(), Type::or);
    let of = |field: &&str| {
        let of = match *field {
            "turn_number" | "execution" => one.clone(),
            "attempt" => Type::count(u64::MAX),
            "agent_name" => Type::one_of(names.iter().map(|name| &**name)),
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
