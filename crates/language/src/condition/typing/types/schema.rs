//! The types that JSON Schemas describe.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{MAX_TYPE_DEPTH, MapFields, NumberRange, ValueType, is_exact_as_float};

impl ValueType {
    /// Returns a type that contains all values that a JSON Schema allows, and possibly more.
    pub fn from_schema(schema: &Value) -> Self {
        Self::from_schema_at_depth(schema, 0)
    }

    /// Returns the type of a schema, and any type below the maximum depth.
    fn from_schema_at_depth(schema: &Value, depth: usize) -> Self {
        let Some(schema) = schema.as_object().filter(|_| depth < MAX_TYPE_DEPTH) else {
            return Self::any_value();
        };
        if schema.contains_key("$ref") || schema.contains_key("$dynamicRef") {
            return Self::any_value();
        }
        if let Some(value) = schema.get("const") {
            return Self::from_value_at_depth(value, depth);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return values
                .iter()
                .map(Self::exact_value_type)
                .fold(Self::impossible_value(), Self::union_with);
        }
        let kinds: Vec<&str> = match schema.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => return Self::from_combined_schemas(schema, depth),
        };
        let of_kind = |kind: &str| match kind {
            "null" => Self::nothing_value(),
            "boolean" => Self::any_boolean(),
            "integer" | "number" => Self::number_in_range(parse_number_range(schema)),
            "string" => Self::any_text(),
            "array" => Self::list_with_items(parse_item_type(schema, depth)),
            "object" => Self::map_with_fields(parse_map_fields(schema, depth)),
            _ => Self::any_value(),
        };
        kinds
            .into_iter()
            .map(of_kind)
            .fold(Self::impossible_value(), Self::union_with)
    }

    /// Returns the type of a schema without `type`, from `anyOf`, `oneOf`, `allOf`, or the keys of an object.
    fn from_combined_schemas(schema: &Map<String, Value>, depth: usize) -> Self {
        let parts = |key: &str| {
            schema
                .get(key)
                .and_then(Value::as_array)
                .filter(|parts| !parts.is_empty())
        };
        let of_part = |part: &Value| Self::from_schema_at_depth(part, depth + 1);
        if let Some(parts) = parts("anyOf").or_else(|| parts("oneOf")) {
            return parts
                .iter()
                .map(of_part)
                .fold(Self::impossible_value(), Self::union_with);
        }
        let all = parts("allOf").into_iter().flatten().map(of_part);
        all.into_iter().find(|part| !part.is_any()).unwrap_or_default()
    }

    /// Returns the type of the output of an agent with this `output_schema`. Outputs are maps even if the schema has no type.
    pub fn from_output_schema(schema: &Value) -> Self {
        let value_type = Self::from_schema(schema);
        match (&value_type.0, schema.as_object()) {
            (None, Some(schema)) if schema.contains_key("properties") && !schema.contains_key("$ref") => {
                Self::map_with_fields(parse_map_fields(schema, 0))
            }
            _ => value_type,
        }
    }
}

/// Returns the range of a schema's numbers. Boolean exclusive bounds of old drafts are treated as included.
fn parse_number_range(schema: &Map<String, Value>) -> NumberRange {
    let bound = |key: &str| {
        schema
            .get(key)
            .and_then(Value::as_f64)
            .filter(|bound| is_exact_as_float(*bound))
    };
    let mut range = NumberRange::ALL;
    if let Some(low) = bound("minimum") {
        range.low = low;
    }
    if let Some(low) = bound("exclusiveMinimum").filter(|low| *low >= range.low) {
        (range.low, range.excludes_low) = (low, true);
    }
    if let Some(high) = bound("maximum") {
        range.high = high;
    }
    if let Some(high) = bound("exclusiveMaximum").filter(|high| *high <= range.high) {
        (range.high, range.excludes_high) = (high, true);
    }
    range
}

/// Returns the type of the items of an array; any type with `prefixItems`.
fn parse_item_type(schema: &Map<String, Value>, depth: usize) -> ValueType {
    match schema.get("items") {
        Some(items @ Value::Object(_)) if !schema.contains_key("prefixItems") => {
            ValueType::from_schema_at_depth(items, depth + 1)
        }
        _ => ValueType::any_value(),
    }
}

/// Returns the fields of an object. Keys in `required` are always present.
fn parse_map_fields(schema: &Map<String, Value>, depth: usize) -> MapFields {
    let required: BTreeSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let other_values = match schema.get("additionalProperties") {
        _ if schema.contains_key("patternProperties") => Some(ValueType::any_value()),
        Some(Value::Bool(false)) => None,
        Some(of @ Value::Object(_)) => Some(ValueType::from_schema_at_depth(of, depth + 1)),
        _ => Some(ValueType::any_value()),
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut known_keys: BTreeMap<String, (ValueType, bool)> = BTreeMap::new();
    for (key, of) in properties.into_iter().flatten() {
        let always = required.contains(key.as_str());
        known_keys.insert(key.clone(), (ValueType::from_schema_at_depth(of, depth + 1), always));
    }
    for key in required {
        let of = || (other_values.clone().unwrap_or_default(), true);
        known_keys.entry(key.to_owned()).or_insert_with(of);
    }
    MapFields {
        known_keys,
        other_values,
        is_strict: false,
    }
}
