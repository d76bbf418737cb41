//! `output_schema`: compiled once, and applied to every output.
//!
//! Some schemas take long: patterns, references, comparisons of all items. These, and large values, are checked on another
//! thread.

use std::borrow::Cow;

use ensemble_schema::{JsonSchema, SchemaError};
use serde_json::Value;

use ensemble_scripts::template_worker;

use ensemble_language::data::JsonMap;

/// The maximum number of errors that are reported for one output.
const MAX_REPORTED_ERRORS: usize = 20;

/// The maximum number of characters of one error, because it may quote long values.
const MAX_ERROR_CHARS: usize = 300;

/// Keywords whose time is not proportional to the size of schema and value.
const SLOW_KEYWORDS: [&str; 8] = [
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "contains",
    "pattern",
    "patternProperties",
    "propertyNames",
    "uniqueItems",
];

/// Maximum product of the sizes of schema and value that is checked without a worker thread.
const MAX_SIZE_PRODUCT: usize = 200_000;

/// Size of a text block that counts as one more value.
const TEXT_BLOCK_SIZE: usize = 64;

/// Compiled JSON Schema with a limit for checks without a worker thread. Clones share the compiled form.
#[derive(Debug, Clone)]
pub struct OutputSchema {
    compiled: JsonSchema,
    /// The maximum size of a value that is checked at once.
    at_once: usize,
}

impl OutputSchema {
    /// Compiles the schema. A schema cannot refer to files or addresses. The error is a message for the user.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        Self::with_size_limit(JsonSchema::compile(schema), schema)
    }

    /// Wraps the compiled schema, with the largest value size that is checked without a worker thread.
    fn with_size_limit(compiled: Result<JsonSchema, SchemaError>, schema: &Value) -> Result<Self, String> {
        let compiled = compiled.map_err(|error| error.into_short_text(MAX_ERROR_CHARS))?;
        let mut remaining_size = MAX_SIZE_PRODUCT;
        let at_once = match subtract_size(schema, &mut remaining_size) && !has_slow_keyword(schema) {
            true => MAX_SIZE_PRODUCT / (MAX_SIZE_PRODUCT - remaining_size).max(1),
            false => 0,
        };
        Ok(Self { compiled, at_once })
    }

    /// Compiles the schema, and also checks the `format` of texts.
    pub fn compile_with_formats(schema: &Value) -> Result<Self, String> {
        Self::with_size_limit(JsonSchema::compile_with_formats(schema), schema)
    }

    /// Lists the errors of the output, each with the path of the wrong part. Returns an empty list if the output matches.
    pub fn list_output_errors(&self, output: &JsonMap) -> Vec<String> {
        self.list_value_errors(&Value::Object(output.clone()))
    }

    /// Lists the errors of the output. Checks large values on a worker thread.
    pub(in crate::agent) async fn list_errors_async(&self, output: Cow<'_, JsonMap>) -> Vec<String> {
        let value = Value::Object(output.into_owned());
        if subtract_size(&value, &mut { self.at_once }) {
            return self.list_value_errors(&value);
        }
        let schema = self.clone();
        let errors = template_worker::run_on_worker(move || schema.list_value_errors(&value)).await;
        errors.unwrap_or_else(|| vec!["the schema cannot be applied".to_owned()])
    }

    /// Lists the errors of any JSON value, each with the path of the wrong part.
    pub fn list_value_errors(&self, value: &Value) -> Vec<String> {
        let errors = self.compiled.find_errors(value).take(MAX_REPORTED_ERRORS);
        errors.map(|error| error.into_short_text(MAX_ERROR_CHARS)).collect()
    }
}

/// Subtracts the size of the value from `left`. Returns `false`, without visiting the rest, if too little is left.
fn subtract_size(value: &Value, left: &mut usize) -> bool {
    let own_size = match value {
        Value::String(text) => 1 + text.len() / TEXT_BLOCK_SIZE,
        Value::Object(map) => 1 + map.keys().map(|key| key.len() / TEXT_BLOCK_SIZE).sum::<usize>(),
        _ => 1,
    };
    let Some(remaining_size) = left.checked_sub(own_size) else {
        return false;
    };
    *left = remaining_size;
    match value {
        Value::Array(items) => items.iter().all(|item| subtract_size(item, left)),
        Value::Object(map) => map.values().all(|value| subtract_size(value, left)),
        _ => true,
    }
}

/// Returns whether the schema has a keyword whose check can take long.
fn has_slow_keyword(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(has_slow_keyword),
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| SLOW_KEYWORDS.contains(&key.as_str()) || has_slow_keyword(value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(schema: Value, output: Value) -> Vec<String> {
        let Value::Object(output) = output else {
            panic!("an object")
        };
        OutputSchema::compile(&schema)
            .expect("a schema")
            .list_output_errors(&output)
    }

    #[test]
    fn errors_name_their_paths() {
        let schema = json!({
            "type": "object",
            "required": ["score"],
            "properties": {"score": {"type": "number"}, "notes": {"items": {"type": "string"}}},
        });
        assert!(errors(schema.clone(), json!({"score": 3})).is_empty());
        assert_eq!(errors(schema.clone(), json!({})), ["\"score\" is a required property"]);
        assert_eq!(
            errors(schema, json!({"score": "x", "notes": ["a", 1]})),
            [
                "/score: \"x\" is not of type \"number\"",
                "/notes/1: 1 is not of type \"string\""
            ]
        );
    }

    #[test]
    fn errors_stay_short() {
        let schema = json!({"additionalProperties": {"type": "number"}});
        let long = "x".repeat(10_000);
        let output: JsonMap = (0..100).map(|at| (format!("k{at}"), json!(long))).collect();
        let errors = errors(schema, Value::Object(output));
        assert_eq!(errors.len(), MAX_REPORTED_ERRORS);
        assert!(
            errors.iter().all(|error| error.chars().count() < MAX_ERROR_CHARS + 20),
            "{errors:?}"
        );
    }

    #[test]
    fn what_is_no_schema_is_told() {
        assert!(OutputSchema::compile(&json!({"type": "nmber"})).is_err());
        assert!(OutputSchema::compile(&json!({"$ref": "http://localhost/x.json"})).is_err());
    }
}
