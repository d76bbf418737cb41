//! `inputs`: what a run of an ensemble takes by name.

use std::sync::{Arc, OnceLock};

use ensemble_schema::JsonSchema;
use serde_json::Value;

/// A declared input of a run, with its JSON Schema.
#[derive(Debug, Clone)]
pub struct InputDeclaration {
    /// The name: an identifier.
    pub name: Arc<str>,
    /// JSON Schema of the value.
    pub schema: Value,
    /// The schema, compiled when a value is compared with it for the first time: a batch compares thousands. `None`: it is no schema.
    validator: Arc<OnceLock<Option<JsonSchema>>>,
}

impl PartialEq for InputDeclaration {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.schema == other.schema
    }
}

impl InputDeclaration {
    /// Creates an input whose values must match the schema.
    pub fn new(name: Arc<str>, schema: Value) -> Self {
        Self {
            name,
            schema,
            validator: Arc::default(),
        }
    }

    /// Returns the default value. Returns `None` if the input has no default, so that a run needs a value.
    pub fn default_value(&self) -> Option<&Value> {
        self.schema.get("default")
    }

    /// Returns the description that the author wrote in the schema.
    pub fn description(&self) -> Option<&str> {
        self.schema.get("description")?.as_str()
    }

    /// Describes the type of the value in a few words: `string`, `integer or null`, `one of "a", "b"`.
    pub fn type_name(&self) -> String {
        let Some(schema) = self.schema.as_object() else {
            return "any value".to_owned();
        };
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let words: Vec<String> = words.iter().map(Value::to_string).collect();
            return format!("one of {}", words.join(", "));
        }
        if let Some(constant) = schema.get("const") {
            return constant.to_string();
        }
        match schema.get("type") {
            Some(Value::String(name)) => describe_array_type(name, schema.get("items")),
            Some(Value::Array(names)) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                names.join(" or ")
            }
            _ => "any value".to_owned(),
        }
    }

    /// Returns one sentence for each reason why the value does not match the schema; empty if the value matches.
    pub fn check_value(&self, value: &Value) -> Vec<String> {
        // The loader has checked the schema before.
        let compile = || JsonSchema::compile(&self.schema).ok();
        let Some(validator) = self.validator.get_or_init(compile) else {
            return Vec::new();
        };
        let errors = validator.find_errors(value).take(MAX_VALUE_ERRORS);
        errors.map(|error| error.into_short_text(MAX_ERROR_CHARS)).collect()
    }
}

/// The maximum number of errors that are reported for one value.
const MAX_VALUE_ERRORS: usize = 5;
/// The maximum number of characters of one error, because it may quote long values.
const MAX_ERROR_CHARS: usize = 200;

/// Returns the name of a type: `array of string` for an array with items of one type.
fn describe_array_type(name: &str, items: Option<&Value>) -> String {
    let item = items.and_then(|items| items.get("type")).and_then(Value::as_str);
    match (name, item) {
        ("array", Some(item)) => format!("array of {item}"),
        _ => name.to_owned(),
    }
}
