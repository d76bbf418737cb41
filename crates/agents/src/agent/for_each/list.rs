//! The items of an execution with parts, and their keys.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::build_error::RunnerBuildError;
use ensemble_core::runner::ExecutionPart;
use ensemble_language::condition::{ConditionSnapshot, EvaluationNote, PartValues, PartVariables, ValueExpression};
use ensemble_language::data::{ExecutionFailure, FailureKind};
use ensemble_language::ensemble::{ForEachItems, ForEachSpec};

/// Compiled list of a `for_each`: the source of the items and the expression for their keys.
pub(super) struct ForEachItemList {
    items: ForEachItemSource,
    key: Option<ValueExpression>,
    item_name: Arc<str>,
    max_items: usize,
}

/// Source of the items: an expression or fixed values.
enum ForEachItemSource {
    Expression(ValueExpression),
    Values(Vec<Arc<Value>>),
}

impl ForEachItemList {
    /// Compiles the list of a `for_each`. `times` becomes a list of the numbers from 0.
    pub(super) fn compile_spec(spec: &ForEachSpec) -> Result<Self, RunnerBuildError> {
        let items = match &spec.items {
            ForEachItems::Expression(text) => {
                ForEachItemSource::Expression(compile_expression("in", text, PartVariables::NO_OUTPUT)?)
            }
            ForEachItems::List(items) => ForEachItemSource::Values(items.iter().cloned().map(Arc::new).collect()),
            ForEachItems::Times(times) => {
                ForEachItemSource::Values((0..*times).map(|at| Arc::new(at.into())).collect())
            }
        };
        let names = PartVariables::for_key(&spec.item_name);
        let key = spec.key.as_deref().map(|text| compile_expression("key", text, names));
        Ok(Self {
            items,
            key: key.transpose()?,
            item_name: spec.item_name.clone(),
            max_items: spec.max_items as usize,
        })
    }

    /// Evaluates the list and builds one part for each item. Adds keys that the expressions did not find to `notes`.
    ///
    /// # Errors
    /// The expressions give no list, too many items, or a key twice: a failure of kind `schema`.
    pub(super) fn build_parts(
        &self,
        facts: &ConditionSnapshot,
        notes: &mut Vec<EvaluationNote>,
    ) -> Result<Vec<Arc<ExecutionPart>>, ExecutionFailure> {
        let items = self.evaluate_items(facts, notes)?;
        let count = items.len();
        if count > self.max_items {
            let message = format!("`for_each.in` has {count} items, but `max_items` is {}", self.max_items);
            return Err(list_failure(message));
        }
        let mut seen_keys = HashSet::new();
        let mut parts = Vec::with_capacity(count);
        for (index, item) in items.into_iter().enumerate() {
            let key = self.evaluate_key(facts, (index, count), &item, notes)?;
            if !seen_keys.insert(key.clone()) {
                return Err(list_failure(format!(
                    "`for_each.key` evaluates to `{key}` for two items"
                )));
            }
            parts.push(Arc::new(ExecutionPart {
                item_name: self.item_name.clone(),
                index: u32::try_from(index).unwrap_or(u32::MAX),
                variable: Arc::new(json!({"index": index, "key": &*key, "count": count})),
                item,
                key,
            }));
        }
        Ok(parts)
    }

    /// Evaluates the items. A map becomes a list of `key` and `value` objects. Adds keys that were not found to `notes`.
    fn evaluate_items(
        &self,
        facts: &ConditionSnapshot,
        notes: &mut Vec<EvaluationNote>,
    ) -> Result<Vec<Arc<Value>>, ExecutionFailure> {
        let expression = match &self.items {
            ForEachItemSource::Values(items) => return Ok(items.clone()),
            ForEachItemSource::Expression(expression) => expression,
        };
        let (value, found) = expression.evaluate_with_notes(facts);
        notes.extend(found);
        match value.map_err(|error| list_failure(format!("`for_each.in`: {}", error.message)))? {
            Value::Array(items) => Ok(items.into_iter().map(Arc::new).collect()),
            Value::Object(map) => {
                let entries = map.into_iter();
                Ok(entries
                    .map(|(key, value)| Arc::new(json!({"key": key, "value": value})))
                    .collect())
            }
            other => Err(list_failure(format!(
                "`for_each.in` evaluates to {}; expected a list or a map",
                describe_value_kind(&other)
            ))),
        }
    }

    /// Evaluates the key of a part as text. Without a key expression, returns the index. Takes the index of the item and the count of
    /// items.
    fn evaluate_key(
        &self,
        facts: &ConditionSnapshot,
        (index, count): (usize, usize),
        item: &Arc<Value>,
        notes: &mut Vec<EvaluationNote>,
    ) -> Result<Arc<str>, ExecutionFailure> {
        let Some(expression) = &self.key else {
            return Ok(index.to_string().into());
        };
        let facts = ConditionSnapshot {
            part: Some(PartValues {
                item: item.clone(),
                part: Arc::new(json!({"index": index, "count": count})),
            }),
            ..facts.clone()
        };
        let (value, found) = expression.evaluate_with_notes(&facts);
        notes.extend(found);
        let value =
            value.map_err(|error| list_failure(format!("`for_each.key` of item {index}: {}", error.message)))?;
        match value {
            Value::String(text) if !text.is_empty() => Ok(text.into()),
            Value::Number(_) | Value::Bool(_) => Ok(value.to_string().into()),
            other => Err(list_failure(format!(
                "`for_each.key` of item {index} evaluates to {}; expected a text",
                describe_value_kind(&other)
            ))),
        }
    }
}

/// Creates a failure of kind `schema` about the list.
pub(super) fn list_failure(message: String) -> ExecutionFailure {
    ExecutionFailure::new(FailureKind::Schema, message)
}

/// Compiles an expression of a `for_each`. `key` names the expression in the error.
pub(super) fn compile_expression(
    key: &str,
    text: &str,
    names: PartVariables<'_>,
) -> Result<ValueExpression, RunnerBuildError> {
    let compiled = ValueExpression::compile_with(text, names);
    compiled.map_err(|error| RunnerBuildError::Expression {
        key: key.to_owned(),
        message: error.message,
    })
}

/// Returns a phrase for the kind of the value, such as "an empty text".
fn describe_value_kind(value: &Value) -> &'static str {
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
