//! The inputs of a run, checked against the inputs that its ensemble declares, before the run starts.
//!
//! Invariant: all wrong inputs are reported together.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ensemble_core::secrets::Secrets;
use ensemble_language::data::{JsonMap, RunContext};
use ensemble_language::diagnostic::find_similar_word;
use ensemble_language::ensemble::{Ensemble, InputDeclaration};
use serde_json::{Value, json};

/// An input that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputError {
    /// An input without a default is missing.
    Missing {
        /// The input.
        name: Arc<str>,
        /// The type of its value.
        type_name: String,
    },
    /// A value is given for an input that is not declared.
    Undeclared {
        /// The name.
        name: Arc<str>,
        /// An input that is spelled alike.
        similar: Option<String>,
    },
    /// A value does not match the schema of its input.
    OffSchema {
        /// The input.
        name: Arc<str>,
        /// Why, each error in one sentence.
        errors: Vec<String>,
    },
}

/// Input values by name, with the texts of the values that were given as texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct InputValues {
    pub(crate) values: RunContext,
    /// The texts that `values` were read from: a text is meant as such where only the text matches the schema.
    pub(crate) texts: HashMap<Arc<str>, Arc<str>>,
}

impl From<RunContext> for InputValues {
    fn from(values: RunContext) -> Self {
        Self {
            values,
            texts: HashMap::new(),
        }
    }
}

/// Returns the inputs of a run: the given values, and the defaults of the others. Returns `None` if the ensemble declares no inputs.
///
/// # Errors
/// All inputs that are wrong.
pub(crate) fn resolve_inputs(ensemble: &Ensemble, given: &InputValues) -> Result<Option<RunContext>, Vec<InputError>> {
    let Some(declared) = &ensemble.inputs else {
        return Ok(None);
    };
    let mut wrong = Vec::new();
    let mut inputs = RunContext::default();
    for input in declared {
        match resolve_input_value(input, given) {
            Ok(value) => inputs.insert(input.name.clone(), value),
            Err(error) => wrong.push(error),
        }
    }
    wrong.extend(list_undeclared_input_errors(
        ensemble,
        declared,
        given.values.iter().map(|(name, _)| name),
    ));
    if wrong.is_empty() { Ok(Some(inputs)) } else { Err(wrong) }
}

/// Returns an error for each name that is not a declared input, with a similar name.
pub(crate) fn list_undeclared_input_errors<'a>(
    ensemble: &Ensemble,
    declared: &[InputDeclaration],
    names: impl Iterator<Item = &'a Arc<str>>,
) -> Vec<InputError> {
    let strange = names.filter(|name| ensemble.find_input(name).is_none());
    let wrong = strange.map(|name| InputError::Undeclared {
        name: name.clone(),
        similar: find_similar_word(name, declared.iter().map(|input| &*input.name)).map(str::to_owned),
    });
    wrong.collect()
}

/// Returns the declared inputs as the JSON Schema of one object, for ensembles that are tools. Adds the task as `input`, unless an input
/// has this name. Returns `None` if the ensemble declares no inputs.
pub fn inputs_schema(ensemble: &Ensemble) -> Option<Value> {
    let declared = ensemble.inputs.as_ref()?;
    let mut properties: JsonMap = JsonMap::new();
    if ensemble.find_input("input").is_none() {
        properties.insert(
            "input".to_owned(),
            json!({"type": "string", "description": "The task, in words."}),
        );
    }
    let schemas = declared
        .iter()
        .map(|input| (input.name.to_string(), input.schema.clone()));
    properties.extend(schemas);
    let required: Vec<&str> = declared
        .iter()
        .filter(|input| input.default_value().is_none())
        .map(|input| &*input.name)
        .collect();
    Some(json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }))
}

/// Returns the value of one input: the argument, or the default. If the parsed argument does not match the schema, its text is tried.
///
/// # Errors
///
/// The value is missing or does not match the schema.
fn resolve_input_value(input: &InputDeclaration, given: &InputValues) -> Result<Arc<Value>, InputError> {
    let Some(value) = given.values.get(&input.name) else {
        let missing = || InputError::Missing {
            name: input.name.clone(),
            type_name: input.type_name(),
        };
        return input.default_value().cloned().map(Arc::new).ok_or_else(missing);
    };
    let errors = input.check_value(value);
    if errors.is_empty() {
        return Ok(value.clone());
    }
    let text = given.texts.get(&input.name).map(|text| Value::from(&**text));
    match text.filter(|text| input.check_value(text).is_empty()) {
        Some(text) => Ok(Arc::new(text)),
        None => Err(InputError::OffSchema {
            name: input.name.clone(),
            errors,
        }),
    }
}

impl InputError {
    /// Redacts the secrets in the values that the error shows.
    pub(crate) fn redact_schema_errors(&mut self, secrets: &Secrets) {
        if let Self::OffSchema { errors, .. } = self {
            let redact = |error: &mut String| *error = secrets.redact(std::mem::take(error)).into_owned();
            errors.iter_mut().for_each(redact);
        }
    }

    /// Returns the name of the input.
    pub fn input_name(&self) -> &str {
        match self {
            Self::Missing { name, .. } | Self::Undeclared { name, .. } | Self::OffSchema { name, .. } => name,
        }
    }
}

/// One sentence.
impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name, type_name } => write!(f, "the input `{name}` is missing ({type_name})"),
            Self::Undeclared { name, similar } => {
                write!(f, "there is no input `{name}`")?;
                match similar {
                    Some(similar) => write!(f, "; did you mean `{similar}`?"),
                    None => Ok(()),
                }
            }
            Self::OffSchema { name, errors } => {
                write!(f, "the input `{name}` does not match its schema: {}", errors.join("; "))
            }
        }
    }
}

/// Formats all errors, one per line.
pub(crate) fn format_input_errors(wrong: &[InputError]) -> String {
    let lines: Vec<String> = wrong.iter().map(InputError::to_string).collect();
    lines.join("\n       ")
}
