//! The values during the evaluation of a condition.
//!
//! Scalars are values of Rhai. Lists, maps and long strings of the snapshot are *views*: a reference-counted pointer to
//! the existing data, and the path to a part of it. So an evaluation never copies the context or the history, and its
//! cost does not depend on the length of the conversation.

use std::sync::Arc;

use rhai::{Array, Dynamic, ImmutableString};
use serde_json::Value;

use crate::condition::{ConditionHistory, ConditionOutputs, ExecutionCounts};
use crate::data::RunContext;

/// The maximum length in bytes of a string of the snapshot that is copied. Longer strings are shared.
const MAX_COPIED_TEXT: usize = 64;

/// A value during the evaluation of a condition.
#[derive(Clone)]
pub(crate) enum ConditionValue {
    Nothing,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(TextValue),
    List(ListValue),
    Map(MapValue),
}

/// A string: created by the condition, or part of the snapshot.
#[derive(Clone)]
pub(crate) enum TextValue {
    Own(ImmutableString),
    Json(SharedJsonPart),
    Input(Arc<str>),
}

/// A list: created by the condition, or part of the snapshot.
#[derive(Clone)]
pub(crate) enum ListValue {
    Own(Arc<[ConditionValue]>),
    Json(SharedJsonPart),
    History(Arc<dyn ConditionHistory>),
    /// Items of another list that follow each other.
    Slice(Arc<ListSlice>),
}

/// A range of the items of a list.
pub(crate) struct ListSlice {
    list: ListValue,
    from: usize,
    len: usize,
}

/// A map: created by the condition, or part of the snapshot.
#[derive(Clone)]
pub(crate) enum MapValue {
    Own(Arc<[(ImmutableString, ConditionValue)]>),
    Json(SharedJsonPart),
    Context(Arc<RunContext>),
    /// An execution of the history.
    Entry(Arc<dyn ConditionHistory>, usize),
    Counts(Arc<dyn ExecutionCounts>),
    Outputs(Arc<dyn ConditionOutputs>),
}

/// A part of a JSON value: the shared root value, and the path to the part.
#[derive(Clone)]
pub(crate) struct SharedJsonPart {
    root: Arc<Value>,
    path: Vec<JsonPartStep>,
}

#[derive(Clone)]
enum JsonPartStep {
    Key(ImmutableString),
    Index(usize),
}

impl SharedJsonPart {
    /// Returns the part that is the whole value.
    pub(crate) fn from_root(root: Arc<Value>) -> Self {
        Self { root, path: Vec::new() }
    }

    /// Returns the value at the path.
    pub(crate) fn resolve_value(&self) -> &Value {
        let mut value = &*self.root;
        for step in &self.path {
            let next = match step {
                JsonPartStep::Key(key) => value.get(key.as_str()),
                JsonPartStep::Index(index) => value.get(index),
            };
            value = next.unwrap_or(&Value::Null);
        }
        value
    }

    /// Returns the part after one more step.
    fn child_part(&self, step: JsonPartStep) -> Self {
        let mut path = Vec::with_capacity(self.path.len() + 1);
        path.extend_from_slice(&self.path);
        path.push(step);
        Self {
            root: self.root.clone(),
            path,
        }
    }

    /// Returns the items of the part; none if the part is no array.
    fn array_items(&self) -> &[Value] {
        self.resolve_value().as_array().map_or(&[], Vec::as_slice)
    }
}

/// Converts a JSON number. Integers that are too large become floats.
pub(crate) fn json_number_to_value(number: &serde_json::Number) -> ConditionValue {
    match number.as_i64() {
        Some(int) => ConditionValue::Int(int),
        None => ConditionValue::Float(number.as_f64().unwrap_or_default()),
    }
}

impl ConditionValue {
    /// Converts a JSON value without copying its collections and long strings.
    pub(crate) fn from_shared_json(root: Arc<Value>) -> Self {
        Self::from_json_part(&root, || SharedJsonPart::from_root(root.clone()))
    }

