//! Converts the tree to JSON, for free-form values.

use ensemble_schema::JsonSchema;
use serde_json::Value;

use super::codes;
use super::document::Content;
use super::findings::Findings;
use super::reader::Cursor;
use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::yaml::edit::scalar_to_json;

/// Any value.
pub(super) fn value(at: &Cursor<'_>, findings: &mut Findings) -> Option<Value> {
    match &at.node.content {
        Content::Scalar(scalar) => match scalar_to_json(scalar) {
            Some(value) => Some(value),
            None => {
                let message = format!("{} cannot be represented in JSON", scalar.text);
                findings.push(Finding::error(codes::NOT_JSON, at.value(), message).help("quote the value"));
                None
            }
        },
        Content::Sequence(_) => {
            let items = at.items("a list", findings)?;
            let values: Vec<_> = items.iter().map(|item| value(item, findings)).collect();
            values.into_iter().collect::<Option<Vec<_>>>().map(Value::Array)
        }
        Content::Mapping(_) => map(at, findings).map(Value::Object),
    }
}

/// A map.
pub(super) fn map(at: &Cursor<'_>, findings: &mut Findings) -> Option<JsonMap> {
    let mut map = JsonMap::new();
    let mut sound = true;
    for (key, entry) in at.entries("a map", findings)? {
        match value(&entry, findings) {
            Some(value) => drop(map.insert(key.to_string(), value)),
            None => sound = false,
        }
    }
    sound.then_some(map)
}

/// A JSON Schema.
pub(super) fn schema(at: &Cursor<'_>, findings: &mut Findings) -> Option<Value> {
    let schema = value(at, findings)?;
    match JsonSchema::compile(&schema) {
        Ok(_) => Some(schema),
        Err(error) => {
            let message = format!("this is not a valid JSON Schema: {}", error.message);
            findings.push(Finding::error(codes::BAD_SCHEMA, at.value(), message));
            None
        }
    }
}
