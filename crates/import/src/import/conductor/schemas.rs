//! Inputs and outputs of Conductor as JSON Schemas.

use serde_json::{Map, Value, json};

use super::super::list_map_entries;
use super::super::values::to_json as value_of;
use super::is_key_true;
use ensemble_language::loader::document::YamlNode;

/// Converts the inputs of a workflow to schemas. An optional input has the empty value of its type as default.
pub(super) fn convert_input_schemas(node: &YamlNode) -> Option<Value> {
    let mut all = Map::new();
    for entry in list_map_entries(node) {
        let mut schema = convert_field_schema(&entry.value);
        let kind = schema["type"].as_str().unwrap_or_default().to_owned();
        let default = entry.value.get("default").map(value_of).unwrap_or_default();
        let optional = entry.value.get("required").is_some_and(|node| value_of(node) == false);
        let empty = match kind.as_str() {
            "number" => json!(0),
            "boolean" => json!(false),
            "array" => json!([]),
            "object" => json!({}),
            _ => json!(""),
        };
        if !default.is_null() {
            schema["default"] = default;
        } else if optional {
            schema["default"] = empty;
        }
        all.insert(entry.key.to_string(), schema);
    }
    (!all.is_empty()).then_some(Value::Object(all))
}

/// Converts the output of a step to the schema of an object.
pub(super) fn convert_output_schema(node: &YamlNode) -> Value {
    build_object_schema(node)
}

/// Builds the schema of an object with these fields. Fields are required by default.
fn build_object_schema(fields: &YamlNode) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for entry in list_map_entries(fields) {
        properties.insert(entry.key.to_string(), convert_field_schema(&entry.value));
        if entry.value.get("required").is_none_or(|node| value_of(node) != false) {
            required.push(Value::from(&*entry.key));
        }
    }
    json!({"type": "object", "required": required, "properties": properties})
}

/// Converts the declaration of a field to a schema.
fn convert_field_schema(node: &YamlNode) -> Value {
    let mut schema = Map::new();
    let kind = node.get("type").map(value_of).unwrap_or_default();
    if kind.is_string() {
        let kind = if is_key_true(node, "nullable") {
            json!([kind, "null"])
        } else {
            kind
        };
        schema.insert("type".to_owned(), kind);
    }
    for key in ["description", "pattern", "minimum", "maximum", "minLength", "maxLength"] {
        if let Some(value) = node.get(key).map(value_of).filter(|value| !value.is_null()) {
            schema.insert(key.to_owned(), value);
        }
    }
    if let Some(Value::Array(mut words)) = node.get("enum").map(value_of) {
        if is_key_true(node, "nullable") {
            words.push(Value::Null);
        }
        schema.insert("enum".to_owned(), Value::Array(words));
    }
    if let Some(items) = node.get("items").filter(|items| !list_map_entries(items).is_empty()) {
        schema.insert("items".to_owned(), convert_field_schema(items));
    }
    if let Some(inner) = node
        .get("properties")
        .filter(|inner| !list_map_entries(inner).is_empty())
        && let Value::Object(inner) = build_object_schema(inner)
    {
        schema.extend(inner);
    }
    Value::Object(schema)
}