    /// Converts a JSON value; `part` is called only if the value must be shared.
    fn from_json_part(value: &Value, part: impl FnOnce() -> SharedJsonPart) -> Self {
        match value {
            Value::Null => Self::Nothing,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(value) => json_number_to_value(value),
            Value::String(text) if text.len() <= MAX_COPIED_TEXT => Self::new_text(text.as_str()),
            Value::String(_) => Self::Text(TextValue::Json(part())),
            Value::Array(_) => Self::List(ListValue::Json(part())),
            Value::Object(_) => Self::Map(MapValue::Json(part())),
        }
    }

    /// Returns a string created by the condition.
    pub(crate) fn new_text(text: impl Into<ImmutableString>) -> Self {
        Self::Text(TextValue::Own(text.into()))
    }

    /// Returns a list created by the condition.
    pub(crate) fn new_list(items: impl IntoIterator<Item = ConditionValue>) -> Self {
        Self::List(ListValue::Own(items.into_iter().collect()))
    }

    /// Converts the input of the run; a long input is shared.
    pub(crate) fn from_run_input(input: &Arc<str>) -> Self {
        if input.len() <= MAX_COPIED_TEXT {
            Self::new_text(&**input)
        } else {
            Self::Text(TextValue::Input(input.clone()))
        }
    }

    /// Returns the truth value, as in Python. Unlike a condition, accepts texts such as `false` as true.
    pub(crate) fn is_truthy(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.as_str().is_empty(),
            Self::List(list) => list.len() > 0,
            Self::Map(map) => map.len() > 0,
        }
    }

    /// Returns the name of the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Bool(_) => "boolean",
            Self::Int(_) | Self::Float(_) => "number",
            Self::Text(_) => "text",
            Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }
}

impl ConditionValue {
    /// Returns the name of the value's type with its article, for messages.
    pub(crate) fn type_name_with_article(&self) -> &'static str {
        match self {
            Self::Nothing => "None",
            Self::Bool(_) => "a Boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl ConditionValue {
    /// Converts the whole value to JSON.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Nothing => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::from(*value),
            Self::Float(value) => Value::from(*value),
            Self::Text(text) => Value::from(text.as_str()),
            Self::List(ListValue::Json(part)) | Self::Map(MapValue::Json(part)) => part.resolve_value().clone(),
            Self::List(list) => Value::Array(list.iter().map(|item| item.to_json()).collect()),
            Self::Map(map) => {
                let entries = map.keys().into_iter();
                let json = entries.map(|key| {
                    let value = map.get(&key).map_or(Value::Null, |value| value.to_json());
                    (key.to_string(), value)
                });
                Value::Object(json.collect())
            }
        }
    }

    /// Returns whether the value as JSON needs at most about `limit` bytes. Only values that the expression created are
    /// measured, because they can contain the same part of the snapshot many times.
    pub(crate) fn fits_in(&self, limit: usize) -> bool {
        let mut left = limit;
        match self {
            Self::List(ListValue::Own(_)) | Self::Map(MapValue::Own(_)) => self.subtract_size(&mut left),
            _ => true,
        }
    }

    /// Subtracts the size of the value from the bytes in `left`. Returns `false` if they do not suffice.
    fn subtract_size(&self, left: &mut usize) -> bool {
        match self {
            Self::List(ListValue::Json(part)) | Self::Map(MapValue::Json(part)) => {
                subtract_json_size(part.resolve_value(), left)
            }
            Self::List(list) => subtract_bytes(left, 1) && list.iter().all(|item| item.subtract_size(left)),
            Self::Map(map) => map.keys().iter().all(|key| {
                subtract_bytes(left, key.len()) && map.get(key).is_none_or(|value| value.subtract_size(left))
            }),
            Self::Text(text) => subtract_bytes(left, text.as_str().len()),
            _ => subtract_bytes(left, 1),
        }
    }
}

