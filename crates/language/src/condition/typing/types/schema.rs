//! The types that JSON Schemas describe.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{DEEPEST, Fields, Range, Type, is_exact};

impl Type {
    /// The values that a JSON Schema allows, or more.
    pub fn of_schema(schema: &Value) -> Self {
        Self::of_schema_at(schema, 0)
    }

    fn of_schema_at(schema: &Value, depth: usize) -> Self {
        let Some(schema) = schema.as_object().filter(|_| depth < DEEPEST) else {
            return Self::any();
        };
        if schema.contains_key("$ref") || schema.contains_key("$dynamicRef") {
            return Self::any();
        }
        if let Some(value) = schema.get("const") {
            return Self::of_value_at(value, depth);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return values.iter().map(Self::of_value).fold(Self::never(), Self::or);
        }
        let kinds: Vec<&str> = match schema.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => return Self::of_parts(schema, depth),
        };
        let of_kind = |kind: &str| match kind {
            "null" => Self::nothing(),
            "boolean" => Self::boolean(),
            "integer" | "number" => Self::number(range(schema)),
            "string" => Self::text(),
            "array" => Self::list(items(schema, depth)),
            "object" => Self::map(fields(schema, depth)),
            _ => Self::any(),
        };
        kinds.into_iter().map(of_kind).fold(Self::never(), Self::or)
    }

    /// A schema without a type, by the schemas of which it is made.
    fn of_parts(schema: &Map<String, Value>, depth: usize) -> Self {
        let parts = |key: &str| {
            schema
                .get(key)
                .and_then(Value::as_array)
                .filter(|parts| !parts.is_empty())
        };
        let of_part = |part: &Value| Self::of_schema_at(part, depth + 1);
        if let Some(parts) = parts("anyOf").or_else(|| parts("oneOf")) {
            return parts.iter().map(of_part).fold(Self::never(), Self::or);
        }
        let all = parts("allOf").into_iter().flatten().map(of_part);
        all.into_iter().find(|part| !part.is_any()).unwrap_or_default()
    }

    /// The output of an agent with this `output_schema`: outputs are maps, even if the schema does not say so.
    pub fn of_output_schema(schema: &Value) -> Self {
        let known = Self::of_schema(schema);
        match (&known.0, schema.as_object()) {
            (None, Some(schema)) if schema.contains_key("properties") && !schema.contains_key("$ref") => {
                Self::map(fields(schema, 0))
            }
            _ => known,
        }
    }
}

/// The bounds of a schema's numbers. In old drafts the exclusive bounds are booleans; those are taken as included.
fn range(schema: &Map<String, Value>) -> Range {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64).filter(|bound| is_exact(*bound));
    let mut range = Range::ALL;
    if let Some(low) = bound("minimum") {
        range.low = low;
    }
    if let Some(low) = bound("exclusiveMinimum").filter(|low| *low >= range.low) {
        (range.low, range.above_low) = (low, true);
    }
    if let Some(high) = bound("maximum") {
        range.high = high;
    }
    if let Some(high) = bound("exclusiveMaximum").filter(|high| *high <= range.high) {
        (range.high, range.below_high) = (high, true);
    }
    range
}

fn items(schema: &Map<String, Value>, depth: usize) -> Type {
    match schema.get("items") {
        Some(items @ Value::Object(_)) if !schema.contains_key("prefixItems") => Type::of_schema_at(items, depth + 1),
        _ => Type::any(),
    }
}

fn fields(schema: &Map<String, Value>, depth: usize) -> Fields {
    let required: BTreeSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let others = match schema.get("additionalProperties") {
        _ if schema.contains_key("patternProperties") => Some(Type::any()),
        Some(Value::Bool(false)) => None,
        Some(of @ Value::Object(_)) => Some(Type::of_schema_at(of, depth + 1)),
        _ => Some(Type::any()),
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut known: BTreeMap<String, (Type, bool)> = BTreeMap::new();
    for (key, of) in properties.into_iter().flatten() {
        let always = required.contains(key.as_str());
        known.insert(key.clone(), (Type::of_schema_at(of, depth + 1), always));
    }
    for key in required {
        let of = || (others.clone().unwrap_or_default(), true);
        known.entry(key.to_owned()).or_insert_with(of);
    }
    Fields {
        known,
        others,
        strict: false,
    }
}
