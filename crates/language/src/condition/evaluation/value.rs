//! The values during the evaluation of a condition.
//!
//! Scalars are values of Rhai. Lists, maps and long strings of the snapshot are *views*: a reference-counted pointer to
//! the existing data, and the path to a part of it. So an evaluation never copies the context or the history, and its
//! cost does not depend on the length of the conversation.

use std::sync::Arc;

use rhai::{Array, Dynamic, ImmutableString};
use serde_json::Value;

use crate::condition::{Counts, History, Outputs};
use crate::data::Context;

/// Longer strings of the snapshot are viewed, shorter ones are copied.
const SHORT_TEXT: usize = 64;

/// A value.
#[derive(Clone)]
pub(crate) enum Datum {
    Nothing,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Text),
    List(List),
    Map(Map),
}

/// A string: created by the condition, or part of the snapshot.
#[derive(Clone)]
pub(crate) enum Text {
    Own(ImmutableString),
    Json(Part),
    Input(Arc<str>),
}

/// A list: created by the condition, or part of the snapshot.
#[derive(Clone)]
pub(crate) enum List {
    Own(Arc<[Datum]>),
    Json(Part),
    History(Arc<dyn History>),
}

/// A map: created by the condition, or part of the snapshot.
#[derive(Clone)]
pub(crate) enum Map {
    Own(Arc<[(ImmutableString, Datum)]>),
    Json(Part),
    Context(Arc<Context>),
    /// An execution of the history.
    Entry(Arc<dyn History>, usize),
    Counts(Arc<dyn Counts>),
    Outputs(Arc<dyn Outputs>),
}

/// A part of a JSON value: the value, and the path to the part.
#[derive(Clone)]
pub(crate) struct Part {
    root: Arc<Value>,
    path: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    Key(ImmutableString),
    Index(usize),
}

impl Part {
    /// The whole value.
    pub(crate) fn whole(root: Arc<Value>) -> Self {
        Self { root, path: Vec::new() }
    }

    /// The value that it refers to.
    pub(crate) fn value(&self) -> &Value {
        let mut value = &*self.root;
        for step in &self.path {
            let next = match step {
                Step::Key(key) => value.get(key.as_str()),
                Step::Index(index) => value.get(index),
            };
            value = next.unwrap_or(&Value::Null);
        }
        value
    }

    fn step(&self, step: Step) -> Self {
        let mut path = Vec::with_capacity(self.path.len() + 1);
        path.extend_from_slice(&self.path);
        path.push(step);
        Self {
            root: self.root.clone(),
            path,
        }
    }

    fn array(&self) -> &[Value] {
        self.value().as_array().map_or(&[], Vec::as_slice)
    }
}

/// Converts a JSON number; integers that are too large become floats.
pub(crate) fn number(number: &serde_json::Number) -> Datum {
    match number.as_i64() {
        Some(int) => Datum::Int(int),
        None => Datum::Float(number.as_f64().unwrap_or_default()),
    }
}

impl Datum {
    /// Converts a JSON value, without copying it.
    pub(crate) fn shared(root: Arc<Value>) -> Self {
        Self::of(&root, || Part::whole(root.clone()))
    }

    fn of(value: &Value, part: impl FnOnce() -> Part) -> Self {
        match value {
            Value::Null => Self::Nothing,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(value) => number(value),
            Value::String(text) if text.len() <= SHORT_TEXT => Self::text(text.as_str()),
            Value::String(_) => Self::Text(Text::Json(part())),
            Value::Array(_) => Self::List(List::Json(part())),
            Value::Object(_) => Self::Map(Map::Json(part())),
        }
    }

    /// A string created by the condition.
    pub(crate) fn text(text: impl Into<ImmutableString>) -> Self {
        Self::Text(Text::Own(text.into()))
    }

    /// A list created by the condition.
    pub(crate) fn list(items: impl IntoIterator<Item = Datum>) -> Self {
        Self::List(List::Own(items.into_iter().collect()))
    }

    /// The run's input.
    pub(crate) fn input(input: &Arc<str>) -> Self {
        if input.len() <= SHORT_TEXT {
            Self::text(&**input)
        } else {
            Self::Text(Text::Input(input.clone()))
        }
    }

