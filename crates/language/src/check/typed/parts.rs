//! `for_each`: what its list, its keys and its combination are made of.

use super::known;
use super::{Ask, add};
use crate::check::graph::Graph;
use crate::condition::{Expression, Known, PartNames, Type, says};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Combine, ForEach, Items};
use crate::loader::codes;

/// Warns of lists that are none, and of expressions of parts that do not fit.
pub(super) fn check(graph: &Graph<'_>, ask: &Ask<'_>, shared: &Known, findings: &mut Vec<Finding>) {
    for at in 0..graph.len() {
        let agent = graph.agent(at);
        let Some(spec) = &agent.for_each else { continue };
        let route = Agent::route(at).key("for_each");
        let over = over(spec, shared);
        if let Items::Expression(text) = &spec.items {
            let route = route.key("in");
            let before = findings.len();
            if let Ok(reading) = Expression::read(text) {
                add(&reading, shared, &route, findings);
            }
            if findings.len() == before && says(&over) && !is_list(&over) {
                let message = format!("`{text}` is {over}, but `in` must be a list or a map");
                let finding = Finding::warning(codes::MISFIT, route.value(), message);
                findings.push(finding.help("read a key that holds a list; an execution with anything else fails"));
            }
        }
        let known = Known {
            item: item(spec, shared),
            part: part(),
            ..shared.clone()
        };
        if let Some(text) = &spec.key
            && let Ok(reading) = Expression::read_with(text, PartNames::of_key(&spec.item_name))
        {
            add(&reading, &known, &route.key("key"), findings);
        }
        let Some((name, text)) = spec.combine.expression() else {
            continue;
        };
        let known = Known {
            output: known::output_of_part(agent, ask),
            ..known
        };
        let Ok(reading) = Expression::read_with(text, PartNames::of_output(&spec.item_name)) else {
            continue;
        };
        let route = route.key("combine").key(name);
        let before = findings.len();
        add(&reading, &known, &route, findings);
        let of = reading.value(&known);
        let is_ordered = of
            .shape()
            .is_none_or(|shape| shape.number.is_some() || shape.text.is_some());
        if findings.len() == before && matches!(spec.combine, Combine::Best(_)) && says(&of) && !is_ordered {
            let message = format!("`{text}` is {of}, but `best` must be a number or a string");
            findings.push(Finding::warning(codes::MISFIT, route.value(), message));
        }
    }
}

fn is_list(of: &Type) -> bool {
    of.shape()
        .is_none_or(|shape| shape.list.is_some() || shape.map.is_some())
}

/// Returns the type of the list of items.
fn over(spec: &ForEach, shared: &Known) -> Type {
    match &spec.items {
        Items::Expression(text) => Expression::read(text).map_or_else(|_| Type::any(), |it| it.value(shared)),
        Items::List(items) => Type::of_value(&serde_json::Value::Array(items.clone())),
        Items::Times(count) => Type::list(Type::count(u64::from(count.saturating_sub(1)))),
    }
}

/// Returns the type of an item: of a map it is `{key, value}`.
pub(super) fn item(spec: &ForEach, shared: &Known) -> Type {
    over(spec, shared).item().cloned().unwrap_or_default()
}

/// `part`.
pub(super) fn part() -> Type {
    let entry = |key: &str, of: Type| (key.to_owned(), of);
    Type::map(crate::condition::Fields::exactly([
        entry("index", Type::count(u64::MAX)),
        entry("key", Type::any()),
        entry("count", Type::count(u64::MAX)),
    ]))
}
