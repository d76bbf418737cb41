//! `inputs`: what a run is given by name, checked against what its ensemble declares, before anything runs.
//!
//! Invariant: all wrong inputs are reported together.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ensemble_language::data::{Context, JsonMap};
use ensemble_language::diagnostic::did_you_mean;
use ensemble_language::ensemble::{Ensemble, Input};
use serde_json::{Value, json};

/// An input that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrongInput {
    /// It has no default, and none is given.
    Missing {
        /// The input.
        name: Arc<str>,
        /// The type of its value.
        type_name: String,
    },
    /// It is given, and not declared.
    Undeclared {
        /// The name.
        name: Arc<str>,
        /// An input that is spelled alike.
        similar: Option<String>,
    },
    /// Its value does not match its schema.
    OffSchema {
        /// The input.
        name: Arc<str>,
        /// Why, each error in one sentence.
        errors: Vec<String>,
    },
}

/// Values by name, with the texts of those that were given as texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given {
    pub(crate) values: Context,
    /// The texts that `values` were read from: a text is meant as such where only the text matches the schema.
    pub(crate) texts: HashMap<Arc<str>, Arc<str>>,
}

impl From<Context> for Given {
    fn from(values: Context) -> Self {
        Self {
            values,
            texts: HashMap::new(),
        }
    }
}

/// The inputs of a run: what is given, and the defaults of the others. `None`: the ensemble declares no inputs.
///
/// # Errors
/// All inputs that are wrong.
pub(crate) fn resolve(ensemble: &Ensemble, given: &Given) -> Result<Option<Context>, Vec<WrongInput>> {
    let Some(declared) = &ensemble.inputs else {
        return Ok(None);
    };
    let mut wrong = Vec::new();
    let mut inputs = Context::default();
    for input in declared {
        match value(input, given) {
            Ok(value) => inputs.insert(input.name.clone(), value),
            Err(why) => wrong.push(why),
        }
    }
    wrong.extend(undeclared(
        ensemble,
        declared,
        given.values.iter().map(|(name, _)| name),
    ));
    if wrong.is_empty() { Ok(Some(inputs)) } else { Err(wrong) }
}

/// The names that are no inputs.
pub(crate) fn undeclared<'a>(
    ensemble: &Ensemble,
    declared: &[Input],
    names: impl Iterator<Item = &'a Arc<str>>,
) -> Vec<WrongInput> {
    let strange = names.filter(|name| ensemble.input(name).is_none());
    let wrong = strange.map(|name| WrongInput::Undeclared {
        name: name.clone(),
        similar: did_you_mean(name, declared.iter().map(|input| &*input.name)).map(str::to_owned),
    });
    wrong.collect()
}

/// The inputs that an ensemble declares as the JSON Schema of one map, for tools that are ensembles: `input` is the task, unless
/// an input has this name. `None`: the ensemble declares no inputs.
pub fn as_one_schema(ensemble: &Ensemble) -> Option<Value> {
    let declared = ensemble.inputs.as_ref()?;
    let mut properties: JsonMap = JsonMap::new();
    if ensemble.input("input").is_none() {
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
        .filter(|input| input.default().is_none())
        .map(|input| &*input.name)
        .collect();
    Some(json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }))
}

/// The value of one input.
fn value(input: &Input, given: &Given) -> Result<Arc<Value>, WrongInput> {
    let Some(value) = given.values.get(&input.name) else {
        let missing = || WrongInput::Missing {
            name: input.name.clone(),
            type_name: input.type_name(),
        };
        return input.default().cloned().map(Arc::new).ok_or_else(missing);
    };
    let errors = input.errors(value);
    if errors.is_empty() {
        return Ok(value.clone());
    }
    let text = given.texts.get(&input.name).map(|text| Value::from(&**text));
    match text.filter(|text| input.errors(text).is_empty()) {
        Some(text) => Ok(Arc::new(text)),
        None => Err(WrongInput::OffSchema {
            name: input.name.clone(),
            errors,
        }),
    }
}

/// One sentence.
impl fmt::Display for WrongInput {
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

/// All of them, one in a line.
pub(crate) fn listed(wrong: &[WrongInput]) -> String {
    let lines: Vec<String> = wrong.iter().map(WrongInput::to_string).collect();
    lines.join("\n       ")
}