    /// The truth value, as in Python.
    pub(crate) fn truth(&self) -> bool {
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

    /// The name of the value's type.
    pub(crate) fn sort(&self) -> &'static str {
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

impl Datum {
    /// The name of the value's type, with its article.
    pub(crate) fn a_sort(&self) -> &'static str {
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

impl Datum {
    /// The whole value as JSON.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Nothing => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::from(*value),
            Self::Float(value) => Value::from(*value),
            Self::Text(text) => Value::from(text.as_str()),
            Self::List(List::Json(part)) | Self::Map(Map::Json(part)) => part.value().clone(),
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
}

impl From<Dynamic> for Datum {
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
            Ok(text) => return Self::text(text),
            Err(value) => value,
        };
        value
            .try_cast_result::<Map>()
            .map(Self::Map)
            .or_else(|value| value.try_cast_result::<List>().map(Self::List))
            .or_else(|value| value.try_cast_result::<Text>().map(Self::Text))
            .or_else(|value| {
                value
                    .try_cast_result::<Array>()
                    .map(|items| Self::list(items.into_iter().map(Self::from)))
            })
            .unwrap_or(Self::Nothing)
    }
}

/// Strings are handled in two steps, because Rhai consumes a value that is not a string.
trait IntoText: Sized {
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

impl From<Datum> for Dynamic {
    fn from(value: Datum) -> Self {
        match value {
            Datum::Nothing => Self::UNIT,
            Datum::Bool(value) => Self::from_bool(value),
            Datum::Int(value) => Self::from_int(value),
            Datum::Float(value) => Self::from_float(value),
            Datum::Text(Text::Own(text)) => text.into(),
            Datum::Text(text) => Self::from(text),
            Datum::List(list) => Self::from(list),
            Datum::Map(map) => Self::from(map),
        }
    }
}

impl Text {
    /// Returns the characters of the text.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Json(part) => part.value().as_str().unwrap_or_default(),
            Self::Input(text) => text,
        }
    }
}

impl List {
    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Own(items) => items.len(),
            Self::Json(part) => part.array().len(),
            Self::History(history) => history.len(),
        }
    }

    /// The item with this index, from 0.
    pub(crate) fn get(&self, index: usize) -> Option<Datum> {
        match self {
            Self::Own(items) => items.get(index).cloned(),
            Self::Json(part) => {
                let value = part.array().get(index)?;
                Some(Datum::of(value, || part.step(Step::Index(index))))
            }
            Self::History(history) => (index < history.len()).then(|| Datum::Map(Map::Entry(history.clone(), index))),
        }
    }

    /// All items, one after the other.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Datum> + '_ {
        (0..self.len()).map_while(|index| self.get(index))
    }
}

impl Map {
    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Own(entries) => entries.len(),
            Self::Json(part) => part.value().as_object().map_or(0, serde_json::Map::len),
            Self::Context(context) => context.len(),
            Self::Entry(history, _) => history.fields().len(),
            Self::Counts(counts) => counts.names().len(),
            Self::Outputs(outputs) => outputs.agents().len(),
        }
    }

    /// The value under `key`.
    pub(crate) fn get(&self, key: &str) -> Option<Datum> {
        match self {
            Self::Own(entries) => entries
                .iter()
                .find(|(name, _)| name.as_str() == key)
                .map(|(_, value)| value.clone()),
            Self::Json(part) => {
                let value = part.value().get(key)?;
                Some(Datum::of(value, || part.step(Step::Key(key.into()))))
            }
            Self::Context(context) => context.get(key).map(|value| Datum::shared(value.clone())),
            Self::Entry(history, at) => history.field(*at, key).map(Datum::shared),
            Self::Counts(counts) => counts
                .count(key)
                .map(|count| Datum::Int(i64::try_from(count).unwrap_or(i64::MAX))),
            Self::Outputs(outputs) => outputs.output(key).map(Datum::shared),
        }
    }

    /// Returns whether the key exists.
    pub(crate) fn has(&self, key: &str) -> bool {
        match self {
            Self::Own(entries) => entries.iter().any(|(name, _)| name.as_str() == key),
            Self::Json(part) => part.value().get(key).is_some(),
            Self::Context(context) => context.get(key).is_some(),
            Self::Entry(history, _) => history.fields().contains(&key),
            Self::Counts(counts) => counts.count(key).is_some(),
            Self::Outputs(outputs) => outputs.output(key).is_some(),
        }
    }

    /// All keys in order.
    pub(crate) fn keys(&self) -> Vec<ImmutableString> {
        self.first_keys(usize::MAX)
    }

    /// The first keys, at most this number.
    pub(crate) fn first_keys(&self, most: usize) -> Vec<ImmutableString> {
        match self {
            Self::Own(entries) => entries.iter().take(most).map(|(name, _)| name.clone()).collect(),
            Self::Json(part) => part
                .value()
                .as_object()
                .map(|map| map.keys().take(most).map(Into::into).collect())
                .unwrap_or_default(),
            Self::Context(context) => context.iter().take(most).map(|(key, _)| (&**key).into()).collect(),
            Self::Entry(history, _) => history.fields().iter().take(most).map(|&name| name.into()).collect(),
            Self::Counts(counts) => counts.names().iter().take(most).map(|name| (&**name).into()).collect(),
            Self::Outputs(outputs) => outputs
                .agents()
                .iter()
                .take(most)
                .map(|name| (&**name).into())
                .collect(),
        }
    }
}
