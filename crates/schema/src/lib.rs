//! JSON Schemas, compiled.
//!
//! This crate is the only one that uses `jsonschema`. Its validators are generic, so every crate that used them would compile
//! its own copy.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// A compiled JSON Schema. Clones share the compiled form.
#[derive(Clone)]
pub struct JsonSchema(Arc<jsonschema::Validator>);

/// A difference between a value and a schema, or the error of a schema that does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    /// The JSON pointer to the part with the error; empty: the whole value.
    pub path: String,
    /// The error.
    pub message: String,
}

impl JsonSchema {
    /// Compiles the schema. It cannot refer to files or addresses.
    ///
    /// # Errors
    /// The value is not a JSON Schema.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        Self::from_compiled(jsonschema::validator_for(schema))
    }

    /// Compiles the schema, which then also checks the `format` of texts.
    ///
    /// # Errors
    /// The value is not a JSON Schema.
    pub fn compile_with_formats(schema: &Value) -> Result<Self, SchemaError> {
        Self::from_compiled(jsonschema::options().should_validate_formats(true).build(schema))
    }

    fn from_compiled(
        compiled: Result<jsonschema::Validator, jsonschema::ValidationError<'_>>,
    ) -> Result<Self, SchemaError> {
        match compiled {
            Ok(validator) => Ok(Self(Arc::new(validator))),
            Err(error) => Err(SchemaError::from_validation(&error)),
        }
    }

    /// Returns the differences between the value and the schema, found one after the other. None: the value matches.
    pub fn find_errors<'v>(&'v self, value: &'v Value) -> Box<dyn Iterator<Item = SchemaError> + 'v> {
        Box::new(
            self.0
                .iter_errors(value)
                .map(|error| SchemaError::from_validation(&error)),
        )
    }
}

impl SchemaError {
    fn from_validation(error: &jsonschema::ValidationError<'_>) -> Self {
        Self {
            path: error.instance_path().as_str().to_owned(),
            message: error.to_string(),
        }
    }

    /// Returns the path and the message, of which at most `longest` characters are shown, because it may quote long
    /// values.
    pub fn into_short_text(mut self, longest: usize) -> String {
        if let Some((end, _)) = self.message.char_indices().nth(longest) {
            self.message.truncate(end);
            self.message.push('…');
        }
        match self.path.is_empty() {
            true => self.message,
            false => format!("{}: {}", self.path, self.message),
        }
    }
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonSchema")
    }
}
