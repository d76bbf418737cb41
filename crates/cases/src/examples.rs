//! Values for examples: what a JSON Schema allows, and what conditions demand.
//!
//! Invariant: it is pure, and may be wrong: what is made of it is tried.

use ensemble_language::condition::RequiredValue;
use serde_json::{Map, Value, json};

/// Largest depth of a schema for which an example is created.
const DEEPEST: usize = 8;

/// Creates a value that the schema probably allows.
pub(crate) fn example_for_schema(schema: &Value) -> Value {
    example_with_depth(schema, 0)
}

/// Creates an example for a schema at this depth.
fn example_with_depth(schema: &Value, depth: usize) -> Value {
    for key in ["const", "default"] {
        if let Some(value) = schema.get(key) {
            return value.clone();
        }
    }
    let first = |key: &str| {
        schema
            .get(key)
            .and_then(Value::as_array)
            .and_then(|values| values.first())
    };
    if let Some(value) = first("enum").or_else(|| first("examples")) {
        return value.clone();
    }
    let parts = ["anyOf", "oneOf", "allOf"].into_iter().find_map(first);
    if let (Some(part), true) = (parts, depth < DEEPEST) {
        return example_with_depth(part, depth + 1);
    }
    match find_schema_type(schema) {
        Some("object") => example_object(schema, depth),
        Some("array") => {
            let item = schema
                .get("items")
                .map_or(json!("one"), |items| example_with_depth(items, depth + 1));
            let least = schema
                .get("minItems")
                .and_then(Value::as_u64)
                .unwrap_or(1)
                .clamp(1, 100);
            Value::Array(vec![item; least as usize])
        }
        Some("boolean") => true.into(),
        Some("integer" | "number") => ["minimum", "maximum"]
            .into_iter()
            .find_map(|key| schema.get(key))
            .cloned()
            .unwrap_or_else(|| 1.into()),
        Some("null") => Value::Null,
        _ => {
            let least = schema
                .get("minLength")
                .and_then(Value::as_u64)
                .unwrap_or_default()
                .min(1000);
            let text = "a text";
            text.chars()
                .cycle()
                .take(text.len().max(least as usize))
                .collect::<String>()
                .into()
        }
    }
}

/// Returns the first type of the schema. Returns `object` for a schema with `properties`.
fn find_schema_type(schema: &Value) -> Option<&str> {
    let kind = schema.get("type");
    let first = || kind?.as_array()?.first()?.as_str();
    let type_name = kind.and_then(Value::as_str).or_else(first);
    type_name.or_else(|| schema.get("properties").map(|_| "object"))
}

/// Creates an object with the required keys of the schema.
fn example_object(schema: &Value, depth: usize) -> Value {
    let mut map = Map::new();
    let required = schema.get("required").and_then(Value::as_array);
    for key in required.into_iter().flatten().filter_map(Value::as_str) {
        let part = schema.get("properties").and_then(|properties| properties.get(key));
        let value = part
            .filter(|_| depth < DEEPEST)
            .map(|part| example_with_depth(part, depth + 1));
        map.insert(key.to_owned(), value.unwrap_or_else(|| "a text".into()));
    }
    Value::Object(map)
}

/// Changes the part of the value at this path so that it satisfies the demand. The schema decides the type.
pub(crate) fn satisfy_required_value(
    value: &mut Value,
    path: &[String],
    demand: &RequiredValue,
    schema: Option<&Value>,
) {
    let Some((key, rest)) = path.split_first() else {
        *value = value_for_required(demand, schema);
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { return };
    if rest.is_empty() && *demand == RequiredValue::Missing {
        map.remove(key);
        return;
    }
    let inside = schema.and_then(|schema| schema.get("properties")?.get(key));
    satisfy_required_value(map.entry(key.clone()).or_insert(Value::Null), rest, demand, inside);
}

/// Creates a value that satisfies the demand, in the type of the schema.
fn value_for_required(demand: &RequiredValue, schema: Option<&Value>) -> Value {
    let kind = schema.and_then(find_schema_type);
    match (demand, kind) {
        (RequiredValue::Is(value), _) => value.clone(),
        (RequiredValue::True, Some(kind)) if kind != "boolean" => schema.map_or(Value::Null, example_for_schema),
        (RequiredValue::True, _) => true.into(),
        (RequiredValue::False, Some("string")) => "".into(),
        (RequiredValue::False, Some("integer" | "number")) => 0.into(),
        (RequiredValue::False, Some("array")) => json!([]),
        (RequiredValue::False | RequiredValue::Missing, _) => false.into(),
        (RequiredValue::IsNot(value), _) => different_value(value, schema),
        (RequiredValue::Has(item), Some("string")) => item.clone(),
        (RequiredValue::Has(item), _) => json!([item]),
        (RequiredValue::Lacks(_), Some("string")) => "".into(),
        (RequiredValue::Lacks(_), _) => json!([]),
        (RequiredValue::Length(length), Some("string")) => "x".repeat((*length).min(1000)).into(),
        (RequiredValue::Length(length), _) => vec![json!("one"); (*length).min(1000)].into(),
    }
}

/// Creates a different value of the same type, or another choice of the schema.
fn different_value(value: &Value, schema: Option<&Value>) -> Value {
    let choices = schema.and_then(|schema| schema.get("enum")?.as_array());
    if let Some(other_choice) = choices.and_then(|choices| choices.iter().find(|choice| *choice != value)) {
        return other_choice.clone();
    }
    match value {
        Value::Bool(value) => (!value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.wrapping_add(1).into(),
            None => (number.as_f64().unwrap_or_default() + 1.0).into(),
        },
        Value::String(text) => format!("not {text}").into(),
        Value::Null => "something".into(),
        Value::Array(_) | Value::Object(_) => Value::Null,
    }
}
