//! `for_each`: what its list, its keys and its combination are made of.

use super::variable_types;
use super::{OutputTypeSource, add_type_findings};
use crate::check::check_graph::CheckGraph;
use crate::condition::{PartVariables, ValueExpression, ValueType, VariableTypes, is_informative_type};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, ForEachItems, ForEachSpec, PartCombination};
use crate::loader::codes;

/// Warns of `for_each` values that are no list or map, and of expressions of parts that do not fit their types.
pub(super) fn check_for_each_types(
    graph: &CheckGraph<'_>,
    ask: &OutputTypeSource<'_>,
    shared: &VariableTypes,
    findings: &mut Vec<Finding>,
) {
    for at in 0..graph.agent_count() {
        let agent = graph.agent_at(at);
        let Some(spec) = &agent.for_each else { continue };
        let route = Agent::route_at(at).with_key("for_each");
        let over = infer_items_type(spec, shared);
        if let ForEachItems::Expression(text) = &spec.items {
            let route = route.with_key("in");
            let before = findings.len();
            if let Ok(reading) = ValueExpression::parse(text) {
                add_type_findings(&reading, shared, &route, findings);
            }
            if findings.len() == before && is_informative_type(&over) && !can_be_iterated(&over) {
                let message = format!("`{text}` is {over}, but `in` must be a list or a map");
                let finding = Finding::new_warning(codes::MISFIT, route.into_value_location(), message);
                findings.push(
                    finding.with_help("read a key that contains a list; an execution with any other value fails"),
                );
            }
        }
        let part_variables = VariableTypes {
            item: infer_item_type(spec, shared),
            part: part_variable_type(),
            ..shared.clone()
        };
        if let Some(text) = &spec.key
            && let Ok(reading) = ValueExpression::parse_with(text, PartVariables::for_key(&spec.item_name))
        {
            add_type_findings(&reading, &part_variables, &route.with_key("key"), findings);
        }
        let Some((name, text)) = spec.combine.keyed_expression() else {
            continue;
        };
        let part_variables = VariableTypes {
            output: variable_types::infer_part_output_type(agent, ask),
            ..part_variables
        };
        let Ok(reading) = ValueExpression::parse_with(text, PartVariables::for_output(&spec.item_name)) else {
            continue;
        };
        let route = route.with_key("combine").with_key(name);
        let before = findings.len();
        add_type_findings(&reading, &part_variables, &route, findings);
        let of = reading.infer_type(&part_variables);
        let is_ordered = of
            .known_shape()
            .is_none_or(|shape| shape.number.is_some() || shape.text.is_some());
        if findings.len() == before
            && matches!(spec.combine, PartCombination::Best(_))
            && is_informative_type(&of)
            && !is_ordered
        {
            let message = format!("`{text}` is {of}, but `best` must be a number or a string");
            findings.push(Finding::new_warning(
                codes::MISFIT,
                route.into_value_location(),
                message,
            ));
        }
    }
}

/// Returns whether `for_each` can iterate over a value of this type: a list, a map, or an unknown type.
fn can_be_iterated(of: &ValueType) -> bool {
    of.known_shape()
        .is_none_or(|shape| shape.list.is_some() || shape.map.is_some())
}

/// Infers the type of the list over which the `for_each` iterates.
fn infer_items_type(spec: &ForEachSpec, shared: &VariableTypes) -> ValueType {
    match &spec.items {
        ForEachItems::Expression(text) => {
            ValueExpression::parse(text).map_or_else(|_| ValueType::any_value(), |it| it.infer_type(shared))
        }
        ForEachItems::List(items) => ValueType::exact_value_type(&serde_json::Value::Array(items.clone())),
        ForEachItems::Times(count) => {
            ValueType::list_with_items(ValueType::number_up_to(u64::from(count.saturating_sub(1))))
        }
    }
}

/// Infers the type of one item. An item of a map is `{key, value}`.
pub(super) fn infer_item_type(spec: &ForEachSpec, shared: &VariableTypes) -> ValueType {
    infer_items_type(spec, shared)
        .list_item_type()
        .cloned()
        .unwrap_or_default()
}

/// Returns the type of the variable `part`: index, key and count.
pub(super) fn part_variable_type() -> ValueType {
    let entry = |key: &str, of: ValueType| (key.to_owned(), of);
    ValueType::map_with_fields(crate::condition::MapFields::with_exact_keys([
        entry("index", ValueType::number_up_to(u64::MAX)),
        entry("key", ValueType::any_value()),
        entry("count", ValueType::number_up_to(u64::MAX)),
    ]))
}
