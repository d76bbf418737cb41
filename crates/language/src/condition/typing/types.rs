//! What a value can be, as far as it is known before a run: the kinds, and what is known of each.
//!
//! **Invariant:** a type never leaves out a value that can occur. What is not understood makes it wider.

mod ask;
mod later;
mod schema;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

pub use self::later::LazyType;

/// The maximum depth to which schemas and values are examined. Deeper levels can be anything.
const MAX_TYPE_DEPTH: usize = 16;
/// The number of texts up to which each of them is known.
const MAX_KNOWN_TEXTS: usize = 200;

/// The type of a value: the set of all values that can occur. Copies share their data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValueType(Option<Arc<ValueShape>>);

/// The kinds that a value can have. A shape without any kind has no value.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ValueShape {
    pub(crate) can_be_nothing: bool,
    pub(crate) can_be_false: bool,
    pub(crate) can_be_true: bool,
    pub(crate) number: Option<NumberRange>,
    pub(crate) text: Option<PossibleTexts>,
    pub(crate) list: Option<ValueType>,
    pub(crate) map: Option<MapFields>,
}

/// A range of numbers between two bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NumberRange {
    /// The lowest number, or minus infinity.
    pub low: f64,
    /// Whether `low` itself is left out.
    pub excludes_low: bool,
    /// The highest number, or infinity.
    pub high: f64,
    /// Whether `high` itself is left out.
    pub excludes_high: bool,
}

/// The texts that a value can be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PossibleTexts {
    Any,
    OneOf(BTreeSet<String>),
}

/// The keys of a map type.
#[derive(Debug, Clone, PartialEq)]
pub struct MapFields {
    /// The known keys, each with its value and whether it is always there.
    pub known_keys: BTreeMap<String, (ValueType, bool)>,
    /// The values of other keys; `None`: there are no other keys.
    pub other_values: Option<ValueType>,
    /// Whether reading another key is an error instead of nothing.
    pub is_strict: bool,
}

impl NumberRange {
    /// All numbers.
    pub const ALL: Self = Self::from_bounds(f64::NEG_INFINITY, f64::INFINITY);

    /// Returns the numbers from `low` to `high`, both included.
    pub const fn from_bounds(low: f64, high: f64) -> Self {
        Self {
            low,
            excludes_low: false,
            high,
            excludes_high: false,
        }
    }

    fn union_with(self, other: Self) -> Self {
        let (low, above_low) = match self.low.total_cmp(&other.low) {
            std::cmp::Ordering::Less => (self.low, self.excludes_low),
            std::cmp::Ordering::Equal => (self.low, self.excludes_low && other.excludes_low),
            std::cmp::Ordering::Greater => (other.low, other.excludes_low),
        };
        let (high, below_high) = match self.high.total_cmp(&other.high) {
            std::cmp::Ordering::Greater => (self.high, self.excludes_high),
            std::cmp::Ordering::Equal => (self.high, self.excludes_high && other.excludes_high),
            std::cmp::Ordering::Less => (other.high, other.excludes_high),
        };
        Self {
            low,
            excludes_low: above_low,
            high,
            excludes_high: below_high,
        }
    }

    /// Returns whether some number of this range is below some number of the other range. `or_equal`: or equal to it.
    pub(crate) fn can_be_below(self, other: Self, or_equal: bool) -> bool {
        self.low < other.high || or_equal && self.low == other.high && !self.excludes_low && !other.excludes_high
    }

    fn overlaps(self, other: Self) -> bool {
        self.can_be_below(other, true) && other.can_be_below(self, true)
    }

    /// Returns whether the number is in the range.
    fn contains(self, number: f64) -> bool {
        self.overlaps(Self::from_bounds(number, number))
    }
}

impl MapFields {
    /// Creates the fields of a map that always has exactly these keys.
    pub fn with_exact_keys(keys: impl IntoIterator<Item = (String, ValueType)>) -> Self {
        Self {
            known_keys: keys.into_iter().map(|(key, value)| (key, (value, true))).collect(),
            other_values: None,
            is_strict: false,
        }
    }

    /// Creates the fields of a map with any keys.
    pub fn with_any_keys() -> Self {
        Self {
            known_keys: BTreeMap::new(),
            other_values: Some(ValueType::any_value()),
            is_strict: false,
        }
    }

    /// Returns the type under a key, which includes nothing if the key can be missing. Returns `None` if there is no such key.
    pub(crate) fn find_value_type(&self, key: &str) -> Option<ValueType> {
        match (self.known_keys.get(key), &self.other_values) {
            (Some((value, true)), _) => Some(value.clone()),
            (Some((value, false)), _) => Some(value.clone().union_with(ValueType::nothing_value())),
            (None, Some(other_type)) => Some(other_type.clone().union_with(ValueType::nothing_value())),
            (None, None) => None,
        }
    }

