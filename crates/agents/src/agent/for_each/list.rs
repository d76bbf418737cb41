//! The items of an execution with parts, and their keys.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::build_error::BuildError;
use ensemble_core::runner::Part;
use ensemble_language::condition::{Expression, Facts, PartFacts, PartNames};
use ensemble_language::data::{Failure, FailureKind};
use ensemble_language::ensemble::{ForEach, Items};

/// The compiled list of a `for_each`.
pub(super) struct List {
    items: Source,
    key: Option<Expression>,
    item_name: Arc<str>,
    max_items: usize,
}

enum Source {
    Expression(Expression),
    Known(Vec<Arc<Value>>),
}

impl List {
    pub(super) fn compile(spec: &ForEach) -> Result<Self, BuildError> {
        let items = match &spec.items {
            Items::Expression(text) => Source::Expression(compiled("in", text, PartNames::NO_OUTPUT)?),
            Items::List(items) => Source::Known(items.iter().cloned().map(Arc::new).collect()),
            Items::Times(times) => Source::Known((0..*times).map(|at| Arc::new(at.into())).collect()),
        };
        let names = PartNames::of_key(&spec.item_name);
        let key = spec.key.as_deref().map(|text| compiled("key", text, names));
        Ok(Self {
            items,
            key: key.transpose()?,
            item_name: spec.item_name.clone(),
            max_items: spec.max_items as usize,
        })
    }

    /// The parts of an execution.
    ///
    /// # Errors
    /// The expressions give no list, too many items, or a key twice: a failure of kind `schema`.
    pub(super) fn parts(&self, facts: &Facts) -> Result<Vec<Arc<Part>>, Failure> {
        let items = self.items(facts)?;
        let count = items.len();
        if count > self.max_items {
            let message = format!(
                "`for_each.in` gives {count} items, and `max_items` is {}",
                self.max_items
            );
            return Err(wrong(message));
        }
        let mut seen = HashSet::new();
        let mut parts = Vec::with_capacity(count);
        for (index, item) in items.into_iter().enumerate() {
            let key = self.key(facts, index, &item, count)?;
            if !seen.insert(key.clone()) {
                return Err(wrong(format!("`for_each.key` gives `{key}` twice")));
            }
            parts.push(Arc::new(Part {
                item_name: self.item_name.clone(),
                index: u32::try_from(index).unwrap_or(u32::MAX),
                variable: Arc::new(json!({"index": index, "key": &*key, "count": count})),
                item,
                key,
            }));
        }
        Ok(parts)
    }

    fn items(&self, facts: &Facts) -> Result<Vec<Arc<Value>>, Failure> {
        let expression = match &self.items {
            Source::Known(items) => return Ok(items.clone()),
            Source::Expression(expression) => expression,
        };
        let value = expression.evaluate(facts);
        match value.map_err(|error| wrong(format!("`for_each.in`: {}", error.message)))? {
            Value::Array(items) => Ok(items.into_iter().map(Arc::new).collect()),
            Value::Object(map) => {
                let entries = map.into_iter();
                Ok(entries
                    .map(|(key, value)| Arc::new(json!({"key": key, "value": value})))
                    .collect())
            }
            other => Err(wrong(format!("`for_each.in` gives {}, and no list", kind_of(&other)))),
        }
    }

    fn key(&self, facts: &Facts, index: usize, item: &Arc<Value>, count: usize) -> Result<Arc<str>, Failure> {
        let Some(expression) = &self.key else {
            return Ok(index.to_string().into());
        };
        let facts = Facts {
            part: Some(PartFacts {
                item: item.clone(),
                part: Arc::new(json!({"index": index, "count": count})),
            }),
            ..facts.clone()
        };
        let value = expression.evaluate(&facts);
        let value = value.map_err(|error| wrong(format!("`for_each.key` of item {index}: {}", error.message)))?;
        match value {
            Value::String(text) if !text.is_empty() => Ok(text.into()),
            Value::Number(_) | Value::Bool(_) => Ok(value.to_string().into()),
            other => Err(wrong(format!(
                "`for_each.key` of item {index} gives {}, and no text",
                kind_of(&other)
            ))),
        }
    }
}

/// A failure because of the list.
pub(super) fn wrong(message: String) -> Failure {
    Failure::new(FailureKind::Schema, message)
}

/// An expression of `for_each`.
pub(super) fn compiled(key: &str, text: &str, names: PartNames<'_>) -> Result<Expression, BuildError> {
    let compiled = Expression::compile_with(text, names);
    compiled.map_err(|error| BuildError::Expression {
        key: key.to_owned(),
        message: error.message,
    })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(text) if text.is_empty() => "an empty text",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
