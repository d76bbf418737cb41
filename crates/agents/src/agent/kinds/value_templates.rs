//! Templates in named values: the `inputs` of an agent that runs an ensemble, and the `arguments` of an agent that calls a tool.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::build_error::{RunnerBuildError, compile_optional_template};
use crate::agent::kinds::scope::warn_about_missed_keys;
use crate::agent::{BoxFuture, ExecutionInput};
use ensemble_language::data::JsonMap;
use ensemble_language::template::{Template, TemplateError, TemplateScope};
use ensemble_scripts::template_worker;

/// Compiled templates of a map of values, with the key of the map in the agent.
pub(crate) struct ValueTemplates {
    key: &'static str,
    values: Vec<(Arc<str>, CompiledValueTemplate)>,
}

/// Compiled value whose texts are templates.
enum CompiledValueTemplate {
    Plain(Value),
    Text(Box<Template>),
    List(Vec<CompiledValueTemplate>),
    Map(Vec<(String, CompiledValueTemplate)>),
}

impl ValueTemplates {
    /// Compiles the templates of the map. Errors and warnings name each value as `key.name`.
    pub(crate) fn compile_values(key: &'static str, values: &JsonMap) -> Result<Self, RunnerBuildError> {
        let compiled = values.iter().map(|(name, value)| {
            let compiled = CompiledValueTemplate::compile_value(value, &format!("{key}.{name}"))?;
            Ok((name.as_str().into(), compiled))
        });
        Ok(Self {
            key,
            values: compiled.collect::<Result<_, RunnerBuildError>>()?,
        })
    }

    /// Renders the values in the order of the file. An error names the value.
    pub(crate) async fn render_values(
        &self,
        scope: &TemplateScope,
        execution: &ExecutionInput,
    ) -> Result<Vec<(Arc<str>, Value)>, String> {
        let mut rendered = Vec::with_capacity(self.values.len());
        for (name, compiled) in &self.values {
            let which = format!("{}.{name}", self.key);
            let value = compiled
                .render_value(scope)
                .await
                .map_err(|error| format!("{which}: {error}"))?;
            warn_about_missed_keys(scope, &which, execution);
            rendered.push((name.clone(), value));
        }
        Ok(rendered)
    }
}

impl CompiledValueTemplate {
    /// Compiles every text in the value as a template, also in lists and maps. `which` names the value in errors.
    fn compile_value(value: &Value, which: &str) -> Result<Self, RunnerBuildError> {
        Ok(match value {
            Value::String(text) => match compile_optional_template(which, Some(text))? {
                Some(template) => Self::Text(Box::new(template)),
                None => Self::Plain(value.clone()),
            },
            Value::Array(items) => {
                let items = items.iter().map(|item| Self::compile_value(item, which));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let entries = map
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), Self::compile_value(value, which)?)));
                Self::Map(entries.collect::<Result<_, RunnerBuildError>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Plain(value.clone()),
        })
    }

    /// Renders every template in the value, also in lists and maps.
    fn render_value<'a>(&'a self, scope: &'a TemplateScope) -> BoxFuture<'a, Result<Value, TemplateError>> {
        Box::pin(async move {
            Ok(match self {
                Self::Plain(value) => value.clone(),
                Self::Text(template) => template_worker::render_value_async(template, scope).await?,
                Self::List(items) => {
                    let mut values = Vec::with_capacity(items.len());
                    for item in items {
                        values.push(item.render_value(scope).await?);
                    }
                    Value::Array(values)
                }
                Self::Map(entries) => {
                    let mut values = JsonMap::new();
                    for (key, value) in entries {
                        values.insert(key.clone(), value.render_value(scope).await?);
                    }
                    Value::Object(values)
                }
            })
        })
    }
}
