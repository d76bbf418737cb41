//! Converts the tree to JSON, for free-form values.

use ensemble_schema::JsonSchema;
use serde_json::Value;

use super::codes;
use super::document::YamlContent;
use super::findings::LimitedFindingList;
use super::value_decoders::NodeCursor;
use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::yaml::edit::scalar_to_json;

/// Converts any value to JSON. Reports numbers that JSON does not support.
pub(super) fn decode_json(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Value> {
    match &at.node.content {
        YamlContent::Scalar(scalar) => match scalar_to_json(scalar) {
            Some(value) => Some(value),
            None => {
                let message = format!("{} cannot be represented in JSON", scalar.text);
                findings.push(
                    Finding::new_error(codes::NOT_JSON, at.value_location(), message).with_help("quote the value"),
                );
                None
            }
        },
        YamlContent::Sequence(_) => {
            let items = at.require_items("a list", findings)?;
            let values: Vec<_> = items.iter().map(|item| decode_json(item, findings)).collect();
            values.into_iter().collect::<Option<Vec<_>>>().map(Value::Array)
        }
        YamlContent::Mapping(_) => decode_json_map(at, findings).map(Value::Object),
    }
}

/// Converts a map to JSON.
pub(super) fn decode_json_map(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<JsonMap> {
    let mut map = JsonMap::new();
    let mut sound = true;
    for (key, entry) in at.require_entries("a map", findings)? {
        match decode_json(&entry, findings) {
            Some(value) => drop(map.insert(key.to_string(), value)),
            None => sound = false,
        }
    }
    sound.then_some(map)
}

/// Converts a value to JSON, and checks that it is a valid JSON Schema.
pub(super) fn decode_json_schema(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Value> {
    let schema = decode_json(at, findings)?;
    match JsonSchema::compile(&schema) {
        Ok(_) => Some(schema),
        Err(error) => {
            let message = format!("this is not a valid JSON Schema: {}", error.message);
            findings.push(Finding::new_error(codes::BAD_SCHEMA, at.value_location(), message));
            None
        }
    }
}
