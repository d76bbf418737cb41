//! What the variables of an ensemble can be: what agents put out, the context, the history.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use crate::check::check_graph::CheckGraph;
use crate::check::idle_turns;
use crate::condition::{HISTORY_FIELDS, LazyType, MapFields, NumberRange, ValueType, VariableTypes};
use crate::data::FailureKind;
use crate::ensemble::{Agent, AgentKind, Ensemble, PartCombination};

use super::OutputTypeSource;

/// Infers the type of the agent's output when the agent succeeds. The output of an agent with parts combines the parts.
pub(super) fn infer_output_type(agent: &Agent, ask: &OutputTypeSource<'_>) -> ValueType {
    let of_part = infer_part_output_type(agent, ask);
    match &agent.for_each {
        Some(spec) => combined_output_type(&spec.combine, of_part),
        None => of_part,
    }
}

/// Returns the output type of an agent with parts, each of which has the output type `of_part`.
fn combined_output_type(combine: &PartCombination, of_part: ValueType) -> ValueType {
    let or_nothing = |of: ValueType| of.union_with(ValueType::nothing_value());
    let entry = |key: &str, of: ValueType| (key.to_owned(), of);
    let failed = MapFields::with_exact_keys([
        entry("key", ValueType::any_value()),
        entry("item", ValueType::any_value()),
        entry("error", ValueType::any_text()),
        entry("kind", failure_type().key_type("kind")),
    ]);
    let mut fields = vec![
        entry("items", ValueType::list_with_items(or_nothing(of_part.clone()))),
        entry("keys", ValueType::list_with_items(ValueType::any_value())),
        entry("failed", ValueType::list_with_items(ValueType::map_with_fields(failed))),
        entry("count", ValueType::number_up_to(u64::MAX)),
    ];
    match combine {
        PartCombination::List => {}
        PartCombination::Best(_) => fields.push(entry("best", or_nothing(of_part))),
        PartCombination::First(_) => fields.push(entry("first", or_nothing(of_part))),
        PartCombination::Majority { .. } => {
            fields.push(entry("answer", ValueType::any_value()));
            fields.push(entry("votes", ValueType::any_value()));
            fields.push(entry("agreed", ValueType::any_boolean()));
        }
    }
    ValueType::map_with_fields(MapFields::with_exact_keys(fields))
}

/// Infers the type of the output when the agent, or one of its parts, succeeds.
pub(super) fn infer_part_output_type(agent: &Agent, ask: &OutputTypeSource<'_>) -> ValueType {
    let of_schema = || agent.output_schema.as_ref().map(ValueType::from_output_schema);
    match &agent.kind {
        AgentKind::Input(input) => match input.choices.as_slice() {
            [] => ValueType::any_value(),
            // Such an answer would be the whole output.
            choices if choices.iter().any(|choice| choice.trim_start().starts_with('{')) => ValueType::any_value(),
            choices => ValueType::map_with_fields(MapFields::with_exact_keys([(
                "response".to_owned(),
                ValueType::text_among(choices.iter().map(String::as_str)),
            )])),
        },
        AgentKind::Llm(_) => match of_schema() {
            Some(of) => with_response_key(&of),
            None => ask(agent).unwrap_or_default(),
        },
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => {
            of_schema().or_else(|| ask(agent)).unwrap_or_default()
        }
    }
}

/// Adds the key `response` to the type, because the full text of a model is stored next to the keys of its output.
fn with_response_key(of: &ValueType) -> ValueType {
    let Some(fields) = of.map_fields() else {
        return ValueType::any_value();
    };
    let mut fields = fields.clone();
    let response_type = fields.known_keys.get("response").map(|(own, _)| own.clone());
    let text = response_type.map_or_else(ValueType::any_text, |own| own.union_with(ValueType::any_text()));
    fields.known_keys.insert("response".to_owned(), (text, true));
    ValueType::map_with_fields(fields)
}

/// Returns the type of the value that replaces the output of a failed execution.
pub(super) fn failure_type() -> ValueType {
    static FAILURE: LazyLock<ValueType> = LazyLock::new(|| {
        let kinds = FailureKind::ALL
            .iter()
            .filter_map(|kind| serde_json::to_value(kind).ok());
        let kinds: Vec<String> = kinds.filter_map(|kind| kind.as_str().map(str::to_owned)).collect();
        ValueType::map_with_fields(MapFields::with_exact_keys([
            ("error".to_owned(), ValueType::any_text()),
            ("kind".to_owned(), ValueType::text_among(kinds)),
            (
                "exit_code".to_owned(),
                ValueType::number_in_range(NumberRange::ALL).union_with(ValueType::nothing_value()),
            ),
            ("stdout".to_owned(), ValueType::any_text()),
            ("stderr".to_owned(), ValueType::any_text()),
        ]))
    });
    FAILURE.clone()
}

/// Infers the types of the variables that all conditions can read. `output` can be anything.
pub(super) fn infer_shared_variable_types(graph: &CheckGraph<'_>, outputs: &Rc<[ValueType]>) -> VariableTypes {
    let ensemble = graph.ensemble;
    let names: Rc<[Arc<str>]> = ensemble.agents.iter().map(|agent| agent.name.clone()).collect();
    let (all, those) = ((names.clone(), outputs.clone()), (names, outputs.clone()));
    let turns = u64::from(ensemble.limits.max_total_turns.get());
    VariableTypes {
        context: infer_context_type(graph, outputs),
        output: ValueType::any_value(),
        turn_count: ValueType::number_up_to(turns),
        history: LazyType::new(move || infer_history_type(&all.0, &all.1)),
        executions: infer_executions_type(graph),
        input: ValueType::any_text(),
        inputs: infer_inputs_type(ensemble),
        outputs: LazyType::new(move || infer_outputs_type(&those.0, &those.1)),
        item: ValueType::any_value(),
        part: ValueType::any_value(),
    }
}

