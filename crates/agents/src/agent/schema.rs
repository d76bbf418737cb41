//! `output_schema`: compiled once, and applied to every output.

use serde_json::Value;

use ensemble_language::data::JsonMap;

/// The maximum number of errors that are reported for one output.
const MOST: usize = 20;

/// The maximum number of characters of one error, because it may quote long values.
const LONGEST: usize = 300;

/// A compiled JSON Schema.
#[derive(Debug)]
pub struct Schema(jsonschema::Validator);

impl Schema {
    /// Compiles the schema; the error is a message. A schema cannot refer to files or addresses.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        jsonschema::validator_for(schema)
            .map(Self)
            .map_err(|error| told(error.instance_path().as_str(), &error.to_string()))
    }

    /// The same, and the `format` of texts is checked too.
    pub fn compile_with_formats(schema: &Value) -> Result<Self, String> {
        jsonschema::options()
            .should_validate_formats(true)
            .build(schema)
            .map(Self)
            .map_err(|error| told(error.instance_path().as_str(), &error.to_string()))
    }

    /// Why the output does not match, each with the path of the offending part; empty: it matches.
    pub fn errors(&self, output: &JsonMap) -> Vec<String> {
        self.errors_of(&Value::Object(output.clone()))
    }

    /// Why the value does not match, as for an output.
    pub fn errors_of(&self, value: &Value) -> Vec<String> {
        self.0
            .iter_errors(value)
            .take(MOST)
            .map(|error| told(error.instance_path().as_str(), &error.to_string()))
            .collect()
    }
}

fn told(path: &str, message: &str) -> String {
    let mut message = message.to_owned();
    if let Some((end, _)) = message.char_indices().nth(LONGEST) {
        message.truncate(end);
        message.push('…');
    }
    if path.is_empty() {
        return message;
    }
    format!("{path}: {message}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(schema: Value, output: Value) -> Vec<String> {
        let Value::Object(output) = output else {
            panic!("an object")
        };
        Schema::compile(&schema).expect("a schema").errors(&output)
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
        assert_eq!(errors.len(), MOST);
        assert!(
            errors.iter().all(|error| error.chars().count() < LONGEST + 20),
            "{errors:?}"
        );
    }

    #[test]
    fn what_is_no_schema_is_told() {
        assert!(Schema::compile(&json!({"type": "nmber"})).is_err());
        assert!(Schema::compile(&json!({"$ref": "http://localhost/x.json"})).is_err());
    }
}