    /// Returns the fields of a map that has either these fields or the other fields.
    fn union_with(self, mut other: Self) -> Self {
        let mut known_keys = Vec::with_capacity(self.known_keys.len());
        for (key, (a, a_always)) in self.known_keys {
            let value = match (other.known_keys.remove(&key), &other.other_values) {
                (Some((b, b_always)), _) => (a.union_with(b), a_always && b_always),
                (None, Some(other_type)) => (a.union_with(other_type.clone()), false),
                (None, None) => (a, false),
            };
            known_keys.push((key, value));
        }
        for (key, (b, _)) in other.known_keys {
            let value = match &self.other_values {
                Some(other_type) => (other_type.clone().union_with(b), false),
                None => (b, false),
            };
            known_keys.push((key, value));
        }
        Self {
            known_keys: known_keys.into_iter().collect(),
            is_strict: self.is_strict && other.is_strict,
            other_values: merge_options(self.other_values, other.other_values, ValueType::union_with),
        }
    }
}

impl ValueType {
    /// Returns the type of which nothing is known.
    pub fn any_value() -> Self {
        Self(None)
    }

    /// Returns the type with these kinds.
    fn from_shape(shape: ValueShape) -> Self {
        Self(Some(Arc::new(shape)))
    }

    /// Returns the type without any value.
    pub fn impossible_value() -> Self {
        Self::from_shape(ValueShape::default())
    }

    /// Returns the type of nothing: a missing key, or `null`.
    pub fn nothing_value() -> Self {
        Self::from_shape(ValueShape {
            can_be_nothing: true,
            ..ValueShape::default()
        })
    }

    /// Returns the type of `true` and `false`.
    pub fn any_boolean() -> Self {
        Self::from_shape(ValueShape {
            can_be_false: true,
            can_be_true: true,
            ..ValueShape::default()
        })
    }

    /// Returns the type of the numbers in the range.
    pub fn number_in_range(range: NumberRange) -> Self {
        Self::from_shape(ValueShape {
            number: Some(range),
            ..ValueShape::default()
        })
    }

