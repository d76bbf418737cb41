//! Values by name whose texts are templates: the `inputs` of an agent that is an ensemble, and the `arguments` of an agent
//! that calls a tool.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::build_error::{BuildError, compile_template};
use crate::agent::kinds::scope::warn_of_missed;
use crate::agent::{BoxFuture, Execution};
use ensemble_language::data::JsonMap;
use ensemble_language::template::{Scope, Template, TemplateError};
use ensemble_scripts::apart;

/// The compiled values, and the key that holds them.
pub(crate) struct GivenValues {
    key: &'static str,
    values: Vec<(Arc<str>, Compiled)>,
}

/// A value whose texts are templates.
enum Compiled {
    Plain(Value),
    Text(Box<Template>),
    List(Vec<Compiled>),
    Map(Vec<(String, Compiled)>),
}

impl GivenValues {
    /// Compiles the templates. Errors and warnings name the values as `key.name`.
    pub(crate) fn compile(key: &'static str, values: &JsonMap) -> Result<Self, BuildError> {
        let compiled = values.iter().map(|(name, value)| {
            let compiled = Compiled::of(value, &format!("{key}.{name}"))?;
            Ok((name.as_str().into(), compiled))
        });
        Ok(Self {
            key,
            values: compiled.collect::<Result<_, BuildError>>()?,
        })
    }

    /// The values, in the order of the file. An error names the value.
    pub(crate) async fn render(&self, scope: &Scope, execution: &Execution) -> Result<Vec<(Arc<str>, Value)>, String> {
        let mut rendered = Vec::with_capacity(self.values.len());
        for (name, compiled) in &self.values {
            let which = format!("{}.{name}", self.key);
            let value = compiled
                .value(scope)
                .await
                .map_err(|error| format!("{which}: {error}"))?;
            warn_of_missed(scope, &which, execution);
            rendered.push((name.clone(), value));
        }
        Ok(rendered)
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
