//! What of an output schema a provider can enforce. The reply is checked against the schema itself in any case.

use serde_json::{Map, Value, json};

/// Keywords that Anthropic refuses.
const ANTHROPIC_UNSUPPORTED_KEYWORDS: [&str; 14] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "contains",
    "minItems",
    "pattern",
];

/// Returns whether OpenAI can enforce the schema strictly: all objects are closed, and all their keys are required.
///
/// Other schemas are sent without enforcement, because required keys would change their meaning.
pub(crate) fn allows_openai_strict_mode(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let required = map.get("required").and_then(Value::as_array);
            let is_required = |key: &String| required.is_some_and(|required| required.iter().any(|one| one == key));
            let is_closed = map.get("additionalProperties") == Some(&Value::Bool(false));
            let all_required = object_properties(map).is_none_or(|keys| keys.keys().all(is_required));
            (!is_object_schema(map) || (is_closed && all_required)) && map.values().all(allows_openai_strict_mode)
        }
        Value::Array(items) => items.iter().all(allows_openai_strict_mode),
        _ => true,
    }
}

/// Converts the schema to the subset of Anthropic: without bounds, and with closed objects. Returns `None` for open objects.
pub(crate) fn to_anthropic_schema(schema: &Value) -> Option<Value> {
    let Value::Object(map) = schema else {
        return Some(schema.clone());
    };
    let mut result = Map::new();
    for (key, value) in map
        .iter()
        .filter(|(key, _)| !ANTHROPIC_UNSUPPORTED_KEYWORDS.contains(&key.as_str()))
    {
        let value = match (key.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(schemas)) => {
                let schemas: Option<Map<String, Value>> = schemas
                    .iter()
                    .map(|(name, schema)| Some((name.clone(), to_anthropic_schema(schema)?)))
                    .collect();
                Value::Object(schemas?)
            }
            ("items" | "not" | "if" | "then" | "else", schema) => to_anthropic_schema(schema)?,
            ("anyOf" | "allOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                Value::Array(schemas.iter().map(to_anthropic_schema).collect::<Option<_>>()?)
            }
            _ => value.clone(),
        };
        result.insert(key.clone(), value);
    }
    if is_object_schema(map) {
        object_properties(map)?;
        if map
            .get("additionalProperties")
            .is_some_and(|more| more != &json!(false))
        {
            return None;
        }
        result.insert("additionalProperties".into(), json!(false));
    }
    Some(Value::Object(result))
}

/// Returns whether the schema describes objects.
fn is_object_schema(map: &Map<String, Value>) -> bool {
    map.get("type").is_some_and(|kind| kind == "object") || object_properties(map).is_some()
}

/// Returns the `properties` of a schema.
fn object_properties(map: &Map<String, Value>) -> Option<&Map<String, Value>> {
    map.get("properties").and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_closed_objects_with_nothing_optional_are_strict() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
            "additionalProperties": false});
        assert!(allows_openai_strict_mode(&closed));
        assert!(allows_openai_strict_mode(&json!({"type": "array", "items": closed})));
        for key in ["required", "additionalProperties"] {
            let mut open = closed.clone();
            open.as_object_mut().expect("an object").remove(key);
            assert!(!allows_openai_strict_mode(&open), "{key}");
            assert!(
                !allows_openai_strict_mode(&json!({"type": "array", "items": open})),
                "{key} deeper"
            );
            assert!(
                !allows_openai_strict_mode(&json!({"anyOf": [{"type": "string"}, open]})),
                "{key} as one of several"
            );
        }
    }

    #[test]
    fn bounds_are_left_out_and_open_objects_cannot_be_said() {
        let schema = json!({"type": "object", "required": ["score"], "properties": {
            "score": {"type": "integer", "minimum": 1, "maximum": 5},
            "minimum": {"type": "array", "items": {"type": "string", "maxLength": 3}},
        }});
        let expected = json!({"type": "object", "required": ["score"], "additionalProperties": false, "properties": {
            "score": {"type": "integer"},
            "minimum": {"type": "array", "items": {"type": "string"}},
        }});
        assert_eq!(to_anthropic_schema(&schema), Some(expected));
        for key in ["$defs", "definitions"] {
            let schema = json!({"$ref": "#/x", key: {"short": {"type": "string", "maxLength": 3}}});
            let expected = json!({"$ref": "#/x", key: {"short": {"type": "string"}}});
            assert_eq!(to_anthropic_schema(&schema), Some(expected), "{key}");
        }
        for open in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "properties": {"any": {"type": "object"}}}),
            json!({"anyOf": [{"type": "string"}, {"type": "object"}]}),
        ] {
            assert_eq!(to_anthropic_schema(&open), None, "{open}");
        }
    }
}