/// Returns the type of a map with these keys and any other keys.
fn open_map_type(known: BTreeMap<String, (ValueType, bool)>) -> ValueType {
    ValueType::map_with_fields(MapFields {
        known_keys: known,
        other_values: Some(ValueType::any_value()),
        is_strict: false,
    })
}

/// Infers the type of the context: the outputs under their state keys, and the keys of all outputs if they are all known.
fn infer_context_type(graph: &CheckGraph<'_>, outputs: &[ValueType]) -> ValueType {
    let mut known_keys: BTreeMap<String, (ValueType, bool)> = BTreeMap::new();
    let mut write = |key: &str, of: ValueType| {
        let before = known_keys.remove(key);
        let of = before.map_or(of.clone(), |(before, _)| before.union_with(of));
        known_keys.insert(key.to_owned(), (of, false));
    };
    for (at, output) in outputs.iter().enumerate() {
        write(graph.agent_at(at).state_key(), output.clone());
    }
    let merging = outputs.iter().enumerate();
    let merging = merging.filter(|(at, _)| graph.agent_at(*at).for_each.is_none());
    let closed: Option<Vec<&MapFields>> = merging
        .map(|(_, output)| output.map_fields().filter(|fields| fields.other_values.is_none()))
        .collect();
    let is_stored = |key: &str| {
        graph.find_agent_index(key).is_some()
            || (0..graph.agent_count()).any(|at| **graph.agent_at(at).state_key() == *key)
    };
    for fields in closed.iter().flatten() {
        for (key, (of, _)) in fields.known_keys.iter().filter(|(key, _)| !is_stored(key)) {
            write(key, of.clone());
        }
    }
    for input in graph.ensemble.inputs.iter().flatten() {
        // An agent of which less is known may write the key, too.
        let of = match closed {
            Some(_) => ValueType::from_schema(&input.schema),
            None => ValueType::any_value(),
        };
        write(&input.name, of);
    }
    open_map_type(known_keys)
}

/// Infers the type of `inputs`: an open map whose keys may all be absent. Returns any type if no inputs are declared.
fn infer_inputs_type(ensemble: &Ensemble) -> ValueType {
    let Some(inputs) = &ensemble.inputs else {
        return ValueType::any_value();
    };
    let of = |input: &crate::ensemble::InputDeclaration| {
        (input.name.to_string(), (ValueType::from_schema(&input.schema), false))
    };
    open_map_type(inputs.iter().map(of).collect())
}

/// Infers the type of `executions`: for each agent a count up to the smallest limit on its executions.
fn infer_executions_type(graph: &CheckGraph<'_>) -> ValueType {
    let limits = &graph.ensemble.limits;
    let possible = idle_turns::max_executions_by_agent(graph);
    let max_count = |at: usize| {
        let agent = graph.agent_at(at);
        let caps = limits.max_agent_executions.iter();
        let cap = caps.filter(|(name, _)| **name == *agent.name).map(|(_, cap)| cap.get());
        let cap = cap.chain([limits.max_total_turns.get()]).min();
        possible[at].min(cap.map_or(u64::MAX, u64::from))
    };
    let of = |at: usize| {
        (
            graph.agent_name(at).to_owned(),
            (ValueType::number_up_to(max_count(at)), true),
        )
    };
    open_map_type((0..graph.agent_count()).map(of).collect())
}

/// Infers the type of `outputs`: for each agent its latest output, which may be absent. A failure changes no output.
fn infer_outputs_type(names: &[Arc<str>], outputs: &[ValueType]) -> ValueType {
    let of = |(name, output): (&Arc<str>, &ValueType)| (name.to_string(), (output.clone(), false));
    open_map_type(names.iter().zip(outputs).map(of).collect())
}

/// Infers the type of `history`: a list of executions with a fixed set of fields.
fn infer_history_type(names: &[Arc<str>], outputs: &[ValueType]) -> ValueType {
    let positive_number = ValueType::number_in_range(NumberRange::from_bounds(1.0, f64::INFINITY));
    let any_output = outputs.iter().cloned().fold(failure_type(), ValueType::union_with);
    let of = |field: &&str| {
        let of = match *field {
            "turn_number" | "execution" => positive_number.clone(),
            "attempt" => ValueType::number_up_to(u64::MAX),
            "agent_name" => ValueType::text_among(names.iter().map(|name| &**name)),
            "success" => ValueType::any_boolean(),
            "error" => ValueType::any_text().union_with(ValueType::nothing_value()),
            "timestamp" => ValueType::any_text(),
            "execution_time" => ValueType::number_in_range(NumberRange::ALL),
            "output_data" => any_output.clone(),
            _ => ValueType::any_value(),
        };
        ((*field).to_owned(), (of, true))
    };
    ValueType::list_with_items(ValueType::map_with_fields(MapFields {
        known_keys: HISTORY_FIELDS.iter().map(of).collect(),
        other_values: None,
        is_strict: true,
    }))
}