/// Subtracts the bytes, at least one. Returns `false` if they do not suffice.
fn subtract_bytes(left: &mut usize, bytes: usize) -> bool {
    let rest = left.checked_sub(bytes.max(1));
    *left = rest.unwrap_or(0);
    rest.is_some()
}

/// Subtracts the size of a JSON value from the bytes in `left`. Returns `false` if they do not suffice.
fn subtract_json_size(value: &Value, left: &mut usize) -> bool {
    match value {
        Value::String(text) => subtract_bytes(left, text.len()),
        Value::Array(items) => subtract_bytes(left, 1) && items.iter().all(|item| subtract_json_size(item, left)),
        Value::Object(map) => map
            .iter()
            .all(|(key, value)| subtract_bytes(left, key.len()) && subtract_json_size(value, left)),
        _ => subtract_bytes(left, 1),
    }
}

impl From<Dynamic> for ConditionValue {
    fn from(value: Dynamic) -> Self {
        if let Ok(int) = value.as_int() {
            return Self::Int(int);
        }
        if let Ok(flag) = value.as_bool() {
            return Self::Bool(flag);
        }
        if value.is_unit() {
            return Self::Nothing;
        }
        if let Ok(float) = value.as_float() {
            return Self::Float(float);
        }
        let value = match value.into_immutable_string_or_self() {
            Ok(text) => return Self::new_text(text),
            Err(value) => value,
        };
        value
            .try_cast_result::<MapValue>()
            .map(Self::Map)
            .or_else(|value| value.try_cast_result::<ListValue>().map(Self::List))
            .or_else(|value| value.try_cast_result::<TextValue>().map(Self::Text))
            .or_else(|value| {
                value
                    .try_cast_result::<Array>()
                    .map(|items| Self::new_list(items.into_iter().map(Self::from)))
            })
            .unwrap_or(Self::Nothing)
    }
}

/// A conversion of a Rhai value to a string that gives other values back, because Rhai consumes them.
trait IntoText: Sized {
    /// Returns the string, or the value itself if it is no string.
    fn into_immutable_string_or_self(self) -> Result<ImmutableString, Self>;
}

impl IntoText for Dynamic {
    fn into_immutable_string_or_self(self) -> Result<ImmutableString, Self> {
        if self.is_string() {
            self.try_cast_result()
        } else {
            Err(self)
        }
    }
}

impl From<ConditionValue> for Dynamic {
    fn from(value: ConditionValue) -> Self {
        match value {
            ConditionValue::Nothing => Self::UNIT,
            ConditionValue::Bool(value) => Self::from_bool(value),
            ConditionValue::Int(value) => Self::from_int(value),
            ConditionValue::Float(value) => Self::from_float(value),
            ConditionValue::Text(TextValue::Own(text)) => text.into(),
            ConditionValue::Text(text) => Self::from(text),
            ConditionValue::List(list) => Self::from(list),
            ConditionValue::Map(map) => Self::from(map),
        }
    }
}

impl TextValue {
    /// Returns the characters of the text.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Json(part) => part.resolve_value().as_str().unwrap_or_default(),
            Self::Input(text) => text,
        }
    }
}

