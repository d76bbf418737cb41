//! What an agent that is an ensemble gives its inner conversation: templates, and values that contain templates.

use std::sync::Arc;

use serde_json::Value;

use super::build_error::{BuildError, compile_template};
use super::scope::{listens_to, scope, warn_of_missed};
use super::{BoxFuture, Execution};
use crate::sandbox::apart;
use ensemble_language::data::{Context, JsonMap};
use ensemble_language::ensemble::Agent;
use ensemble_language::template::{Scope, Template, TemplateError};

/// The compiled `prompt` and `inputs` of an agent that is an ensemble.
pub struct InnerInputs {
    listens_to: Arc<[Arc<str>]>,
    prompt: Option<Template>,
    inputs: Vec<(Arc<str>, Compiled)>,
}

/// A value whose texts are templates.
enum Compiled {
    Plain(Value),
    Text(Box<Template>),
    List(Vec<Compiled>),
    Map(Vec<(String, Compiled)>),
}

impl InnerInputs {
    /// Compiles the templates.
    ///
    /// # Errors
    /// A text is not a template.
    pub fn compile(agent: &Agent, prompt: Option<&str>, inputs: &JsonMap) -> Result<Self, BuildError> {
        let compiled = inputs.iter().map(|(name, value)| {
            let compiled = Compiled::of(value, &format!("inputs.{name}"))?;
            Ok((name.as_str().into(), compiled))
        });
        Ok(Self {
            listens_to: listens_to(agent),
            prompt: compile_template("prompt", prompt)?,
            inputs: compiled.collect::<Result<_, BuildError>>()?,
        })
    }

    /// The input and the inputs of the inner conversation.
    ///
    /// # Errors
    /// A template cannot be rendered; the message names it.
    pub(super) async fn render(&self, execution: &Execution) -> Result<(Arc<str>, Context), String> {
        let scope = scope(execution, &self.listens_to);
        let input = match &self.prompt {
            Some(prompt) => apart::rendered(prompt, &scope)
                .await
                .map_err(|error| format!("prompt: {error}"))?
                .into(),
            None => execution.input.clone(),
        };
        warn_of_missed(&scope, "prompt", execution);
        let mut inputs = Context::default();
        for (name, compiled) in &self.inputs {
            let value = compiled
                .value(&scope)
                .await
                .map_err(|error| format!("inputs.{name}: {error}"))?;
            warn_of_missed(&scope, &format!("inputs.{name}"), execution);
            inputs.insert(name.clone(), Arc::new(value));
        }
        Ok((input, inputs))
    }
}

impl Compiled {
    fn of(value: &Value, which: &str) -> Result<Self, BuildError> {
        Ok(match value {
            Value::String(text) => match compile_template(which, Some(text))? {
                Some(template) => Self::Text(Box::new(template)),
                None => Self::Plain(value.clone()),
            },
            Value::Array(items) => {
                let items = items.iter().map(|item| Self::of(item, which));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let entries = map
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), Self::of(value, which)?)));
                Self::Map(entries.collect::<Result<_, BuildError>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Plain(value.clone()),
        })
    }

    fn value<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<Value, TemplateError>> {
        Box::pin(async move {
            Ok(match self {
                Self::Plain(value) => value.clone(),
                Self::Text(template) => apart::value(template, scope).await?,
                Self::List(items) => {
                    let mut values = Vec::with_capacity(items.len());
                    for item in items {
                        values.push(item.value(scope).await?);
                    }
                    Value::Array(values)
                }
                Self::Map(entries) => {
                    let mut values = JsonMap::new();
                    for (key, value) in entries {
                        values.insert(key.clone(), value.value(scope).await?);
                    }
                    Value::Object(values)
                }
            })
        })
    }
}