    /// Returns the type of the numbers from 0 to `most`.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn number_up_to(most: u64) -> Self {
        Self::number_in_range(NumberRange::from_bounds(0.0, most as f64))
    }

    /// Any text.
    pub fn any_text() -> Self {
        Self::from_shape(ValueShape {
            text: Some(PossibleTexts::Any),
            ..ValueShape::default()
        })
    }

    /// Returns the type of a value that is one of these texts. Many texts become any text.
    pub fn text_among(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let texts: BTreeSet<String> = texts.into_iter().map(Into::into).collect();
        Self::from_shape(ValueShape {
            text: Some(match texts.len() <= MAX_KNOWN_TEXTS {
                true => PossibleTexts::OneOf(texts),
                false => PossibleTexts::Any,
            }),
            ..ValueShape::default()
        })
    }

    /// Returns the type of a list whose items have this type.
    pub fn list_with_items(item: Self) -> Self {
        Self::from_shape(ValueShape {
            list: Some(item),
            ..ValueShape::default()
        })
    }

    /// Returns the type of a map with these fields.
    pub fn map_with_fields(fields: MapFields) -> Self {
        Self::from_shape(ValueShape {
            map: Some(fields),
            ..ValueShape::default()
        })
    }

    /// Returns the type that contains only this value; large numbers and deep values are widened.
    pub fn exact_value_type(value: &Value) -> Self {
        Self::from_value_at_depth(value, 0)
    }

    /// Returns the type of the value, and any type below the maximum depth.
    fn from_value_at_depth(value: &Value, depth: usize) -> Self {
        if depth >= MAX_TYPE_DEPTH {
            return Self::any_value();
        }
        match value {
            Value::Null => Self::nothing_value(),
            Value::Bool(value) => Self::from_shape(ValueShape {
                can_be_false: !value,
                can_be_true: *value,
                ..ValueShape::default()
            }),
            Value::Number(number) => {
                Self::number_in_range(match number.as_f64().filter(|number| is_exact_as_float(*number)) {
                    Some(number) => NumberRange::from_bounds(number, number),
                    None => NumberRange::ALL,
                })
            }
            Value::String(text) => Self::text_among([text.as_str()]),
            Value::Array(items) => {
                let item = |item| Self::from_value_at_depth(item, depth + 1);
                Self::list_with_items(items.iter().map(item).fold(Self::impossible_value(), Self::union_with))
            }
            Value::Object(map) => {
                let entry =
                    |(key, value): (&String, &Value)| (key.clone(), Self::from_value_at_depth(value, depth + 1));
                Self::map_with_fields(MapFields::with_exact_keys(map.iter().map(entry)))
            }
        }
    }

    /// Returns the type of a value that has either of the two types.
    #[must_use]
    pub fn union_with(self, other: Self) -> Self {
        let (Some(a), Some(b)) = (self.0, other.0) else {
            return Self::any_value();
        };
        if Arc::ptr_eq(&a, &b) || a == b {
            return Self(Some(a));
        }
        let (a, b) = (Arc::unwrap_or_clone(a), Arc::unwrap_or_clone(b));
        Self::from_shape(ValueShape {
            can_be_nothing: a.can_be_nothing || b.can_be_nothing,
            can_be_false: a.can_be_false || b.can_be_false,
            can_be_true: a.can_be_true || b.can_be_true,
            number: merge_options(a.number, b.number, NumberRange::union_with),
            text: merge_options(a.text, b.text, PossibleTexts::union_with),
            list: merge_options(a.list, b.list, Self::union_with),
            map: merge_options(a.map, b.map, MapFields::union_with),
        })
    }

    /// Returns whether nothing is known of the value.
    pub fn is_any(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the kinds of the type; `None` if nothing is known.
    pub(crate) fn known_shape(&self) -> Option<&ValueShape> {
        self.0.as_deref()
    }

    /// Returns the fields, if the value is certainly a map or nothing.
    pub fn map_fields(&self) -> Option<&MapFields> {
        let shape = self.known_shape()?;
        let is_other = shape.can_be_false
            || shape.can_be_true
            || shape.number.is_some()
            || shape.text.is_some()
            || shape.list.is_some();
        shape.map.as_ref().filter(|_| !is_other)
    }

    /// Returns the type under a key of a map. Returns any type if the value may be no map.
    #[must_use]
    pub fn key_type(&self, key: &str) -> Self {
        let value_type = self
            .map_fields()
            .map(|fields| fields.find_value_type(key).unwrap_or_else(Self::nothing_value));
        value_type.unwrap_or_default()
    }

    /// Returns whether the value has this type.
    pub fn contains_value(&self, value: &Value) -> bool {
        let Some(shape) = self.known_shape() else {
            return true;
        };
        match value {
            Value::Null => shape.can_be_nothing,
            Value::Bool(value) => match value {
                true => shape.can_be_true,
                false => shape.can_be_false,
            },
            Value::Number(number) => shape
                .number
                .is_some_and(|range| number.as_f64().is_none_or(|number| range.contains(number))),
            Value::String(text) => shape.text.as_ref().is_some_and(|texts| texts.contains_text(text)),
            Value::Array(items) => {
                let item = shape.list.as_ref();
                item.is_some_and(|of| items.iter().all(|item| of.contains_value(item)))
            }
            Value::Object(map) => shape.map.as_ref().is_some_and(|fields| fields.contains_map(map)),
        }
    }

    /// Returns whether a value of both types exists. Does not look into lists and maps.
    pub(crate) fn has_common_value(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (self.known_shape(), other.known_shape()) else {
            return true;
        };
        a.can_be_nothing && b.can_be_nothing
            || a.can_be_false && b.can_be_false
            || a.can_be_true && b.can_be_true
            || matches!((a.number, b.number), (Some(a), Some(b)) if a.overlaps(b))
            || matches!((&a.text, &b.text), (Some(a), Some(b)) if a.overlaps(b))
            || a.list.is_some() && b.list.is_some()
            || a.map.is_some() && b.map.is_some()
    }
}

/// Returns whether the number is the same as an integer and as a float, which is how bounds are compared.
fn is_exact_as_float(number: f64) -> bool {
    number.abs() < 9_007_199_254_740_992.0
}

/// Joins two optional values. One absent value leaves the other unchanged.
fn merge_options<T>(a: Option<T>, b: Option<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (one, None) | (None, one) => one,
    }
}

impl MapFields {
    /// Returns whether the map has all required keys, and only values of the right types.
    fn contains_map(&self, map: &Map<String, Value>) -> bool {
        let required = self.known_keys.iter().filter(|(_, (_, always))| *always);
        let has_all = required.into_iter().all(|(key, _)| map.contains_key(key));
        has_all
            && map
                .iter()
                .all(|(key, value)| match (self.known_keys.get(key), &self.other_values) {
                    (Some((of, _)), _) | (None, Some(of)) => of.contains_value(value),
                    (None, None) => false,
                })
    }
}

impl PossibleTexts {
    /// Returns the texts of both; any text if there are too many.
    fn union_with(self, other: Self) -> Self {
        match (self, other) {
            (Self::OneOf(mut a), Self::OneOf(b)) if a.len() + b.len() <= MAX_KNOWN_TEXTS => {
                a.extend(b);
                Self::OneOf(a)
            }
            _ => Self::Any,
        }
    }

    /// Returns whether the text is one of these texts.
    fn contains_text(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(texts) => texts.contains(text),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OneOf(a), Self::OneOf(b)) => !a.is_disjoint(b),
            (Self::OneOf(one), Self::Any) | (Self::Any, Self::OneOf(one)) => !one.is_empty(),
            (Self::Any, Self::Any) => true,
        }
    }
}
