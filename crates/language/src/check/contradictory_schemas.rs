//! JSON Schemas that no value matches.
//!
//! Only contradictions between keywords of one schema are found, and only where the keywords apply to every value that
//! the schema's `type` allows.

use super::check_subject::CheckSubject;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::condition::ValueType;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, ToolDefinition, ToolKind};
use crate::loader::codes;
use crate::source::Route;

/// The maximum depth to which schemas are examined.
const MAX_SCHEMA_DEPTH: usize = 16;

/// Warns of every schema of agents, inputs and tools that no value matches.
pub(super) fn check_contradictory_schemas(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let mut findings = Vec::new();
    for (at, agent) in ensemble.agents.iter().enumerate() {
        let Some(schema) = &agent.output_schema else { continue };
        let route = Agent::route_at(at).with_key("output_schema");
        match excludes_objects(schema) {
            true => {
                let message = format!(
                    "no output of `{}` matches this schema: an output is always an object",
                    agent.name
                );
                let finding =
                    Finding::new_warning(codes::NO_VALUE, route.with_key("type").into_value_location(), message);
                findings.push(finding.with_help(
                    "describe the object: `type: object` with `properties`; a plain text is under the key `response`",
                ));
            }
            false => find_contradictions(schema, &route, true, 0, &mut findings),
        }
    }
    for input in ensemble.inputs.iter().flatten() {
        let route = Route::root().with_key("inputs").with_key(input.name.clone());
        find_contradictions(&input.schema, &route, false, 0, &mut findings);
    }
    for (name, tool) in &ensemble.tools {
        let parameters = match &tool.kind {
            ToolKind::Script { parameters, .. } => Some(parameters),
            ToolKind::Agent { parameters, .. } | ToolKind::Ensemble { parameters, .. } => parameters.as_ref(),
            ToolKind::Mcp(_) => None,
        };
        if let Some(schema) = parameters {
            find_contradictions(
                schema,
                &ToolDefinition::route_for(name).with_key("parameters"),
                true,
                0,
                &mut findings,
            );
        }
    }
    findings
}

/// Returns whether the schema has a `type` without `object`.
fn excludes_objects(schema: &Value) -> bool {
    schema_types(schema.as_object()).is_some_and(|types| !types.contains("object"))
}

/// Returns the names in `type`; `None` if there is no valid `type`.
fn schema_types(schema: Option<&Map<String, Value>>) -> Option<BTreeSet<&str>> {
    match schema?.get("type")? {
        Value::String(one) => Some(BTreeSet::from([one.as_str()])),
        Value::Array(some) => some.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// Reports contradictions in a schema and in its nested schemas. `is_object`: every value is an object, even if the schema has no `type`.
fn find_contradictions(schema: &Value, route: &Route, is_object: bool, depth: usize, findings: &mut Vec<Finding>) {
    let Some(schema) = schema.as_object().filter(|_| depth < MAX_SCHEMA_DEPTH) else {
        return;
    };
    if let Some((key, why)) = find_contradiction(schema, is_object) {
        let message = format!("no value matches this schema: {why}");
        findings.push(Finding::new_warning(
            codes::NO_VALUE,
            route.with_key(key).into_value_location(),
            message,
        ));
        return;
    }
    for (key, part) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        find_contradictions(
            part,
            &route.with_key("properties").with_key(key.as_str()),
            false,
            depth + 1,
            findings,
        );
    }
    for key in ["items", "additionalProperties"] {
        if let Some(part) = schema.get(key) {
            find_contradictions(part, &route.with_key(key), false, depth + 1, findings);
        }
    }
}

/// Finds a contradiction between two keywords of the schema. Returns the keyword to report and the reason.
fn find_contradiction(schema: &Map<String, Value>, is_object: bool) -> Option<(&'static str, String)> {
    let types = schema_types(Some(schema));
    let only = |wanted: &[&str]| {
        let is_wanted = |one: &&str| wanted.contains(one);
        types
            .as_ref()
            .is_some_and(|types| !types.is_empty() && types.iter().all(is_wanted))
    };
    if only(&["number", "integer"])
        && let Some(contradiction) = find_number_contradiction(schema, only(&["integer"]))
    {
        return Some(contradiction);
    }
    let pairs = [
        ("string", "minLength", "maxLength"),
        ("array", "minItems", "maxItems"),
        ("object", "minProperties", "maxProperties"),
    ];
    for (of, least, most) in pairs {
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
        if (only(&[of]) || of == "object" && is_object)
            && let (Some(low), Some(high)) = (bound(least), bound(most))
            && low > high
        {
            return Some((least, format!("`{least}` is {low}, and `{most}` is {high}")));
        }
    }
    if let Some(contradiction) = find_choice_contradiction(schema) {
        return Some(contradiction);
    }
    (is_object || only(&["object"]))
        .then(|| find_impossible_required_key(schema))
        .flatten()
}

/// Finds a minimum above a maximum, or a range without an integer. Returns the keyword to report and the reason.
fn find_number_contradiction(schema: &Map<String, Value>, is_integer: bool) -> Option<(&'static str, String)> {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let low = [("minimum", false), ("exclusiveMinimum", true)];
    let high = [("maximum", false), ("exclusiveMaximum", true)];
    for (low_key, above) in low {
        for (high_key, below) in high {
            let (Some(low), Some(high)) = (bound(low_key), bound(high_key)) else {
                continue;
            };
            let is_empty = low > high || low == high && (above || below);
            let first = if above { low.floor() + 1.0 } else { low.ceil() };
            let last = if below { high.ceil() - 1.0 } else { high.floor() };
            if is_empty || is_integer && first > last {
                let detail = if is_empty {
                    ""
                } else {
                    ", and no integer is between them"
                };
                return Some((
                    low_key,
                    format!("`{low_key}` is {low}, and `{high_key}` is {high}{detail}"),
                ));
            }
        }
    }
    None
}

/// Finds values of `enum` and `const` that the rest of the schema excludes. Returns the keyword to report and the reason.
fn find_choice_contradiction(schema: &Map<String, Value>) -> Option<(&'static str, String)> {
    let mut base_schema = schema.clone();
    base_schema.remove("enum");
    base_schema.remove("const");
    let base_type = ValueType::from_schema(&Value::Object(base_schema));
    if let Some(constant) = schema.get("const") {
        if !base_type.contains_value(constant) {
            return Some(("const", format!("{constant} is not {base_type}")));
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array)
            && !values.contains(constant)
        {
            return Some(("const", format!("{constant} is not in `enum`")));
        }
    }
    let values = schema.get("enum").and_then(Value::as_array)?;
    let none_fits = !values.iter().any(|value| base_type.contains_value(value));
    none_fits.then(|| ("enum", format!("no value of `enum` is {base_type}")))
}

/// Finds a required key that no object can have. Returns the keyword `required` and the reason.
fn find_impossible_required_key(schema: &Map<String, Value>) -> Option<(&'static str, String)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let is_closed = is_closed && !schema.contains_key("patternProperties");
    let required = schema.get("required").and_then(Value::as_array)?;
    required.iter().filter_map(Value::as_str).find_map(|key| {
        let part = properties.and_then(|properties| properties.get(key));
        match part {
            Some(Value::Bool(false)) => Some(("required", format!("`{key}` is required, but its schema is `false`"))),
            None if is_closed => Some((
                "required",
                format!("`{key}` is required, but not in `properties`, and `additionalProperties` is false"),
            )),
            _ => None,
        }
    })
}