impl ListValue {
    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Own(items) => items.len(),
            Self::Json(part) => part.array_items().len(),
            Self::History(history) => history.len(),
            Self::Slice(slice) => slice.len,
        }
    }

    /// Returns the items from index `from` up to `to` without copying them.
    pub(crate) fn slice_items(&self, from: usize, to: usize) -> Self {
        let len = to.min(self.len()).saturating_sub(from);
        let (list, from) = match self {
            Self::Slice(slice) => (slice.list.clone(), slice.from + from),
            list => (list.clone(), from),
        };
        Self::Slice(Arc::new(ListSlice { list, from, len }))
    }

    /// Returns the item with this index, which counts from 0.
    pub(crate) fn get(&self, index: usize) -> Option<ConditionValue> {
        match self {
            Self::Own(items) => items.get(index).cloned(),
            Self::Json(part) => {
                let value = part.array_items().get(index)?;
                Some(ConditionValue::from_json_part(value, || {
                    part.child_part(JsonPartStep::Index(index))
                }))
            }
            Self::History(history) => {
                (index < history.len()).then(|| ConditionValue::Map(MapValue::Entry(history.clone(), index)))
            }
            Self::Slice(slice) => match index < slice.len {
                true => slice.list.get(slice.from + index),
                false => None,
            },
        }
    }

    /// Returns all items, one after the other.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ConditionValue> + '_ {
        (0..self.len()).map_while(|index| self.get(index))
    }
}

impl MapValue {
    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Own(entries) => entries.len(),
            Self::Json(part) => part.resolve_value().as_object().map_or(0, serde_json::Map::len),
            Self::Context(context) => context.len(),
            Self::Entry(history, _) => history.field_names().len(),
            Self::Counts(counts) => counts.agent_names().len(),
            Self::Outputs(outputs) => outputs.agents_with_output().len(),
        }
    }

    /// Returns the value under `key`.
    pub(crate) fn get(&self, key: &str) -> Option<ConditionValue> {
        match self {
            Self::Own(entries) => entries
                .iter()
                .find(|(name, _)| name.as_str() == key)
                .map(|(_, value)| value.clone()),
            Self::Json(part) => {
                let value = part.resolve_value().get(key)?;
                Some(ConditionValue::from_json_part(value, || {
                    part.child_part(JsonPartStep::Key(key.into()))
                }))
            }
            Self::Context(context) => context
                .get(key)
                .map(|value| ConditionValue::from_shared_json(value.clone())),
            Self::Entry(history, at) => history.field_value(*at, key).map(ConditionValue::from_shared_json),
            Self::Counts(counts) => counts
                .execution_count(key)
                .map(|count| ConditionValue::Int(i64::try_from(count).unwrap_or(i64::MAX))),
            Self::Outputs(outputs) => outputs.latest_output(key).map(ConditionValue::from_shared_json),
        }
    }

    /// Returns whether the key exists.
    pub(crate) fn contains_key(&self, key: &str) -> bool {
        match self {
            Self::Own(entries) => entries.iter().any(|(name, _)| name.as_str() == key),
            Self::Json(part) => part.resolve_value().get(key).is_some(),
            Self::Context(context) => context.get(key).is_some(),
            Self::Entry(history, _) => history.field_names().contains(&key),
            Self::Counts(counts) => counts.execution_count(key).is_some(),
            Self::Outputs(outputs) => outputs.latest_output(key).is_some(),
        }
    }

    /// Returns all keys in order.
    pub(crate) fn keys(&self) -> Vec<ImmutableString> {
        self.list_first_keys(usize::MAX)
    }

    /// Returns at most `most` keys, in order.
    pub(crate) fn list_first_keys(&self, most: usize) -> Vec<ImmutableString> {
        match self {
            Self::Own(entries) => entries.iter().take(most).map(|(name, _)| name.clone()).collect(),
            Self::Json(part) => part
                .resolve_value()
                .as_object()
                .map(|map| map.keys().take(most).map(Into::into).collect())
                .unwrap_or_default(),
            Self::Context(context) => context.iter().take(most).map(|(key, _)| (&**key).into()).collect(),
            Self::Entry(history, _) => history
                .field_names()
                .iter()
                .take(most)
                .map(|&name| name.into())
                .collect(),
            Self::Counts(counts) => counts
                .agent_names()
                .iter()
                .take(most)
                .map(|name| (&**name).into())
                .collect(),
            Self::Outputs(outputs) => outputs
                .agents_with_output()
                .iter()
                .take(most)
                .map(|name| (&**name).into())
                .collect(),
        }
    }
}
